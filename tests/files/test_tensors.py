from __future__ import annotations

import json
import os
import struct
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from phrasescore.errors import UserError
from phrasescore.files.tensors import DamagedError, TensorFile, open_tensors, write_tensors

TENSORS = {
    "b": torch.tensor([1.0, -2.5, 3.25]),
    "a.weight": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "step": torch.tensor(7),
}
FACTS = {"run": {"seed": 1, "name": "a ü"}, "loss": 0.5}


def opened(path: Path) -> tuple[TensorFile, dict[str, torch.Tensor]]:
    with open_tensors(path) as file:
        return file, file.read()


def assert_same(found: dict[str, torch.Tensor]) -> None:
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.parametrize("name", [b"file.safetensors", b"no utf-8 \xff"])
def test_written_files_are_read(tmp_path: Path, name: bytes) -> None:
    path = tmp_path / os.fsdecode(name)
    write_tensors(path, TENSORS, FACTS)
    file, tensors = opened(path)
    assert_same(tensors)
    assert file.facts == FACTS
    assert file.shapes == {"b": (3,), "a.weight": (2, 3), "step": ()}
    assert file.sha256 == sha256(path.read_bytes()).hexdigest()


def test_it_is_a_file_of_safetensors(tmp_path: Path) -> None:
    """A tensor file is a valid safetensors file whose arrays are aligned for memory mapping."""
    path = tmp_path / "file.safetensors"
    write_tensors(path, TENSORS, FACTS)
    assert_same(load_file(path))
    with safe_open(path, "pt") as stream:
        assert json.loads(stream.metadata()["facts"]).items() >= FACTS.items()
    assert struct.unpack("<Q", path.read_bytes()[:8])[0] % 8 == 0


def test_equal_tensors_and_facts_are_equal_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_tensors(tmp_path / name, {key: tensor.clone() for key, tensor in TENSORS.items()}, FACTS)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_every_bit_that_changes_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, TENSORS, FACTS)
    content = path.read_bytes()
    for place in range(len(content)):
        for bit in (1, 8, 64, 128):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            with pytest.raises(DamagedError):
                opened(path)


def test_a_part_of_a_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_tensors(path, TENSORS, FACTS)
    content = path.read_bytes()
    for part in (*(content[:length] for length in range(0, len(content), 7)), content + b"\0"):
        path.write_bytes(part)
        with pytest.raises(DamagedError):
            opened(path)


def test_files_without_a_digest_are_damaged(tmp_path: Path) -> None:
    for metadata in (None, {"progress": "{}"}, {"facts": "[]"}, {"facts": "{}"}, {"facts": '{"sha256": 5}'}):
        save_file(TENSORS, tmp_path / "file", metadata)
        with pytest.raises(DamagedError):
            opened(tmp_path / "file")


def test_facts_that_json_cannot_hold(tmp_path: Path) -> None:
    """Invalid facts are an error, even with a correct digest."""
    write_tensors(tmp_path / "file", TENSORS, {"a": 10**30})
    with pytest.raises(DamagedError):
        opened(tmp_path / "file")


NUMBERS = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        {"a": 5},
        {"a": {**NUMBERS, "dtype": "F99"}},
        {"a": {**NUMBERS, "dtype": ["F32"]}},
        {"a": {**NUMBERS, "shape": [3]}},
        {"a": {**NUMBERS, "shape": [-1, -2]}},
        {"a": {**NUMBERS, "shape": [2.0]}},
        {"a": {**NUMBERS, "shape": [1 << 400, 0]}},
        {"a": {**NUMBERS, "shape": [1] * 99 + [2]}},
        {"a": {**NUMBERS, "data_offsets": [0, 4]}},
        {"a": NUMBERS, "__metadata__": 5},
        {"a": NUMBERS, "__metadata__": {"key": 5}},
        {"a": NUMBERS, "__metadata__": {"facts": "{}"}},
    ],
)
def test_a_header_that_lies(tmp_path: Path, header: bytes | dict[str, Any]) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    (tmp_path / "file").write_bytes(struct.pack("<Q", len(text)) + text + bytes(8))
    with pytest.raises(DamagedError):
        opened(tmp_path / "file")


def test_large_files_are_not_read(tmp_path: Path) -> None:
    """Oversized files are rejected without reading them.

    Sparse files take no disk space: one is larger than its header states, one has a giant header.
    """
    path = tmp_path / "file"
    write_tensors(path, TENSORS, FACTS)
    for start in (path.read_bytes(), struct.pack("<Q", 1 << 33)):
        path.write_bytes(start)
        os.truncate(path, 1 << 34)
        with pytest.raises(DamagedError):
            opened(path)


def test_only_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(UserError, match=f"^{path}: is a pipe, a device or a folder"):
            opened(path)
