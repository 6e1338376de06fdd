from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files import (
    LONGEST_LINE,
    compress,
    make_folder,
    open_input,
    read_bytes,
    read_lines,
    read_regular,
    require_folder,
    sha256_of,
    sha256_of_input,
)


@pytest.mark.parametrize("text", [b"BZhang sleeps .\n", b"BZh9 is a level .\n", b"BZ"])
def test_a_text_that_begins_like_bzip2(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "text").write_bytes(text)
    assert b"".join(read_lines(tmp_path / "text")).rstrip(b"\n") == text.rstrip(b"\n")


@pytest.mark.parametrize("data", [b"", b"a ||| b\n"])
def test_an_empty_bzip2_file_and_one_with_text(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "text").write_bytes(bz2.compress(data))
    assert b"".join(read_lines(tmp_path / "text")).rstrip(b"\n") == data.rstrip(b"\n")


@pytest.mark.parametrize("read", [read_bytes, lambda path: b"".join(line + b"\n" for line in read_lines(path))])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_standard_input_that_does_not_wait_is_waited_for(
    compress: Callable[[bytes], bytes], read: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading waits for standard input in non-blocking mode.

    Another process that shares the stream may have set this mode; missing data is not the end of the input.
    """
    data = compress(b"BZh\n" * 9)
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    monkeypatch.setattr("phrasescore.files.reading.STDIN", reading)

    def write() -> None:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            for part in (data[:20], data[20:]):
                time.sleep(0.1)
                pipe.write(part)

    writer = threading.Thread(target=write)
    writer.start()
    assert read("-") == b"BZh\n" * 9
    writer.join()
    os.close(reading)


@pytest.mark.parametrize("line", [b"B\n", b"BZh\n"])
def test_a_typed_line_is_read_before_the_next_one(line: bytes) -> None:
    reading, writing = os.pipe()
    os.write(writing, line)
    with open_input(f"/dev/fd/{reading}") as source:
        assert source.stream.readline() == line
        os.close(writing)
    os.close(reading)


@pytest.mark.parametrize("compression", ["gz", "zst", "xz", "bz2"])
def test_bytes_after_a_gzip_member_are_a_member_or_an_error(tmp_path: Path, compression: str) -> None:
    path, texts = tmp_path / "text", [b"first\n" * 4000, b"", b"last\n"]
    *before, last = (compress([text], compression) for text in texts)
    whole = b"".join(before)
    path.write_bytes(whole + last)
    assert read_bytes(path) == b"".join(texts)
    flipped = [last[:place] + bytes([last[place] ^ 1]) + last[place + 1 :] for place in (0, 1, 2)]
    for end in [
        *flipped,
        last[:1],
        last[:-1],
        b"garbage",
        bytes(len(last) | 1),
        bytes(5 << 12) + b"x",
        last + bytes(10),
    ]:
        path.write_bytes(whole + end)
        with pytest.raises(UserError, match=f"^{path}: the compressed data is truncated or corrupt"):
            # Line by line, as a table is read.
            list(read_lines(path))


@pytest.mark.parametrize("kind", [0x50, 0x5F])
def test_zstandard_may_begin_and_go_on_with_frames_without_content(tmp_path: Path, kind: int) -> None:
    empty = bytes([kind]) + b"*M\x18" + b"\4\0\0\0" + b"size"
    (tmp_path / "text").write_bytes((empty + compress([b"text\n"], "zst")) * 2 + empty)
    assert read_bytes(tmp_path / "text") == b"text\n" * 2


def test_the_hash_is_that_of_the_stored_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    # NIST's example, FIPS 180-2.
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    with pytest.raises(
        UserError, match=r"b: cannot be read \(No such file or directory\); check the path and its rights"
    ):
        sha256_of(tmp_path / "b")


def test_a_line_without_end_does_not_fill_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress(b"a\n" + b" " * LONGEST_LINE + b"\n"))
    lines = read_lines(path)
    assert next(lines) == b"a"
    with pytest.raises(UserError, match=rf"^{path}: line 2: is longer than 1,048,576 bytes; check that it is the file"):
        next(lines)
    path.write_bytes(b" " * (LONGEST_LINE - 1) + b"\n")
    assert list(read_lines(path)) == [b" " * (LONGEST_LINE - 1)]


def test_of_an_empty_file_no_share_is_read(tmp_path: Path) -> None:
    (tmp_path / "text").touch()
    with open_input(tmp_path / "text") as source:
        assert source.share_read() is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs a file that does not say its size")
def test_a_file_that_has_more_than_it_says_is_too_large() -> None:
    with pytest.raises(UserError, match="/proc/self/status: is larger than 10 bytes"):
        read_regular(Path("/proc/self/status"), 10)


def test_a_pipe_has_no_hash(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert sha256_of_input(tmp_path / "pipe") is None
    assert sha256_of_input("-") is None


def test_a_folder_is_made_with_those_it_lies_in(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
    require_folder(tmp_path / "a/b")


def test_a_missing_folder_is_created(tmp_path: Path) -> None:
    require_folder(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    for folder, message in ((path, "is a file; give the name of a folder"), (path / "a", "cannot be made (Not a dir")):
        with pytest.raises(UserError, match=f"^{re.escape(f'{folder}: {message}')}"):
            make_folder(folder)
    with pytest.raises(UserError, match="is a file; give the name of a folder"):
        require_folder(path)
    assert path.read_text() == "precious"


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_pipe_that_delivers_its_first_byte_alone(compress: Callable[[bytes], bytes]) -> None:
    data = compress(b"BZh\n")
    reading, writing = os.pipe()
    os.write(writing, data[:1])

    def write_rest() -> None:
        time.sleep(0.2)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data[1:])

    writer = threading.Thread(target=write_rest)
    writer.start()
    assert list(read_lines(f"/dev/fd/{reading}")) == [b"BZh"]
    writer.join()
    os.close(reading)
