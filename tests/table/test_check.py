from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest

from phrasescore.table.check import check_table
from tests.conftest import MINI


def check_lines(path: Path, *lines: bytes, columns: int | None = None) -> list[str]:
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return list(check_table(path, columns=columns).problems)


def test_a_table_that_moses_wrote_has_no_problems() -> None:
    report = check_table(MINI / "phrase-table.gz", columns=4)
    assert not report.problems
    assert not report.notes
    assert report.lines == 19_385
    assert report.distinct_sources == 17_405
    assert report.fields == {6: 19_385}
    assert len(report.columns) == 4
    assert report.columns[0].largest == 1
    assert max(report.source_lengths) == max(report.target_lengths) == 7


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (b"a ||| b ||| -4.5 ||| 0-0", "below 0"),
        (b"a ||| b ||| nan ||| 0-0", "cannot read as a number"),
        (b"a ||| b ||| inf ||| 0-0", "infinity"),
        (b"a ||| b ||| Infinity ||| 0-0", "cannot read as a number"),
        (b"a ||| b ||| 1_0 ||| 0-0", "cannot read as a number"),
        (b"a ||| b ||| 0.5 ||| 0-" + 5_000 * b"1", "is not a list of `source-target` positions"),
        (b"a ||| b ||| 0.5 1 ||| 0-0", "2 scores where num-features promises 1"),
        (b"a ||| b ||| 0.5 ||| 0-1", "points outside"),
        (b"a ||| b ||| 0.5 ||| 0:0", "not a list of `source-target`"),
        (b"a ||| b ||| 0.5 ||| 0-0 ||| 1 1 1 ||| name", "names and values"),
        (b"a ||| b ||| 0.5 ||| 0-0 ||| 1 1 1 |||  ||| {{Neural 1}}", "property that Moses does not have"),
        (b"a ||| b ||| 0.5 ||| 0-0 ||| 1 1 1 |||  ||| Counts 1", "of the form"),
        (b"a|x b ||| b ||| 0.5 ||| 0-0", "mixes words of different numbers of factors"),
        (b"broken", "1 field"),
    ],
)
def test_what_moses_would_reject(tmp_path: Path, line: bytes, problem: str) -> None:
    problems = check_lines(tmp_path / "table", line, columns=1)
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_wrong_number_of_scores_is_a_problem_of_every_line(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5 1\n" * 3)
    report = check_table(tmp_path / "table", columns=7)
    assert list(report.problems.values()) == [3]
    assert list(report.first_lines.values()) == [1]


def test_valid_lines_are_no_problem(tmp_path: Path) -> None:
    lines = (
        b"a ||| b ||| 2.718 0 ||| 0-0 ||| 1 1 1 ||| f 0.5 ||| {{Counts 1 2}}",
        b"a |||  ||| 1e-50 .5 |||  ||| 1 1 1",
        b"b ||| b ||| 5. 1",
        b"c ||| b ||| 1 1 ||| 0-0 ||| 1 1 1 |||  ||| {{TargetConstituentBoundariesLeft NP 1}}",
    )
    assert check_lines(tmp_path / "table", *lines) == []
    columns = check_table(tmp_path / "table").columns
    assert [(column.floored, column.above_one) for column in columns] == [(1, 2), (1, 0)]


def test_order_and_repetitions_are_noted(tmp_path: Path) -> None:
    path = tmp_path / "table"
    assert check_lines(path, b"b ||| x ||| 1 ||| 0-0", b"a ||| x ||| 1 ||| 0-0", b"b ||| x ||| 1") == []
    notes = " ".join(check_table(path).notes)
    assert "not together" in notes
    assert "not sorted" in notes
    assert "without word alignment" in notes
    check_lines(path, b"a ||| x ||| 1 ||| 0-0", b"a ||| x ||| 1 ||| 0-0")
    assert check_table(path).repeated_pairs == 1


@pytest.mark.parametrize(
    ("name", "compress", "problem"),
    [
        ("table.gz", gzip.compress, None),
        ("table", bytes, None),
        ("table.txt", gzip.compress, "gzip data under the name table.txt"),
        ("table.gz", bytes, "plain text under the name table.gz"),
        ("table.xz", lzma.compress, "xz data, which Moses does not read"),
    ],
)
def test_files_that_moses_would_misread(tmp_path: Path, name: str, compress: type[bytes], problem: str | None) -> None:
    path = tmp_path / name
    path.write_bytes(compress(gzip.decompress((MINI / "phrase-table.gz").read_bytes())))
    problems = list(check_table(path, limit=5).problems)
    assert (not problems) if problem is None else (problem in problems[0])


def test_a_line_too_long_for_memory_is_passed_over(tmp_path: Path) -> None:
    problems = check_lines(tmp_path / "table", b"a ||| b ||| 1", b"x" * (3 << 20), b"c ||| d ||| 1")
    assert problems == ["line: has 1,048,576 bytes or more"]
    assert check_table(tmp_path / "table").lines == 3


@pytest.mark.parametrize(("name", "content"), [("table", b""), ("table.gz", b""), ("table.gz", gzip.compress(b""))])
def test_an_empty_table_is_a_problem(name: str, content: bytes, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    report = check_table(tmp_path / name)
    assert list(report.problems) == ["file: is empty, so that nothing can be translated with it; check how it was made"]
    assert (report.first_lines, report.notes) == ({}, [])


def test_spaces_around_scores(tmp_path: Path) -> None:
    lines = b"a ||| b |||  0.5  1  ||| 0-0 ||| 3 3 3", b"a ||| c ||| 0.5 1 ||| 0-0 ||| 3 3 3"
    assert check_lines(tmp_path / "table", *lines, columns=2) == []
    assert check_table(tmp_path / "table").fields == {5: 2}
