from __future__ import annotations

import bz2
import gzip
import lzma
import sys
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.table.reader import TableReader
from tests.conftest import MINI

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

LINES = gzip.decompress((MINI / "phrase-table.gz").read_bytes())
PART = LINES[: LINES.index(b"\n", len(LINES) // 8) + 1]


def read_back(path: Path, chunk_lines: int = 1000) -> bytes:
    chunks = TableReader(path, chunk_lines=chunk_lines)
    return b"".join(entry.line for chunk in chunks for entry in chunk.entries)


@pytest.mark.parametrize("name", ["table.gz", "table.bz2", "table.zst", "table.xz", "table", "table.txt", "wrong.gz"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, zstd.compress, lzma.compress])
def test_compression_is_detected_by_content(tmp_path: Path, name: str, compress: type[bytes]) -> None:
    path = tmp_path / name
    path.write_bytes(compress(PART))
    assert read_back(path) == PART


def test_chunks_have_the_lines_in_order(mini_table: Path) -> None:
    assert read_back(mini_table, chunk_lines=7) == LINES
    sizes = [len(chunk.lines) for chunk in TableReader(mini_table, chunk_lines=10_000)]
    assert sizes == [10_000, 9_385]


def test_concatenated_gzip_members_are_one_table(tmp_path: Path) -> None:
    path = tmp_path / "two.gz"
    path.write_bytes(gzip.compress(LINES[:1000]) + gzip.compress(LINES[1000:]))
    assert read_back(path) == LINES


def test_limit(mini_table: Path) -> None:
    assert sum(len(chunk.lines) for chunk in TableReader(mini_table, limit=12, chunk_lines=5)) == 12


def test_a_last_line_without_line_feed(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"a ||| b ||| 1\nc ||| d ||| 0.5")
    assert read_back(path) == path.read_bytes()


def test_an_empty_table_has_no_chunks(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert list(TableReader(tmp_path / "empty")) == []


def test_a_fault_names_file_line_field_reason_and_remedy(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"a ||| b ||| 1 1\nc ||| d ||| 0.5 1\ne ||| f ||| 0.5\n")
    with pytest.raises(UserError) as caught:
        list(TableReader(path, chunk_lines=2))
    assert str(caught.value) == (
        f"{path}, line 3, field 3 (scores): has 1 score where the lines before have 2; the table was cut or "
        "mixed with another; rebuild it"
    )


def test_faulty_lines_can_be_kept(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"a ||| b ||| 1 1\nbroken\n ||| d ||| 0.5 1\ne ||| f ||| 0.5 1\n")
    (chunk,) = TableReader(path, keep_faulty=True)
    assert [entry.source for entry in chunk.entries] == [b"a", b"e"]
    assert [line.line for line in chunk.lines[1:3]] == [b"broken\n", b" ||| d ||| 0.5 1\n"]
    assert chunk.faulty == chunk.lines[1:3]


def test_a_kept_fault_has_no_other_lines(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b\n")
    [chunk] = TableReader(tmp_path / "table", keep_faulty=True)
    assert chunk.faulty[0].fault.__traceback__ is None


def test_chunks_are_bounded_by_bytes_too(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes((b"a ||| b ||| 1 ||| " + b"0-0 " * 225_000 + b"\n") * 20)
    assert [len(chunk.lines) for chunk in TableReader(path)] == [11, 9]


LONG = b"a ||| b ||| 1 ||| " + b"0-0 " * 600_000 + b"\n"
"""More than two megabytes."""


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
@pytest.mark.parametrize("long", [LONG, LONG[: 1 << 20], LONG[: 2 << 20], LONG[: (1 << 20) - 1] + b"\n"])
def test_a_line_too_long_for_memory_is_a_fault_and_comes_in_chunks(
    tmp_path: Path, compress: type[bytes], long: bytes
) -> None:
    lines = [b"a ||| b ||| 1\n", long.rstrip(b"\n") + b"\n", b"c ||| d ||| 1\n"]
    (tmp_path / "table").write_bytes(compress(b"".join(lines)))
    with pytest.raises(UserError, match="table, line 2: has 1,048,576 bytes or more; the file is damaged or is no phr"):
        list(TableReader(tmp_path / "table"))
    chunks = list(TableReader(tmp_path / "table", keep_faulty=True))
    assert [entry.source for chunk in chunks for entry in chunk.entries] == [b"a", b"c"]
    assert sum(len(chunk.lines) for chunk in chunks) == 3
    faulty = [(one.number, one.line) for chunk in chunks for one in chunk.faulty]
    assert faulty == [(2, lines[1][: 1 << 20])]
    assert faulty[0][1] + b"".join(chunk.continued for chunk in chunks) == lines[1]
    assert all(len(chunk.continued) <= 1 << 20 for chunk in chunks)


def test_a_last_line_too_long_for_memory(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(LONG[: 2 << 20])
    chunks = list(TableReader(tmp_path / "table", keep_faulty=True))
    assert b"".join([chunks[0].faulty[0].line, *(chunk.continued for chunk in chunks)]) == LONG[: 2 << 20]


@pytest.mark.parametrize("compress", [gzip.compress, zstd.compress, lzma.compress])
@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_damaged_compression_is_one_sentence(tmp_path: Path, compress: type[bytes], damage: str) -> None:
    path = tmp_path / "table.gz"
    data = bytearray(compress(PART))
    if damage == "cut":
        data = data[:-9]
    else:
        data[len(data) // 2] ^= 0x55
    path.write_bytes(data)
    with pytest.raises(UserError) as caught:
        list(TableReader(path, keep_faulty=True))
    assert str(path) in str(caught.value)
    assert "truncated or corrupt" in str(caught.value)


def test_a_wrong_checksum_is_found(tmp_path: Path) -> None:
    path = tmp_path / "table.gz"
    data = bytearray(gzip.compress(LINES))
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(UserError, match="truncated or corrupt"):
        list(TableReader(path))


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="No such file"):
        list(TableReader(tmp_path / "nowhere.gz"))


def test_a_folder_is_not_a_table(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="directory"):
        list(TableReader(tmp_path))


def test_a_fault_of_the_whole_line_names_no_field(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a\0b\n")
    with pytest.raises(UserError, match=r"table, line 1: holds a NUL byte"):
        list(TableReader(tmp_path / "table"))
