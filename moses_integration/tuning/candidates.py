"""The n-best lists of a dev set as arrays, accumulated over the iterations of tuning.

Array names: S sentences, C candidates of all sentences, F features, 9 statistics.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Sized
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import ListFault, NbestEntry
from moses_integration.tuning.bleu import STATISTICS, bleu_statistics
from phrasescore.errors import UserError
from phrasescore.phrases import Offsets, offsets_of


@dataclass(frozen=True)
class Candidates:
    """The translations of each sentence of a dev set, without duplicates in features and statistics.

    A sentence without candidates is excluded from BLEU, including its reference length, as in Moses.
    """

    names: tuple[str, ...]
    """Names of the features' components, as in `TranslationModel0_3`; see `component_names`."""
    features_CF: NDArray[np.float64]
    """Feature values (natural logs of probabilities), ordered by sentence."""
    statistics_C9: NDArray[np.int32]
    """BLEU statistics, see bleu.py."""
    offsets: Offsets
    """The candidates of sentence s are offsets[s] to offsets[s + 1] - 1, the oldest first."""

    @classmethod
    def from_lists(
        cls,
        names: Sequence[str],
        features: Sequence[NDArray[np.float64]],
        statistics: Sequence[NDArray[np.int32]],
    ) -> Candidates:
        """Build from the features [K, F] and statistics [K, 9] of each sentence, dropping duplicates."""
        kept: list[tuple[NDArray[np.float64], NDArray[np.int32]]] = []
        for sentence, (features_KF, statistics_K9) in enumerate(zip(features, statistics, strict=True)):
            _require_finite(features_KF, names, f"n-best list: sentence {sentence}")
            first = _first_of_equals(features_KF, statistics_K9)
            kept.append((features_KF[first], statistics_K9[first]))
        return cls(
            tuple(names),
            np.concatenate([np.empty((0, len(names))), *(features_KF for features_KF, _ in kept)]),
            np.concatenate([np.empty((0, STATISTICS), np.int32), *(statistics_K9 for _, statistics_K9 in kept)]),
            offsets_of(np.array([len(features_KF) for features_KF, _ in kept], np.int64)),
        )

    @property
    def sentence_count(self) -> int:
        """The number of sentences, including those without candidates."""
        return len(self.offsets) - 1

    def __len__(self) -> int:
        return len(self.features_CF)

    def of_sentence(self, sentence: int) -> slice:
        """Return the range of a sentence's candidates, empty for a sentence after the last one."""
        start, end = self.offsets[sentence : sentence + 2] if sentence < self.sentence_count else (0, 0)
        return slice(int(start), int(end))

    def extended(self, newer: Candidates) -> Candidates:
        """Return these candidates, with the new candidates of `newer` appended for each sentence."""
        if self.names != newer.names:
            raise UserError(
                f"n-best lists: have the features {' '.join(newer.names)} where earlier ones have "
                f"{' '.join(self.names)}; start tuning afresh in an empty folder"
            )
        both = (self, newer)
        sentences = range(max(lists.sentence_count for lists in both))
        return Candidates.from_lists(
            self.names,
            [np.concatenate([lists.features_CF[lists.of_sentence(s)] for lists in both]) for s in sentences],
            [np.concatenate([lists.statistics_C9[lists.of_sentence(s)] for lists in both]) for s in sentences],
        )


def component_names(features: Mapping[str, Sized]) -> tuple[str, ...]:
    """Return the names that Moses' `extractor` gives the components of features: label, `_`, number from 0."""
    return tuple(f"{label}_{index}" for label, values in features.items() for index in range(len(values)))


def from_nbest(entries: Iterable[NbestEntry], references: Sequence[Sequence[bytes]]) -> Candidates:
    """Score n-best entries against the references of each sentence, as Moses' `extractor` does."""
    texts: list[list[bytes]] = [[] for _ in references]
    rows: list[list[list[float]]] = [[] for _ in references]
    names: tuple[str, ...] | None = None
    for entry in entries:
        features = entry.features()
        found = component_names(features)
        names = found if names is None else names
        if not entry.sentence < len(references):
            raise ListFault(
                f"has a sentence {entry.sentence} (from 0) where the references have {len(references)} "
                "lines; give the references of the text that was decoded"
            )
        if found != names:
            raise ListFault(
                f"sentence {entry.sentence} has the features {' '.join(found)} where the first has "
                f"{' '.join(names)}; decode all sentences with one system"
            )
        texts[entry.sentence].append(entry.words)
        rows[entry.sentence].append([value for values in features.values() for value in values])
    if names is None:
        raise ListFault("is empty; check what the decoder reported")
    if not names:
        raise ListFault("has no features; decode with some that may be tuned, or add a scorer")
    return Candidates.from_lists(
        names,
        [np.array(values, np.float64).reshape(-1, len(names)) for values in rows],
        [bleu_statistics(refs, candidates) for refs, candidates in zip(references, texts, strict=True)],
    )


def _require_finite(features_KF: NDArray[np.float64], names: Sequence[str], where: str) -> None:
    # Moses stores scores in 32 bits; sums of larger values would be infinite.
    faults = np.argwhere(~(np.abs(features_KF) <= np.finfo(np.float32).max))
    if len(faults):
        row, column = faults[0]
        raise UserError(
            f"{where}, candidate {row}: the feature {names[column]} is {features_KF[row, column]}; "
            "find out which model gives it and fix the model"
        )


def _first_of_equals(features_KF: NDArray[np.float64], statistics_K9: NDArray[np.int32]) -> list[int]:
    """Return the indices of the rows that are not duplicates of earlier rows."""
    first: dict[tuple[tuple[float, ...], tuple[int, ...]], int] = {}
    rows = zip(map(tuple, features_KF.tolist()), map(tuple, statistics_K9.tolist()), strict=True)
    for index, row in enumerate(rows):
        first.setdefault(row, index)
    return list(first.values())
