from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from phrasescore.table.entry import Entry, LineFault, cut_line, parse_line

LINE = b"the black dogs ||| les chiens noirs ||| 0.5 1 0.25 2.718 ||| 0-0 1-2 2-1 ||| 4 2 2 ||| |||\n"


def test_the_fields_of_a_line() -> None:
    entry = parse_line(LINE)
    assert entry.source == b"the black dogs"
    assert entry.target == b"les chiens noirs"
    assert entry.scores == b"0.5 1 0.25 2.718"
    assert entry.score_count() == 4
    assert entry.other_fields() == [b"0-0 1-2 2-1", b"4 2 2", b""]
    assert (entry.occurrences("target"), entry.occurrences("source"), entry.occurrences("pair")) == (4, 2, 2)


@pytest.mark.parametrize(
    "line",
    [
        LINE,
        b"a ||| b ||| 0.5",
        b"a ||| b ||| 0.5\n",
        b"a ||| b ||| 0.5\r\n",
        b"a ||| b ||| 0.5 |||\n",
        b"a ||| b ||| 0.5 0.2 ||| 0-0\n",
        b"a ||| b ||| 0.5  0.2  ||| 0-0\n",
        b"a |||  ||| 0.5 ||| ||| 1 1 1\n",
        "caf\u00e9\u00a0noir\u2028x ||| \u0085 y ||| 1\n".encode(),
        b"\xff\xfe ||| b ||| 1e-5\n",
        b"a ||| b ||| 0.1 ||| 0-0 ||| 1 1 1 ||| f 1 ||| {{Counts 1}} ||| more ||| still more\n",
    ],
)
def test_columns_are_appended_and_nothing_else_changes(line: bytes) -> None:
    entry = parse_line(line)
    assert entry.line == line
    annotated = entry.with_columns(b"0.125")
    again = parse_line(annotated)
    assert again.score_count() == entry.score_count() + 1
    assert again.without_last_score() == entry
    assert annotated.replace(b" 0.125", b"", 1) == line


@pytest.mark.parametrize(
    ("rest", "fields"),
    [
        (b"", []),
        (b" |||", []),
        (b" ||| 0-0", [b"0-0"]),
        (b" ||| 0-0 |||", [b"0-0"]),
        (b" ||| ||| 1 1 1", [b"", b"1 1 1"]),
        (b" |||  ||| 1 1 1 |||", [b"", b"1 1 1"]),
        (b" ||| 0-0 ||| 1 1 1 ||| |||", [b"0-0", b"1 1 1", b""]),
        (b" ||| 0-0 ||| 1 1 1 ||| ||| {{Counts 1}}", [b"0-0", b"1 1 1", b"", b"{{Counts 1}}"]),
    ],
)
def test_the_fields_after_the_scores(rest: bytes, fields: list[bytes]) -> None:
    assert parse_line(b"a ||| b ||| 0.5" + rest + b"\r\n").other_fields() == fields


