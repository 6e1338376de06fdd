"""Work that an interrupted run leaves, and that a later run of the same command resumes.

Each run has a fingerprint: everything that determines its output, by name (digests of inputs, options), and `FORMAT`.
A run resumes only work of its own fingerprint. Otherwise it is an error that names what changed, so that a mistyped
option discards nothing; `restart` discards the work.

`resumable_output` is for one file that is written in chunks. Two hidden files are beside the output until it is
complete: `.NAME.unfinished` has the chunks, and `.NAME.journal` describes them in JSON, one line each:

    {"fingerprint": {"format": 2, "table": "8a0c...", "columns": 1}, "sha256": "5feb..."}
    {"facts": {"lines": 4096}, "length": 31077, "sha256": "e3b0..."}

The length is that of the output up to there. The digest covers the digest before, the length, the facts and the chunk,
so a chunk counts only behind the chunks that it was written behind. A run resumes after the first chunks that are
whole, whatever follows them: a line or a chunk that was cut short, or, after a power failure, one that was never
written though its successor was. So neither file needs to wait for the other. Both are synced every few seconds, in
case of a power failure; a process that is killed loses only the chunk it was working on.

`ResumableFolder` is for results that have names, such as the steps of a tuning.
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

from phrasescore.documents import LARGEST_JSON, LARGEST_JSON_LINES, parse_json
from phrasescore.errors import FullDiskError, InputError, UserError
from phrasescore.files.regular import read_regular
from phrasescore.files.temporary import hidden_name, make_temporary
from phrasescore.files.writing import full_disk_told, output_place, write_atomically

if TYPE_CHECKING:
    from hashlib import _Hash

FORMAT = 2
"""Part of every fingerprint. Raise it when the same inputs and options give another output than before, such as other
scores, or when the files described here change."""
_BYTES_AT_ONCE = 1 << 20
_SECONDS_BETWEEN_SYNCS = 5.0
_PRIVATE = 0o600
_FINGERPRINT = "fingerprint.json"
_IS_DIGEST, _DIGITS_SHOWN = re.compile("[0-9a-f]{64}"), 8
_DIGEST_SIZE = hashlib.sha256().digest_size


class ResumableOutput:
    """An output and the chunks that it has; see `resumable_output`."""

    def __init__(self, name: str, unfinished: FileIO, journal: FileIO) -> None:
        self.chunks: list[dict[str, Any]] = []
        """The facts of each chunk that is there."""
        self.note: str | None = None
        """A sentence about the work of an interrupted run, None if there is none."""
        self._name, self._unfinished, self._journal = name, unfinished, journal
        self._length = 0
        self._digest = ""
        self._last_sync = time.monotonic()

    def append(self, chunk: bytes, facts: Mapping[str, Any]) -> None:
        """Write one more chunk; `facts` are what to know of it later, an object for JSON with finite numbers.

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
        """Wait until the chunks are on the disk.

        Raises:
            UserError: the disk is full, as some tell only now.
        """
        with full_disk_told(self._name):
            os.fsync(self._unfinished)

    def begin(self, fingerprint: Mapping[str, Any], *, restart: bool) -> None:
        """Resume the work of an interrupted run; cut off what follows its last whole chunk.

        Raises:
            UserError: the interrupted run has another fingerprint.
        """
        header = _header(fingerprint)
        # A larger journal is damaged; chunks that it does not describe are made again.
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
        """Read the next chunk that the journal names; return whether it is whole."""
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
        """Return what happens to the chunks, so many, of the interrupted run."""
        if not self.chunks:
            return "starting over, because the work of an earlier run is damaged"
        damaged = left - len(self.chunks)
        note = f"resuming after chunk {len(self.chunks):,} of an interrupted run"
        return f"{note}; damaged chunks, which are made again: {damaged:,}" if damaged else note


