"""The encoder: a source phrase becomes one vector, and for attention one vector per word.

Legend: S source phrases, I symbols of all of them, N nodes of a prefix tree below its R start nodes, A = R + N, L
symbols of the longest phrase, m embedding size, n hidden size of one direction, s state size, g rows of the unit's
projections, d annotation size, k size of the summary, e input size of a layer: m or d.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError, spelled
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.prefix_tree import PrefixTree, take_rows
from phrasescore.nn.sources import Reading, SourceBatch
from phrasescore.nn.span_marks import SpanMarks
from phrasescore.nn.units import UNITS, RecurrentUnit, output
from phrasescore.transfer import on_device


class WordEmbedding(nn.Module):
    """e(x) = E x (+ b), the low-rank input factor of the paper (section 4.1.1), one per language."""

    def __init__(self, words: int, size: int, *, bias: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, words_N: Tensor) -> Tensor:
        """Return e(x) [N, m] of word ids."""
        e_Nm: Tensor = self.words(words_N)
        return e_Nm if self.bias is None else e_Nm + self.bias


@dataclass(frozen=True)
class EncodedSource:
    """The output of the encoder."""

    summary_Sk: Tensor
    """c, the summary of each source phrase."""
    last_states: tuple[tuple[Tensor, ...], ...]
    """For each layer and direction the state after the last symbol read, [S, s]."""
    annotations_SLd: Tensor | None = None
    """For attention: the output of the top layer at each symbol, both directions concatenated."""
    real_SL: Tensor | None = None
    """False on padding."""


class Encoder(nn.Module):
    """Recurrent layers over x_1 .. x_N, `<eos>` from h_0 = 0, with c = tanh(V h_N) (appendix A.1.1).

    With two directions c depends on the last states of both. Phrases share the states of common prefixes in the lowest
    layer; layers above two directions depend on whole phrases, and share nothing.

    In context the encoder reads the whole sentence. The last states are then those at the ends of the phrase, the
    annotations those of the phrase and of the symbol after it, with `SpanMarks` that mark their positions.
    """

    def __init__(self, words: int, config: ModelConfig, *, summary: bool, annotate: bool) -> None:
        """Build with weights yet to be initialised.

        Args:
            words: size of the source vocabulary.
            config: the architecture.
            summary: whether c has the layer V.
            annotate: whether to return annotations.
        """
        super().__init__()
        ways = 1 if config.directions == "forward" else 2
        if config.directions == "halves" and config.hidden % 2:
            raise UserError(f"{spelled('directions', 'halves')}: needs an even number of hidden units")
        self.hidden = config.hidden // 2 if config.directions == "halves" else config.hidden
        """n."""
        self.layers = config.encoder_layers
        self.outputs = ways * self.hidden
        """d."""
        self.context = config.hidden if summary else self.outputs
        """k."""
        self.reverse, self.annotate = config.reverse_source, annotate
        self.embedding = WordEmbedding(words, config.embedding, bias=config.biases == "authors")
        build = UNITS[config.encoder_unit]
        sizes = [config.embedding, *[self.outputs] * (self.layers - 1)]
        self.unit, *upper = (build(size, self.hidden, 0, config.biases) for size in sizes)
        self.upper = nn.ModuleList(upper)  # type: ignore[arg-type]
        self.backward_units = nn.ModuleList()
        if ways == 2:
            self.backward_units.extend(build(size, self.hidden, 0, config.biases) for size in sizes)  # type: ignore[misc]
        states = [[unit.state for unit in layer] for layer in zip(*self.directions, strict=True)]
        self.marks = SpanMarks(self.outputs if annotate else 0, states) if config.in_context else None
        self.summary = nn.Linear(self.outputs, config.hidden, bias=config.biases == "all") if summary else None
        self.dropout = nn.Dropout(config.dropout)

    @property
    def directions(self) -> list[list[RecurrentUnit]]:
        """The units of each direction, lowest layer first."""
        forward, backward = [self.unit, *self.upper], list(self.backward_units)
        return [forward, backward] if backward else [forward]  # type: ignore[list-item]

    def forward(self, batch: PairBatch) -> EncodedSource:
        """Encode the source phrases of a batch of pairs."""
        return self.encode(batch.sources)

    def encode(self, sources: SourceBatch) -> EncodedSource:
        """Encode source phrases."""
        last_states: list[tuple[Tensor, ...]] = []
        below_Id: Tensor | None = None
        device = self.embedding.words.weight.device
        for layer, units in enumerate(zip(*self.directions, strict=True)):
            readings = on_device(self._readings(sources, layer), device)
            states = [self._read(*pair, below_Id) for pair in zip(units, readings, strict=True)]
            ends = [h_As.index_select(0, reading.end_S) for h_As, reading in zip(states, readings, strict=True)]
            if self.marks is not None:
                ends = [self.marks.mark_state(h_Ss, layer, way, sources) for way, h_Ss in enumerate(ends)]
            last_states.append(tuple(ends))
            if layer + 1 < self.layers or self.annotate:
                below_Id = _join(
                    [
                        output(unit, h_As).index_select(0, reading.node_I)
                        for unit, h_As, reading in zip(units, states, readings, strict=True)
                    ]
                )
        c_Sk = _join([output(way[-1], h_Ss) for way, h_Ss in zip(self.directions, last_states[-1], strict=True)])
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
        """Compute the reading orders, so that they are copied to a device together."""
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

    def _read(self, unit: RecurrentUnit, reading: Reading, below_Id: Tensor | None) -> Tensor:
        """Return the states of all nodes, [A, s]; the lowest layer reads words, and has no `below_Id`."""
        x_Ne = self.embedding(reading.tree.words_N) if below_Id is None else below_Id.index_select(0, reading.symbol_N)
        h_Rs = self.embedding.words.weight.new_zeros(reading.starts, unit.state)
        return _unroll(unit, reading.tree, unit.project(self.dropout(x_Ne)), h_Rs)


def _unroll(unit: RecurrentUnit, tree: PrefixTree, x_Ng: Tensor, h_Rs: Tensor) -> Tensor:
    """Return the states of all nodes of a tree, start nodes first, [A, s]."""
    states, h_Bs = [h_Rs], h_Rs
    for parents, x_Bg in zip(tree.parents, x_Ng.split(tree.sizes), strict=True):
        h_Bs = unit.step(x_Bg, take_rows(h_Bs, parents))
        states.append(h_Bs)
    return torch.cat(states)


def _join(directions: list[Tensor]) -> Tensor:
    return torch.cat(directions, dim=1) if len(directions) > 1 else directions[0]
