"""Save the work of an interrupted run, so that rerunning the same command resumes it.

Each run has a fingerprint: everything that determines its output, by name (digests of inputs, options), and `FORMAT`.
A run resumes only work with its own fingerprint. Another fingerprint is an error that names what changed, so that a
mistyped option discards nothing; `restart` discards the work.

`resumable_output` writes one file in chunks. Two hidden files are beside the output until it is complete:
`.NAME.unfinished` has the chunks, and `.NAME.journal` describes them in JSON, one line each:

    {"fingerprint": {"format": 2, "table": "8a0c...", "columns": 1}, "sha256": "5feb..."}
    {"facts": {"lines": 4096}, "length": 31077, "sha256": "e3b0..."}

`length` is the length of the output including the chunk. The digest covers the previous digest, the length, the facts
and the chunk, so a chunk is valid only after the chunks that preceded it when it was written. A run resumes after the
last valid chunk. It discards everything after it: an incomplete line or chunk or, after a power failure, a chunk that
was never written though its successor was. So neither file needs to wait for the other. Both are synced every few
seconds in case of a power failure; a process that is killed loses only its current chunk.

`ResumableFolder` is for named results, such as the steps of a tuning.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.errors import FullDiskError, InputError, UserError, spelled
from phrasescore.files.documents import LARGEST_JSON, LARGEST_JSON_LINES, parse_json
from phrasescore.files.regular import read_regular
from phrasescore.files.temporary import hidden_name, make_temporary
from phrasescore.files.writing import full_disk_told, output_place, write_atomically

if TYPE_CHECKING:
    from hashlib import _Hash

FORMAT = 2
"""Part of every fingerprint.

