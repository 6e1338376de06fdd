"""Look-up of a phrase in a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.analysis.candidates import Candidate, look_up
from phrasescore.errors import UserError
from phrasescore.table.reader import TableReader

LINES = b"""\
a b ||| x ||| 0.5 1 0.25 1 ||| 0-0 ||| 2 4 1
a b ||| y z ||| 1 1 0.75 1 ||| 0-0 ||| 3 4 3
c ||| x ||| 0.5 1 1 1 ||| 0-0 ||| 2 1 1
d ||| w ||| 1 1 1 1 ||| 0-0 ||| 9 9 9
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table").write_bytes(LINES)
    return tmp_path / "table"


def test_a_phrase_and_the_most_frequent_others(table: Path) -> None:
    candidates, others = look_up(TableReader(table), "target-given-source", b"a b", 10)
    assert candidates == [Candidate(b"x", 0.25), Candidate(b"y z", 0.75)]
    assert others == [b"d", b"c"]
    assert look_up(TableReader(table), "target-given-source", b"nowhere", 1) == ([], [b"d"])


def test_a_phrase_in_the_other_direction(table: Path) -> None:
    candidates, others = look_up(TableReader(table), "source-given-target", b"x", 10)
    assert candidates == [Candidate(b"a b", 0.5), Candidate(b"c", 0.5)]
    assert others == [b"w", b"y z"]


def test_repeated_inputs_count_once(tmp_path: Path) -> None:
    """Repeated inputs count once.

    The test uses targets as inputs, because a table is sorted by source.
    """
    lines = [f"s{i} ||| t{j} ||| 1 1 1 1 ||| 0-0 ||| {j + 1} 9 1\n" for i in range(9) for j in range(20)]
    (tmp_path / "table").write_text("".join(lines))
    _, others = look_up(TableReader(tmp_path / "table"), "source-given-target", b"nothing", 15)
    assert others == [f"t{j}".encode() for j in range(19, 4, -1)]


def test_a_table_without_counts(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 1 1 0.5 1\nb ||| y ||| 1 1 1 1\nb ||| z ||| 1 1 1 1\n")
    assert look_up(TableReader(tmp_path / "table"), "target-given-source", b"a", 5)[1] == [b"b"]


def test_counts_that_are_not_numbers_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(
        b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| n/a n/a 1\nb ||| y ||| 1 1 1 1 ||| 0-0 ||| 1 2 1\n"
    )
    assert look_up(TableReader(tmp_path / "table"), "target-given-source", b"c", 5)[1] == [b"b", b"a"]


@pytest.mark.parametrize("score", ["7", "0"])
def test_a_score_that_is_not_a_probability(score: str, tmp_path: Path) -> None:
    """A score above 1 is an error, as in a table whose columns are not those of Moses."""
    (tmp_path / "table").write_text(f"a ||| x ||| 1 1 {score} 1\n")
    with pytest.raises(UserError, match=rf"table: score 3 of `a \|\|\| x` is {score}, which is no probability; give"):
        look_up(TableReader(tmp_path / "table"), "target-given-source", b"a", 5)
