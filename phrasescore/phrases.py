"""Phrases as word ids: one flat array and where each phrase begins in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int32]
Offsets = NDArray[np.int64]


def offsets_of(lengths: NDArray[np.integer | np.bool_]) -> Offsets:
    """Return where each of some consecutive runs begins, and behind them where the last one ends."""
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets


def ranges(starts: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.int64]:
    """Return `start, start + 1, ..., start + length - 1` for each pair of them, one after another."""
    offsets = offsets_of(lengths)
    return np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)


@dataclass(frozen=True)
class Phrases:
    """A list of phrases. Phrase i is `ids[offsets[i]:offsets[i + 1]]`; it may be empty."""

    ids: Ids
    offsets: Offsets

    @classmethod
    def from_lists(cls, phrases: Iterable[Iterable[int]]) -> Phrases:
        """Build from lists of ids."""
        lists = [list(phrase) for phrase in phrases]
        flat = [id_ for phrase in lists for id_ in phrase]
        return cls(np.array(flat, np.int32), offsets_of(np.array([len(p) for p in lists], np.int64)))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Words in each phrase."""
        return np.diff(self.offsets)

    def take(self, indices: NDArray[np.integer]) -> Phrases:
        """Return the phrases at these indices, in their order."""
        starts = self.offsets[indices]
        lengths = self.offsets[np.asarray(indices) + 1] - starts
        return Phrases(self.ids[ranges(starts, lengths)], offsets_of(lengths))

    def where(self, is_taken: NDArray[np.bool_]) -> Phrases:
        """Return the phrases that are marked, in their order."""
        lengths = self.lengths
        return Phrases(self.ids[np.repeat(is_taken, lengths)], offsets_of(lengths[is_taken]))

    def with_end(self, symbol: int) -> Phrases:
        """Return the phrases with `symbol` after the last word of each."""
        return Phrases(
            np.insert(self.ids, self.offsets[1:], np.int32(symbol)),
            self.offsets + np.arange(len(self.offsets)),
        )