Increase it when the same inputs and options give a different output, such as other scores, or when the format of the
files described here changes.
"""
_BYTES_AT_ONCE = 1 << 20
_SECONDS_BETWEEN_SYNCS = 5.0
_PRIVATE = 0o600
_FINGERPRINT = "fingerprint.json"
_IS_DIGEST, _DIGITS_SHOWN = re.compile("[0-9a-f]{64}"), 8
_DIGEST_SIZE = hashlib.sha256().digest_size


class ResumableOutput:
    """An output and its complete chunks; see `resumable_output`."""

    def __init__(self, name: str, unfinished: FileIO, journal: FileIO) -> None:
        self.chunks: list[dict[str, Any]] = []
        """The facts of each complete chunk."""
        self.note: str | None = None
        """A message about the work of an interrupted run, None if there is none."""
        self._name, self._unfinished, self._journal = name, unfinished, journal
        self._length = 0
        self._digest = ""
        self._last_sync = time.monotonic()

    def append(self, chunk: bytes, facts: Mapping[str, Any]) -> None:
        """Write the next chunk; `facts` describe it as a JSON object with finite numbers.

        Raises:
            UserError: the disk is full.
        """
        length = self._length + len(chunk)
        digest = _begin_digest(self._digest, length, facts)
        digest.update(chunk)
        with full_disk_told(self._name):
            _write(self._unfinished, chunk)
            _write(self._journal, _line({"length": length, "facts": facts, "sha256": digest.hexdigest()}))
            if time.monotonic() - self._last_sync >= _SECONDS_BETWEEN_SYNCS:
                self.sync()
                os.fsync(self._journal)
                self._last_sync = time.monotonic()
        self._length, self._digest = length, digest.hexdigest()
        self.chunks.append(dict(facts))

    def sync(self) -> None:
        """Sync the chunks to the disk.

        Raises:
            UserError: the disk is full, which some file systems report only now.
        """
        with full_disk_told(self._name):
            os.fsync(self._unfinished)

    def begin(self, fingerprint: Mapping[str, Any], *, restart: bool) -> None:
        """Resume the work of an interrupted run; discard data after its last valid chunk.

        Raises:
            UserError: the interrupted run has another fingerprint.
        """
        header = _header(fingerprint)
        # A larger journal is damaged; chunks that it does not describe are computed again.
        lines = self._journal.read(LARGEST_JSON_LINES).split(b"\n")[:-1]
        left = len(lines[1:]) if os.fstat(self._unfinished.fileno()).st_size and not restart else 0
        before = _fingerprint_in(lines[0]) if left else None
        if before is not None:
            require_same(self._name, before, fingerprint)
        end = len(header)
        self._digest = hashlib.sha256(header).hexdigest()
        for line in lines[1:] if before is not None else []:
            if not self._take_up(line):
                break
            end += len(line) + 1
        with full_disk_told(self._name):
            _cut(self._unfinished, self._length)
            if self.chunks:
                _cut(self._journal, end)
            else:
                _cut(self._journal, 0)
                _write(self._journal, header)
        if left:
            self.note = f"{self._name}: {self._compared(left)}"

    def _take_up(self, line: bytes) -> bool:
        """Read the next chunk of the journal; return whether it is valid."""
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
        self.chunks.append(facts)
        return True

    def _compared(self, left: int) -> str:
        """Return what happens to the `left` chunks of the interrupted run, for a message."""
        if not self.chunks:
            return "starting over, because the work of an earlier run is damaged"
        damaged = left - len(self.chunks)
        note = f"resuming after chunk {len(self.chunks):,} of an interrupted run"
        return f"{note}; damaged chunks, which are made again: {damaged:,}" if damaged else note


@contextmanager
def resumable_output(
    path: str | Path, fingerprint: Mapping[str, Any], *, restart: bool = False
) -> Iterator[ResumableOutput]:
    """Open a file that is written in chunks and appears under its name only when it is complete.

    An interrupted or failed run leaves its chunks in hidden files. The next run with the same fingerprint finds them in
    `chunks` and resumes after them; `note` reports it. After an `InputError` or on a full disk nothing is left, as with
    `open_output`. An old file stays unchanged. Two runs cannot write the same file at once.

    Only regular files can be resumed: not standard output, a device or a pipe.

    Args:
        path: the file; a link stays a link.
        fingerprint: everything that determines the output, by name, as a JSON object.
        restart: discard the work of an interrupted run.

    Raises:
        UserError: an interrupted run has another fingerprint, the folder cannot be written, another run is writing the
            same file, the disk is full, or another user may have written the hidden files.
    """
    place = output_place(path)
    hidden = hidden_name(place)
    unfinished, journal = place.with_name(f"{hidden}.unfinished"), place.with_name(f"{hidden}.journal")
    # An empty file that represents the run: other runs see its lock, and it has the permissions of the output.
    mark, descriptor = make_temporary(place)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        stack.callback(mark.unlink, missing_ok=True)
        mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        # Some file systems have no owners or permissions and report the same values for every file.
        with suppress(OSError):
            os.fchmod(descriptor, _PRIVATE)
        like = os.fstat(descriptor)
        chunks = stack.enter_context(_open_own(unfinished, like))
        try:
            output = ResumableOutput(str(path), chunks, stack.enter_context(_open_own(journal, like)))
        except BaseException:
            _remove_empty(unfinished)
            raise
        try:
            output.begin(fingerprint, restart=restart)
            yield output
            output.sync()
            os.fchmod(chunks.fileno(), mode)
            unfinished.replace(place)
        except BaseException as error:
            if isinstance(error, InputError | FullDiskError):
                _remove(unfinished)
            if _remove_empty(unfinished):
                _remove(journal)
            raise
        # The journal is useless without the chunks.
        _remove(journal)


def _open_own(path: Path, like: os.stat_result) -> FileIO:
    """Open or create a hidden file of this user, accessible to no other user.

    `like` is the status that the system reports for such a file.

    Raises:
        UserError: another user may have created or written the file, or the disk is full.
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
    """Remove a file if it is empty; return whether it no longer exists."""
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
    """Return the digest of a chunk before the bytes of the chunk are added."""
    return hashlib.sha256(_line({"before": before, "length": length, "facts": facts}))


