"""N-best lists with the phrase pairs that each translation was made of, kept as arrays.

Shapes: L lists, H hypotheses of all lists, F components of the log-linear model, U uses of phrase pairs, P distinct
pairs.
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
from moses_integration.expected_bleu.halves import Groups, Half
from moses_integration.tuning.bleu import bleu_statistics
from phrasescore.files import read_lines, write_lines
from phrasescore.phrases import Offsets, offsets_of
from phrasescore.text import text_lines
from phrasescore.workers import Shared

Pair = tuple[bytes, bytes]
"""Source and target phrase, one blank between words."""
Numbers = NDArray[np.int32]


@dataclass(frozen=True)
class Lists:
    """The lists of some sentences; none is empty."""

    features_HF: NDArray[np.float32]
    """Values of the log-linear model's features."""
    statistics_H9: NDArray[np.int32]
    """What BLEU counts."""
    lists: Offsets
    """List i has the hypotheses from `lists[i]` to before `lists[i + 1]`."""
    pair_U: Numbers
    """The pairs that the hypotheses were made of, one hypothesis after another, by their places in `pairs`."""
    uses: Offsets
    """Hypothesis i has the uses from `uses[i]` to before `uses[i + 1]`."""
    pairs: Sequence[Pair]
    group_L: Groups
    """Which of the sentences belong together; see `halves.groups`."""

    def __len__(self) -> int:
        return len(self.lists) - 1

    def where(self, is_taken_L: NDArray[np.bool_]) -> Lists:
        """Return the lists that are marked, with pairs of the same numbers."""
        sizes_L, uses_H = np.diff(self.lists), np.diff(self.uses)
        is_taken_H = np.repeat(is_taken_L, sizes_L)
        return replace(
            self,
            features_HF=self.features_HF[is_taken_H],
            statistics_H9=self.statistics_H9[is_taken_H],
            lists=offsets_of(sizes_L[is_taken_L]),
            pair_U=self.pair_U[np.repeat(is_taken_H, uses_H)],
            uses=offsets_of(uses_H[is_taken_H]),
            group_L=self.group_L[is_taken_L],
        )


@dataclass(frozen=True)
class Listed:
    """The list of one sentence; it may be empty."""

    features_HF: NDArray[np.float32]
    statistics_H9: NDArray[np.int32]
    pair_U: Numbers
    """By their places in `pairs`."""
    uses_H: Numbers
    """How many pairs each hypothesis is made of."""
    pairs: tuple[Pair, ...]
    group: int


@dataclass(frozen=True)
class Listing:
    """The task of listing the best translations of a sentence."""

    size: int
    references: Shared[list[bytes]]
    groups: tuple[int, ...]
    """Of the sentences."""
    needs_arcs: bool = True

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> Listed:
        """Return the list. Words that are copied are no pairs of the table, so no column says anything of them."""
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
        return Listed(
            np.array([d.values_F for d in derivations], np.float32).reshape(-1, model.width),
            bleu_statistics([self.references.get()[number]], texts),
            np.array(pair_U, np.int32),
            np.array(uses_H, np.int32),
            tuple(numbers),
            self.groups[number],
        )


def join(listed: Iterable[Listed]) -> Lists:
    """Return the lists of some sentences, without those that are empty."""
    numbers: dict[Pair, int] = {}
    parts = []
    for one in listed:
        if len(one.features_HF):
            renumbered = np.array([numbers.setdefault(pair, len(numbers)) for pair in one.pairs], np.int32)
            parts.append(replace(one, pair_U=renumbered[one.pair_U], pairs=()))
    return Lists(
        np.concatenate([one.features_HF for one in parts] or [np.zeros((0, 0), np.float32)]),
        np.concatenate([one.statistics_H9 for one in parts] or [np.zeros((0, 9), np.int32)]),
        offsets_of(np.array([len(one.features_HF) for one in parts], np.int64)),
        np.concatenate([one.pair_U for one in parts] or [np.zeros(0, np.int32)]),
        offsets_of(np.concatenate([one.uses_H for one in parts] or [np.zeros(0, np.int32)])),
        list(numbers),
        np.array([one.group for one in parts], np.int64),
    )


def list_half(
    half: Half, other: Half, sentences: int, nbest: int, seed: int, processes: int | None = None
) -> Iterator[Listed]:
    """Yield the lists of sentences of a half by the system of the other one.

    Args:
        half: what is translated.
        other: what translates.
        sentences: at most so many, drawn at random.
        nbest: distinct translations of each, at most.
        seed: of the drawing.
        processes: see `start_workers`.

    Raises:
        UserError: the system cannot be loaded.
    """
    sources, targets = (list(text_lines(path)) for path in (half.corpus.source, half.corpus.target))
    drawn = np.sort(np.random.default_rng(seed).permutation(len(sources))[:sentences]).tolist()
    references = half.folder / "references"
    write_lines(references, (targets[i] for i in drawn))
    groups = tuple(half.group_N[drawn].tolist())
    task = Listing(nbest, Shared([targets[i] for i in drawn], _Reading(references)), groups)
    with DecoderPool(other.ini, read_settings(other.ini), [words_of(sources[i]) for i in drawn], processes) as pool:
        yield from pool.run(task, other.ini.weights_of_features())


@dataclass(frozen=True)
class _Reading:
    """How to read the lines of a file where another process is."""

    path: Path

    def __call__(self) -> list[bytes]:
        return list(read_lines(self.path))
