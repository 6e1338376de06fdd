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
from phrasescore.table.reader import Block, LineChecker, Shape, count_blocks, read_blocks
from tests.conftest import MINI

TABLE = MINI / "phrase-table.gz"


def test_blocks_do_not_divide_the_lines_of_a_source() -> None:
    blocks = list(read_blocks(TABLE, block_lines=500))
    assert b"".join(block.data for block in blocks) == gzip.decompress(TABLE.read_bytes())
    assert [block.first_line for block in blocks[1:]] == [block.first_line + block.lines for block in blocks[:-1]]
    sources = [[line.split(b" ||| ")[0] for line in block.data.splitlines()] for block in blocks]
    assert all(before[-1] != after[0] for before, after in pairwise(sources))
    assert all(500 <= block.lines < 700 for block in blocks[:-1])
    assert any(block.lines > 500 for block in blocks)
    assert {block.shape for block in blocks} == {Shape(4, (1, 1))}
    assert blocks[-1].share_read == 1


def test_a_source_with_too_many_lines_is_divided(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"the ||| le ||| 1\n" * 10_000)
    assert [block.lines for block in read_blocks(path, block_lines=100)] == [4196, 4196, 1608]
    path.write_bytes(b"the ||| %b ||| 1\n" % (b"le " * 100_000) * 10)
    assert [block.lines for block in read_blocks(path, block_lines=1)] == [10]


@pytest.mark.parametrize("limit", [1, 5, 12, 13])
def test_a_limit(limit: int) -> None:
    blocks = list(read_blocks(TABLE, limit, block_lines=5))
    assert sum(block.lines for block in blocks) == limit
    whole = list(read_blocks(TABLE, block_lines=5))
    assert [block.data for block in blocks[:-1]] == [block.data for block in whole[: len(blocks) - 1]]
    shares = [block.share_read or 0 for block in blocks]
    assert shares == sorted(shares)
    assert blocks[-1].share_read == 1


def test_a_limit_beyond_the_end_of_the_table(tmp_path: Path) -> None:
    """Progress reaches 100% if the limit is beyond the end of the table."""
    path = tmp_path / "table"
    path.write_bytes(b"a ||| b ||| 1\n" * 10)
    assert [block.share_read for block in read_blocks(path, 40)] == [1]


def test_the_share_of_a_shard_is_that_of_its_own_blocks() -> None:
    blocks = list(Shard(2, 3).take(read_blocks(TABLE, 60, block_lines=5), count_blocks(TABLE, 60, 5)))
    assert [block.share_read for block in blocks] == [(index + 1) / len(blocks) for index in range(len(blocks))]


def test_the_first_good_line_says_how_many_columns_there_are(tmp_path: Path) -> None:
    path = tmp_path / "table"
    path.write_bytes(b"broken\nbroken\na ||| b ||| 1 x\nc ||| d ||| 1 2 3\ne ||| f ||| 1\n")
    blocks = list(read_blocks(path, block_lines=2))
    assert [block.shape.columns for block in blocks] == [None, 3, 3]
    chunk = LineChecker(path, keep_faulty=True, shape=blocks[2].shape).check(blocks[2])
    [faulty] = chunk.faulty
    assert (faulty.number, faulty.line) == (5, b"e ||| f ||| 1\n")
    with pytest.raises(UserError, match=r"line 5, field 3 .*: has 1 score where the lines before have 3"):
        LineChecker(path, shape=Shape(3)).check(blocks[2])


@given(
    st.lists(st.sampled_from([1, 20, LONGEST_LINE - 1, LONGEST_LINE, LONGEST_LINE + 1, 3 * LONGEST_LINE]), max_size=6),
    st.integers(1, 4),
    st.booleans(),
)
@settings(max_examples=30)
def test_lines_too_long_for_memory_come_in_chunks(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], block_lines: int, has_end: bool
) -> None:
    path = tmp_path_factory.mktemp("long") / "table"
    lines = [b"x" * size + b"\n" for size in sizes]
    path.write_bytes(b"".join(lines) if has_end else b"".join(lines)[:-1])
    blocks = list(read_blocks(path, block_lines=block_lines))
    assert b"".join(block.data for block in blocks) == path.read_bytes()
    assert sum(block.lines for block in blocks) == len(sizes)
    assert all(len(block.data) <= (block_lines + 1) * LONGEST_LINE for block in blocks)
    chunks = [LineChecker(path, keep_faulty=True).check(block) for block in blocks]
    faulty = [line for chunk in chunks for line in chunk.faulty]
    assert [line.number for line in faulty] == list(range(1, len(sizes) + 1))


@pytest.mark.parametrize("of", [1, 2, 3, 7, 100])
def test_shards_are_the_table(of: int) -> None:
    blocks = list(read_blocks(TABLE, block_lines=1500))
    count = count_blocks(TABLE, block_lines=1500)
    shards = [list(Shard(number, of).take(blocks, count)) for number in range(1, of + 1)]
    assert [block.data for shard in shards for block in shard] == [block.data for block in blocks]
    assert {len(shard) for shard in shards} <= {count // of, count // of + 1}


def test_the_rest_of_a_long_line_stays_with_it() -> None:
    blocks = [Block(b"", 1, lines, Shape(1), None) for lines in (5, 0, 0, 5, 0)]
    shards = [[block.lines for block in Shard(number, 2).take(blocks, 2)] for number in (1, 2)]
    assert shards == [[5, 0, 0], [5, 0]]
