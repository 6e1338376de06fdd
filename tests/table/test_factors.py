from __future__ import annotations

import re
from pathlib import Path

import pytest

from phrasescore.cli import main
from phrasescore.errors import UserError
from phrasescore.table.check import check_table
from phrasescore.table.entry import SURFACE, Factors, LineFault, parse_line
from phrasescore.table.reader import LineChecker, TableReader, read_chunks

FACTORED = b"a|D b|N ||| x|N|s ||| 0.5\na|D |||  ||| 0.5\nb|N ||| y|V|s x|N|s ||| 0.5\n"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.write_bytes(FACTORED)
    return path


@pytest.mark.parametrize(("factors", "words"), [("0", b"x y"), ("1", b"N V"), ("0,2", b"x|s y|t"), ("2,0", b"s|x t|y")])
def test_the_chosen_factors_make_the_words(factors: str, words: bytes) -> None:
    assert Factors.parse(factors).network_words(b"x|N|s y|V|t") == words
    assert Factors.parse(factors).network_words(b"x y") == b"x y"


@pytest.mark.parametrize("text", ["", "a", "-1", "0,", "0,0", "0 1", "100"])
def test_invalid_lists_of_factors(text: str) -> None:
    with pytest.raises(ValueError, match="factor"):
        Factors.parse(text)


def test_check_says_how_many_factors_there_are(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = check_table(table)
    assert not report.problems
    assert report.factors == (2, 3)
    assert main(["check", str(table)]) == 0
    out = capsys.readouterr().out
    assert "note: a factored table: 2 factors per source word, 3 factors per target word; networks learn" in out
    assert "no problems: Moses would load this table" in out


def test_check_reports_no_factors_of_an_ordinary_table(mini_table: Path) -> None:
    report = check_table(mini_table, limit=100)
    assert report.factors == (1, 1)
    assert not any("factor" in note for note in report.notes)


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"c ||| x|N|s ||| 0.5\n", "field 1 (source): has words of 1 factor where the lines before have 2; rebuild"),
        (b"c|N ||| x|N ||| 0.5\n", "field 2 (target): has words of 2 factors where the lines before have 3; rebuild"),
        (b"c|N d ||| x|N|s ||| 0.5\n", "field 1 (source): mixes words of different numbers of factors: `d`; rebuild"),
    ],
)
def test_a_line_of_other_factors_is_named(table: Path, line: bytes, fault: str) -> None:
    table.write_bytes(FACTORED + line)
    with pytest.raises(UserError, match=re.escape(f"{table}, line 4, {fault}")):
        list(TableReader(table))
    [problem] = check_table(table).problems
    assert problem == fault.split(";")[0].split(": `")[0]
    # Also if another process checks only the last lines.
    *_, chunk = read_chunks(table, chunk_lines=1)
    with pytest.raises(UserError, match=re.escape(f"{table}, line 4, {fault}")):
        LineChecker(table, shape=chunk.shape).check(chunk)


def test_a_bar_in_a_table_without_factors_is_named(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 0.5\nand|or ||| x ||| 0.5\n")
    with pytest.raises(UserError, match=r"line 2, field 1 \(source\): has words of 2 factors .* escape a literal `\|`"):
        list(TableReader(tmp_path / "table"))


def test_factors_that_words_lack(table: Path) -> None:
    with pytest.raises(UserError, match=r"line 1, field 1 .*: has words of 2 factors, but the network is for factor 2"):
        list(TableReader(table, factors=Factors((2,))))
    Factors((2,)).require_in(1, "source")
    with pytest.raises(LineFault, match="mixes"):
        SURFACE.of_phrase(b"a|N b", "source")


def test_a_column_leaves_the_factors(table: Path) -> None:
    entries = [parse_line(line) for line in FACTORED.splitlines(keepends=True)]
    assert b"".join(entry.with_columns(b"0.1") for entry in entries) == FACTORED.replace(b"0.5\n", b"0.5 0.1\n")
    assert SURFACE.network_phrases(entries) == ([b"a b", b"a", b"b"], [b"x", b"", b"y x"])
