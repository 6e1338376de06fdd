"""Enumerate all derivations of a sentence and compute each feature by definition from the whole derivation.

Only the type of a phrase comes from the decoder: /reference/ for its search, and for its features.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import kenlm
import numpy as np

from moses_integration.decoder.phrases import Words
from phrasescore.device import choose_device
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.vocabulary import END
from tests.moses_integration.decoder.small_system import Reordering, SmallSystem

CLASSES = {
    # Names that each type gives to the relations M(onotone), S(wap), L(eft) and R(ight), in column order.
    "msd": ({"M": "M", "S": "S", "L": "D", "R": "D"}, ["M", "S", "D"]),
    "mslr": ({"M": "M", "S": "S", "L": "DL", "R": "DR"}, ["M", "S", "DL", "DR"]),
    "monotonicity": ({"M": "M", "S": "NM", "L": "NM", "R": "NM"}, ["M", "NM"]),
    "leftright": ({"M": "R", "S": "L", "L": "L", "R": "R"}, ["R", "L"]),
}


class Phrase(NamedTuple):
    """A phrase of a derivation; the range is inclusive, and `scores` is None for a copied word."""

    start: int
    end: int
    words: Words
    scores: tuple[float, ...] | None
    alignment: tuple[tuple[int, int], ...] = ((0, 0),)


Derivation = tuple[Phrase, ...]


def all_derivations(system: SmallSystem, sentence: Words) -> Iterator[Derivation]:
    """Yield every derivation that table, phrase length and distortion limit allow."""
    spans = {}
    for start in range(len(sentence)):
        for end in range(start, min(start + system.longest_phrase, len(sentence))):
            spans[start, end] = options(system, sentence, start, end)

    def extend(derivation: Derivation, free: frozenset[int]) -> Iterator[Derivation]:
        if not free:
            yield derivation
            return
        gap, limit = min(free), system.distortion_limit
        last = derivation[-1].end if derivation else -1
        for (start, end), phrases in spans.items():
            covered = set(range(start, end + 1))
            if not covered <= free:
                continue
            if limit >= 0 and (abs(last + 1 - start) > limit or (start != gap and abs(end + 1 - gap) > limit)):
                continue
            for phrase in phrases:
                yield from extend((*derivation, phrase), free - covered)

    yield from extend((), frozenset(range(len(sentence))))


def options(system: SmallSystem, sentence: Words, start: int, end: int) -> list[Phrase]:
    """Return the translations of a span within the table limit, or the copy of an unknown word."""
    source = sentence[start : end + 1]
    found = [
        Phrase(start, end, line.target, tuple(logarithm(p) for p in line.scores), line.alignment)
        for line in system.lines
        if line.source == source
    ]
    if not found and len(source) == 1:
        is_dropped = system.drop_unknown and not any(48 <= byte <= 57 for byte in source[0])
        found = [Phrase(start, end, (), None, ()) if is_dropped else Phrase(start, end, source, None)]
    found.sort(key=lambda phrase: -future_score(system, phrase))
    return found[: system.table_limit or None]


def future_score(system: SmallSystem, phrase: Phrase) -> float:
    """Return the score that ranks the translations of a phrase, computed without context."""
    weights = system.weights
    score = -len(phrase.words) * weights["W"][0] + weights["P"][0]
    score += -100 * weights["U"][0] if phrase.scores is None else dot(weights["T"], phrase.scores)
    for number, path in enumerate(system.language_models):
        score += weights[f"L{number}"][0] * log_probability(path, phrase.words, False, False)
    for number, (_, backoff) in enumerate(system.neural_models):
        score += weights[f"N{number}"][0] * log_probability(backoff, phrase.words, False, False)
    return score


def values(system: SmallSystem, sentence: Words, derivation: Derivation) -> dict[str, list[float]]:
    """Return the feature values by label."""
    words = tuple(word for phrase in derivation for word in phrase.words)
    in_table = [phrase.scores for phrase in derivation if phrase.scores is not None]
    found = {
        "U": [-100.0 * (len(derivation) - len(in_table))],
        "W": [-float(len(words))],
        "P": [float(len(derivation))],
        "T": [sum(scores[i] for scores in in_table) for i in range(len(system.weights["T"]))],
        "D": [-float(sum(abs(last.end + 1 - phrase.start) for last, phrase in with_previous(derivation)))],
    }
    for number, reordering in enumerate(system.reorderings):
        found[f"R{number}"] = reordering_values(reordering, sentence, derivation)
    for number, path in enumerate(system.language_models):
        # Moses drops the sentence end after an empty phrase.
        found[f"L{number}"] = [log_probability(path, words, True, bool(derivation and derivation[-1].words))]
    for number, model in enumerate(system.neural_models):
        found[f"N{number}"] = [neural_log_probability(load_neural(*model), sentence, derivation) if derivation else 0.0]
    return found


def total(system: SmallSystem, found: dict[str, list[float]]) -> float:
    return math.fsum(dot(system.weights[label], numbers) for label, numbers in found.items())


def with_previous(derivation: Derivation) -> list[tuple[Phrase, Phrase]]:
    """Pair each phrase with the previous one; a phrase before word 0 precedes the first."""
    return list(zip((Phrase(-1, -1, (), None), *derivation[:-1]), derivation, strict=True)) if derivation else []


def relation(last: Phrase, phrase: Phrase) -> str:
    """Return the relation of a phrase's position to that of the previous phrase."""
    if phrase.start == last.end + 1:
        return "M"
    if last.start >= 0 and phrase.end + 1 == last.start:
        return "S"
    return "R" if phrase.start > last.end else "L"