def test_words_are_split_on_spaces_and_tabs_alone() -> None:
    line = "a\u00a0b\tc ||| d\u2028e ||| 1 ||| 0-0 1-0\n".encode()
    assert parse_line(line).source.split(b" ") == ["a\u00a0b".encode(), b"c"]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"\n", "line: is empty"),
        (b"a\tb\t0.5\n", "line: has 1 field"),
        (b"a ||| b\n", "line: has 2 fields"),
        (b" ||| b ||| 0.5\n", "field 1 (source): is empty"),
        (b"a ||| b |||  ||| 0-0\n", "field 3 (scores): is empty"),
        (b"a ||| b ||| 0.5 x ||| 0-0\n", "field 3 (scores): has something that Moses cannot read as a number: `x`"),
        (b"a ||| b ||| 0.5|\n", "number: `0.5|`; rebuild the table"),
        (b"a ||| b ||| 0.5 -1\n", "silently reads as NaN: `-1`; columns are probabilities, not logarithms"),
        (b"a ||| b ||| inf\n", "silently reads as infinity: `inf`; rebuild the table"),
        (b"a|N b ||| b|N ||| 0.5\n", "field 1 (source): mixes words of different numbers of factors: `b`; rebuild"),
        (b"a ||| b|N c|N|s ||| 0.5\n", "field 2 (target): mixes words of different numbers of factors: `c|N|s`"),
        (b"a ||| | ||| 0.5\n", "field 2 (target): has a word with an empty factor: `|`; rebuild the table, and escape"),
        (b"[X] ||| b [X] ||| 0.5\n", "hierarchical"),
        (b"a [X][X] c [X] ||| b [X] ||| 0.5\n", "rule: `[X][X]`"),
        (
            b"a ||| [laughter] ||| 0.5\n",
            "field 2 (target): holds what Moses reads as a label of a hierarchical rule: `[laughter]`",
        ),
        (b"a\0 ||| b ||| 0.5\n", "NUL"),
    ],
)
def test_faulty_lines_say_field_reason_and_remedy(line: bytes, message: str) -> None:
    with pytest.raises(LineFault) as caught:
        parse_line(line)
    assert message in str(caught.value)
    assert "; " in str(caught.value)


def test_brackets_inside_words_are_words() -> None:
    assert parse_line(b"a[1] ||| [ ||| 0.5\n").source == b"a[1]"


def test_a_pair_without_counts() -> None:
    assert parse_line(b"a ||| b ||| 0.5\n").occurrences("pair") is None
    assert parse_line(b"a ||| b ||| 0.5 ||| 0-0 ||| 3 4\n").occurrences("pair") is None
    assert parse_line(b"a ||| b ||| 0.5 ||| 0-0 ||| 3 4 nan\n").occurrences("pair") is None
    assert parse_line(b"a ||| b ||| 0.5 ||| 0-0 ||| 3 4 0\n").occurrences("pair") == 0
    assert parse_line(b"a ||| b ||| 0.5  ||| 0-0 ||| 3 4 7\n").occurrences("pair") == 7


words = st.binary(min_size=1, max_size=6).filter(lambda word: not set(word) & set(b" \t\n\r\0|[]"))
phrases = st.lists(words, min_size=1, max_size=5).map(b" ".join)
numbers = st.floats(1e-30, 3, allow_nan=False).map(lambda value: b"%.6g" % value)
scores = st.lists(numbers, min_size=1, max_size=6).map(b" ".join)
rests = st.sampled_from(
    [b"", b"\n", b"\r\n", b" ||| 0-0\n", b" ||| 0-0 ||| 1 1 1 ||| |||\n", b" |||\n", b"  ||| 0-0 ||| 2 2 2"]
)


@given(phrases, phrases, scores, rests, st.floats(1e-40, 1, exclude_min=True))
def test_any_line_comes_back_as_it_was(
    source: bytes, target: bytes, score_field: bytes, rest: bytes, probability: float
) -> None:
    line = b" ||| ".join((source, target, score_field)) + rest
    entry = parse_line(line)
    again = parse_line(entry.with_columns(b"%.9g" % probability))
    assert again.score_count() == entry.score_count() + 1
    assert again.without_last_score() == entry


PARTS = st.sampled_from([b"|||", b" ||| ", b" ", b"\t", b"  ", b"a", b"0.5", b"\r", b"\n"]) | st.binary(max_size=3)


@given(st.lists(PARTS, max_size=20).map(b"".join))
@example(b"a|||b|||0.5")
@example(b" a\t|||  ||| 0.5  1\t\r\n")
def test_any_bytes_parse_or_are_rejected(line: bytes) -> None:
    try:
        entry = cut_line(line)
    except LineFault:
        return
    assert isinstance(entry, Entry)
    assert entry.line == line
    assert entry.with_columns(b"1") == line[: entry.end] + b" 1" + line[entry.end :]
    assert line[: entry.end].split(b"|||", 2)[2].split() == entry.scores.split()