@contextmanager
def resumable_output(
    path: str | Path, fingerprint: Mapping[str, Any], *, restart: bool = False
) -> Iterator[ResumableOutput]:
    """Open a file that is written in chunks, and that appears under its name only when it is complete.

    A run that is interrupted, killed or fails leaves its chunks in hidden files. The next run with the same fingerprint
    finds them in `chunks` and resumes after them; `note` reports it. Only an `InputError` or a full disk leaves
    nothing, as with `open_output`. An old file stays unchanged. Two runs cannot write at once.

    It is for regular files: standard output, a device or a pipe cannot be resumed.

    Args:
        path: the file; a link stays a link.
        fingerprint: everything that determines the output, by name, as an object for JSON.
        restart: discard the work of an interrupted run.

    Raises:
        UserError: an interrupted run has another fingerprint, the folder cannot be written, another run is writing the
            same file, the disk is full, or another user may have written the hidden files.
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
            # There is nothing to resume.
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
    """Return the digest of a chunk, for its bytes to be added."""
    return hashlib.sha256(_line({"before": before, "length": length, "facts": facts}))


def _write(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _cut(file: FileIO, length: int) -> None:
    """Leave so many bytes of a file, and stand behind them."""
    file.truncate(length)
    file.seek(length)


class ResumableFolder:
    """Results by name that an interrupted run leaves; a damaged one counts as missing, so its work is done again.

    Each file begins with the SHA-256 of its content.
    """

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False) -> None:
        """Open or make the folder.

        Raises:
            UserError: it has results of another fingerprint, or cannot be written.
        """
        self._folder = folder
        path = folder / _FINGERPRINT
        before = _fingerprint_in(read_regular(path, LARGEST_JSON)) if path.exists() and not restart else None
        has_results = folder.exists() and any(file != path for file in folder.iterdir())
        self.note: str | None = None
        """A sentence about the results of an interrupted run, None if there are none."""
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
        """Return a result, None if it is missing or damaged."""
        path = self._folder / name
        stored = path.read_bytes() if path.exists() else b""
        digest, content = stored[:_DIGEST_SIZE], stored[_DIGEST_SIZE:]
        return content if digest == hashlib.sha256(content).digest() else None

    def write(self, name: str, content: bytes) -> None:
        """Keep a result.

        Raises:
            UserError: it cannot be written.
        """
        write_atomically(self._folder / name, hashlib.sha256(content).digest() + content)

    def remove(self, pattern: str) -> None:
        """Remove the results whose names match a pattern."""
        _remove(*self._folder.glob(pattern))


# Fingerprints


def require_same(name: str, before: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    """Check that an interrupted run has the fingerprint of this run; `name` is the output for messages.

    Raises:
        UserError: it has not.
    """
    changes = [f"{key} {_shown(old)} (now {_shown(new)})" for key, old, new in _changes(before, _complete(fingerprint))]
    if changes:
        raise UserError(
            f"{name}: an earlier run had {', '.join(changes)}; give the same to resume it, or --restart to discard "
            "its work"
        )


def names_of_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """Return the names of the values in which two fingerprints differ, separated by commas."""
    return ", ".join(key for key, _, _ in _changes(before, after))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Yield the name of each value that differs, as in `model.sha256`, and both values; None is one that is missing."""
    first, second = (json.loads(_line(one)) for one in (before, after))
    for key in {**second, **first}:
        old, new = first.get(key), second.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            yield from ((f"{key}.{inner}", *values) for inner, *values in _changes(old, new))
        elif old != new:
            yield key, old, new


def _shown(value: Any) -> str:
    """Return a value for a message."""
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
    """Return a line with a fingerprint and its digest."""
    whole = _complete(fingerprint)
    return _line({"fingerprint": whole, "sha256": hashlib.sha256(_line(whole)).hexdigest()})


def _fingerprint_in(header: bytes) -> dict[str, Any] | None:
    """Return the fingerprint that a line holds, None if it is damaged."""
    try:
        entry = parse_json(header, "", "")
    except UserError:
        return None
    found = entry.get("fingerprint")
    is_whole = isinstance(found, dict) and entry.get("sha256") == hashlib.sha256(_line(found)).hexdigest()
    return found if is_whole else None
