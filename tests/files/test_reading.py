from __future__ import annotations

import bz2
import gzip
import lzma
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files import open_input, read_lines, sha256_of


@pytest.mark.parametrize("text", [b"BZhang sleeps .\n", b"BZh9 is a level .\n", b"BZ"])
def test_a_text_that_begins_like_bzip2(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "text").write_bytes(text)
    assert b"".join(read_lines(tmp_path / "text")).rstrip(b"\n") == text.rstrip(b"\n")


@pytest.mark.parametrize("data", [b"", b"a ||| b\n"])
def test_an_empty_bzip2_file_and_one_with_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "text").write_bytes(bz2.compress(data))
    assert b"".join(read_lines(tmp_path / "text")).rstrip(b"\n") == data.rstrip(b"\n")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_pipe_that_hands_over_its_first_byte_alone(compress: Callable[[bytes], bytes]) -> None:
    data = compress(b"BZh\n")
    reading, writing = os.pipe()
    os.write(writing, data[:1])

    def go_on() -> None:
        time.sleep(0.2)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data[1:])

    writer = threading.Thread(target=go_on)
    writer.start()
    assert list(read_lines(f"/dev/fd/{reading}")) == [b"BZh"]
    writer.join()
    os.close(reading)


def test_a_typed_line_is_read_before_the_next_one() -> None:
    reading, writing = os.pipe()
    os.write(writing, b"B\n")
    with open_input(f"/dev/fd/{reading}") as source:
        assert source.stream.readline() == b"B\n"
        os.close(writing)
    os.close(reading)


def test_the_hash_is_that_of_the_file_as_it_lies(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # NIST's example, FIPS 180-2.
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(
        UserError, match=r"b: cannot be read \(No such file or directory\); check the path and its rights"
    ):
        sha256_of(tmp_path / "b")
