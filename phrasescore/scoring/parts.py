"""The parts of a table that an array of jobs annotates, and the table that is joined of them.

A job that fails leaves the part of an older run under its name. So beside each part, `part.03.gz`, stands a small file,
`part.03.gz.part.json`, that says what it is, and of what it was made:

    {"part": 3, "of": 16, "fingerprint": {"table": "8a0c...", ...}, "sha256": "e3b0...", "lines": 31077}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self, get_origin, get_type_hints

from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import (
    MAGIC_LENGTH,
    compression_for,
    detect_format,
    open_output,
    open_regular,
    require_writable,
    sha256_of,
    write_json,
)
from phrasescore.files.resumable import FORMAT, names_of_changes
from phrasescore.table.blocks import Shard

_BYTES_AT_ONCE = 1 << 20
_NUMBERS_SHOWN = 20
_AGAIN = "run its job again"


@dataclass(frozen=True)
class Part:
    """What is said of a part."""

    part: int
    """Its number, from 1."""
    of: int
    """How many there are."""
    fingerprint: dict[str, Any]
    """Everything that determines the whole table: the SHA-256 of the input table and of the networks, the options."""
    sha256: str
    """That of the part as it lies there, compressed or not."""
    lines: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """Return what is said of the part at a path.

        Raises:
            UserError: nothing is, or not this.
        """
        description = description_of(path)
        if not description.exists():
            raise UserError(f"{path}: has no {description.name} beside it, as a part that is complete has; {_AGAIN}")
        values = read_json(description, _AGAIN)
        kinds = {name: get_origin(kind) or kind for name, kind in get_type_hints(cls).items()}
        is_one = {name: type(value) for name, value in values.items()} == kinds
        if not is_one or not 1 <= values["part"] <= values["of"]:
            raise UserError(f"{description}: does not describe a part; {_AGAIN}")
        return cls(**values)


def description_of(path: str | Path) -> Path:
    """Return where it is said what the part at a path is."""
    return Path(f"{path}.part.json")


def forget_part(path: str | Path) -> None:
    """Say no more what an older part is, for a newer one is to take its place."""
    description_of(path).unlink(missing_ok=True)


def describe_part(path: str | Path, shard: Shard, fingerprint: Mapping[str, Any], lines: int) -> None:
    """Say what the part at a path is, when it is complete.

    Args:
        path: where it is.
        shard: which it is.
        fingerprint: everything that determines the whole table, as an object for JSON.
        lines: how many it has.

    Raises:
        UserError: it cannot be read, or the folder cannot be written.
    """
    part = Part(shard.number, shard.of, {"format": FORMAT, **fingerprint}, sha256_of(Path(path)), lines)
    write_json(description_of(path), asdict(part))


def without_descriptions(paths: Sequence[Path]) -> list[Path]:
    """Return the parts among some paths, which may be all that a pattern as `part.*` finds."""
    descriptions = {description_of(path) for path in paths}
    return [path for path in paths if path not in descriptions]


def join_parts(paths: Sequence[Path], output: str | Path) -> int:
    """Write the table of which these are the parts, in whatever order; return its number of lines.

    Args:
        paths: where `annotate` wrote the parts.
        output: where to write, `-` for standard output.

    Raises:
        UserError: the parts are not those of one table, each once and as it was written, they have no line, or the
            output cannot be written, is compressed otherwise than they are, or is one of them; then there is no output,
            and an old one is as it was.
    """
    require_writable(output, inputs=[*paths, *map(description_of, paths)])
    for path in paths:
        _require_compression(path, output)
    parts = sorted(((Part.read(path), path) for path in paths), key=lambda one: one[0].part)
    _require_all_of_one(parts)
    lines = sum(part.lines for part, _ in parts)
    if not lines:
        raise UserError(f"{parts[0][1]}: has no line, nor has another part; check that the jobs had the table meant")
    with open_output(output, is_compressed=True) as stream:
        for part, path in parts:
            _copy(part, path, stream)
    return lines


def _require_all_of_one(parts: Sequence[tuple[Part, Path]]) -> None:
    """Check that these, by number, are the parts of one table, each once.

    Raises:
        UserError: they are not.
    """
    first, first_path = parts[0]
    for part, path in parts:
        changes = names_of_changes(
            {**first.fingerprint, "number of parts": first.of}, {**part.fingerprint, "number of parts": part.of}
        )
        if changes:
            raise UserError(
                f"{path}: does not belong together with {first_path}: they differ in {changes}; run the job of the one "
                "that is wrong again"
            )
    for (before, path_before), (part, path) in pairwise(parts):
        if part.part == before.part:
            raise UserError(f"{path}: is part {part.part} of {part.of}, as {path_before} is; give each part once")
    numbers = {part.part for part, _ in parts}
    missing = [*islice((number for number in range(1, first.of + 1) if number not in numbers), _NUMBERS_SHOWN)]
    if missing:
        more = first.of - len(numbers) - len(missing)
        shown = ", ".join(map(str, missing)) + (f" and {more:,} more" if more else "")
        raise UserError(f"{first_path}: is one of {first.of} parts, of which there is no {shown}; give all of them")


def _require_compression(path: Path, output: str | Path) -> None:
    """Check that a part is compressed, or not, as the suffix of the output says.

    Raises:
        UserError: it is not, or cannot be read.
    """
    with open_regular(path) as file:
        head = file.read(MAGIC_LENGTH)
    # Of no lines Zstandard makes no bytes.
    if head and detect_format(head) != compression_for(output):
        raise UserError(f"{path}: is not compressed as {output} is to be; give an output of the same suffix")


def _copy(part: Part, path: Path, stream: BinaryIO) -> None:
    """Write the bytes of a part.

    Raises:
        UserError: they are not what was written there, or cannot be read.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while data := file.read(_BYTES_AT_ONCE):
            digest.update(data)
            stream.write(data)
    if digest.hexdigest() != part.sha256:
        raise UserError(f"{path}: is not the file that {description_of(path).name} tells of; {_AGAIN}")
