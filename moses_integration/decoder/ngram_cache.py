"""Scores of n-grams that were asked for before, in a table of fixed size: in memory, or in a file that processes share.

Shapes: Q n-grams, n words of an n-gram, S sets of W entries.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from contextlib import ExitStack, suppress
from hashlib import blake2b
from io import FileIO
from itertools import repeat
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError

Keys = NDArray[np.uint64]
Scores = NDArray[np.float32]

_SETS_IN_MEMORY, _WAYS = 1 << 20, 8
"""64 MB, of which only what is used is taken. The entries of a set are one line of the CPU's cache."""
_SET_BYTES = _WAYS * 8
_LEAST_BYTES, DEFAULT_MEGABYTES = 1 << 20, 256
"""Of the entries in a file: a power of two."""
_HEADER = b"scores of n-grams, version 2, written by phrasescore".ljust(_SET_BYTES - 1) + b"\n"
_MULTIPLIERS = np.array([0xBF58476D1CE4E5B9, 0x94D049BB133111EB], np.uint64)
_SHIFTS = np.array([30, 27, 31], np.uint64)
_HALF = np.uint64(32)
_LOWER, _UPPER = np.uint64(0xFFFFFFFF), np.uint64(0xFFFFFFFF00000000)


def key_of(content: bytes) -> int:
    """Return a number of 64 bits that is the same in every process."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little")


class NgramCache:
    """A set-associative cache. When a set is full, a new score takes the place of another.

    An entry is one 64-bit number, the upper half of a hash of the n-gram and the score in 32 bit, so that a process
    that reads while another writes finds the old entry or the new one, never a mixture. The lower half tells the set.
    Of 5 * 10^8 n-grams that the cache does not hold it takes about one for another: eight entries, 32 bits. In the same
    way an entry that a fault of the disk has changed is that of no n-gram, for the hash is mixed with the score.

    Against people there is no such seal: whoever can write the file decides what the decoder finds. So it is made for
    its owner alone, and one that others own or may write to is refused.
    """

    def __init__(self, path: Path | None = None, megabytes: int = DEFAULT_MEGABYTES) -> None:
        """Make an empty cache, or open the file that an earlier or another process made.

        Args:
            path: file that keeps the scores; None keeps them in memory.
            megabytes: of a file that is made, for 131,000 n-grams each; rounded up to a power of two.
        """
        if path is None:
            self._entries_SW = np.zeros((_SETS_IN_MEMORY, _WAYS), np.uint64)
        else:
            self._entries_SW = _open_file(path, _LEAST_BYTES << (megabytes - 1).bit_length())

    def find(self, keys_Q: Keys) -> tuple[Scores, NDArray[np.bool_]]:
        """Return scores, and which of them were found; the others are arbitrary."""
        entries_QW = _mixed_halves(self._entries_SW[self._set_of(keys_Q)])
        matches_QW = (entries_QW >> _HALF) == _tag_of(keys_Q)[:, None]
        found_Q = entries_QW[np.arange(len(keys_Q)), matches_QW.argmax(axis=1)]
        return found_Q.astype(np.uint32).view(np.float32), matches_QW.any(axis=1)

    def add(self, keys_Q: Keys, scores_Q: Scores) -> None:
        """Remember scores; of several n-grams of one call that fall on one entry, one is remembered."""
        sets_Q, tags_Q = self._set_of(keys_Q), _tag_of(keys_Q)
        is_free_QW = self._entries_SW[sets_Q] == 0
        way_Q = np.where(is_free_QW.any(axis=1), is_free_QW.argmax(axis=1), tags_Q % np.uint64(_WAYS))
        entries_Q = _mixed_halves((tags_Q << _HALF) | scores_Q.view(np.uint32).astype(np.uint64))
        self._entries_SW[sets_Q, way_Q.astype(np.intp)] = entries_Q

    def _set_of(self, keys_Q: Keys) -> NDArray[np.intp]:
        return (keys_Q & np.uint64(len(self._entries_SW) - 1)).astype(np.intp)


def ngram_keys(words_Qn: Keys, seed: int) -> Keys:
    """Return a hash of each n-gram.

    Args:
        words_Qn: a number of 64 bits for each word.
        seed: what scores them; another one gives other hashes.
    """
    keys_Q = np.full(len(words_Qn), seed, np.uint64)
    for word_Q in words_Qn.T:
        keys_Q = _mixed(keys_Q ^ word_Q)
    return keys_Q


def _mixed(keys_Q: Keys) -> Keys:
    """Return numbers each bit of which depends on all bits of the old ones (the finaliser of SplitMix64)."""
    for shift, multiplier in zip(_SHIFTS[:2], _MULTIPLIERS, strict=True):
        keys_Q = (keys_Q ^ (keys_Q >> shift)) * multiplier
    mixed_Q: Keys = keys_Q ^ (keys_Q >> _SHIFTS[2])
    return mixed_Q


def _tag_of(keys_Q: Keys) -> Keys:
    """Return the upper half of hashes. It is never 0, so that an entry of 0 is free."""
    tags_Q: Keys = np.maximum(keys_Q >> _HALF, np.uint64(1))
    return tags_Q


def _mixed_halves(entries: Keys) -> Keys:
    """Return entries whose upper halves depend on all bits of the lower ones; of such ones, what they were before."""
    mixed: Keys = entries ^ ((entries & _LOWER) * _MULTIPLIERS[0] & _UPPER)
    return mixed


def _open_file(path: Path, size: int) -> Keys:
    """Return the sets of a file, which is made without entries unless there is one.

    The zeros are written, for a hole that cannot be filled later kills.
    """
    try:
        if path.is_symlink() or (path.exists() and not path.is_file()):
            raise UserError(f"{path}: is no file, and cannot keep scores of n-grams; give another path")
        with _locked(path) as file:
            # Decoders that start together make it once.
            if file.seek(0, os.SEEK_END) == 0:
                _fill(path, file, size)
            length = file.seek(0, os.SEEK_END) - len(_HEADER)
            file.seek(0)
            if file.read(len(_HEADER)) != _HEADER or length < _LEAST_BYTES or length.bit_count() != 1:
                raise UserError(
                    f"{path}: is no cache of n-grams, a damaged one or that of another version; delete it or give "
                    "another path"
                )
            entries_SW = np.memmap(file, np.uint64, "r+", offset=len(_HEADER), shape=(length // _SET_BYTES, _WAYS))
            # What is mapped stays open.
            fcntl.flock(file, fcntl.LOCK_UN)
            return entries_SW
    except OSError as error:
        raise UserError(f"{path}: cannot keep scores of n-grams: {error.strerror}; give another path") from error


def _locked(path: Path) -> FileIO:
    """Open a file, made if need be, and lock it until it is closed."""
    while True:
        with ExitStack() as closing:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            file = closing.enter_context(FileIO(descriptor, "r+b"))
            _require_own(path, os.fstat(descriptor))
            fcntl.flock(file, fcntl.LOCK_EX)
            # Who held the lock before may have deleted the file.
            with suppress(FileNotFoundError):
                if os.path.samestat(path.lstat(), os.fstat(descriptor)):
                    closing.pop_all()
                    return file


def _require_own(path: Path, status: os.stat_result) -> None:
    """Check that nobody else can have written scores; those who have the rights of all users are trusted."""
    if status.st_uid != os.geteuid():
        raise UserError(f"{path}: belongs to another user, who decides its scores; delete it or give another path")
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise UserError(f"{path}: may be written by others, who decide its scores; chmod go-w it, or delete it")


def _require_space(path: Path, size: int) -> None:
    free = shutil.disk_usage(path.parent).free
    if free < size:
        raise UserError(
            f"{path}: needs {size >> 20:,} MB where {free >> 20:,} MB are free; give another path or --cache-size"
        )


def _fill(path: Path, file: FileIO, size: int) -> None:
    """Write a file of no entries, or leave none behind."""
    try:
        _require_space(path, size)
        for block in (_HEADER, *repeat(bytes(_LEAST_BYTES), size // _LEAST_BYTES)):
            if file.write(block) < len(block):
                # What is missing did not find room.
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    except BaseException:
        path.unlink()
        raise
