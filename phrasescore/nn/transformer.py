"""The Transformer (Vaswani et al. 2017): an encoder, of sentences or in context, and a decoder for whole sentences.

Each sublayer f adds to its input, x + f(norm(x)), and a norm follows the last layer: this pre-norm form trains without
a long warm-up (Xiong et al. 2020). The sublayers are attention and a feed-forward network:

    attention(q, y) = W_o [a_1; ..; a_h],   a_i = softmax(q_i K_i^T / sqrt(k)) V_i,   Q = W_q q, [K; V] = W_kv y
    feed(x) = W_2 max(0, W_1 x)

Positions are rotary (Su et al. 2021): in self-attention the pair (x_j, x_{j+k/2}) of queries and of keys turns by the
angle t 10000^(-2j/k) at position t, so their product depends on the distance of two words. Unlike learnt positions,
they have no weights and no longest sentence.

Legend: B sequences or rows, T positions computed at once, U positions attended to, S source phrases, L symbols of the
longest of them, Z sequences of an encoder, M symbols of the longest of them, A decoder nodes, m embedding size, d
width, h heads, k = d / h.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phrasescore.device import on_device
from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch, SourceBatch
from phrasescore.nn.decoder import BestWord, Decoder, Prediction, register_decoder
from phrasescore.nn.encoder import EncodedSource, Encoder, RecurrentEncoder, SpanMarks, register_encoder
from phrasescore.nn.prefix_tree import Rows, take_rows
from phrasescore.nn.weights import Dropout
from phrasescore.vocabulary import END

_SLOWEST_TURN = 10_000.0


class MultiHeadAttention(nn.Module):
    """Scaled dot-product attention in parallel heads (Vaswani et al., section 3.2)."""

    def __init__(self, width: int, memory: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.keys_values = nn.Linear(width, width), nn.Linear(memory, 2 * width)
        self.out = nn.Linear(width, width)

    def project_memory(self, y_BUe: Tensor) -> Tensor:
        """Return the keys and values of a memory, [B, 2, h, U, k]."""
        keys_values: Tensor = self.keys_values(y_BUe).unflatten(2, (2, self.heads, -1))
        return keys_values.permute(0, 2, 3, 1, 4)

    def project_query(self, x_BTd: Tensor) -> Tensor:
        query: Tensor = self.query(x_BTd).unflatten(2, (self.heads, -1))
        return query.transpose(1, 2)

    def forward(
        self, q_BhTk: Tensor, kv_B2hUk: Tensor, real_BU: Tensor | None = None, *, is_causal: bool = False
    ) -> Tensor:
        """Return the attention's output [B, T, d]; `real_BU` is False on padding."""
        mask = None if real_BU is None else real_BU[:, None, None]
        k_BhUk, v_BhUk = kv_B2hUk.unbind(1)
        # On a CPU, the backward pass of PyTorch's attention takes 15 times as long in bf16 as in fp32.
        with torch.autocast("cpu", enabled=False):
            if q_BhTk.device.type == "cpu" and q_BhTk.dtype == torch.bfloat16:
                q_BhTk, k_BhUk, v_BhUk = q_BhTk.float(), k_BhUk.float(), v_BhUk.float()
            a_BhTk = nn.functional.scaled_dot_product_attention(q_BhTk, k_BhUk, v_BhUk, mask, is_causal=is_causal)
        return self.out(a_BhTk.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    """Self-attention, attention to the source if there is one, and the feed-forward network, with residuals."""

    def __init__(self, config: ModelConfig, source: int) -> None:
        """Build the layer; `source` is the size of the source's annotations, 0 in an encoder."""
        super().__init__()
        width = config.hidden
        self.norm, self.attention = nn.LayerNorm(width), MultiHeadAttention(width, width, config.heads)
        self.source_norm = nn.LayerNorm(width) if source else None
        self.source_attention = MultiHeadAttention(width, source, config.heads) if source else None
        self.feed = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, config.feed_forward), nn.ReLU(), nn.Linear(config.feed_forward, width)
        )
        self.dropout = Dropout(config.dropout)

    def forward(
        self,
        x_BTd: Tensor,
        turns: Tensor,
        real_BT: Tensor | None = None,
        cached_B2hUk: Tensor | None = None,
        source_B2hLk: Tensor | None = None,
        source_real_BL: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Return the output [B, T, d], and the keys and values of all positions so far.

        In an encoder `real_BT` is False on padding. In a decoder, positions attend to the cached ones, and to those of
        x up to their own: padding at the end of x needs no mask.
        """
        y_BTd = self.norm(x_BTd)
        q_BhTk = rotate(self.attention.project_query(y_BTd), turns)
        keys_BhTk, values_BhTk = self.attention.project_memory(y_BTd).unbind(1)
        kv_B2hUk = torch.stack((rotate(keys_BhTk, turns), values_BhTk), dim=1)
        if cached_B2hUk is not None:
            kv_B2hUk = torch.cat((cached_B2hUk, kv_B2hUk), dim=3)
        # A single position attends to all.
        is_causal = self.source_attention is not None and x_BTd.shape[1] > 1
        x_BTd = x_BTd + self.dropout(self.attention(q_BhTk, kv_B2hUk, real_BT, is_causal=is_causal))
        if self.source_attention is not None and self.source_norm is not None and source_B2hLk is not None:
            q_BhTk = self.source_attention.project_query(self.source_norm(x_BTd))
            x_BTd = x_BTd + self.dropout(self.source_attention(q_BhTk, source_B2hLk, source_real_BL))
        return x_BTd + self.dropout(self.feed(x_BTd)), kv_B2hUk


class TransformerStack(nn.Module):
    """The layers of one side, the scaled word vectors below them, and the norm above."""

    def __init__(self, config: ModelConfig, layers: int, source: int = 0) -> None:
        """Build the layers; `source` is the size of the source's annotations, 0 in an encoder."""
        super().__init__()
        if config.hidden % (2 * config.heads):
            raise UserError(
                f"a Transformer divides `hidden` into {config.heads} heads of an even size; {config.hidden} cannot be "
                f"divided so, give a multiple of {2 * config.heads}"
            )
        self.scale, self.head = math.sqrt(config.embedding), config.hidden // config.heads
        is_narrow = config.embedding != config.hidden
        self.widen = nn.Linear(config.embedding, config.hidden, bias=False) if is_narrow else nn.Identity()
        self.layers = nn.ModuleList(Layer(config, source) for _ in range(layers))
        self.norm = nn.LayerNorm(config.hidden)
        self.dropout = Dropout(config.dropout)

    def project_source(self, annotations_SLd: Tensor) -> tuple[Tensor, ...]:
        """Return the keys and values of the source for each layer of a decoder, [S, 2, h, L, k]."""
        memories: list[Any] = [layer.source_attention for layer in self.layers]
        return tuple(memory.project_memory(annotations_SLd) for memory in memories)

    def forward(
        self,
        e_BTm: Tensor,
        real_BT: Tensor | None = None,
        cached: tuple[Tensor, ...] | None = None,
        source: Iterable[Tensor] | None = None,
        source_real_BL: Tensor | None = None,
    ) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Return the output [B, T, d], and each layer's keys and values [B, 2, h, U, k]; see `Layer.forward`."""
        x_BTd = self.dropout(self.widen(self.scale * e_BTm))
        first = 0 if cached is None else cached[0].shape[3]
        turns = turns_of(first, first + x_BTd.shape[1], self.head, e_BTm)
        kept: list[Tensor] = []
        none: Iterable[Tensor | None] = repeat(None)
        for layer, before, memory in zip(self.layers, cached or none, source or none, strict=False):
            x_BTd, kv_B2hUk = layer(x_BTd, turns, real_BT, before, memory, source_real_BL)
            kept.append(kv_B2hUk)
        return self.norm(x_BTd), tuple(kept)


def turns_of(first: int, end: int, head: int, like: Tensor) -> Tensor:
    """Return the cosines and sines of the rotation at positions `first` to `end` - 1, [2, T, k / 2]."""
    pair_j = torch.arange(0, head, 2, device=like.device, dtype=like.dtype)
    position_T = torch.arange(first, end, device=like.device, dtype=like.dtype)
    angle_Tj = position_T[:, None] * _SLOWEST_TURN ** (-pair_j / head)
    return torch.stack((angle_Tj.cos(), angle_Tj.sin()))


def rotate(x_BhTk: Tensor, turns_2Tj: Tensor) -> Tensor:
    """Turn each pair of numbers, the j-th of the first half and of the second, by its angle."""
    cos_Tj, sin_Tj = turns_2Tj.to(x_BhTk.dtype)
    a, b = x_BhTk.chunk(2, dim=3)
    return torch.cat((a * cos_Tj - b * sin_Tj, a * sin_Tj + b * cos_Tj), dim=3)


@register_encoder("transformer")
class TransformerEncoder(Encoder):
    """The annotations are the outputs of the top layer, c is their mean.

    In context the encoder reads the whole sentence. The annotations are then those of the phrase and of the symbol
    after it, with `SpanMarks`, as those of `RecurrentEncoder`.
    """

    def __init__(self, words: int, config: ModelConfig) -> None:
        super().__init__(words, config, summary_size=config.hidden, annotation_size=config.hidden)
        self.stack = TransformerStack(config, config.encoder_layers)
        self.marks = SpanMarks(config.hidden, ()) if config.in_context else None

    def forward(self, sources: SourceBatch) -> EncodedSource:
        device = self.embedding.words.weight.device
        words_ZM, real_ZM, place_I = on_device(sources.sequences(), device)
        h_ZMd, _ = self.stack(self.embedding(words_ZM), real_ZM)
        annotations_SLd, real_SL = h_ZMd, real_ZM
        if self.marks is not None:
            symbol_SL, real_SL = on_device(sources.grid(), device)
            annotations_SLd = self.marks.mark_annotations(h_ZMd.flatten(0, 1)[place_I[symbol_SL]], sources)
        c_Sd = (annotations_SLd * real_SL[:, :, None]).sum(1) / real_SL.sum(1, keepdim=True)
        return EncodedSource(c_Sd, (), annotations_SLd, real_SL)

    def prepare(self, sources: SourceBatch) -> None:
        sources.sequences()
        if self.marks is not None:
            sources.grid()
            sources.distances()


class TransformerState(NamedTuple):
    """The state of the decoder in each row, and the terms of the source, computed once per phrase."""

    cached: tuple[Tensor, ...]
    """The keys and values of the words so far in each layer, [B, 2, h, U, k]."""
    source_B: Rows
    """The source phrase of each row; a slice if row i has phrase i."""
    source: tuple[Tensor, ...]
    """The keys and values of the annotations in each layer, [S, 2, h, L, k]."""
    real_SL: Tensor

    def take(self, rows: Rows) -> TransformerState:
        return self._replace(
            cached=tuple(take_rows(kv_B2hUk, rows) for kv_B2hUk in self.cached),
            source_B=rows if isinstance(self.source_B, slice) else take_rows(self.source_B, rows),
        )


@register_decoder("transformer")
class TransformerDecoder(Decoder):
    """The decoder of whole sentences; e(y_0) is the vector of the end symbol.

    In training, all positions of the padded targets are computed at once. Scoring computes the levels of the prefix
    tree, and a search its steps, with the keys and values of earlier positions in a cache.
    """

    def __init__(self, words: int, config: ModelConfig, encoder: Encoder) -> None:
        if isinstance(encoder, RecurrentEncoder):
            raise UserError("decoder `transformer` reads the words of encoder `transformer`; set `encoder` to it")
        super().__init__(words, config, word=config.embedding, size=config.hidden)
        self.stack = TransformerStack(config, config.decoder_layers, encoder.annotation_size)

    def start(self, encoded: EncodedSource) -> TransformerState:
        assert encoded.annotations_SLd is not None
        assert encoded.real_SL is not None
        source = self.stack.project_source(encoded.annotations_SLd)
        cached = tuple(kv_S2hLk[:, :, :, :0] for kv_S2hLk in source)
        return TransformerState(cached, slice(0, len(encoded.real_SL)), source, encoded.real_SL)

    def step(self, state: TransformerState, words_B: Tensor | None) -> Prediction:
        if words_B is None:
            words_B = torch.full((len(state.cached[0]),), END, device=state.real_SL.device)
        s_BTd, state = self._read(state, words_B[:, None])
        return s_BTd[:, 0], state, None

    def forward(
        self, batch: PairBatch, encoded: EncodedSource, free: Sequence[bool] = (), best_word: BestWord | None = None
    ) -> Tensor:
        if batch.sources.shared or any(free):
            return super().forward(batch, encoded, free, best_word)
        # Nodes are numbered level by level, and each level is the first rows of the level above; see `keep_apart`.
        tree, rows = batch.target, len(batch.sources)
        size_T = torch.tensor([rows, *tree.sizes], device=tree.words_N.device)
        # With the number of nodes given, nothing waits for the device.
        nodes = rows + len(tree.words_N)
        level_A = torch.arange(len(size_T), device=size_T.device).repeat_interleave(size_T, output_size=nodes)
        row_A = torch.arange(nodes, device=size_T.device) - (size_T.cumsum(0) - size_T)[level_A]
        words_BT = torch.full((rows, len(size_T)), END, device=size_T.device)
        words_BT[row_A[rows:], level_A[rows:]] = tree.words_N
        s_BTd, _ = self._read(self.start(encoded), words_BT)
        return s_BTd[row_A, level_A]

    def _read(self, state: TransformerState, words_BT: Tensor) -> tuple[Tensor, TransformerState]:
        assert self.embedding is not None
        # One layer at a time, because rows may be many more than phrases.
        source = (take_rows(kv_S2hLk, state.source_B) for kv_S2hLk in state.source)
        real_BL = take_rows(state.real_SL, state.source_B)
        s_BTd, cached = self.stack(self.embedding(words_BT), None, state.cached, source, real_BL)
        return s_BTd, state._replace(cached=cached)
