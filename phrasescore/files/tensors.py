"""Tensors and facts about them in one safetensors file, which carries its own digest.

The header begins with `{"__metadata__":{"sha256":"DIGEST","facts":"JSON"}`. The digest is the SHA-256 of every byte of
the file except the beginning up to and including the digest itself; the facts follow it. So any changed bit is
detected, and equal tensors with equal facts give identical files.

The header of an untrusted file is validated before memory for its tensors is allocated.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from phrasescore.errors import UserError
from phrasescore.files import open_output, open_regular
from phrasescore.files.documents import parse_json

_LENGTH = struct.Struct("<Q")
"""The first bytes of a file: the length of the header."""
_MOST_HEADER, _MOST_BYTES, _MOST_DIMENSIONS = 1 << 22, 1 << 35, 8
_METADATA = "__metadata__"
_START = b'{"__metadata__":{"sha256":"'
_DIGITS = 64
_CHUNK = 1 << 20
_ITEM_SIZES = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}

Shapes = Mapping[str, tuple[int, ...]]
"""The shape of each tensor by its name."""


class DamagedError(Exception):
    """The bytes of a file differ from those that were written."""


@dataclass(frozen=True)
class TensorFile:
    """An open file whose digest, if it has one, was verified; tensors are read on demand."""

    shapes: Shapes
    has_digest: bool
    facts: dict[str, Any]
    """The facts written with the tensors; empty in a file without a digest."""
    metadata: dict[str, str]
    """Other metadata, as strings."""
    sha256: str
    """SHA-256 of the whole file."""
    _stream: BinaryIO

    def read(self) -> dict[str, Tensor]:
        """Return the tensors.

        Raises:
            DamagedError: they do not match the header.
        """
        self._stream.seek(0)
        try:
            return load(self._stream.read())
        except SafetensorError as error:
            raise DamagedError from error


def write_tensors(path: Path, tensors: Mapping[str, Tensor], facts: dict[str, Any]) -> None:
    """Write tensors, and facts that JSON can represent, atomically."""
    content = memoryview(save({name: tensor.contiguous() for name, tensor in tensors.items()}))
    end = _LENGTH.size + _LENGTH.unpack(content[: _LENGTH.size])[0]
    metadata = {"sha256": "0" * _DIGITS, "facts": json.dumps(facts)}
    header = _to_json({_METADATA: metadata, **json.loads(bytes(content[_LENGTH.size : end]))})
    # As safetensors does: 64-bit numbers are aligned to 8 bytes.
    header += b" " * (-len(header) % _LENGTH.size)
    length, rest = _LENGTH.pack(len(header)), header[len(_START) + _DIGITS :]
    digest = hashlib.sha256(length + rest)
    digest.update(content[end:])
    with open_output(path) as stream:
        stream.write(length + _START + digest.hexdigest().encode() + rest)
        stream.write(content[end:])


def _to_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


@contextmanager
def open_tensors(path: Path) -> Iterator[TensorFile]:
    """Open a file and verify its size and its digest.

    Raises:
        UserError: it cannot be read, or is not a regular file.
        DamagedError: its content has changed since it was written.
    """
    with open_regular(path) as stream:
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(_LENGTH.size)
        length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else size
        if size > _MOST_BYTES or length > min(size - _LENGTH.size, _MOST_HEADER):
            raise DamagedError
        header = stream.read(length)
        metadata, tensors = _parse(header)
        data = sum(tensor.size for tensor in tensors.values())
        if size != _LENGTH.size + length + data:
            raise DamagedError
        has_digest = header.startswith(_START)
        # Facts come with a digest; facts without a digest mean that the key of the digest is damaged.
        if has_digest != ("facts" in metadata):
            raise DamagedError
        whole = hashlib.sha256(start + header)
        digest = hashlib.sha256(start + header[len(_START) + _DIGITS :])
        while chunk := stream.read(_CHUNK):
            whole.update(chunk)
            if has_digest:
                digest.update(chunk)
        if has_digest and metadata["sha256"] != digest.hexdigest():
            raise DamagedError
        shapes = {name: tensor.shape for name, tensor in tensors.items()}
        facts = _object(metadata.pop("facts")) if has_digest else {}
        yield TensorFile(shapes, has_digest, facts, metadata, whole.hexdigest(), stream)


@dataclass(frozen=True)
class _Described:
    """A tensor as the header describes it."""

    kind: Any
    shape: tuple[Any, ...]

    @property
    def is_possible(self) -> bool:
        """Return whether the type is known, and the shape is valid and small enough for a file."""
        is_shape = len(self.shape) <= _MOST_DIMENSIONS and all(isinstance(n, int) for n in self.shape)
        is_kind = isinstance(self.kind, str) and self.kind in _ITEM_SIZES
        return is_kind and is_shape and all(0 <= n <= _MOST_BYTES for n in self.shape)

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return int(math.prod(self.shape)) * _ITEM_SIZES[self.kind]


def _parse(header: bytes) -> tuple[dict[str, str], dict[str, _Described]]:
    """Parse a header into the metadata, and the tensors by name."""
    values = _object(header)
    try:
        metadata = dict(values.pop(_METADATA, {}))
        tensors = {name: _Described(value["dtype"], tuple(value["shape"])) for name, value in values.items()}
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedError from error
    if not all(isinstance(text, str) for text in metadata.values()):
        raise DamagedError
    if not all(tensor.is_possible for tensor in tensors.values()):
        raise DamagedError
    return metadata, tensors


def _object(text: str | bytes) -> dict[str, Any]:
    try:
        return parse_json(text, "", "")
    except UserError as error:
        raise DamagedError from error
