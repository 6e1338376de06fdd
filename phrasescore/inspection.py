"""What a network has learnt about a phrase: its nearest phrases, the scores of its targets, samples, and gates.

Legend: P phrases, S phrases of a batch, k size of the summary, d size of any vector, T symbols of the phrase, n hidden
size, M networks, I predicted symbols.
"""

from __future__ import annotations

import heapq
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.device import on_device
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.model_files import require_finite, require_log_probs
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder import RecurrentEncoder
from phrasescore.nn.units import GatedUnit
from phrasescore.pairs import Direction, input_and_output
from phrasescore.phrases import Phrases
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.search_config import SearchConfig
from phrasescore.table.entry import SURFACE, Counted, Entry, LineFault
from phrasescore.table.reader import TableReader
from phrasescore.translator import Translation, Translator
from phrasescore.vocabulary import END
from phrasescore.words import quote

Vectors = NDArray[np.float32]
SAMPLES = 50
_LONGEST_SAMPLE, _COMPARED, _AT_ONCE = 50, 30_000, 4096
"""Words of a sample, phrases that are compared, and phrases of a batch."""
PROBABILITY: dict[Direction, tuple[int, str]] = {
    "target-given-source": (3, "p(target | source)"),
    "source-given-target": (1, "p(source | target)"),
}
"""The index, from 1, of p(output | input) among Moses' four scores, and its name."""
_Input = tuple[float, int, bytes]
"""Count, hash to break ties, and text of an input."""


@dataclass(frozen=True)
class Target:
    """A target of the phrase, by the table or by the network."""

    text: bytes
    symbols: list[bytes]
    """Its words, or the pieces of a network of subwords, and the end symbol."""
    words_I: NDArray[np.float64]
    in_table: float | None
    """ln p in the table; None for a target that the search found."""

    @property
    def log_prob(self) -> float:
        """Return ln p(target | source) of the network."""
        return float(self.words_I.sum())


@dataclass(frozen=True)
class Inspection:
    """What a network has learnt about a phrase, each list with the best first."""

    unknown: list[bytes]
    """Words of the phrase that are not in the vocabulary."""
    compared: int
    neighbours: list[tuple[bytes, float]]
    """The nearest of `compared` phrases, by the cosine of the summaries."""
    candidates: int
    targets: list[Target]
    """The best targets in the table by table and by network; if it has none, those that beam search finds."""
    samples: list[Translation]
    """The most frequent of `SAMPLES` targets drawn from the network."""


def inspect_phrase(scorer: EncoderDecoderScorer, phrase: bytes, table: str | Path | None, top: int) -> Inspection:
    """Return what a network has learnt about an input phrase; lists have at most `top` items."""
    phrase = _network_words(scorer, phrase)
    candidates: dict[bytes, float] = {}
    others: list[bytes] = []
    if table is not None:
        reader = TableReader(table, factors=scorer.factors or SURFACE)
        candidates, others = look_up(reader, scorer.direction, phrase, _COMPARED)
    neighbours = []
    if others:
        query_d, *_ = phrase_vectors(scorer, [phrase])
        found = nearest(query_d, phrase_vectors(scorer, others), top)
        neighbours = [(others[index], cosine) for index, cosine in found]
    sampling = SearchConfig(sample=True, n_best=SAMPLES, max_ratio=0, max_extra=_LONGEST_SAMPLE)
    return Inspection(
        unknown=[word for word in phrase.split(b" ") if word not in scorer.model.source_vocabulary],
        compared=len(others),
        neighbours=neighbours,
        candidates=len(candidates),
        targets=_best_targets(scorer, phrase, candidates, top),
        samples=Translator(scorer, sampling).translate([phrase])[0][:top],
    )


def _network_words(scorer: EncoderDecoderScorer, phrase: bytes) -> bytes:
    """Convert a phrase of a factored table to the words of the network, as `score` does."""
    try:
        return phrase if scorer.factors is None else scorer.factors.of_phrase(phrase, "phrase")
    except LineFault as fault:
        raise UserError(str(fault)) from fault