def reordering_values(reordering: Reordering, sentence: Words, derivation: Derivation) -> list[float]:
    """Return the sums of the logarithms of backward and forward orientations."""
    _, classes, direction, *_ = reordering.kind.split("-")
    names, columns = CLASSES[classes]
    blocks = {"unidirectional": ["backward"], "bidirectional": ["backward", "forward"]}.get(direction, [direction])
    sums = dict.fromkeys(((block, column) for block in blocks for column in columns), 0.0)

    def add(block: str, phrase: Phrase, column: str) -> None:
        source = sentence[phrase.start : phrase.end + 1]
        row = reordering.rows.get((source, phrase.words if reordering.has_target else ()))
        if block in blocks and row is not None:
            sums[block, column] += logarithm(row[list(sums).index((block, column))])

    for i, (last, phrase) in enumerate(with_previous(derivation)):
        column = names[relation(last, phrase)]
        add("backward", phrase, column)
        if i:
            add("forward", last, column)
    return list(sums.values())


def logarithm(probability: float) -> float:
    """Return the logarithm with Moses' precision and floor."""
    single = float(np.float32(probability))
    return max(float(np.float32(math.log(single))), -100.0) if single > 0 else -100.0


def dot(weights: list[float], numbers: list[float] | tuple[float, ...]) -> float:
    return math.fsum(w * v for w, v in zip(weights, numbers, strict=True))


def neural_log_probability(scorer: NeuralLmScorer, sentence: Words, derivation: Derivation) -> float:
    """Return ln p of a derivation."""
    words = [scorer.word_id(word) for phrase in derivation for word in phrase.words]
    positions = [position for phrase in derivation for position in affiliated(phrase)]
    ids = [END] * (scorer.order - 1) + words
    contexts = [
        [*source_window(scorer, sentence, position), *ids[number : number + scorer.order - 1]]
        for number, position in enumerate([*positions, len(sentence)])
    ]
    return float(scorer.log_probs(np.array(contexts), np.array([*words, END])).sum())


def affiliated(phrase: Phrase) -> list[int]:
    """Return the source position of each word: of unaligned words, that of the next aligned word, or of the edge."""
    found = []
    for word in range(len(phrase.words)):
        for distance in range(len(phrase.words) + 1):
            sources: list[int] = []
            for near in (word + distance, word - distance):
                aligned = sorted(source for source, target in phrase.alignment if target == near)
                edges = {-1: [0], len(phrase.words): [phrase.end - phrase.start]}
                sources = sources or aligned or edges.get(near, [])
            if sources:
                found.append(phrase.start + sources[math.ceil(len(sources) / 2) - 1])
                break
    return found


def source_window(scorer: NeuralLmScorer, sentence: Words, position: int) -> list[int]:
    """Return the ids of the source words around a position, nothing for a language model."""
    vocabulary = scorer.model.source_vocabulary
    if vocabulary is None:
        return []
    around = range(position - scorer.source_window // 2, position + scorer.source_window // 2 + 1)
    words = list(vocabulary.words)
    return [(words.index(sentence[i]) if sentence[i] in words else 0) if 0 <= i < len(sentence) else 1 for i in around]


@cache
def log_probability(path: Path, words: Words, has_begin: bool, has_end: bool) -> float:
    """Return KenLM's natural-log probability of words, with or without sentence boundaries."""
    text = b" ".join(words).decode()
    return float(load(path).score(text, bos=has_begin, eos=has_end)) * math.log(10)


@cache
def load_neural(path: Path, backoff: Path) -> NeuralLmScorer:
    return NeuralLmScorer.load(path, choose_device("cpu", "fp32"), backoff)


@cache
def load(path: Path) -> kenlm.Model:
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), config)
