"""The decoder: from what is known of the source to a state before each target symbol.

One step serves the levels of a tree of prefixes, when the targets are known, and the rows of a search.

Legend: S source phrases, R start nodes, N nodes below them, A = R + N, B rows of one step, T steps but the first,
L symbols of the longest source phrase, m embedding size, n hidden size, s state size, d context size, g rows of the
unit's projections, q size of the readout's context term, k readout size.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.attention import ATTENTIONS, Memory, attend
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.bridge import BothDirectionsBridge, make_bridge
from phrasescore.nn.embedding import WordEmbedding
from phrasescore.nn.encoder import EncodedSource, Encoder
from phrasescore.nn.prefix_tree import Rows, take_rows
from phrasescore.nn.readout import make_readout
from phrasescore.nn.units import UNITS, RecurrentUnit, output


@dataclass(frozen=True)
class Given:
    """What depends on the source alone, computed once a source phrase, not once a word."""

    context_Sg: Tensor | None
    """c as the unit takes it; None if it takes none, or another one at each step."""
    readout_Sq: Tensor | None
    """c as the readout takes it; None if it takes none, or another one at each step."""
    memory: Memory | None
    """What attention looks at."""


@dataclass(frozen=True)
class DecoderState:
    """Where the decoder stands in each of some rows."""

    layers: tuple[Tensor, ...]
    """The state of each layer, [B, s]."""
    fed_Bn: Tensor | None
    """h~ of the step before, for input feeding."""
    source_B: Rows
    """The source phrase of each row; row i of a slice has phrase i."""
    given: Given

    def take(self, rows: Rows) -> DecoderState:
        """Return the state of some rows, given by their indices, in any order and any number of times."""
        return DecoderState(
            tuple(take_rows(h_Bs, rows) for h_Bs in self.layers),
            None if self.fed_Bn is None else take_rows(self.fed_Bn, rows),
            rows if isinstance(self.source_B, slice) else take_rows(self.source_B, rows),
            self.given,
        )


@dataclass(frozen=True)
class Advance:
    """What one step of the recurrent layers gives."""

    state: DecoderState
    output_Bn: Tensor
    """The output of the top layer."""
    context_Bd: Tensor | None
    """What attention found, None without it."""
    attention_BL: Tensor | None
    """Where it looked."""


@dataclass(frozen=True)
class Prediction:
    """What is known before the next symbol."""

    readout_Bk: Tensor
    """What the softmax reads."""
    state: DecoderState
    """What the next step goes on from."""
    attention_BL: Tensor | None
    """Where attention looked, None without it."""


class Decoder(nn.Module):
    """The recurrent decoder of appendix A.1.2 and its relatives.

    h'_0 comes from the bridge, h'_t from e(y_{t-1}), h'_{t-1} and the context, with e(y_0) = 0. The context is c, or
    what attention finds, or nothing.
    """

    def __init__(self, words: int, config: ModelConfig, encoder: Encoder) -> None:
        """Build with weights yet to be initialised.

        Args:
            words: ids of the target vocabulary.
            config: sizes and forms.
            encoder: what the decoder goes on from, and may share weights with.

        Raises:
            UserError: the forms do not go together.
        """
        super().__init__()
        self.looks_before, self.feeds_summary = config.looks_before, config.feeds_summary
        self.is_bridged = config.annotations == "bridged"
        annotation = config.hidden if self.is_bridged else encoder.outputs
        fixed = encoder.context if config.feed_context else 0
        word = config.embedding if config.feed_word else 0
        self.embedding: WordEmbedding | None = None
        if config.feed_word and config.share_embeddings:
            _borrow(self, "embedding", encoder.embedding)
        elif config.feed_word:
            self.embedding = WordEmbedding(words, word, bias=config.biases == "authors")
        unit, upper = _make_units(config, encoder, word, annotation if self.looks_before else fixed)
        self.initial = make_bridge(config.bridge, encoder, unit, config.decoder_layers, config.biases)
        if self.is_bridged and not isinstance(self.initial, BothDirectionsBridge):
            raise UserError("annotations `bridged` go through the layer of a bridge; give --bridge both or both-tanh")
        if config.share_units:
            _borrow(self, "unit", unit)
            _borrow(self, "upper", upper)
        else:
            self.unit, self.upper = unit, upper
        self.inputs = config.embedding if config.share_units else word
        """Size of what the lowest unit reads: m, or 0 where there are no words."""
        self.readout = make_readout(
            config.readout,
            word,
            config.hidden,
            annotation if config.has_attention else fixed,
            maxout=config.maxout,
            rank=config.output_rank,
            biases=config.biases,
            dropout=config.dropout,
        )
        self.attention = ATTENTIONS[config.attention](config.hidden, annotation) if config.has_attention else None
        self.feed: nn.Linear | None = None
        if config.input_feeding:
            if config.readout != "attentional":
                raise UserError(
                    "input feeding gives h~ to the next step, which readout `attentional` makes; give --readout "
                    "attentional, or leave --input-feeding out"
                )
            self.feed = nn.Linear(config.hidden, unit.rows, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    @property
    def units(self) -> list[RecurrentUnit]:
        """The units, from the lowest layer to the highest."""
        return [self.unit, *self.upper]

    def forward(
        self,
        batch: PairBatch,
        encoded: EncodedSource,
        teacher_forcing: float,
        best_word: Callable[[Tensor], Tensor] | None,
        draws_T: Tensor | None,
    ) -> Tensor:
        """Return what the softmax reads at each node [A, k].

        Args:
            batch: the pairs; kept apart if there is less than full teacher forcing.
            encoded: their sources.
            teacher_forcing: the share of steps that go on from the words of the targets; the others go on from the
                words that are most probable to the network itself.
            best_word: returns those words from what the softmax reads; None for full teacher forcing.
            draws_T: see `EncoderDecoder.forward`.
        """
        if self.feed is not None or best_word is not None:
            steps = self.follow(batch, encoded, teacher_forcing, best_word, draws_T)
            return torch.cat([prediction.readout_Bk for prediction in steps])
        tree = batch.target
        state = self.start(encoded)
        e_Nm, x_Ng = self._read(tree.words_N, len(tree.words_N), state)
        _, x_Rg = self._read(None, batch.target_starts, state)
        levels = [self._advance(state, x_Rg)]
        for parents, x_Bg in zip(tree.parents, x_Ng.split(tree.sizes), strict=True):
            levels.append(self._advance(levels[-1].state.take(parents), x_Bg))
        h_An = torch.cat([level.output_Bn for level in levels])
        contexts = [level.context_Bd for level in levels if level.context_Bd is not None]
        context_Ad = torch.cat(contexts) if contexts else None
        context_Aq = self._context_of_readout(state.given, context_Ad, batch.source_of_node_A)
        return self.readout.shrink(self.readout(h_An, e_Nm, context_Aq))

    def follow(
        self,
        batch: PairBatch,
        encoded: EncodedSource,
        teacher_forcing: float = 1.0,
        best_word: Callable[[Tensor], Tensor] | None = None,
        draws_T: Tensor | None = None,
    ) -> Iterator[Prediction]:
        """Yield what is known before each level of symbols, step by step; the arguments are those of `forward`.

        The steps that go on from the network's own words are the same for all that is computed together, as in the
        notes that use this.
        """
        if best_word is not None and batch.sources.shared:
            raise ValueError("pairs that share prefixes of their targets cannot go on from other words")
        prediction = self.step(self.start(encoded), None)
        yield prediction
        tree = batch.target
        draws = [0.0] * len(tree.sizes)
        if best_word is not None:
            draws = (torch.rand(len(tree.sizes)) if draws_T is None else draws_T).tolist()
        for parents, words_B, draw in zip(tree.parents, tree.words_N.split(tree.sizes), draws, strict=False):
            if best_word is not None and draw >= teacher_forcing:
                words_B = take_rows(best_word(prediction.readout_Bk.detach()), parents)
            prediction = self.step(prediction.state.take(parents), words_B)
            yield prediction

    def start(self, encoded: EncodedSource) -> DecoderState:
        """Return the state before the first step, a row for each source phrase."""
        layers = self.initial.first_states(encoded)
        fed_Sn = None if self.feed is None else layers[0].new_zeros(len(layers[0]), self.feed.in_features)
        return DecoderState(layers, fed_Sn, slice(0, len(layers[0])), self._given(encoded))

    def step(self, state: DecoderState, words_B: Tensor | None) -> Prediction:
        """Read the word before and return what is known of the next; `words_B` is None for the first."""
        e_Bm, x_Bg = self._read(words_B, len(state.layers[0]), state)
        step = self._advance(state, x_Bg)
        context_Bq = self._context_of_readout(state.given, step.context_Bd, state.source_B)
        s_B = self.readout(step.output_Bn, e_Bm, context_Bq)
        after = step.state if self.feed is None else replace(step.state, fed_Bn=s_B)
        return Prediction(self.readout.shrink(s_B), after, step.attention_BL)

    def _given(self, encoded: EncodedSource) -> Given:
        c_Sd, memory = encoded.summary_Sk, None
        if self.attention is not None:
            annotations_SLd, real_SL = encoded.annotations_SLd, encoded.real_SL
            assert annotations_SLd is not None
            assert real_SL is not None
            if isinstance(self.initial, BothDirectionsBridge) and self.is_bridged:
                annotations_SLd = self.initial.merge(annotations_SLd)
            memory = Memory(annotations_SLd, self.attention.keys(annotations_SLd), real_SL)
        is_fixed = self.attention is None and self.readout.uses_context
        return Given(
            self.unit.project_context(c_Sd) if self.feeds_summary else None,
            self.readout.project_context(c_Sd) if is_fixed else None,
            memory,
        )

    def _read(self, words_B: Tensor | None, rows: int, state: DecoderState) -> tuple[Tensor, Tensor]:
        """Return e(y_{t-1}) of so many rows [B, m] and its projection [B, g]; e(y_0) = 0 has no rows."""
        if words_B is None or self.embedding is None:
            x_1g = self.unit.project(state.layers[0].new_zeros(1, self.inputs))
            return state.layers[0].new_zeros(0, self.inputs), x_1g.expand(rows, -1)
        e_Bm: Tensor = self.dropout(self.embedding(words_B))
        return e_Bm, self.unit.project(e_Bm)

    def _advance(self, state: DecoderState, x_Bg: Tensor) -> Advance:
        """Take one step from the projected words before."""
        given, source_B = state.given, state.source_B
        context_Bg = None if given.context_Sg is None else take_rows(given.context_Sg, source_B)
        c_Bd: Tensor | None = None
        weights_BL: Tensor | None = None
        if self.looks_before:
            c_Bd, weights_BL = self._attend(output(self.units[-1], state.layers[-1]), state)
            context_Bg = self.unit.project_context(c_Bd)
        if self.feed is not None and state.fed_Bn is not None:
            x_Bg = x_Bg + self.feed(state.fed_Bn)
        h_Bs = self.unit.step(x_Bg, state.layers[0], context_Bg)
        layers, out_Bn = [h_Bs], output(self.unit, h_Bs)
        for unit, above_Bs in zip(self.units[1:], state.layers[1:], strict=True):
            h_Bs = unit.step(unit.project(self.dropout(out_Bn)), above_Bs)
            layers.append(h_Bs)
            out_Bn = output(unit, h_Bs)
        if self.attention is not None and not self.looks_before:
            c_Bd, weights_BL = self._attend(out_Bn, state)
        return Advance(replace(state, layers=tuple(layers)), out_Bn, c_Bd, weights_BL)

    def _attend(self, query_Bn: Tensor, state: DecoderState) -> tuple[Tensor, Tensor]:
        assert self.attention is not None
        assert state.given.memory is not None
        return attend(self.attention, query_Bn, state.given.memory, state.source_B)

    def _context_of_readout(self, given: Given, found_Bd: Tensor | None, source_B: Rows) -> Tensor | None:
        """Return the context as the readout takes it, [B, q]: what attention found, or c."""
        if not self.readout.uses_context:
            return None
        if found_Bd is not None:
            return self.readout.project_context(found_Bd)
        return None if given.readout_Sq is None else take_rows(given.readout_Sq, source_B)


def _make_units(config: ModelConfig, encoder: Encoder, word: int, context: int) -> tuple[RecurrentUnit, nn.ModuleList]:
    """Return the lowest unit, which reads words and the context, and those above it."""
    if not config.share_units:
        build = UNITS[config.decoder_unit]
        above = (build(config.hidden, config.hidden, 0, config.biases) for _ in range(config.decoder_layers - 1))
        with warnings.catch_warnings():
            # Without words a unit may well have a layer without inputs, of which PyTorch warns.
            warnings.filterwarnings("ignore", "Initializing zero-element tensors")
            unit = build(word, config.hidden, context, config.biases)
        return unit, nn.ModuleList(above)  # type: ignore[arg-type]
    alike = (config.encoder_unit, config.encoder_layers) == (config.decoder_unit, config.decoder_layers)
    if not alike or config.directions != "forward" or context:
        raise UserError(
            "shared units must be the same on both sides, in as many layers, forward and without a context; give both "
            "sides the same unit and layers, --directions forward and --no-feed-context"
        )
    return encoder.unit, encoder.upper


def _borrow(module: nn.Module, name: str, layer: object) -> None:
    """Let a module use another's layer without owning it, so that its weights are saved and learnt once."""
    module.__dict__[name] = layer
