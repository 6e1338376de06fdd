from __future__ import annotations

import gzip
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE
from phrasescore.scoring.annotate_config import Shard
from phrasescore.table.reader import Chunk, LineChecker, Shape, count_chunks, read_chunks
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_chunks_do_not_divide_the_lines_of_a_source() -> None:
    chunks = list(read_chunks(TABLE, chunk_lines=500))
    assert b"".join(chunk.data for chunk in chunks) == gzip.decompress(TABLE.read_bytes())
    assert [chunk.first_line for chunk in chunks[1:]] == [chunk.first_line + chunk.lines for chunk in chunks[:-1]]
    sources = [[line.split(b" ||| ")[0] for line in chunk.data.splitlines()] for chunk in chunks]
    assert all(before[-1] != after[0] for before, after in pairwise(sources))
    assert all(500 <= chunk.lines < 700 for chunk in chunks[:-1])
    assert any(chunk.lines > 500 for chunk in chunks)
    assert {chunk.shape for chunk in chunks} == {Shape(4, (1, 1))}
    assert chunks[-1].share_read == 1


def test_a_source_with_too_many_lines_is_divided(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"the ||| le ||| 1\n" * 10_000)
    assert [chunk.lines for chunk in read_chunks(path, chunk_lines=100)] == [4196, 4196, 1608]
    path.write_bytes(b"the ||| %b ||| 1\n" % (b"le " * 100_000) * 10)
    assert [chunk.lines for chunk in read_chunks(path, chunk_lines=1)] == [10]


@pytest.mark.parametrize("limit", [1, 5, 12, 13])
def test_a_limit(limit: int) -> None:
    chunks = list(read_chunks(TABLE, limit, chunk_lines=5))
    assert sum(chunk.lines for chunk in chunks) == limit
    whole = list(read_chunks(TABLE, chunk_lines=5))
    assert [chunk.data for chunk in chunks[:-1]] == [chunk.data for chunk in whole[: len(chunks) - 1]]
    shares = [chunk.share_read or 0 for chunk in chunks]
    assert shares == sorted(shares)
    assert chunks[-1].share_read == 1


def test_a_limit_beyond_the_end_of_the_table(tmp_path: Path) -> None:
    """Progress reaches 100% if the limit is beyond the end of the table."""
    path = tmp_path / "table"
    path.write_bytes(b"a ||| b ||| 1\n" * 10)
    assert [chunk.share_read for chunk in read_chunks(path, 40)] == [1]


def test_the_share_of_a_shard_is_that_of_its_own_chunks() -> None:
    chunks = list(Shard(2, 3).take(read_chunks(TABLE, 60, chunk_lines=5), count_chunks(TABLE, 60, 5)))
    assert [chunk.share_read for chunk in chunks] == [(index + 1) / len(chunks) for index in range(len(chunks))]


def test_the_first_good_line_says_how_many_columns_there_are(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"broken\nbroken\na ||| b ||| 1 x\nc ||| d ||| 1 2 3\ne ||| f ||| 1\n")
    chunks = list(read_chunks(path, chunk_lines=2))
    assert [chunk.shape.columns for chunk in chunks] == [None, 3, 3]
    checked = LineChecker(path, keep_faulty=True, shape=chunks[2].shape).check(chunks[2])
    [faulty] = checked.faulty
    assert (faulty.number, faulty.line) == (5, b"e ||| f ||| 1\n")
    with pytest.raises(UserError, match=r"line 5, field 3 .*: has 1 score where the lines before have 3"):
        LineChecker(path, shape=Shape(3)).check(chunks[2])


@given(
    st.lists(st.sampled_from([1, 20, LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE]), max_size=6),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=30)
def test_lines_too_long_for_memory_come_in_chunks(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], chunk_lines: int, has_end: bool
) -> None:
    path = tmp_path_factory.mktemp("long") / "table"
    lines = [b"x" * size + b"\n" for size in sizes]
    path.write_bytes(b"".join(lines) if has_end else b"".join(lines)[:-1])
    chunks = list(read_chunks(path, chunk_lines=chunk_lines))
    assert b"".join(chunk.data for chunk in chunks) == path.read_bytes()
    assert sum(chunk.lines for chunk in chunks) == len(sizes)
    assert all(len(chunk.data) <= (chunk_lines + 1) * LONGEST_LINE for chunk in chunks)
    checked = [LineChecker(path, keep_faulty=True).check(chunk) for chunk in chunks]
    faulty = [line for one in checked for line in one.faulty]
    assert [line.number for line in faulty] == list(range(1, len(sizes) + 1))


@pytest.mark.parametrize("of", [1, 2, 3, 7, 100])
def test_shards_are_the_table(of: int) -> None:
    chunks = list(read_chunks(TABLE, chunk_lines=1500))
    count = count_chunks(TABLE, chunk_lines=1500)
    shards = [list(Shard(number, of).take(chunks, count)) for number in range(1, of + 1)]
    assert [chunk.data for shard in shards for chunk in shard] == [chunk.data for chunk in chunks]
    assert {len(shard) for shard in shards} <= {count // of, count // of + 1}


def test_the_rest_of_a_long_line_stays_with_it() -> None:
    chunks = [Chunk(b"", 1, lines, Shape(1), None) for lines in (5, 0, 0, 5, 0)]
    shards = [[chunk.lines for chunk in Shard(number, 2).take(chunks, 2)] for number in (1, 2)]
    assert shards == [[5, 0, 0], [5, 0]]
