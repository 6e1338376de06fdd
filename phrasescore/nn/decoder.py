"""The decoder: a state and a readout vector before each target symbol.

One step serves both the levels of a prefix tree, for known targets, and the rows of a search. The interface is
`Decoder`; the recurrent decoder is in this module.

Legend: S source phrases, R start nodes, N nodes below them, A = R + N, B rows of one step, T steps but the first,
L symbols of the longest source phrase, m embedding size, n hidden size, s state size, d context size, g rows of the
unit's projections, q size of the readout's context term, k input size of the softmax.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from phrasescore.device import on_device
from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.attention import ATTENTIONS, Memory, attend
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.decoder_layers import make_bridge, make_readout
from phrasescore.nn.encoder import EncodedSource, Encoder, RecurrentEncoder, WordEmbedding
from phrasescore.nn.prefix_tree import Rows, take_rows
from phrasescore.nn.units import UNITS, RecurrentUnit
from phrasescore.nn.weights import Dropout
from phrasescore.plugins import Registry

BestWord = Callable[[Tensor], Tensor]
Prediction = tuple[Tensor, Any, Tensor | None]
"""The input of the softmax [B, k], the state after the step, and the attention weights [B, L] if there are any."""


class Decoder(nn.Module):
    """The interface of a decoder: `start` and `step`. A decoder may override `forward` by a faster computation."""

    def __init__(self, words: int, config: ModelConfig, *, word: int, size: int) -> None:
        """Build the word vectors, with weights yet to be initialised.

        `words` is the size of the target vocabulary, `word` the size m of a word vector, 0 if no words are read, and
        `size` the input size k of the softmax.
        """
        super().__init__()
        self.embedding = WordEmbedding(words, word, bias=config.biases == "authors") if word else None
        self.size = size
        self.dropout = Dropout(config.dropout)

    def start(self, encoded: EncodedSource) -> Any:
        """Return the initial state, a row for each phrase; its `take(rows)` selects, repeats and reorders rows."""
        raise NotImplementedError

    def step(self, state: Any, words_B: Tensor | None) -> Prediction:
        """Read the previous words, None in the first step; return the prediction of the next."""
        raise NotImplementedError

    def forward(
        self, batch: PairBatch, encoded: EncodedSource, free: Sequence[bool] = (), best_word: BestWord | None = None
    ) -> Tensor:
        """Return the input of the softmax at each node [A, k]; for the arguments see `predictions`."""
        return torch.cat([s_Bk for s_Bk, *_ in self.predictions(batch, encoded, free, best_word)])

    def predictions(
        self, batch: PairBatch, encoded: EncodedSource, free: Sequence[bool] = (), best_word: BestWord | None = None
    ) -> Iterator[Prediction]:
        """Yield the prediction before each level of symbols.

        `free` gives whether each step but the first reads the network's own most probable words, which `best_word`
        returns from the input of the softmax, not the target words. It is the same for the whole batch, as in the
        PyTorch tutorials, and needs a batch of `PairBatch.apart`.
        """
        if any(free) and batch.sources.shared:
            raise ValueError("pairs with shared target prefixes need full teacher forcing")
        tree = batch.target
        found = self.step(self.start(encoded), None)
        yield found
        own = chain(free, repeat(False))
        for parents, words_B, is_free in zip(tree.parents, tree.words_N.split(tree.sizes), own, strict=False):
            s_Bk, state, _ = found
            if is_free and best_word is not None:
                words_B = take_rows(best_word(s_Bk.detach()), parents)
            found = self.step(state.take(parents), words_B)
            yield found


DecoderBuilder = Callable[[int, ModelConfig, Encoder], Decoder]
"""A registered class or function; the arguments are the size of the target vocabulary, the architecture, and the
encoder."""
DECODERS: Registry[DecoderBuilder] = Registry("decoder")
register_decoder = DECODERS.register


class RecurrentState(NamedTuple):
    """The state of the recurrent decoder, and terms that depend on the source alone, computed once per phrase."""

    layers: tuple[Tensor, ...]
    """The state of each layer, [B, s]."""
    fed_Bn: Tensor | None
    """h~ of the previous step, for input feeding."""
    source_B: Rows
    """The source phrase of each row; a slice if row i has phrase i."""
    context_Sg: Tensor | None
    """c as projected by the unit; None without a fixed context."""
    readout_Sq: Tensor | None
    """c as projected by the readout; None without a fixed context."""
    memory: Memory | None

    def take(self, rows: Rows) -> RecurrentState:
        return self._replace(
            layers=tuple(take_rows(h_Bs, rows) for h_Bs in self.layers),
            fed_Bn=None if self.fed_Bn is None else take_rows(self.fed_Bn, rows),
            source_B=rows if isinstance(self.source_B, slice) else take_rows(self.source_B, rows),
        )


@register_decoder("recurrent")
class RecurrentDecoder(Decoder):
    """h'_t = f(h'_{t-1}, e(y_{t-1}), c) with e(y_0) = 0 (section 2.2 and appendix A.1.2), and its variants."""

    def __init__(self, words: int, config: ModelConfig, encoder: Encoder) -> None:
        fixed = encoder.summary_size if config.feed_context else 0
        word = config.embedding if config.feed_word else 0
        readout = make_readout(config, word, encoder.annotation_size if config.has_attention else fixed)
        super().__init__(words, config, word=word, size=readout.size)
        self.attends_before_step, self.feeds_summary = config.attends_before_step, config.feeds_summary
        context = encoder.annotation_size if self.attends_before_step else fixed
        unit, upper = _shared_units(config, encoder, context) if config.share_units else _units(config, word, context)
        self.initial = make_bridge(config, encoder, unit)
        if config.share_units:
            # Not registered, so that the weights are saved and trained once, as the encoder's.
            self.__dict__.update(unit=unit, upper=upper)
        else:
            self.unit, self.upper = unit, upper
        self.inputs = config.embedding if config.share_units else word
        """Input size of the lowest unit: m, or 0 if no words are fed."""
        self.readout = readout
        self.attention = (
            ATTENTIONS[config.attention](config.hidden, encoder.annotation_size) if config.has_attention else None
        )
        self.feed: nn.Linear | None = None
        if config.input_feeding:
            if config.readout != "attentional":
                raise UserError(
                    "input feeding needs the vector h~ of readout `attentional`; set `readout` to attentional, or "
                    "leave `input_feeding` out"
                )
            self.feed = nn.Linear(config.hidden, unit.rows, bias=False)

    def forward(
        self, batch: PairBatch, encoded: EncodedSource, free: Sequence[bool] = (), best_word: BestWord | None = None
    ) -> Tensor:
        if self.feed is not None or any(free) or self.attends_before_step:
            return super().forward(batch, encoded, free, best_word)
        # The inputs of all steps are known, so each layer computes all its steps before the next.
        tree, state, starts = batch.target, self.start(encoded), len(batch.sources)
        e_Nm, x_Ng = self._read_all(tree.words_N, state)
        _, x_Rg = self._read(None, starts, state)
        sizes, parents = [starts, *tree.sizes], [slice(0, starts), *tree.parents]
        inputs: Sequence[Tensor] = [x_Rg, *x_Ng.split(tree.sizes)]
        contexts: Iterator[Tensor] | None = None
        if state.context_Sg is not None:
            contexts = map(state.context_Sg.index_select, repeat(0), batch.source_of_node_A.split(sizes))
        units: list[RecurrentUnit] = [self.unit, *self.upper]
        h_An = units[0].output(units[0].unroll(state.layers[0], parents, inputs, contexts))
        for unit, h_Rs in zip(units[1:], state.layers[1:], strict=True):
            inputs = unit.project(self.dropout(h_An)).split(sizes)
            h_An = unit.output(unit.unroll(h_Rs, parents, inputs))
        context_Aq = None
        if self.attention is not None:
            assert state.memory is not None
            rows = on_device(batch.rows_of_nodes(), h_An.device)
            context_GTq, _ = attend(self.attention, h_An[rows.node_GT], state.memory, rows.source_G)
            context_Aq = context_GTq.flatten(0, 1).index_select(0, rows.cell_A)
        elif state.readout_Sq is not None:
            context_Aq = take_rows(state.readout_Sq, batch.source_of_node_A)
        return self.readout.shrink(self.readout(h_An, e_Nm, context_Aq))

    def start(self, encoded: EncodedSource) -> RecurrentState:
        layers, c_Sd, memory = self.initial.first_states(encoded), encoded.summary_Sk, None
        if self.attention is not None:
            assert encoded.annotations_SLd is not None
            assert encoded.real_SL is not None
            keys_SLk, values_SLv = self.attention.keys(encoded.annotations_SLd), encoded.annotations_SLd
            if not self.attends_before_step:
                # Only the readout uses the context. Its product costs less here, for there are more states than words.
                values_SLv = self.readout.project_context(values_SLv)
            memory = Memory(values_SLv, keys_SLk, encoded.real_SL)
        rows, is_fixed = len(c_Sd), self.attention is None and self.readout.uses_context
        return RecurrentState(
            layers,
            None if self.feed is None else layers[0].new_zeros(rows, self.feed.in_features),
            slice(0, rows),
            self.unit.project_context(c_Sd) if self.feeds_summary else None,
            self.readout.project_context(c_Sd) if is_fixed else None,
            memory,
        )

    def step(self, state: RecurrentState, words_B: Tensor | None) -> Prediction:
        e_Bm, x_Bg = self._read(words_B, len(state.layers[0]), state)
        context_Bg = None if state.context_Sg is None else take_rows(state.context_Sg, state.source_B)
        readout_Bq = None if state.readout_Sq is None else take_rows(state.readout_Sq, state.source_B)
        attention_BL: Tensor | None = None
        units: list[RecurrentUnit] = [self.unit, *self.upper]
        if self.attends_before_step:
            c_Bd, attention_BL = self._attend(units[-1].output(state.layers[-1]), state)
            context_Bg = self.unit.project_context(c_Bd)
            if self.readout.uses_context:
                readout_Bq = self.readout.project_context(c_Bd)
        if self.feed is not None and state.fed_Bn is not None:
            x_Bg = x_Bg + self.feed(state.fed_Bn)
        h_Bs = self.unit.step(x_Bg, state.layers[0], context_Bg)
        layers, out_Bn = [h_Bs], self.unit.output(h_Bs)
        for unit, above_Bs in zip(units[1:], state.layers[1:], strict=True):
            h_Bs = unit.step(unit.project(self.dropout(out_Bn)), above_Bs)
            layers.append(h_Bs)
            out_Bn = unit.output(h_Bs)
        if self.attention is not None and not self.attends_before_step:
            readout_Bq, attention_BL = self._attend(out_Bn, state)
        s_B = self.readout(out_Bn, e_Bm, readout_Bq)
        state = state._replace(layers=tuple(layers), fed_Bn=None if self.feed is None else s_B)
        return self.readout.shrink(s_B), state, attention_BL

    def _read(self, words_B: Tensor | None, rows: int, state: RecurrentState) -> tuple[Tensor, Tensor]:
        """Return e(y_{t-1}) [B, m] and its projection [B, g]; e(y_0) = 0 has no rows."""
        if words_B is None or self.embedding is None:
            x_1g = self.unit.project(state.layers[0].new_zeros(1, self.inputs))
            return state.layers[0].new_zeros(0, 0 if self.embedding is None else self.inputs), x_1g.expand(rows, -1)
        e_Bm: Tensor = self.dropout(self.embedding(words_B))
        return e_Bm, self.unit.project(e_Bm)

    def _read_all(self, words_N: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor]:
        """Read words; on a CPU each distinct word once, except in training, where dropout differs."""
        if self.training or self.embedding is None or words_N.device.type != "cpu":
            return self._read(words_N, len(words_N), state)
        distinct_M, row_N = words_N.unique(return_inverse=True)
        e_Mm, x_Mg = self._read(distinct_M, len(distinct_M), state)
        return e_Mm.index_select(0, row_N), x_Mg.index_select(0, row_N)

    def _attend(self, query_Bn: Tensor, state: RecurrentState) -> tuple[Tensor, Tensor]:
        assert self.attention is not None
        assert state.memory is not None
        context_B1v, weights_B1L = attend(self.attention, query_Bn[:, None], state.memory, state.source_B)
        return context_B1v[:, 0], weights_B1L[:, 0]


def _units(config: ModelConfig, word: int, context: int) -> tuple[RecurrentUnit, nn.ModuleList]:
    build = UNITS[config.decoder_unit]
    upper = [build(config.hidden, config.hidden, 0, config.biases) for _ in range(config.decoder_layers - 1)]
    with warnings.catch_warnings():
        # A unit that reads no words has a layer without inputs, and PyTorch warns of it.
        warnings.filterwarnings("ignore", "Initializing zero-element tensors")
        return build(word, config.hidden, context, config.biases), nn.ModuleList(upper)


def _shared_units(config: ModelConfig, encoder: Encoder, context: int) -> tuple[RecurrentUnit, nn.ModuleList]:
    identical = (config.encoder_unit, config.encoder_layers) == (config.decoder_unit, config.decoder_layers)
    if not isinstance(encoder, RecurrentEncoder) or not identical or config.directions != "forward" or context:
        raise UserError(
            "shared units must be the same on both sides, in as many layers, forward and without a context; give both "
            "sides the same unit and layers, set `directions` to forward and `feed_context` to false"
        )
    return encoder.unit, encoder.upper
