"""What the paper left to the eye, as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.qualitative.settings import Settings
from phrasescore.analysis.corruption import misaligned, shuffled, with_wrong_word
from phrasescore.analysis.loaded_table import LoadedTable
from phrasescore.analysis.ranking import accuracy, area_under_curve, best_threshold, mean_reciprocal_rank
from phrasescore.analysis.vectors import bag_of_embeddings, phrase_vectors, unit_length
from phrasescore.analysis.word_scores import pair_scores
from phrasescore.scoring.engine import Scorer

Json = dict[str, Any]
_SHARED = 0.5
"""Phrases that share at least this part of all their words are alike in words."""
_LENGTHS = {"1 word": (1, 1), "2 or 3 words": (2, 3), "4 words or more": (4, np.inf)}


class Probes:
    """Measures one network on one table."""

    def __init__(self, scorer: Scorer, table: LoadedTable, settings: Settings) -> None:
        self._scorer, self._table, self._settings = scorer, table, settings
        self._input_of_pair_P = table.input_of_pair_P

    def retrieval(self) -> Json:
        """Return how well phrase vectors find phrases with the same most frequent target."""
        phrases, group_P = self._paraphrases(self._random(3))
        if len(phrases) < 3:
            return {"phrases": len(phrases)}
        vectors = {
            "phrase_vector": phrase_vectors(self._scorer, phrases),
            "bag_of_embeddings": bag_of_embeddings(self._scorer, phrases),
            "random": self._random(4).standard_normal((len(phrases), 64)).astype(np.float32),
        }
        alike = alike_in_words(phrases)
        return {
            "phrases": len(phrases),
            "targets": len(set(group_P.tolist())),
            "mean_reciprocal_rank": {name: mean_reciprocal_rank(v, group_P) for name, v in vectors.items()},
            "mean_reciprocal_rank_of_other_words": {
                name: mean_reciprocal_rank(v, group_P, alike) for name, v in vectors.items()
            },
        }

    def order(self) -> Json:
        """Return what shuffling the words of a target or of a source does."""
        random = self._random(5)
        pairs = self._draw(random, lambda source, target: target.count(b" ") >= 2 and source.count(b" ") >= 2)
        rows = [
            (source, target, other_source, other_target)
            for source, target in pairs
            if (other_source := shuffled(source, random)) and (other_target := shuffled(target, random))
        ]
        if not rows:
            return {"pairs": 0}
        sources, targets, other_sources, other_targets = map(list, zip(*rows, strict=True))
        true = self._score(sources, targets)
        moved_target, moved_source = self._score(sources, other_targets), self._score(other_sources, targets)
        vectors, moved = (unit_length(phrase_vectors(self._scorer, phrases)) for phrases in (sources, other_sources))
        return {
            "pairs": len(rows),
            "target": {"accuracy": accuracy(true, moved_target), "mean_margin": float((true - moved_target).mean())},
            "source": {"accuracy": accuracy(true, moved_source), "mean_margin": float((true - moved_source).mean())},
            "cosine_with_shuffled_source": float((vectors * moved).sum(axis=1).mean()),
            "cosine_with_another_source": float((vectors * np.roll(vectors, 1, axis=0)).sum(axis=1).mean()),
        }

    def wrong_word(self) -> Json:
        """Return how often the true target beats one with a wrong word of similar frequency."""
        random = self._random(6)
        vocabulary = self._scorer.model.target_vocabulary
        pairs = self._draw(random, lambda source, target: bool(target))
        rows = [(s, t, other) for s, t in pairs if (other := with_wrong_word(t, vocabulary, random)) is not None]
        if not rows:
            return {"pairs": 0}
        sources, targets, others = map(list, zip(*rows, strict=True))
        true, wrong = self._score(sources, targets), self._score(sources, others)
        words = np.array([target.count(b" ") + 1 for target in targets])
        return {
            "pairs": len(rows),
            "accuracy": accuracy(true, wrong),
            "mean_margin": float((true - wrong).mean()),
            "by_target_words": {
                name: {"pairs": int(here.sum()), "accuracy": accuracy(true[here], wrong[here])}
                for name, (low, high) in _LENGTHS.items()
                if (here := (words >= low) & (words <= high)).any()
            },
        }

    def noise(self) -> Json:
        """Return how many misaligned pairs a threshold finds.

        The threshold is chosen on one half of the pairs and measured on the other. Scores are per predicted symbol.
        """
        random = self._random(7)
        drawn = random.permutation(len(self._table.outputs))[: self._settings.pairs]
        rows = [
            (int(pair), other)
            for pair, other in zip(drawn, misaligned(self._table, drawn.tolist(), random), strict=True)
            if other is not None
        ]
        pairs, others = np.array([pair for pair, _ in rows], np.int64), [other for _, other in rows]
        sources = [self._table.inputs[self._input_of_pair_P[pair]] for pair in pairs]
        targets = [self._table.outputs[pair] for pair in pairs]
        true, noise = (self._score(sources, outputs, per_word=True) for outputs in (targets, others))
        half = len(true) // 2
        if not half:
            return {"pairs": len(true)}
        threshold = best_threshold(true[:half], noise[:half])
        twice = self._table.count_P[pairs][half:] >= 2
        true, noise = true[half:], noise[half:]
        return {
            "pairs": len(pairs),
            "threshold": threshold,
            "area_under_curve": area_under_curve(true, noise),
            "noise_below": float((noise < threshold).mean()),
            "true_below": float((true < threshold).mean()),
            "true_below_extracted_twice": float((true[twice] < threshold).mean()) if twice.any() else None,
        }

    def _paraphrases(self, random: np.random.Generator) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return inputs of two words or more that share their most frequent output with another one.

        An input that was extracted once does not count: what it was aligned to may be chance.
        """
        table = self._table
        groups: dict[bytes, list[int]] = {}
        for input_, pair in enumerate(table.best_pair_S().tolist()):
            if table.count_P[pair] >= 2 and b" " in table.inputs[input_]:
                groups.setdefault(table.outputs[pair], []).append(input_)
        shared = [members for members in groups.values() if len(members) >= 2]
        chosen: list[int] = []
        group: list[int] = []
        for number in random.permutation(len(shared)).tolist():
            if len(chosen) + len(shared[number]) > self._settings.phrases:
                continue
            chosen += shared[number]
            group += [number] * len(shared[number])
        return [table.inputs[input_] for input_ in chosen], np.array(group, np.int64)

    def _draw(self, random: np.random.Generator, wanted: Callable[[bytes, bytes], bool]) -> list[tuple[bytes, bytes]]:
        """Return random pairs of the table that are wanted."""
        drawn = random.permutation(len(self._table.outputs)).tolist()
        pairs = ((self._table.inputs[self._input_of_pair_P[pair]], self._table.outputs[pair]) for pair in drawn)
        return list(islice((pair for pair in pairs if wanted(*pair)), self._settings.pairs))

    def _score(
        self, sources: Sequence[bytes], targets: Sequence[bytes], *, per_word: bool = False
    ) -> NDArray[np.float64]:
        return pair_scores(self._scorer, sources, targets).values(per_word=per_word)

    def _random(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self._settings.seed, stream])


def alike_in_words(phrases: Sequence[bytes]) -> list[NDArray[np.int64]]:
    """Return for each phrase those that share at least half of the words that both have together."""
    columns: dict[bytes, int] = {}
    sets = [{columns.setdefault(word, len(columns)) for word in phrase.split(b" ")} for phrase in phrases]
    holds_PW = np.zeros((len(phrases), len(columns)), np.float32)
    for row, words in enumerate(sets):
        holds_PW[row, list(words)] = 1
    size_P = holds_PW.sum(axis=1)
    alike = []
    for row in range(len(phrases)):
        shared_P = holds_PW @ holds_PW[row]
        alike.append(np.flatnonzero(shared_P >= _SHARED * (size_P + size_P[row] - shared_P)))
    return alike
