"""Save the work of an interrupted run, so that rerunning the same command resumes it.

Each run has a fingerprint: everything that determines its output, by name (digests of inputs, options), and `FORMAT`.
A run resumes only work with its own fingerprint. Another fingerprint is an error that names what changed, so that a
mistyped option discards nothing; `restart` discards the work.

`resumable_output` writes one file in chunks. Two hidden files are beside the output until it is complete:
`.NAME.unfinished` has the chunks, and `.NAME.journal` describes them in JSON, one line each, after the fingerprint:

    {"facts": {"format": 3, "table": "8a0c...", "columns": 1}, "length": 0, "sha256": "5feb..."}
    {"facts": {"lines": 4096}, "length": 31077, "sha256": "e3b0..."}

The digest covers the facts and the chunk. A run resumes after the last chunk up to which all are valid. It discards
everything after it: an incomplete line or chunk or, after a power failure, a chunk that was never written though its
successor was. So neither file needs to wait for the other. Both are synced every few seconds in case of a power
failure; a process that is killed loses only its current chunk.

`ResumableFolder` is for named results, such as the steps of a tuning.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from io import FileIO
from pathlib import Path
from typing import IO, Any

from phrasescore.errors import FullDiskError, InputError, UserError, arg_name
from phrasescore.files.documents import LARGEST_JSON, LARGEST_JSON_LINES, parse_json
from phrasescore.files.reading import read_regular
from phrasescore.files.writing import (
    full_disk_as_error,
    open_beside,
    open_hidden,
    output_place,
    publish,
    write_atomically,
)

FORMAT = 3
"""Part of every fingerprint.

Increase it when the same inputs and options give a different output, such as other scores, or when the format of the
files described here changes.
"""
_SECONDS_BETWEEN_SYNCS = 5.0
_FINGERPRINT = "fingerprint.json"
_IS_DIGEST, _DIGITS_SHOWN = re.compile("[0-9a-f]{64}"), 8


class ResumableOutput:
    """An output and its complete chunks; see `resumable_output`."""

    def __init__(self, name: str, unfinished: FileIO, journal: FileIO) -> None:
        self.chunks: list[dict[str, Any]] = []
        """The facts of each complete chunk."""
        self.note: str | None = None
        """A message about the work of an interrupted run, None if there is none."""
        self.file = unfinished
        """The chunks."""
        self._name, self._unfinished, self._journal = name, unfinished, journal
        self._last_sync = time.monotonic()

    def append(self, chunk: bytes, facts: Mapping[str, Any]) -> None:
        """Write the next chunk; `facts` describe it as a JSON object with finite numbers."""
        with full_disk_as_error(self._name):
            _write(self._unfinished, chunk)
            _write(self._journal, _entry(facts, chunk))
            if time.monotonic() - self._last_sync >= _SECONDS_BETWEEN_SYNCS:
                os.fsync(self._unfinished)
                os.fsync(self._journal)
                self._last_sync = time.monotonic()
        self.chunks.append(dict(facts))

    def begin(self, fingerprint: Mapping[str, Any], *, restart: bool) -> None:
        """Resume the work of an interrupted run; discard data after its last valid chunk."""
        # A larger journal is damaged; chunks that it does not describe are computed again.
        header, *lines = self._journal.read(LARGEST_JSON_LINES).split(b"\n")[:-1] or [b""]
        length = 0
        if restart or not os.fstat(self._unfinished.fileno()).st_size:
            lines = []
        if lines and (before := _facts(header, self._unfinished)) is not None:
            _require_same(self._name, before, fingerprint)
            for line in lines:
                if (facts := _facts(line, self._unfinished)) is None:
                    break
                length = self._unfinished.tell()
                self.chunks.append(facts)
        with full_disk_as_error(self._name):
            _cut(self._unfinished, length)
            _cut(self._journal, sum(len(line) + 1 for line in (header, *lines)[: len(self.chunks) + 1]))
            if not self.chunks:
                _cut(self._journal, 0)
                _write(self._journal, _header(fingerprint))
        if lines:
            self.note = f"{self._name}: {self._compared(len(lines))}"

    def _compared(self, left: int) -> str:
        if not self.chunks:
            return "starting over, because the work of an earlier run is damaged"
        damaged = left - len(self.chunks)
        note = f"resuming after chunk {len(self.chunks):,} of an interrupted run"
        return f"{note}; damaged chunks, which are made again: {damaged:,}" if damaged else note


@contextmanager
def resumable_output(
    path: str | Path, fingerprint: Mapping[str, Any], *, restart: bool = False, name: str | Path | None = None
) -> Iterator[ResumableOutput]:
    """Open a file that is written in chunks and appears under its name only when it is complete.

    An interrupted or failed run leaves its chunks in hidden files. The next run with the same fingerprint finds them in
    `chunks` and resumes after them; `note` reports it. After an `InputError` or on a full disk nothing is left, as with
    `open_output`. An old file stays unchanged. Two runs cannot write the same file at once. `fingerprint` is everything
    that determines the output, by name, as a JSON object; `name` is the name of the output in messages.
    """
    place = output_place(path)
    unfinished, journal = (place.with_name(f".{place.name}.{kind}") for kind in ("unfinished", "journal"))
    # An empty file whose lock keeps other runs away.
    mark, descriptor = open_hidden(place)
    with ExitStack() as stack:
        stack.callback(os.close, descriptor)
        stack.callback(mark.unlink, missing_ok=True)
        try:
            chunks, entries = (stack.enter_context(_open(place, hidden)) for hidden in (unfinished, journal))
            output = ResumableOutput(str(name or path), chunks, entries)
            output.begin(fingerprint, restart=restart)
            yield output
            publish(unfinished, chunks.fileno(), place, str(name or path))
        except BaseException as error:
            is_useless = isinstance(error, InputError | FullDiskError)
            if is_useless or not unfinished.exists() or not unfinished.stat().st_size:
                _remove(unfinished, journal)
            raise
        # The journal is useless without the chunks.
        _remove(journal)


def _open(place: Path, hidden: Path) -> FileIO:
    try:
        with full_disk_as_error(str(place)):
            return FileIO(open_beside(place, hidden), "r+")
    except OSError as error:
        raise UserError(f"{hidden}: cannot be used ({error.strerror}); remove it") from error


class ResumableFolder:
    """Named results of an interrupted run, each after its SHA-256; a damaged one is computed again."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False) -> None:
        self._folder = folder
        path = folder / _FINGERPRINT
        has_results = folder.exists() and any(file != path for file in folder.iterdir())
        self.note: str | None = None
        """A message about the results of an interrupted run, None if there are none."""
        if has_results and not restart:
            before = _facts(read_regular(path, LARGEST_JSON), io.BytesIO()) if path.exists() else None
            if before is not None:
                _require_same(str(folder), before, fingerprint)
                self.note = f"{folder}: resuming an earlier run"
                return
            self.note = f"{folder}: starting over, because the work of an earlier run is damaged"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        write_atomically(path, _header(fingerprint))

    def read(self, name: str) -> bytes | None:
        """Return a result, None if it is missing or damaged."""
        path = self._folder / name
        stored = path.read_bytes() if path.exists() else b""
        digest, content = stored[:32], stored[32:]
        return content if digest == hashlib.sha256(content).digest() else None

    def write(self, name: str, content: bytes) -> None:
        write_atomically(self._folder / name, hashlib.sha256(content).digest() + content)

    def remove(self, pattern: str) -> None:
        _remove(*self._folder.glob(pattern))


