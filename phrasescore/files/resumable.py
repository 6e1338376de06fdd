"""Outputs that are written in pieces, and that the same command goes on with after it was stopped.

Beside an output stand, until it is complete, two hidden files: `.NAME.unfinished` has the pieces, and `.NAME.journal`
says in JSON, a line each, what the output is made of and which pieces are whole:

    {"format": 1, "identity": {"table": "8a0c...", "columns": 1}}
    {"facts": {"lines": 4096}, "length": 31077, "sha256": "e3b0..."}

The length is that of the output up to there. The digest is of the digest before, the length, the facts and the piece,
so that a piece counts only behind all those that it was written behind. What is gone on with are the first pieces that
are whole, whatever follows them: a line or a piece that was cut short, or, after a power failure, one that was never
written though its successor was. So neither file needs to wait for the other. Both are synced every few seconds, for
what a power failure may cost; a process that is killed costs the piece it was at work on.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.documents import LARGEST_JSON_LINES, parse_json
from phrasescore.errors import FullDiskError, InputError, UserError
from phrasescore.files.temporary import hidden_name, make_temporary
from phrasescore.files.writing import full_disk_told, output_place

if TYPE_CHECKING:
    from hashlib import _Hash

_FORMAT = 1
_BYTES_AT_ONCE = 1 << 20
_SECONDS_BETWEEN_SYNCS = 5.0
_PRIVATE = 0o600


class ResumableOutput:
    """An output and the pieces that it has; see `resumable_output`."""

    def __init__(self, name: str, unfinished: FileIO, journal: FileIO) -> None:
        self.pieces: list[dict[str, Any]] = []
        """What was said of each piece that is there."""
        self.note: str | None = None
        """A sentence about what a run before has left, None if that was nothing."""
        self._name, self._unfinished, self._journal = name, unfinished, journal
        self._length = 0
        self._digest = ""
        self._last_sync = time.monotonic()

    def append(self, piece: bytes, facts: Mapping[str, Any]) -> None:
        """Write one more piece; `facts` are what to know of it later, an object for JSON with finite numbers.

        Raises:
            UserError: the disk is full.
        """
        length = self._length + len(piece)
        digest = _begin_digest(self._digest, length, facts)
        digest.update(piece)
        with full_disk_told(self._name):
            _write(self._unfinished, piece)
            _write(self._journal, _line({"length": length, "facts": facts, "sha256": digest.hexdigest()}))
            if time.monotonic() - self._last_sync >= _SECONDS_BETWEEN_SYNCS:
                self.sync()
                os.fsync(self._journal)
                self._last_sync = time.monotonic()
        self._length, self._digest = length, digest.hexdigest()
        self.pieces.append(dict(facts))

    def sync(self) -> None:
        """Wait until the pieces are on the disk.

        Raises:
            UserError: the disk is full, as some tell only now.
        """
        with full_disk_told(self._name):
            os.fsync(self._unfinished)

    def begin(self, identity: Mapping[str, Any], *, restart: bool) -> None:
        """Take up the pieces of a run before, if it was of the same identity; cut off what is behind them."""
        first = _line({"format": _FORMAT, "identity": identity})
        # More than that would be no document; pieces that it names are made again.
        lines = self._journal.read(LARGEST_JSON_LINES).split(b"\n")[:-1]
        left = len(lines[1:]) if os.fstat(self._unfinished.fileno()).st_size else 0
        is_same = lines[:1] == [first[:-1]]
        end = len(first)
        self._digest = hashlib.sha256(first).hexdigest()
        for line in lines[1:] if is_same and not restart else []:
            if not self._take_up(line):
                break
            end += len(line) + 1
        with full_disk_told(self._name):
            _cut(self._unfinished, self._length)
            if self.pieces:
                _cut(self._journal, end)
            else:
                _cut(self._journal, 0)
                _write(self._journal, first)
        if left and not restart:
            self.note = f"{self._name}: {self._compared(left) if is_same else _differences(lines[0], identity)}"

    def _take_up(self, line: bytes) -> bool:
        """Read the next piece that the journal names; return whether it is whole."""
        try:
            entry = parse_json(line, self._name, "")
        except UserError:
            return False
        length, facts = entry.get("length"), entry.get("facts")
        if type(length) is not int or not isinstance(facts, dict):
            return False
        digest, missing = _begin_digest(self._digest, length, facts), length - self._length
        while missing > 0 and (part := self._unfinished.read(min(missing, _BYTES_AT_ONCE))):
            digest.update(part)
            missing -= len(part)
        if missing or digest.hexdigest() != entry.get("sha256"):
            return False
        self._length, self._digest = length, digest.hexdigest()
        self.pieces.append(facts)
        return True

    def _compared(self, left: int) -> str:
        """Return what becomes of so many pieces that a run before has left."""
        if not self.pieces:
            return "starts over, for what a run has left that was stopped is damaged"
        damaged = left - len(self.pieces)
        note = f"goes on after piece {len(self.pieces):,} of a run that was stopped"
        return f"{note}; damaged pieces, which are made again: {damaged:,}" if damaged else note


@contextmanager
def resumable_output(
    path: str | Path, identity: Mapping[str, Any], *, restart: bool = False
) -> Iterator[ResumableOutput]:
    """Open a file that is written in pieces, and that appears under its name only when it is complete.

    A run that is stopped by a signal, or killed, or that fails leaves its pieces in hidden files, and the next one that
    is given the same identity finds them in `pieces`: it goes on with what comes after them. With another identity, or
    with `restart`, it starts over; `note` says what it does. Only an `InputError` or a full disk leaves nothing, as it
    does with `open_output`. An old file stays as it was. Two runs cannot write at once.

    It is for files. What is written to standard output, a device or a pipe cannot be taken up again.

    Args:
        path: the file; a link stays a link.
        identity: all that decides what the pieces are, as an object for JSON: digests of inputs, options.
        restart: start over in any case.

    Raises:
        UserError: the folder cannot be written, another run is writing the same file, the disk is full, or what is
            found under the names of the hidden files cannot be what a run of this user has left.
    """
    place = output_place(path)
    hidden = hidden_name(place)
    unfinished, journal = place.with_name(f"{hidden}.unfinished"), place.with_name(f"{hidden}.journal")
    # An empty file that stands for the run: others see its lock, and it has the permissions that the output is to have.
    mark, descriptor = make_temporary(place)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        stack.callback(mark.unlink, missing_ok=True)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        # Some file systems know no owners or permissions, and say the same of every file.
        with suppress(OSError):
            os.fchmod(descriptor, _PRIVATE)
        like = os.fstat(descriptor)
        pieces = stack.enter_context(_open_own(unfinished, like))
        try:
            output = ResumableOutput(str(path), pieces, stack.enter_context(_open_own(journal, like)))
        except BaseException:
            _remove_empty(unfinished)
            raise
        try:
            output.begin(identity, restart=restart)
            yield output
            output.sync()
            os.fchmod(pieces.fileno(), mode)
            unfinished.replace(place)
        except BaseException as error:
            if isinstance(error, InputError | FullDiskError):
                _remove(unfinished)
            # There is nothing to go on with.
            if _remove_empty(unfinished):
                _remove(journal)
            raise
        # It is of no use without the other file.
        _remove(journal)


def _open_own(path: Path, like: os.stat_result) -> FileIO:
    """Open a hidden file that a run of this user has left, or make it, for nobody else to read or write.

    `like` is what the system says of such a file.

    Raises:
        UserError: others may have put it there or have written to it, or the disk is full.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
    try:
        with full_disk_told(str(path)):
            file = FileIO(path, "r+", opener=lambda path, _: os.open(path, flags, _PRIVATE))
    except OSError as error:
        raise _not_ours(path) from error
    status = os.fstat(file.fileno())
    is_private = status.st_nlink == 1 and not status.st_mode & ~like.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if stat.S_ISREG(status.st_mode) and status.st_uid == like.st_uid and is_private:
        return file
    file.close()
    raise _not_ours(path)


