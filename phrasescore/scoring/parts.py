"""The shards of a table that an array of jobs annotates, and joining them.

A failed job may leave the shard of an older run under its name. So a description is beside each shard: for
`part.03.gz` it is the file `part.03.gz.part.json`, with the fingerprint of its inputs:

    {"part": 3, "of": 16, "fingerprint": {"table": "8a0c...", ...}, "sha256": "e3b0...", "lines": 31077}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, BinaryIO, Self, get_origin, get_type_hints

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
from phrasescore.files.documents import read_json
from phrasescore.files.resumable import FORMAT, names_of_changes
from phrasescore.table.selection import Shard

_BYTES_AT_ONCE = 1 << 20
_NUMBERS_SHOWN = 20
_AGAIN = "run its job again"


@dataclass(frozen=True)
class Part:
    """The description of a shard."""

    part: int
    """The number of the shard, from 1."""
    of: int
    """The number of shards."""
    fingerprint: dict[str, Any]
    """Everything that determines the whole table: the SHA-256 of the input table and of the networks, the options."""
    sha256: str
    """SHA-256 of the raw bytes of the shard, compressed or not."""
    lines: int

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read the description of the shard at a path.

        Raises:
            UserError: the description is missing or invalid.
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
    """Return the path of the description of a shard."""
    return Path(f"{path}.part.json")


def forget_part(path: str | Path) -> None:
    """Remove the description of an older shard, which a new shard will replace."""
    description_of(path).unlink(missing_ok=True)


def describe_part(path: str | Path, shard: Shard, fingerprint: Mapping[str, Any], lines: int) -> None:
    """Write the description of a complete shard.

    Args:
        path: the shard.
        shard: its number.
        fingerprint: everything that determines the whole table, as a JSON object.
        lines: its number of lines.

    Raises:
        UserError: the shard cannot be read, or the folder cannot be written.
    """
    part = Part(shard.number, shard.of, {"format": FORMAT, **fingerprint}, sha256_of(Path(path)), lines)
    write_json(description_of(path), asdict(part))


def without_descriptions(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are not descriptions, which a pattern such as `part.*` also matches."""
    descriptions = {description_of(path) for path in paths}
    return [path for path in paths if path not in descriptions]


def join_parts(paths: Sequence[Path], output: str | Path) -> int:
    """Join shards, given in any order, to a table; return its number of lines.

    Args:
        paths: the shards that `annotate` wrote.
        output: the output file, `-` for standard output.

    Raises:
        UserError: a shard is missing, repeated, damaged or of another table, no shard has a line, or the output cannot
            be written, has another compression, or is a shard. Then no output is written, and an old file stays
            unchanged.
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
    """Check that shards, sorted by number, belong to one table and are complete.

    Raises:
        UserError: a shard is missing, repeated or of another table.
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
    """Check that the compression of a shard matches the suffix of the output.

    Raises:
        UserError: the compression differs, or the shard cannot be read.
    """
    with open_regular(path) as file:
        head = file.read(MAGIC_LENGTH)
    # Zstandard output is empty if there are no lines.
    if head and detect_format(head) != compression_for(output):
        raise UserError(f"{path}: is not compressed as {output} is to be; give an output of the same suffix")


def _copy(part: Part, path: Path, stream: BinaryIO) -> None:
    """Copy the bytes of a shard and verify its digest.

    Raises:
        UserError: the digest differs, or the shard cannot be read.
    """
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while data := file.read(_BYTES_AT_ONCE):
            digest.update(data)
            stream.write(data)
    if digest.hexdigest() != part.sha256:
        raise UserError(f"{path}: is not the file that {description_of(path).name} tells of; {_AGAIN}")
