"""N-best lists as arrays, with the phrase pairs of each translation.

Shape suffixes: L n-best lists, H hypotheses of all lists, F components of the log-linear model, U uses of phrase pairs,
P distinct pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import start_decoders
from moses_integration.expected_bleu.folds import Fold, Groups
from moses_integration.tuning.bleu import bleu_statistics
from phrasescore.phrases import Offsets, offsets_of
from phrasescore.text import text_lines

Pair = tuple[bytes, bytes]
"""Source and target phrase, words separated by one space."""
Numbers = NDArray[np.int32]

SIZE = 100
"""Maximum number of distinct translations in a list."""


@dataclass(frozen=True)
class NbestLists:
    """The n-best lists of some sentences; none is empty."""

    features_HF: NDArray[np.float32]
    """Values of the log-linear model's features."""
    statistics_H9: NDArray[np.int32]
    """BLEU statistics."""
    offsets: Offsets
    """List i has the hypotheses from `offsets[i]` to before `offsets[i + 1]`."""
    uses_HP: csr_array
    """How often each hypothesis uses each pair."""
    pairs: Sequence[Pair]
    group_L: Groups
    """Group of each sentence; see `folds.group_pairs`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def where(self, is_taken_L: NDArray[np.bool_]) -> NbestLists:
        """Return the lists of a mask, with the same `pairs`."""
        sizes_L = np.diff(self.offsets)
        is_taken_H = np.repeat(is_taken_L, sizes_L)
        return NbestLists(
            self.features_HF[is_taken_H],
            self.statistics_H9[is_taken_H],
            offsets_of(sizes_L[is_taken_L]),
            self.uses_HP[is_taken_H],
            self.pairs,
            self.group_L[is_taken_L],
        )


@dataclass(frozen=True)
class NbestList:
    """The n-best list of one sentence; it may be empty."""

    features_HF: NDArray[np.float32]
    statistics_H9: NDArray[np.int32]
    pair_U: Numbers
    """The pairs of all hypotheses, concatenated, as indices into `pairs`."""
    uses_H: Numbers
    """Number of pairs of each hypothesis."""
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class ListTask:
    """Task: list the best translations of a sentence."""

    size: int
    references: list[bytes]
    needs_arcs: bool = True

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> NbestList:
        """Return the list. Copied unknown words are not in the table, so they are not among the pairs."""
        derivations = graph.n_best(self.size, distinct=True)
        numbers: dict[Pair, int] = {}
        pair_U, uses_H = [], []
        for derivation in derivations:
            steps = [step for step in derivation.steps if step.target.scores is not None]
            for step in steps:
                pair = b" ".join(sentence[step.start : step.end + 1]), b" ".join(step.target.words)
                pair_U.append(numbers.setdefault(pair, len(numbers)))
            uses_H.append(len(steps))
        texts = [b" ".join(derivation.words) for derivation in derivations]
        return NbestList(
            np.array([d.values_F for d in derivations], np.float32).reshape(-1, model.width),
            bleu_statistics([self.references[number]], texts),
            np.array(pair_U, np.int32),
            np.array(uses_H, np.int32),
            tuple(numbers),
        )


def join(listed: Iterable[tuple[int, NbestList]]) -> NbestLists:
    """Concatenate the lists that are not empty; each comes with the group of its sentence."""
    numbers: dict[Pair, int] = {}
    groups, features, statistics = [], [np.zeros((0, 0), np.float32)], [np.zeros((0, 9), np.int32)]
    pairs, uses = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for group, one in listed:
        if len(one.features_HF):
            renumbered = np.array([numbers.setdefault(pair, len(numbers)) for pair in one.pairs], np.int32)
            groups.append(group)
            features.append(one.features_HF)
            statistics.append(one.statistics_H9)
            pairs.append(renumbered[one.pair_U])
            uses.append(one.uses_H)
    pair_U, offsets = np.concatenate(pairs), offsets_of(np.concatenate(uses))
    return NbestLists(
        np.concatenate(features[1:] or features),
        np.concatenate(statistics),
        offsets_of(np.array([len(rows) for rows in features[1:]], np.int64)),
        csr_array((np.ones(len(pair_U), np.float32), pair_U, offsets), shape=(len(offsets) - 1, len(numbers))),
        list(numbers),
        np.array(groups, np.int64),
    )


def decode_folds(
    folds: tuple[Fold, Fold], sentences: int, seed: int, processes: int | None, progress: Callable[[int, int], None]
) -> Iterator[tuple[int, NbestList]]:
    """Yield group and n-best list of at most `sentences` random sentences of both folds, each by the other system."""
    halves = [min((sentences + 1 - number) // 2, len(fold.group_N)) for number, fold in enumerate(folds)]
    done = 0
    for fold, other, number in zip(folds, reversed(folds), halves, strict=True):
        for one in decode_fold(fold, other, number, seed, processes):
            yield one
            done += 1
            progress(done, sum(halves))


def decode_fold(
    fold: Fold, other: Fold, sentences: int, seed: int, processes: int | None = None
) -> Iterator[tuple[int, NbestList]]:
    """Yield group and n-best list of at most `sentences` random sentences of a fold, by the other system."""
    sources, targets = (list(text_lines(path)) for path in (fold.corpus.source, fold.corpus.target))
    sampled = np.sort(np.random.default_rng(seed).permutation(len(sources))[:sentences]).tolist()
    task = ListTask(SIZE, [targets[i] for i in sampled])
    with start_decoders(other.ini, [words_of(sources[i]) for i in sampled], processes) as pool:
        yield from zip(fold.group_N[sampled].tolist(), pool.run(task, other.ini.weights_of_features()), strict=True)
