from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files.documents import (
    DEEPEST,
    LARGEST_JSON,
    LARGEST_TOML,
    parse_json,
    parse_toml,
    read_json,
    read_json_lines,
    read_toml,
)
from phrasescore.files.tensors import open_tensors
from phrasescore.model_files import CONFIG, SOURCE_VOCABULARY, WEIGHTS
from phrasescore.model_folder import load_model
from tests.conftest import DATA


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b'{"a": ' + b"[" * 100_000, "nests more than 100 levels deep"),
        (b'{"a":' * 100_000, "nests more than 100 levels deep"),
        (b'{"a": ' + b"[" * DEEPEST + b"]" * DEEPEST + b"}", "nests more than 100 levels deep"),
        (b'{"a": ' + b"9" * 400 + b"}", "has a whole number of more than 64 bits"),
        (b'{"a": 1, "a": 2}', r"is not JSON \(a key occurs twice in one object\)"),
        (b'{"a": -' + b"9" * 5000 + b"}", "has a whole number of more than 64 bits"),
        (b'{"a": [1e400]}', "has a number that is not finite"),
        (b'{"a": {"b": NaN}}', "has a number that is not finite"),
        (b'{"a": -Infinity}', "has a number that is not finite"),
        (b'{"a": ["x\\ud800"]}', "has a string with a NUL or half of a surrogate pair"),
        (b'{"x\\udfff": 1}', "has a string with a NUL or half of a surrogate pair"),
        (b'{"a": "\\u0000"}', "has a string with a NUL or half of a surrogate pair"),
        (b"[]", "is no object of JSON"),
        (b"", r"is not JSON \(Expecting value"),
        ('{"a": 1}'.encode("utf-16"), r"is not JSON \('utf-8' codec can't decode byte 0xff in position 0"),
        (b'\xef\xbb\xbf{"a": 1}', r"is not JSON \(Unexpected UTF-8 BOM"),
    ],
)
def test_json_that_is_rejected(content: bytes, fault: str) -> None:
    with pytest.raises(UserError, match=rf"^here: {fault}.*; copy it again$"):
        parse_json(content, "here", "copy it again")


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"a = " + b"[" * 100_000, "nests more than 100 levels deep"),
        (b"a = " + b"{a=" * 100_000, "nests more than 100 levels deep"),
        (b"a = " + b"[" * DEEPEST + b"]" * DEEPEST, "nests more than 100 levels deep"),
        (b"a = " + b"9" * 400, "has a whole number of more than 64 bits"),
        (b"a = " + b"9" * 5000, "has a whole number of more than 64 bits"),
        (b"a = 1e400", "has a number that is not finite"),
        (b"a = nan", "has a number that is not finite"),
        (b'a = "\\u0000"', "has a string with a NUL or half of a surrogate pair"),
        (b"a = 1\na = 2", r"is not TOML \(Cannot overwrite a value"),
        (b"a = \xff", r"is not TOML \('utf-8' codec can't decode"),
    ],
)
def test_toml_that_is_rejected(content: bytes, fault: str) -> None:
    with pytest.raises(UserError, match=rf"^here: {fault}.*; fix it$"):
        parse_toml(content, "here")


def test_input_within_the_bounds_is_read() -> None:
    text = (
        '{"whole": [-9223372036854775808, 18446744073709551615], "deep": ' + "[" * (DEEPEST - 1) + "]" * (DEEPEST - 1)
    )
    assert parse_json(f"{text}}}".encode(), "here", "fix it")["whole"] == [-(2**63), 2**64 - 1]
    assert parse_toml(b"[a]\nb = 0.5", "here") == {"a": {"b": 0.5}}
    # A character beyond 16 bits, and a file name with a byte that is not UTF-8.
    assert parse_json(rb'{"a": ["\ud83d\ude00", "\udcff"]}', "here", "fix it") == {"a": ["\U0001f600", "\udcff"]}


def test_only_regular_files_of_a_bounded_size_are_documents(tmp_path: Path) -> None:
    pipe, huge, link, file = (tmp_path / name for name in ("pipe", "huge", "link", "file"))
    os.mkfifo(pipe)
    for path in (pipe, tmp_path, Path("/dev/zero")):
        with pytest.raises(UserError, match=rf"^{path}: is a pipe, a device or a folder; give a file$"):
            read_json(path, "copy it again")
    # A sparse file takes no disk space.
    with huge.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(UserError, match=rf"^{huge}: is larger than {LARGEST_JSON:,} bytes; check that it is the file"):
        read_json(huge, "copy it again")
    with pytest.raises(UserError, match=rf"^{huge}: is larger than {LARGEST_TOML:,} bytes; check that it is the file"):
        read_toml(huge)
    file.write_text(json.dumps({"a": 1}))
    link.symlink_to(file)
    assert read_json(link, "copy it again") == {"a": 1}


def test_lines_of_json(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a": ')
    assert read_json_lines(path, "remove it") == [{"a": 1}, {"a": 2}]
    path.write_bytes(b'{"a": 1}\n\n')
    with pytest.raises(UserError, match=rf"^{path}: line 2: is not JSON .*; remove it$"):
        read_json_lines(path, "remove it")


@pytest.mark.parametrize("name", [CONFIG, SOURCE_VOCABULARY, WEIGHTS])
def test_an_untrusted_model_folder_neither_hangs_nor_fills_the_memory(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "model"
    shutil.copytree(DATA / "stored-model", folder)
    path = folder / name
    path.unlink()
    os.mkfifo(path)
    with pytest.raises(UserError, match=rf"{name}: is a pipe, a device or a folder; give a file$"):
        load_model(folder)
    path.unlink()
    with path.open("wb") as stream:
        stream.truncate(1 << 40)
    # Weights files declare their own size.
    fault = r"is damaged; copy" if name == WEIGHTS else r"is larger than [\d,]+ bytes; check that it is the file meant$"
    with pytest.raises(UserError, match=f"{name}: {fault}"):
        load_model(folder)


def test_a_description_is_not_decompressed(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(DATA / "stored-model", folder)
    (folder / CONFIG).write_bytes(gzip.compress((folder / CONFIG).read_bytes()))
    with pytest.raises(UserError, match=rf"{CONFIG}: is not JSON \(.*\); copy the model folder again$"):
        load_model(folder)


def test_a_checkpoint_is_a_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "checkpoint")
    with (
        pytest.raises(UserError, match="checkpoint: is a pipe, a device or a folder; give a file"),
        open_tensors(tmp_path / "checkpoint"),
    ):
        pass


def test_a_key_with_many_dots_is_an_error() -> None:
    """Otherwise tomllib would take minutes."""
    with pytest.raises(UserError, match=r"^here: has a line with more than 100 dots; fix it$"):
        parse_toml(b".".join([b"a"] * 500_000) + b" = 1", "here")
