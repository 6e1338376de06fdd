"""N-best lists as arrays, with the phrase pairs of each translation.

Shape suffixes: L n-best lists, H hypotheses of all lists, F components of the log-linear model, U uses of phrase pairs,
P distinct pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import DecoderPool
from moses_integration.decoder.settings import read_settings
from moses_integration.expected_bleu.folds import Fold, Groups
from moses_integration.tuning.bleu import bleu_statistics
from phrasescore.files import read_lines, write_lines
from phrasescore.phrases import Offsets, offsets_of
from phrasescore.text import text_lines
from phrasescore.workers import Shared

Pair = tuple[bytes, bytes]
"""Source and target phrase, words separated by one space."""
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class NbestLists:
    """The n-best lists of some sentences; none is empty."""

    features_HF: NDArray[np.float32]
    """Values of the log-linear model's features."""
    statistics_H9: NDArray[np.int32]
    """BLEU statistics."""
    offsets: Offsets
    """List i has the hypotheses from `offsets[i]` to before `offsets[i + 1]`."""
    pair_U: Numbers
    """The pairs of all hypotheses, concatenated, as indices into `pairs`."""
    uses: Offsets
    """Hypothesis i has the uses from `uses[i]` to before `uses[i + 1]`."""
    pairs: Sequence[Pair]
    group_L: Groups
    """Group of each sentence; see `folds.group_pairs`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def where(self, is_taken_L: NDArray[np.bool_]) -> NbestLists:
        """Return the lists of a mask, with the same `pairs`."""
        sizes_L, uses_H = np.diff(self.offsets), np.diff(self.uses)
        is_taken_H = np.repeat(is_taken_L, sizes_L)
        return replace(
            self,
            features_HF=self.features_HF[is_taken_H],
            statistics_H9=self.statistics_H9[is_taken_H],
            offsets=offsets_of(sizes_L[is_taken_L]),
            pair_U=self.pair_U[np.repeat(is_taken_H, uses_H)],
            uses=offsets_of(uses_H[is_taken_H]),
            group_L=self.group_L[is_taken_L],
        )


@dataclass(frozen=True)
class NbestList:
    """The n-best list of one sentence; it may be empty."""

    features_HF: NDArray[np.float32]
    statistics_H9: NDArray[np.int32]
    pair_U: Numbers
    """Indices into `pairs`."""
    uses_H: Numbers
    """Number of pairs of each hypothesis."""
    pairs: tuple[Pair, ...]
    group: int


@dataclass(frozen=True)
class ListTask:
    """Task: list the best translations of a sentence."""

    size: int
    references: Shared[list[bytes]]
    groups: tuple[int, ...]
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
            bleu_statistics([self.references.get()[number]], texts),
            np.array(pair_U, np.int32),
            np.array(uses_H, np.int32),
            tuple(numbers),
            self.groups[number],
        )


def join(listed: Iterable[NbestList]) -> NbestLists:
    """Concatenate the lists that are not empty."""
    numbers: dict[Pair, int] = {}
    kept = []
    for one in listed:
        if len(one.features_HF):
            renumbered = np.array([numbers.setdefault(pair, len(numbers)) for pair in one.pairs], np.int32)
            kept.append(replace(one, pair_U=renumbered[one.pair_U], pairs=()))
    return NbestLists(
        np.concatenate([one.features_HF for one in kept] or [np.zeros((0, 0), np.float32)]),
        np.concatenate([one.statistics_H9 for one in kept] or [np.zeros((0, 9), np.int32)]),
        offsets_of(np.array([len(one.features_HF) for one in kept], np.int64)),
        np.concatenate([one.pair_U for one in kept] or [np.zeros(0, np.int32)]),
        offsets_of(np.concatenate([one.uses_H for one in kept] or [np.zeros(0, np.int32)])),
        list(numbers),
        np.array([one.group for one in kept], np.int64),
    )


def decode_fold(
    fold: Fold, other: Fold, sentences: int, nbest: int, seed: int, processes: int | None = None
) -> Iterator[NbestList]:
    """Yield n-best lists of a fold by the system of the other fold.

    Args:
        fold: the text.
        other: the system.
        sentences: the maximum number of sentences, sampled at random.
        nbest: the maximum number of distinct translations of a sentence.
        seed: of the sampling.
        processes: see `start_workers`.
    """
    sources, targets = (list(text_lines(path)) for path in (fold.corpus.source, fold.corpus.target))
    sampled = np.sort(np.random.default_rng(seed).permutation(len(sources))[:sentences]).tolist()
    references = fold.folder / "references"
    write_lines(references, (targets[i] for i in sampled))
    groups = tuple(fold.group_N[sampled].tolist())
    task = ListTask(nbest, Shared([targets[i] for i in sampled], _Reading(references)), groups)
    with DecoderPool(other.ini, read_settings(other.ini), [words_of(sources[i]) for i in sampled], processes) as pool:
        yield from pool.run(task, other.ini.weights_of_features())


@dataclass(frozen=True)
class _Reading:
    """Reads the lines of a file in another process."""

    path: Path

    def __call__(self) -> list[bytes]:
        return list(read_lines(self.path))