# Entries of the journal


def _header(fingerprint: Mapping[str, Any]) -> bytes:
    return _entry({"format": FORMAT, **fingerprint}, b"")


def _entry(facts: Mapping[str, Any], chunk: bytes) -> bytes:
    return _line({"facts": facts, "length": len(chunk), "sha256": _digest(facts, chunk)})


def _facts(line: bytes, chunks: IO[bytes]) -> dict[str, Any] | None:
    """Return the facts of an entry whose chunk is next in a file, None if the entry or the chunk is damaged."""
    try:
        entry = parse_json(line, "", "")
        facts, length = entry["facts"], entry["length"]
        left = os.fstat(chunks.fileno()).st_size - chunks.tell() if length else 0
        chunk = chunks.read(length) if 0 <= length <= left else b""
        is_valid = entry["sha256"] == _digest(facts, chunk) and len(chunk) == length
    except (UserError, KeyError, TypeError, ValueError):
        return None
    return facts if is_valid else None


def _digest(facts: Mapping[str, Any], chunk: bytes) -> str:
    return hashlib.sha256(_line(facts) + chunk).hexdigest()


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, allow_nan=False, sort_keys=True).encode() + b"\n"


def _write(file: FileIO, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[file.write(rest) :]


def _cut(file: FileIO, length: int) -> None:
    file.truncate(length)
    file.seek(length)


def _remove(*paths: Path) -> None:
    for path in paths:
        path.unlink(missing_ok=True)


# Fingerprints


def _require_same(name: str, before: Mapping[str, Any], fingerprint: Mapping[str, Any]) -> None:
    now = {"format": FORMAT, **fingerprint}
    changes = [f"{key} {_shown(old)} (now {_shown(new)})" for key, old, new in _changes(before, now)]
    if changes:
        raise UserError(
            f"{name}: an earlier run had {', '.join(changes)}; give the same to resume it, or {arg_name('restart')} to "
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
    if value is None or value == []:
        return "none"
    if isinstance(value, list | dict):
        return " ".join(map(_shown, value.values() if isinstance(value, dict) else value))
    if isinstance(value, str):
        return f"{value[:_DIGITS_SHOWN]}..." if _IS_DIGEST.fullmatch(value) else value
    return json.dumps(value)