def _not_ours(path: Path) -> UserError:
    return UserError(f"{path}: is a link, or others may have written to it, and so is not used; remove it")


def _remove_empty(path: Path) -> bool:
    """Remove a file if it is empty; return whether it is not there now."""
    is_empty = not path.exists() or not path.stat().st_size
    if is_empty:
        _remove(path)
    return is_empty


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, sort_keys=True).encode() + b"\n"


def _begin_digest(before: str, length: int, facts: Mapping[str, Any]) -> _Hash:
    """Return the digest of a piece, for its bytes to be added."""
    return hashlib.sha256(_line({"before": before, "length": length, "facts": facts}))


def _write(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _cut(file: FileIO, length: int) -> None:
    """Leave so many bytes of a file, and stand behind them."""
    file.truncate(length)
    file.seek(length)


def _differences(first: bytes, identity: Mapping[str, Any]) -> str:
    """Return why what a run has left that said `first` of itself is of no use."""
    try:
        before = parse_json(first, "", "").get("identity")
    except UserError:
        before = None
    if not isinstance(before, dict):
        return "starts over, for what a run has left that was stopped is damaged"
    return f"starts over, for a run that was stopped had other {names_of_changes(before, identity) or 'formats'}"


def names_of_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the names of the values in which two objects for JSON differ, with commas between them."""
    first, second = (json.loads(_line(one)) for one in (before, after))
    return ", ".join(name for name in {**second, **first} if first.get(name) != second.get(name))