def _best_targets(
    scorer: EncoderDecoderScorer, phrase: bytes, candidates: Mapping[bytes, float], top: int
) -> list[Target]:
    texts = list(candidates)
    if not candidates:
        # Use a larger beam than is shown, because the best targets need not begin with the most probable words.
        searching = SearchConfig(beam=2 * top, n_best=top, length_penalty=0)
        texts = [one.text for one in Translator(scorer, searching).translate([phrase])[0]]
    vocabulary = scorer.model.target_vocabulary
    pairs = Occurrences(*input_and_output(([phrase] * len(texts), texts), scorer.direction))
    targets = [
        Target(
            text,
            [*vocabulary.symbols(text), vocabulary.words[END]],
            words_I,
            math.log(candidates[text]) if candidates else None,
        )
        for text, words_I in zip(texts, word_log_probs(scorer, pairs), strict=True)
    ]
    by_network = sorted(targets, key=lambda one: -one.log_prob)
    by_table = sorted(targets, key=lambda one: -(one.in_table or 0.0))
    shown = {one.text for one in (*by_network[:top], *by_table[:top])}
    return [one for one in by_network if one.text in shown]


@dataclass(frozen=True)
class Gates:
    """The gates of the encoder at each symbol, the end symbol included, from 0 to 1."""

    symbols: list[bytes]
    """In reading order."""
    reset_Tn: Vectors
    """Near 0 where a unit ignores its previous state (Eq. 5)."""
    update_Tn: Vectors
    """Near 1 where a unit keeps its state and ignores the symbol (Eq. 6 and 7)."""


@torch.inference_mode()
def encoder_gates(scorer: EncoderDecoderScorer, phrase: bytes) -> Gates | None:
    """Return the gates of the encoder's lowest forward layer, or None if its units are not `GatedUnit`."""
    phrase = _network_words(scorer, phrase)
    vocabulary, encoder = scorer.model.source_vocabulary, scorer.model.network.encoder
    if not isinstance(encoder, RecurrentEncoder) or not isinstance(unit := encoder.unit, GatedUnit):
        return None
    order = slice(None, None, -1 if encoder.reverse else 1)
    ids = [*vocabulary.encode([phrase]).ids.tolist()[order], END]
    x_T3n = unit.project(encoder.embedding(torch.tensor(ids, device=scorer.device.torch_device)))
    h_1n = x_T3n.new_zeros(1, unit.hidden)
    gates = []
    for x_3n in x_T3n:
        gates.append(unit.gates(x_3n[None], h_1n))
        h_1n = unit.step(x_3n[None], h_1n)
    reset_Tn, update_Tn = (torch.cat(gate).cpu().numpy() for gate in zip(*gates, strict=True))
    for gate_Tn in (reset_Tn, update_Tn):
        require_finite(gate_Tn, scorer.model.folder)
    return Gates([*vocabulary.symbols(phrase)[order], vocabulary.words[END]], reset_Tn, update_Tn)


@torch.inference_mode()
def phrase_vectors(scorer: EncoderDecoderScorer, phrases: Sequence[bytes]) -> Vectors:
    """Return c, the summary of each input phrase (appendix A.1.1 of Cho et al. 2014), [P, k]."""
    found = []
    for start in range(0, len(phrases), _AT_ONCE):
        sources = scorer.model.source_vocabulary.encode(phrases[start : start + _AT_ONCE])
        nothing = Phrases(np.empty(0, np.int32), np.zeros(len(sources) + 1, np.int64))
        batch = on_device(PairBatch.sharing(sources, np.arange(len(sources)), nothing), scorer.device.torch_device)
        with scorer.device.products():
            c_Sk = scorer.model.network.encoder(batch.sources).summary_Sk
        # `PairBatch.sharing` pads the batch with copies of the last phrase.
        found.append(c_Sk[: len(sources)].float().cpu().numpy())
    vectors_Pk = np.concatenate(found)
    require_finite(vectors_Pk, scorer.model.folder)
    return vectors_Pk


