"""Split the data into training and held-out pairs, and batch the training pairs."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from phrasescore.pairs import DataConfig, PhrasePairs

SHORT = 4
"""Maximum length in words of short phrases, which each epoch uses completely."""

_POOL_BATCHES = 64
"""Batches whose pairs are sorted by length together; see `batches_of_epoch`."""


def split_held_out(
    lines: NDArray[np.int64], config: DataConfig, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training lines and the randomly drawn held-out lines."""
    held_out = config.held_out_of(len(lines))
    shuffled = np.random.default_rng([seed, 0]).permutation(lines)
    return np.sort(shuffled[held_out:]), np.sort(shuffled[:held_out])


def hold_out_sentences(
    hashes: NDArray[np.uint64], number: int, seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the training lines and the held-out lines. Duplicates of held-out lines are excluded from training.

    Held-out lines are drawn at random, those that occur once first, because frequent lines are needed for
    training. Duplicates have the same hash.
    """
    _, which, times = np.unique(hashes, return_inverse=True, return_counts=True)
    shuffled = np.random.default_rng([seed, 0]).permutation(len(hashes))
    rarest_first = shuffled[times[which[shuffled]].argsort(kind="stable")]
    held_out = np.sort(rarest_first[:number])
    return np.flatnonzero(~np.isin(hashes, hashes[held_out])), held_out


def are_short(pairs: PhrasePairs, lines: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether both sides of each line have at most four words."""
    sides = pairs.source.offsets, pairs.target.offsets
    source_is, target_is = (offsets[lines + 1] - offsets[lines] <= SHORT for offsets in sides)
    return source_is & target_is


def sample_of_epoch(lines: NDArray[np.int64], share: float, seed: int, epoch: int) -> NDArray[np.int64]:
    """Return a random sample of the lines, different in each epoch; its size is rounded up."""
    random = np.random.default_rng([seed, 3, epoch])
    return random.permutation(lines)[: math.ceil(share * len(lines))]


def batches_of_epoch(
    pairs: PhrasePairs, lines: NDArray[np.int64], batch_size: int, seed: int, epoch: int
) -> Iterator[NDArray[np.int64]]:
    """Yield the lines of each batch of one epoch, longest target first.

    The lines are shuffled and cut into the smallest number of batches, whose sizes differ by at most one: every batch
    changes the weights equally, so a small batch would give its pairs too much influence. Within each group of 64
    batches, the pairs are then sorted by both lengths and cut again, and the batches are shuffled. The pairs of a batch
    thus have similar lengths, which reduces padding. The batches depend only on the seed and the epoch.
    """
    random = np.random.default_rng([seed, 1, epoch])
    order = random.permutation(lines)
    batches = math.ceil(len(order) / batch_size)
    bounds = np.arange(batches + 1) * len(order) // batches
    for first in range(0, batches, _POOL_BATCHES):
        cuts = bounds[first : first + _POOL_BATCHES + 1]
        pool = order[cuts[0] : cuts[-1]]
        pool = pool[_by_length(pairs, pool)]
        for index in random.permutation(len(cuts) - 1):
            begin, end = cuts[index : index + 2] - cuts[0]
            yield pool[begin:end]


def batches_in_order(pairs: PhrasePairs, batch_size: int) -> Iterator[NDArray[np.int64]]:
    """Yield all lines in batches of pairs of similar lengths, longest target first."""
    by_length = _by_length(pairs, np.arange(len(pairs)))
    for start in range(0, len(by_length), batch_size):
        yield by_length[start : start + batch_size]


def _by_length(pairs: PhrasePairs, lines: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the order that sorts lines by target length, then source length, longest first."""
    target_lengths = pairs.target.offsets[lines + 1] - pairs.target.offsets[lines]
    source_lengths = pairs.source.offsets[lines + 1] - pairs.source.offsets[lines]
    return np.lexsort((-source_lengths, -target_lengths))
