"""The encoder: a source phrase becomes one vector, and for attention one vector per word.

Legend: S source phrases, I symbols of all of them, R start nodes of a prefix tree, N nodes below them, A = R + N, L
symbols of the longest phrase, m embedding size, n hidden size of one direction, s state size, g rows of the unit's
projections, d annotation size, k size of the summary, e input size of a layer: m or d.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasescore.device import on_device
from phrasescore.errors import UserError, arg_name
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import FARTHEST, Reading, SourceBatch
from phrasescore.nn.units import UNITS, RecurrentUnit
from phrasescore.nn.weights import Dropout
from phrasescore.plugins import Registry


class WordEmbedding(nn.Module):
    """e(x) = E x (+ b), the low-rank input factor of the paper (section 4.1.1), one per language."""

    def __init__(self, words: int, size: int, *, bias: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, words_N: Tensor) -> Tensor:
        e_Nm: Tensor = self.words(words_N)
        return e_Nm if self.bias is None else e_Nm + self.bias


@dataclass(frozen=True)
class EncodedSource:
    """The output of an encoder."""

    summary_Sk: Tensor
    """c, the summary of each source phrase."""
    last_states: tuple[tuple[Tensor, ...], ...] = ()
    """For each recurrent layer and direction the state after the last symbol read, [S, s]."""
    annotations_SLd: Tensor | None = None
    """For attention: a vector for each symbol."""
    real_SL: Tensor | None = None
    """False on padding."""


class Encoder(nn.Module):
    """The interface of an encoder."""

    def __init__(self, words: int, config: ModelConfig, *, summary_size: int, annotation_size: int) -> None:
        """Build the word vectors, with weights yet to be initialised; the sizes are k and d."""
        super().__init__()
        self.summary_size, self.annotation_size = summary_size, annotation_size
        self.embedding = WordEmbedding(words, config.embedding, bias=config.biases == "authors")

    def forward(self, sources: SourceBatch) -> EncodedSource:
        """Encode source phrases."""
        raise NotImplementedError

    def prepare(self, sources: SourceBatch) -> None:
        """Compute what `forward` needs of the batch, so that it is copied to a device together; optional."""


EncoderBuilder = Callable[[int, ModelConfig], Encoder]
"""A registered class or function; the arguments are the size of the source vocabulary and the architecture."""
ENCODERS: Registry[EncoderBuilder] = Registry("encoder")
register_encoder = ENCODERS.register


@register_encoder("recurrent")
class RecurrentEncoder(Encoder):
    """Recurrent layers h_t = f(h_{t-1}, x_t) (Eq. 1), with h_0 = 0 and the summary c = tanh(V h_N).

    x_1 .. x_N are the words of the phrase and the end symbol.

    With two directions c depends on the last states of both, and annotations have the outputs of both. Phrases share
    the states of common prefixes in the lowest layer; layers above two directions depend on whole phrases, and share
    nothing.

    In context the encoder reads the whole sentence. The last states are then those at the ends of the phrase, the
    annotations those of the phrase and of the symbol after it, with `SpanMarks` that mark their positions.
    """

    def __init__(self, words: int, config: ModelConfig) -> None:
        ways = 1 if config.directions == "forward" else 2
        if config.directions == "halves" and config.hidden % 2:
            raise UserError(f"{arg_name('directions', 'halves')}: needs an even number of hidden units")
        hidden = config.hidden // 2 if config.directions == "halves" else config.hidden
        outputs = ways * hidden
        has_summary = config.summary and config.uses_summary
        summary_size = config.hidden if has_summary else outputs
        super().__init__(words, config, summary_size=summary_size, annotation_size=outputs)
        self.hidden, self.layers = hidden, config.encoder_layers
        self.reverse, self.annotate = config.reverse_source, config.has_attention
        build = UNITS[config.encoder_unit]
        sizes = [config.embedding, *[outputs] * (self.layers - 1)]
        self.unit, *upper = (build(size, hidden, 0, config.biases) for size in sizes)
        self.upper = nn.ModuleList(upper)
        backward = sizes if ways == 2 else []
        self.backward_units = nn.ModuleList(build(size, hidden, 0, config.biases) for size in backward)
        states = [[unit.state for unit in layer] for layer in zip(*self.directions, strict=True)]
        self.marks = SpanMarks(outputs if self.annotate else 0, states) if config.in_context else None
        self.summary = nn.Linear(outputs, config.hidden, bias=config.biases == "all") if has_summary else None
        self.dropout = Dropout(config.dropout)

    @property
    def directions(self) -> list[list[RecurrentUnit]]:
        """The units of each direction, lowest layer first."""
        forward, backward = [self.unit, *self.upper], list(self.backward_units)
        return [forward, backward] if backward else [forward]  # type: ignore[list-item]

    def forward(self, sources: SourceBatch) -> EncodedSource:
        last_states: list[tuple[Tensor, ...]] = []
        below_Id: Tensor | None = None
        device = self.embedding.words.weight.device
        for layer, units in enumerate(zip(*self.directions, strict=True)):
            readings = on_device(self._readings(sources, layer), device)
            inputs = self._inputs(readings, below_Id)
            states = [self._read(*each) for each in zip(units, readings, inputs, strict=True)]
            ends = [h_As.index_select(0, reading.end_S) for h_As, reading in zip(states, readings, strict=True)]
            if self.marks is not None:
                ends = [self.marks.mark_state(h_Ss, layer, way, sources) for way, h_Ss in enumerate(ends)]
            last_states.append(tuple(ends))
            if layer + 1 < self.layers or self.annotate:
                ways = zip(units, states, readings, strict=True)
                below_Id = _join([unit.output(h_As).index_select(0, reading.node_I) for unit, h_As, reading in ways])
        c_Sk = _join([way[-1].output(h_Ss) for way, h_Ss in zip(self.directions, last_states[-1], strict=True)])
        if self.summary is not None:
            c_Sk = self.dropout(torch.tanh(self.summary(c_Sk)))
        if not self.annotate or below_Id is None:
            return EncodedSource(c_Sk, tuple(last_states))
        symbol_SL, real_SL = on_device(sources.grid(), device)
        annotations_SLd = below_Id[symbol_SL]
        if self.marks is not None:
            annotations_SLd = self.marks.mark_annotations(annotations_SLd, sources)
        return EncodedSource(c_Sk, tuple(last_states), annotations_SLd, real_SL)

    def prepare(self, sources: SourceBatch) -> None:
        for layer in range(self.layers):
            self._readings(sources, layer)
        if self.annotate:
            sources.grid()
        if self.marks is not None:
            sources.distances()

    def _readings(self, sources: SourceBatch, layer: int) -> list[Reading]:
        ways = (False, True)[: len(self.directions)]
        shared = layer == 0 or len(ways) == 1
        return [sources.reading(reverse=self.reverse, backward=way, shared=shared) for way in ways]

    def _inputs(self, readings: list[Reading], below_Id: Tensor | None) -> Sequence[Tensor]:
        """Return the inputs of the nodes of each direction [N, e]; the lowest layer reads words, without `below_Id`."""
        if below_Id is not None:
            return [below_Id.index_select(0, reading.symbol_N) for reading in readings]
        # Together, because the gradient of each look-up has the size of the vocabulary.
        words = [reading.tree.words_N for reading in readings]
        together: Tensor = self.embedding(torch.cat(words))
        return torch.split(together, [len(words_N) for words_N in words])

    def _read(self, unit: RecurrentUnit, reading: Reading, x_Ne: Tensor) -> Tensor:
        h_Rs = self.embedding.words.weight.new_zeros(reading.starts, unit.state)
        inputs = unit.project(self.dropout(x_Ne)).split(reading.tree.sizes)
        return torch.cat((h_Rs, unit.unroll(h_Rs, reading.tree.parents, inputs)))


class SpanMarks(nn.Module):
    """Position embeddings that mark the phrase in a sentence.

    Each annotation gets two learnt vectors, for the distances to the first word of the phrase and to the symbol after
    the phrase; each last state gets one for the length of the phrase. Distances are clipped to `FARTHEST`.
    """

    def __init__(self, annotation: int, states: Sequence[Sequence[int]]) -> None:
        """Build for annotations of size d, 0 without annotations, and the state sizes of each layer and direction."""
        super().__init__()
        # The last row is unused; without it, the random initialisation of the recorded experiments would differ.
        rows = FARTHEST + 2
        self.first = nn.Embedding(rows, annotation) if annotation else None
        self.following = nn.Embedding(rows, annotation) if annotation else None
        self.length = nn.ModuleList(nn.ModuleList(nn.Embedding(rows, state) for state in layer) for layer in states)

    def mark_annotations(self, annotations_SLd: Tensor, sources: SourceBatch) -> Tensor:
        assert self.first is not None
        assert self.following is not None
        distances = on_device(sources.distances(), annotations_SLd.device)
        return annotations_SLd + self.first(distances.first_SL) + self.following(distances.following_SL)

    def mark_state(self, h_Ss: Tensor, layer: int, way: int, sources: SourceBatch) -> Tensor:
        distances = on_device(sources.distances(), h_Ss.device)
        return h_Ss + self.length[layer][way](distances.length_S)  # type: ignore[index]


def _join(directions: list[Tensor]) -> Tensor:
    return torch.cat(directions, dim=1) if len(directions) > 1 else directions[0]
