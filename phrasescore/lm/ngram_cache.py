"""A cache of n-gram scores with a fixed size, in memory or in a file that processes share.

Shapes: Q n-grams, n words of an n-gram, S sets of W entries.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError, spelled
from phrasescore.phrases import mix

Keys = NDArray[np.uint64]
Scores = NDArray[np.float32]

_SETS_IN_MEMORY, _WAYS = 1 << 20, 8
"""64 MB of lazily allocated memory. A set is one CPU cache line."""
_SET_BYTES = _WAYS * 8
_LEAST_BYTES, DEFAULT_MEGABYTES = 1 << 20, 256
"""Sizes of the entries in a file; powers of two."""
_HEADER = b"scores of n-grams, version 3, written by phrasescore".ljust(_SET_BYTES - 1) + b"\n"
_MULTIPLIER = np.uint64(0xBF58476D1CE4E5B9)
_HALF = np.uint64(32)
_LOWER, _UPPER = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)


class NgramCache:
    """A set-associative cache. In a full set, a new score replaces another one.

    The lower bits of an n-gram's hash select the set. An entry is one 64-bit number, the upper half of the hash and the
    score in 32 bits, so a concurrent reader finds the old or the new entry, never a mixture. With 8 entries of 32 hash
    bits, about one of 5 * 10^8 n-grams outside the cache is taken for another one. Hash and score are mixed, so an
    entry that a disk fault has changed matches no n-gram.
    """

    def __init__(self, path: Path | None = None, megabytes: int = DEFAULT_MEGABYTES) -> None:
        """Open or create a cache in a file, or in memory; the size of a new file is rounded up to a power of two."""
        if path is None:
            self._entries_SW = np.zeros((_SETS_IN_MEMORY, _WAYS), np.uint64)
        else:
            self._entries_SW = _open_file(path, _LEAST_BYTES << (megabytes - 1).bit_length())

    def find(self, keys_Q: Keys) -> Scores:
        entries_QW = _mixed_halves(self._entries_SW[self._set_of(keys_Q)])
        matches_QW = (entries_QW >> _HALF) == _tag_of(keys_Q)[:, None]
        found_Q = entries_QW[np.arange(len(keys_Q)), matches_QW.argmax(axis=1)].astype(np.uint32).view(np.float32)
        return np.where(matches_QW.any(axis=1), found_Q, np.float32(np.nan))

    def add(self, keys_Q: Keys, scores_Q: Scores) -> None:
        """Add scores; if several n-grams of a call map to the same entry, one is kept."""
        sets_Q, tags_Q = self._set_of(keys_Q), _tag_of(keys_Q)
        is_free_QW = self._entries_SW[sets_Q] == 0
        way_Q = np.where(is_free_QW.any(axis=1), is_free_QW.argmax(axis=1), tags_Q % np.uint64(_WAYS))
        entries_Q = _mixed_halves((tags_Q << _HALF) | scores_Q.view(np.uint32).astype(np.uint64))
        self._entries_SW[sets_Q, way_Q.astype(np.intp)] = entries_Q

    def _set_of(self, keys_Q: Keys) -> NDArray[np.intp]:
        return (keys_Q & np.uint64(len(self._entries_SW) - 1)).astype(np.intp)


def ngram_keys(words_Qn: Keys, seed: int = 0) -> Keys:
    """Return a hash of each n-gram of 64-bit numbers of words; `seed` is a number of the model that scores them."""
    keys_Q = np.full(len(words_Qn), seed, np.uint64)
    for word_Q in words_Qn.T:
        keys_Q = mix(keys_Q ^ word_Q)
    return keys_Q


def _tag_of(keys_Q: Keys) -> Keys:
    """Return the upper half of each hash, but never 0, because an entry of 0 is free."""
    tags_Q: Keys = np.maximum(keys_Q >> _HALF, np.uint64(1))
    return tags_Q


def _mixed_halves(entries: Keys) -> Keys:
    """Mix the lower half of each entry into its upper half; the function is its own inverse."""
    mixed: Keys = entries ^ ((entries & _LOWER) * _MULTIPLIER & _UPPER)
    return mixed


def _open_file(path: Path, size: int) -> Keys:
    if path.exists() and not path.is_file():
        raise UserError(f"{path}: is not a regular file and cannot be a cache of n-grams; give another path")
    try:
        with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b", buffering=0) as file:
            # Only the first of several processes fills it.
            fcntl.flock(file, fcntl.LOCK_EX)
            if not file.seek(0, os.SEEK_END):
                _fill(path, file, size)
            length = file.seek(0, os.SEEK_END) - len(_HEADER)
            file.seek(0)
            if file.read(len(_HEADER)) != _HEADER or length < _LEAST_BYTES or length.bit_count() != 1:
                raise UserError(
                    f"{path}: is not an intact cache of n-grams of this version; delete it or give another path"
                )
            entries_SW = np.memmap(file, np.uint64, "r+", offset=len(_HEADER), shape=(length // _SET_BYTES, _WAYS))
            # The map keeps the file open, so closing it would not release the lock.
            fcntl.flock(file, fcntl.LOCK_UN)
            return entries_SW
    except OSError as error:
        raise UserError(f"{path}: cannot be a cache of n-grams: {error.strerror}; give another path") from error


def _fill(path: Path, file: BinaryIO, size: int) -> None:
    """Write zeros, because a sparse file kills the process if the disk is full later; after an error, delete it."""
    try:
        free = shutil.disk_usage(path.parent).free
        if free < size:
            raise UserError(
                f"{path}: needs {size >> 20:,} MB, but {free >> 20:,} MB are free; give another path or "
                f"{spelled('cache_size')}"
            )
        for chunk in (_HEADER, *repeat(bytes(_LEAST_BYTES), size // _LEAST_BYTES)):
            # At the end of a disk, a part of the chunk may be written; the next attempt then fails.
            while chunk := chunk[file.write(chunk) :]:
                pass
    except BaseException:
        path.unlink()
        raise
