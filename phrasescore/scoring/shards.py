"""The shards of a table that an array of jobs annotates, and joining them.

A failed job may leave the shard of an older run under its name. So a description is beside each shard: for
`part.03.gz` it is the file `part.03.gz.shard.json`, with the fingerprint of its inputs:

    {"shard": 3, "of": 16, "fingerprint": {"table": "8a0c...", ...}, "sha256": "e3b0...", "lines": 31077}
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import Any, BinaryIO

from phrasescore.errors import UserError
from phrasescore.files import compression_for, open_output, open_regular, require_writable, sha256_of, write_json
from phrasescore.files.documents import read_json
from phrasescore.files.resumable import FORMAT, names_of_changes
from phrasescore.scoring.annotate_config import Shard

_BYTES_AT_ONCE = 1 << 20
_AGAIN = "run its job again"


@dataclass(frozen=True)
class _Description:
    shard: int
    of: int
    fingerprint: dict[str, Any]
    """Everything that determines the whole table: the SHA-256 of the input table and of the networks, the options."""
    sha256: str
    """SHA-256 of the raw bytes of the shard, compressed or not."""
    lines: int


def description_of(path: str | Path) -> Path:
    """Return the path of the description of a shard."""
    return Path(f"{path}.shard.json")


def describe_shard(path: str | Path, shard: Shard, fingerprint: Mapping[str, Any], lines: int) -> None:
    """Describe a complete shard of some lines; `fingerprint` is everything that determines the whole table."""
    found = _Description(shard.number, shard.of, {"format": FORMAT, **fingerprint}, sha256_of(Path(path)), lines)
    write_json(description_of(path), asdict(found))


def without_descriptions(paths: Sequence[Path]) -> list[Path]:
    """Return the paths that are not descriptions, which a pattern such as `part.*` also matches."""
    descriptions = {description_of(path) for path in paths}
    return [path for path in paths if path not in descriptions]


def join_shards(paths: Sequence[Path], output: str | Path) -> int:
    """Join shards that `annotate` wrote, given in any order, to a table; return its number of lines."""
    require_writable(output, inputs=[*paths, *map(description_of, paths)])
    for path in paths:
        if compression_for(path) != compression_for(output):
            raise UserError(f"{path}: is not compressed as {output} is to be; give an output of the same suffix")
    shards = sorted(((_read_description(path), path) for path in paths), key=lambda one: one[0].shard)
    _require_all_of_one(shards)
    lines = sum(one.lines for one, _ in shards)
    if not lines:
        raise UserError(f"{shards[0][1]}: has no line, nor has another shard; check that the jobs had the table meant")
    with open_output(output, is_compressed=True) as stream:
        for one, path in shards:
            _copy(one, path, stream)
    return lines


def _read_description(path: Path) -> _Description:
    description = description_of(path)
    if not description.exists():
        raise UserError(f"{path}: has no {description.name} beside it, as a complete shard has; {_AGAIN}")
    values = read_json(description, _AGAIN)
    try:
        found = _Description(**values)
        is_valid = 1 <= found.shard <= found.of and found.lines >= 0 and "table" in found.fingerprint
    except TypeError:
        is_valid = False
    if not is_valid:
        raise UserError(f"{description}: does not describe a shard; {_AGAIN}")
    return found


def _require_all_of_one(shards: Sequence[tuple[_Description, Path]]) -> None:
    """Check that shards, sorted by number, belong to one table and are complete."""
    first, first_path = shards[0]
    for one, path in shards:
        changes = names_of_changes(
            {**first.fingerprint, "number of shards": first.of}, {**one.fingerprint, "number of shards": one.of}
        )
        if changes:
            raise UserError(
                f"{path}: differs from {first_path} in {changes}; rerun the job that had the wrong input or options"
            )
    for (before, path_before), (one, path) in pairwise(shards):
        if one.shard == before.shard:
            raise UserError(f"{path}: is shard {one.shard} of {one.of}, as {path_before} is; give each shard once")
    numbers = {one.shard for one, _ in shards}
    if len(numbers) < first.of:
        missing = next(number for number in count(1) if number not in numbers)
        raise UserError(
            f"{first_path}: is one of {first.of} shards, but only {len(numbers)} are given; give all of them, "
            f"such as shard {missing}"
        )


def _copy(description: _Description, path: Path, stream: BinaryIO) -> None:
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while data := file.read(_BYTES_AT_ONCE):
            digest.update(data)
            stream.write(data)
    if digest.hexdigest() != description.sha256:
        raise UserError(f"{path}: is not the file that {description_of(path).name} describes; {_AGAIN}")
