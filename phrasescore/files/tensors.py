"""Tensors and facts about them in one safetensors file, which carries its own digest.

The metadata of the file has one key, `facts`: a JSON object whose `sha256` is the SHA-256 of the file with zeros in
place of this digest. So any changed bit is detected, and equal tensors with equal facts give identical files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from phrasescore.errors import UserError
from phrasescore.files.documents import parse_json
from phrasescore.files.reading import open_regular
from phrasescore.files.writing import open_output

_NO_DIGEST = "0" * 64
_LENGTH = 8
"""The first bytes of a file are the length of the header, in little-endian order."""
_BYTES_AT_ONCE = 1 << 20

Shapes = Mapping[str, tuple[int, ...]]


class DamagedError(Exception):
    """The bytes of a file differ from those that were written."""


@dataclass(frozen=True)
class TensorFile:
    """An open file whose digest was verified; tensors are read on demand."""

    facts: dict[str, Any]
    sha256: str
    shapes: Shapes
    _file: Any

    def read(self) -> dict[str, Tensor]:
        return {name: self._file.get_tensor(name) for name in self.shapes}


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Write tensors, and facts that JSON can represent, atomically."""
    metadata = {"facts": json.dumps({"sha256": _NO_DIGEST, **facts})}
    content = memoryview(save({name: tensor.contiguous() for name, tensor in tensors.items()}, metadata))
    header, data = bytes(content[: _header_end(content)]), content[_header_end(content) :]
    digest = hashlib.sha256(header)
    digest.update(data)
    with open_output(path) as stream:
        stream.write(header.replace(_NO_DIGEST.encode(), digest.hexdigest().encode(), 1))
        stream.write(data)


def _header_end(content: memoryview) -> int:
    return _LENGTH + int.from_bytes(content[:_LENGTH], "little")


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """Open a file and verify its digest; content that has changed since it was written is a DamagedError."""
    with open_regular(path) as stream:
        try:
            # This validates the header and compares it with the size of the file.
            # safetensors takes only paths in UTF-8.
            with safe_open(f"/dev/fd/{stream.fileno()}", "pt") as file:
                facts = _facts(file.metadata())
                digest, whole = _digests(stream, facts["sha256"])
                if digest != facts.pop("sha256"):
                    raise DamagedError
                shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
                yield TensorFile(facts, whole, shapes, file)
        except SafetensorError as error:
            raise DamagedError from error


def _facts(metadata: Mapping[str, str] | None) -> dict[str, Any]:
    try:
        facts = parse_json((metadata or {})["facts"].encode(), "", "")
    except (KeyError, ValueError, UserError) as error:
        raise DamagedError from error
    if not isinstance(facts.get("sha256"), str):
        raise DamagedError
    return facts


def _digests(stream: BinaryIO, stated: str) -> tuple[str, str]:
    """Return the SHA-256 of a file with zeros in place of the stated digest, and that of the whole file."""
    start = stream.read(_LENGTH)
    header = start + stream.read(int.from_bytes(start, "little"))
    digest, whole = hashlib.sha256(header.replace(stated.encode(), _NO_DIGEST.encode(), 1)), hashlib.sha256(header)
    while chunk := stream.read(_BYTES_AT_ONCE):
        digest.update(chunk)
        whole.update(chunk)
    return digest.hexdigest(), whole.hexdigest()