def unit_length(vectors_Pd: Vectors) -> Vectors:
    """Normalise vectors to length 1; a zero vector stays zero."""
    lengths_P1 = np.linalg.norm(vectors_Pd, axis=1, keepdims=True)
    scaled: Vectors = vectors_Pd / np.maximum(lengths_P1, np.finfo(np.float32).tiny)
    return scaled


def nearest(query_d: Vectors, vectors_Pd: Vectors, number: int) -> list[tuple[int, float]]:
    """Return index and cosine of the vectors nearest to a query, nearest first."""
    cosine_P = unit_length(vectors_Pd) @ unit_length(query_d[None])[0]
    best = np.argsort(-cosine_P, kind="stable")[:number]
    return [(int(index), float(cosine_P[index])) for index in best]


@torch.inference_mode()
def word_log_probs(scorer: EncoderDecoderScorer, occurrences: Occurrences) -> list[NDArray[np.float64]]:
    """Return ln p(y_t | y_<t, x) of the words and the end symbol of each pair; of several networks the mean."""
    pairs = scorer.encode(occurrences)
    found = [np.zeros(0)]
    for batch in scorer.batches(pairs):
        batch = on_device(batch, scorer.device.torch_device)
        with scorer.device.products():
            words_MI = torch.stack([network(batch) for network in scorer.networks]).double().cpu().numpy()
        for model, words_I in zip(scorer.models, words_MI, strict=True):
            require_log_probs(words_I, model.folder)
        found.append(words_MI.mean(axis=0))
    # `PairBatch.symbol_I` is ordered pair by pair.
    by_pair = np.split(np.concatenate(found), np.cumsum(pairs.targets.lengths + 1)[:-1]) if len(pairs) else []
    return by_pair if pairs.order is None else [by_pair[pair] for pair in np.argsort(pairs.order)]


def look_up(
    reader: TableReader, direction: Direction, phrase: bytes, others: int
) -> tuple[dict[bytes, float], list[bytes]]:
    """Return the table's outputs of a phrase with their p(output | phrase), and its `others` most frequent inputs."""
    candidates: dict[bytes, float] = {}
    side: Counted = "source" if direction == "target-given-source" else "target"

    def inputs() -> Iterator[_Input]:
        previous = None
        for chunk in reader:
            for entry in chunk.entries:
                sides = reader.factors.network_words(entry.source), reader.factors.network_words(entry.target)
                input_, output = input_and_output(sides, direction)
                if input_ == phrase:
                    candidates[output] = table_probability(entry, direction, reader)
                elif input_ != previous:
                    yield entry.occurrences(side) or 0.0, zlib.crc32(input_), input_
                previous = input_

    return candidates, [phrase for _, _, phrase in _largest(others, inputs())]


def table_probability(entry: Entry, direction: Direction, reader: TableReader) -> float:
    """Return Moses' p(output | input)."""
    number, name = PROBABILITY[direction]
    scores = entry.scores.split(b" ")
    if len(scores) < number:
        raise UserError(
            f"{display_name(reader.path)}: has {len(scores)} score columns, but {name} is score {number} of Moses' "
            "tables; give a table with Moses' four scores"
        )
    probability = float(scores[number - 1])
    if not 0 < probability <= 1:
        raise UserError(
            f"{display_name(reader.path)}: score {number} of `{quote(entry.source)} ||| {quote(entry.target)}` is "
            f"{probability:g}, which is not a probability; give a table with Moses' four scores, where it is {name}"
        )
    return probability


def _largest(number: int, items: Iterable[_Input]) -> list[_Input]:
    heap: list[_Input] = []
    # A table is sorted by source, so targets as inputs occur repeatedly.
    inside: set[_Input] = set()
    for item in items:
        if item in inside:
            continue
        inside.add(item)
        if len(heap) < number:
            heapq.heappush(heap, item)
        else:
            inside.remove(heapq.heappushpop(heap, item))
    return sorted(heap, reverse=True)