def _write(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _cut(file: FileIO, length: int) -> None:
    """Truncate a file and seek to its end."""
    file.truncate(length)
    file.seek(length)


class ResumableFolder:
    """Named results of an interrupted run; a damaged result counts as missing and is computed again.

    Each file begins with the SHA-256 of its content.
    """

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False) -> None:
        """Open or create the folder.

        Raises:
            UserError: it has results with another fingerprint, or cannot be written.
        """
        self._folder = folder
        path = folder / _FINGERPRINT
        before = _fingerprint_in(read_regular(path, LARGEST_JSON)) if path.exists() and not restart else None
        has_results = folder.exists() and any(file != path for file in folder.iterdir())
        self.note: str | None = None
        """A message about the results of an interrupted run, None if there are none."""
        if has_results and before is not None:
            require_same(str(folder), before, fingerprint)
            self.note = f"{folder}: resuming an earlier run"
            return
        if has_results and not restart:
            self.note = f"{folder}: starting over, because the work of an earlier run is damaged"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_atomically(path, _header(fingerprint))

    def read(self, name: str) -> bytes | None:
        """Return a result, or None if it is missing or damaged."""
        path = self._folder / name
        stored = path.read_bytes() if path.exists() else b""
        digest, content = stored[:_DIGEST_SIZE], stored[_DIGEST_SIZE:]
        return content if digest == hashlib.sha256(content).digest() else None

    def write(self, name: str, content: bytes) -> None:
        """Save a result.

        Raises:
            UserError: it cannot be written.
        """
        write_atomically(self._folder / name, hashlib.sha256(content).digest() + content)

    def remove(self, pattern: str) -> None:
        """Remove the results whose names match a pattern."""
        _remove(*self._folder.glob(pattern))


# Fingerprints


def require_same(name: str, before: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    """Check that an interrupted run has the fingerprint of this run; `name` is the output, for messages.

    Raises:
        UserError: the fingerprints differ.
    """
    changes = [f"{key} {_shown(old)} (now {_shown(new)})" for key, old, new in _changes(before, _complete(fingerprint))]
    if changes:
        raise UserError(
            f"{name}: an earlier run had {', '.join(changes)}; give the same to resume it, or {spelled('restart')} to "
            "discard its work"
        )


def names_of_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the names of the values in which two fingerprints differ, separated by commas."""
    return ", ".join(key for key, _, _ in _changes(before, after))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name, such as `model.sha256`, and both values of each difference; None is a missing value."""
    first, second = (json.loads(_line(one)) for one in (before, after))
    for key in {**second, **first}:
        old, new = first.get(key), second.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from ((f"{key}.{inner}", *values) for inner, *values in _changes(old, new))
        elif old != new:
            yield key, old, new


def _shown(value: Any) -> str:
    """Return a value as a message shows it."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list | dict):
        return " ".join(map(_shown, value.values() if isinstance(value, dict) else value))
    if isinstance(value, str):
        return f"{value[:_DIGITS_SHOWN]}..." if _IS_DIGEST.fullmatch(value) else value
    return json.dumps(value)


def _complete(fingerprint: Mapping[str, Any]) -> dict[str, Any]:
    return {"format": FORMAT, **fingerprint}


def _header(fingerprint: Mapping[str, Any]) -> bytes:
    """Return the header line: a fingerprint and its digest."""
    whole = _complete(fingerprint)
    return _line({"fingerprint": whole, "sha256": hashlib.sha256(_line(whole)).hexdigest()})


def _fingerprint_in(header: bytes) -> dict[str, Any] | None:
    """Return the fingerprint in a header line, None if the line is damaged."""
    try:
        entry = parse_json(header, "", "")
    except UserError:
        return None
    found = entry.get("fingerprint")
    is_whole = isinstance(found, dict) and entry.get("sha256") == hashlib.sha256(_line(found)).hexdigest()
    return found if is_whole else None
