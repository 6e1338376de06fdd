from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest

from moses_integration.nbest import read_nbest
from phrasescore.table.check import check_table
from phrasescore.table.entry import LineFault, cut_line, parse_line, parse_scores
from phrasescore.table.reader import TableReader
from tests.table.unusual_lines import UNUSUAL_LINES, UnusualLine

each_line = pytest.mark.parametrize("unusual", UNUSUAL_LINES, ids=lambda unusual: repr(unusual.line[:40]))
FIRST = b"z ||| z ||| 1 1 ||| 0-0\n"
"""Moses detects a table's format by its first line."""


@each_line
@pytest.mark.parametrize("end", [b"\n", b""])
def test_words_and_numbers_are_those_of_moses(unusual: UnusualLine, end: bytes) -> None:
    if unusual.line.endswith(b"\r") and not end:
        return  # A carriage return is part of the line end only before a line feed.
    if unusual.fault is not None:
        with pytest.raises(LineFault) as caught:
            parse_line(unusual.line + end)
        assert str(caught.value).startswith(unusual.fault)
        assert "; " in str(caught.value)
        return
    entry = parse_line(unusual.line + end)
    assert tuple(entry.source.split(b" ")) == unusual.source
    assert entry.target == b" ".join(unusual.target)
    assert tuple(parse_scores(entry.scores)) == unusual.probabilities
    assert entry.score_count() == 2


@each_line
def test_a_column_is_appended_and_every_other_byte_stays(unusual: UnusualLine) -> None:
    """A column is appended and all other bytes are unchanged, also on invalid lines that are kept."""
    line = unusual.line + b"\n"
    try:
        entry = cut_line(line)
    except LineFault:
        return
    annotated = entry.with_columns(b"0.125")
    assert annotated.replace(b" 0.125", b"", 1) == line
    again = cut_line(annotated)
    assert again.scores == (entry.scores + b" 0.125").strip(b" ")
    assert again[:2] == entry[:2]
    assert again.other_fields() == entry.other_fields()
    assert again.without_last_score()[:4] == (*entry[:3], line)


@each_line
def test_check_finds_what_moses_would(unusual: UnusualLine, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(FIRST + unusual.line + b"\n")
    report = check_table(tmp_path / "table", columns=2)
    assert report.lines == 2
    if unusual.fault is None:
        assert not report.problems
        assert report.source_lengths == {1: 1} | {len(unusual.source): 1 + (len(unusual.source) == 1)}
    else:
        [problem] = report.problems
        assert problem.startswith(unusual.fault.split(": `")[0])
        assert report.first_lines[problem] == 2


@each_line
def test_lines_are_kept_by_their_source(unusual: UnusualLine, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(FIRST + unusual.line + b"\n")
    [chunk] = TableReader(tmp_path / "table", keep_faulty=True)
    kept = chunk.keep_sources(frozenset({b" ".join(unusual.source)}))
    assert [entry.line for entry in kept.entries] == ([] if unusual.fault else [unusual.line + b"\n"])


def test_a_first_line_without_a_space_is_of_another_format_for_moses(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a|||x|||0.5\n" + b"a|||y|||0.5\n")
    report = check_table(tmp_path / "table")
    assert [problem.startswith("line: has no space") for problem in report.problems] == [True]
    assert "2 lines have not exactly one space" in " ".join(report.notes)


def test_a_byte_order_mark_is_a_part_of_the_first_word(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"\xef\xbb\xbfa ||| x ||| 0.5\n")
    [problem] = check_table(tmp_path / "table").problems
    assert problem.startswith("line: begins with a byte order mark")


INI = """\
[mapping]
0 T 0
[feature]
UnknownWordPenalty
WordPenalty
PhraseDictionaryMemory name=TM num-features=2 path={table} input-factor=0 output-factor=0
Distortion
[weight]
UnknownWordPenalty0= 1
WordPenalty0= 0
TM= 0.01 0.01
Distortion0= 0
"""


@pytest.mark.moses
@each_line
def test_the_answers_are_those_of_a_real_moses(unusual: UnusualLine, moses_home: Path, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(FIRST + unusual.line + b"\n")
    (tmp_path / "moses.ini").write_text(INI.format(table=tmp_path / "table"))
    command = [str(moses_home / "bin/moses"), "-f", str(tmp_path / "moses.ini")]
    command += ["-n-best-list", str(tmp_path / "list"), "1"]
    done = subprocess.run(command, input=b" ".join(unusual.source) + b"\n", capture_output=True, check=False)
    assert (done.returncode != 0) == (unusual.moses == "stops"), done.stderr
    if unusual.moses in ("stops", "misreads"):
        return
    best = (tmp_path / "list").read_bytes().split(b" ||| ")
    if unusual.moses == "skips":
        assert best[1].split() == [b"a"]
        return
    [entry] = read_nbest(tmp_path / "list")
    assert tuple(word for word in entry.words.split(b" ") if word) == unusual.target
    logs = [max(math.log(p), -100) if p > 0 else -100 for p in unusual.probabilities]
    assert entry.features()["TM"] == pytest.approx(logs, rel=1e-5, abs=1e-6)
