"""Reordering features of the jump from one source phrase to the next: distortion and lexical reordering.

Shapes: T translations of one source phrase, O translation options of a sentence, N jumps (from one option to the next),
R relations, K components of a feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from moses_integration.decoder.phrases import Feature, Floats, Indices, TargetPhrase, Words
from moses_integration.decoder.tables import ReorderingTable, Wanted
from moses_integration.ini.lines import ReorderingType

RELATIONS = MONOTONE, SWAP, LEFT, RIGHT = range(4)
"""Position of a phrase relative to the previous one: adjacent after, adjacent before, elsewhere left, right."""


class Jumps(NamedTuple):
    """Source ranges of phrases and of the previous phrases; ends are inclusive."""

    previous_start_N: Indices
    previous_end_N: Indices
    """-1 at the start of the sentence."""
    start_N: Indices
    end_N: Indices

    def distances(self) -> Indices:
        """Return |previous end + 1 - start| [N] (moses/InputType.cpp)."""
        distance_N: Indices = np.abs(self.previous_end_N + 1 - self.start_N)
        return distance_N

    def relations(self) -> Indices:
        """Return the relation [N]; at the start of the sentence, monotone or right (LR/LRModel.cpp)."""
        relation = np.where(self.start_N > self.previous_end_N, RIGHT, LEFT)
        relation[self.start_N == self.previous_end_N + 1] = MONOTONE
        relation[self.end_N + 1 == self.previous_start_N] = SWAP
        return relation


class JumpFeature(Feature, ABC):
    """A feature of a jump and of the two phrase pairs that it connects.

    Its weighted score is the sum of three parts, so that the search computes the parts that do not depend on the next
    phrase pair once for all options of a span. By default, a part is 0.
    """

    @abstractmethod
    def rows(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        """Return the feature's data of each phrase pair [T, any width]."""

    @abstractmethod
    def values(self, jumps: Jumps, previous_row_NK: Floats, row_NK: Floats) -> Floats:
        """Return the values [N, K]; rows of the start of the sentence are zeros."""

    def distance_weight(self, weights_K: Floats) -> float:
        """Return the weighted score per unit of distance."""
        return 0.0

    def leaving(self, row_OK: Floats, weights_K: Floats) -> Floats:
        """Return the weighted score [O, R] of the relation of the next phrase to this one."""
        return np.zeros((len(row_OK), len(RELATIONS)))

    def entering(self, row_OK: Floats, weights_K: Floats) -> Floats:
        """Return the weighted score [O, R] of the relation of this phrase to the previous one."""
        return np.zeros((len(row_OK), len(RELATIONS)))


class Distortion(JumpFeature):
    """Minus the distance of the jump (moses/FF/DistortionScoreProducer.cpp). The end of the sentence costs nothing."""

    def rows(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        return np.zeros((len(targets), 0))

    def values(self, jumps: Jumps, previous_row_NK: Floats, row_NK: Floats) -> Floats:
        return -jumps.distances().astype(np.float64)[:, None]

    def distance_weight(self, weights_K: Floats) -> float:
        return -float(weights_K[0])


class LexicalReordering(JumpFeature):
    """Log-probability of a phrase pair's orientation towards the previous pair (backward) and the next one (forward).

    The forward scores of a pair are added with the next pair, so never for the last pair. A pair outside the table
    scores 0. Koehn et al. 2005; moses/FF/LexicalReordering/.
    """

    def __init__(self, label: str, kind: str, path: Path, has_target: bool) -> None:
        """Take the value `kind` of `type=`; a ValueError names a type that is not supported."""
        # The table has target phrases if the line has output factors, whatever the type says
        # (LR/LexicalReorderingTable.cpp).
        super().__init__(label)
        self.path, self._has_target = path, has_target
        found = ReorderingType.parse(kind)
        if found.has_target and not has_target:
            raise ValueError(f"the reordering type `{kind}` needs target phrases; add output-factor=0")
        self.width = found.width
        class_R = np.array(found.classes)
        self._backward_R = class_R if found.backward else None
        self._forward_R = class_R + (found.count if found.backward else 0) if found.forward else None
        """Columns of the relations, None if the model does not score that direction."""

    def load(self, wanted: Wanted) -> None:
        self.table = ReorderingTable(self.path, self.width, self._has_target, wanted)

    def rows(self, source: Words, targets: Sequence[TargetPhrase]) -> Floats:
        none = (0.0,) * self.width
        found = [self.table.lookup(source, self.words_of(target)) or none for target in targets]
        return np.array(found, np.float64).reshape(len(targets), self.width)

    def values(self, jumps: Jumps, previous_row_NK: Floats, row_NK: Floats) -> Floats:
        """Return the values [N, K]; in each block, only the class of the jump is not 0."""
        values_NK = np.zeros_like(row_NK)
        n, relation_N = np.arange(len(row_NK)), jumps.relations()
        for column_R, from_NK in ((self._backward_R, row_NK), (self._forward_R, previous_row_NK)):
            if column_R is not None:
                column_N = column_R[relation_N]
                values_NK[n, column_N] = from_NK[n, column_N]
        return values_NK

    def leaving(self, row_OK: Floats, weights_K: Floats) -> Floats:
        return _weighted(row_OK, weights_K, self._forward_R)

    def entering(self, row_OK: Floats, weights_K: Floats) -> Floats:
        return _weighted(row_OK, weights_K, self._backward_R)


def _weighted(row_OK: Floats, weights_K: Floats, column_R: Indices | None) -> Floats:
    if column_R is None:
        return np.zeros((len(row_OK), len(RELATIONS)))
    weighted_OR: Floats = row_OK[:, column_R] * weights_K[column_R]
    return weighted_OR
