"""Reading of tables, and errors in them."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.phrases import TargetPhrase
from moses_integration.decoder.tables import MappedPhrases, PhraseTable, ReorderingTable
from moses_integration.ini import score_count
from phrasescore.errors import UserError
from phrasescore.table.entry import cut_source
from tests.table.unusual_lines import UNUSUAL_LINES, UnusualLine


def phrase_table(folder: Path, text: bytes, width: int = 2) -> PhraseTable:
    (folder / "table").write_bytes(text)
    return PhraseTable(folder / "table", width, {b"a", b"a b"})


def log(probability: float) -> float:
    """Return Moses' logarithm of a probability, computed with NumPy."""
    return float(np.float32(np.log(np.float64(np.float32(probability)))))


def test_translations_keep_the_order_of_the_table(tmp_path: Path) -> None:
    text = (
        b"a ||| B ||| 0.5 1 ||| 0-0 ||| 1 1 1 ||| |||\n"
        b"a b ||| A \xc2\xa0 C ||| 1e-50 2.718\r\n"
        b"c ||| this is never looked at\n"
        b"a |||  ||| 0 1e-45 |||\n"
        b"a |||  B\tB  |||  .5  1.  ||| 0-1  0-0 |||\n"
        b"a ||| B ||| 0.5 1"
    )
    table = phrase_table(tmp_path, text)
    half, one = log(0.5), 0.0
    assert table.lookup((b"a",)) == [
        TargetPhrase((b"B",), (half, one), ((0, 0),)),
        TargetPhrase((), (-100, -100)),
        TargetPhrase((b"B", b"B"), (half, one), ((0, 1), (0, 0))),
        TargetPhrase((b"B",), (half, one)),
    ]
    assert table.lookup((b"a", b"b")) == [TargetPhrase((b"A", b"\xc2\xa0", b"C"), (-100, log(2.718)))]
    assert table.lookup((b"c",)) == []


def test_source_phrases_with_other_spaces(tmp_path: Path) -> None:
    """Moses splits them at any number of spaces and tabs."""
    text = b"".join(b"%s ||| %d ||| 1 1\n" % (s, n) for n, s in enumerate((b"a  b", b"a\tb", b" a b", b"a b ", b"a b")))
    found = phrase_table(tmp_path, text).lookup((b"a", b"b"))
    assert [target.words for target in found] == [(b"%d" % number,) for number in range(5)]


def test_a_compressed_table_is_recognised_by_its_content(tmp_path: Path) -> None:
    table = phrase_table(tmp_path, gzip.compress(b"a ||| B ||| 1 1\n"))
    assert table.lookup((b"a",)) == [TargetPhrase((b"B",), (0, 0))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a ||| B ||| 0.5", "line 2: has 1 score where moses.ini says num-features=2"),
        (b"a ||| B ||| 0.5 1 1", "line 2: has 3 scores where moses.ini says num-features=2"),
        (
            b"a ||| B ||| 0.5 -1",
            r"line 2: field 3 \(scores\): has a number below 0, which Moses silently reads as NaN",
        ),
        (b"a ||| B", "line 2: has 2 fields, at least 3 are needed"),
        (
            b"a ||| B ||| 1 1 ||| ||| ||| x 1 ||| {{p}}",
            r"line 2: field 6 \(sparse features\): is not empty; empty it, because only",
        ),
        (b"a ||| B ||| 1 1 ||| 0-", r"line 2: field 4 \(alignment\): is not a list of .* positions: `0-`; rebuild"),
        (b"a ||| B ||| 1 1 ||| 0-" + 5000 * b"1", r"line 2: field 4 \(alignment\): is not a list of"),
        (
            b"a ||| B|x ||| 1 1",
            "line 2: has 1 factor per source word, 2 factors per target word, unlike moses.ini",
        ),
        (
            b"a ||| B [laughter] ||| 1 1",
            r"line 2: field 2 \(target\): holds what Moses reads as a label of a .*`\[laughter\]`;",
        ),
        (b"a B 1 1", "line 2: has 1 field, at least 3 are needed"),
        (b"a ||| B" + (1 << 20) * b" ", "line 2: has 1,048,576 bytes or more; the file is damaged or is no"),
    ],
)
def test_lines_of_a_phrase_table_that_cannot_be_used(line: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/table: {message}"):
        phrase_table(tmp_path, b"x ||| x ||| 1\n" + line + b"\n").lookup((b"a",))


def test_scores_are_of_32_bit_as_in_moses(tmp_path: Path) -> None:
    """Scores are 32-bit as in Moses: the logarithm of the nearest 32-bit number, rounded to 32 bits."""
    table = phrase_table(tmp_path, b"a ||| B ||| 0.999877 1.01122149e-43 ||| ||| 1 ||| ||| {{p}}\n")
    [found] = table.lookup((b"a",))
    assert found.scores == (log(0.999877), log(1.01122149e-43))
    assert found.scores == pytest.approx((-0.000123032, -99.0023), rel=1e-5)


@pytest.mark.parametrize("kind", [PhraseTable, lambda path, width, wanted: ReorderingTable(path, width, True, wanted)])
def test_a_missing_table(kind: type[PhraseTable], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: does not exist, but"):
        kind(tmp_path / "nowhere", 2, {b"a"})


def test_reordering_rows(tmp_path: Path) -> None:
    text = b"  a|||B C ||| 0.5 0\na |||  ||| 1 1\nb ||| B ||| 1 1\na ||| D |||  0.25\t1 ||| and more \r\n"
    text += b"a ||| B  B ||| 1 1\n\ta ||| E ||| 1 1\n"
    # Moses reads PATH.gz if PATH does not exist.
    (tmp_path / "table.gz").write_bytes(gzip.compress(text))
    table = ReorderingTable(tmp_path / "table", 2, True, {b"a"})
    assert table.lookup((b"a",), (b"B", b"C")) == (log(0.5), -100)
    assert table.lookup((b"a",), ()) == (0, 0)
    assert table.lookup((b"a",), (b"D",)) == (log(0.25), 0)
    assert table.lookup((b"a",), (b"B",)) is None
    assert table.lookup((b"b",), (b"B",)) is None
    # Moses never finds such phrases if they have other spaces inside.
    assert table.lookup((b"a",), (b"B", b"B")) is table.lookup((b"a",), (b"E",)) is None
    (tmp_path / "table").write_bytes(b"a ||| D ||| 1 1\n")
    assert ReorderingTable(tmp_path / "table", 2, True, {b"a"}).lookup((b"a",), (b"D",)) == (0, 0)


def test_reordering_rows_by_source_alone(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| 0.5 1\n")
    table = ReorderingTable(tmp_path / "table", 2, False, {b"a"})
    assert table.lookup((b"a",), (b"B",)) == table.lookup((b"a",), ()) == (log(0.5), 0)


GOOD_LINES = [unusual for unusual in UNUSUAL_LINES if unusual.fault is None]
FAULTY_LINES = [unusual for unusual in UNUSUAL_LINES if unusual.fault is not None]


def spelling(unusual: UnusualLine) -> str:
    return repr(unusual.line[:40])


@pytest.mark.parametrize("unusual", GOOD_LINES, ids=spelling)
def test_unusual_lines_are_read_like_in_moses(unusual: UnusualLine, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(unusual.line + b"\n")
    [found] = PhraseTable(tmp_path / "table", 2, {b" ".join(unusual.source)}).lookup(unusual.source)
    assert (found.words, found.scores) == (unusual.target, logs_of(unusual))


@pytest.mark.parametrize("unusual", FAULTY_LINES, ids=spelling)
def test_faulty_lines_are_rejected_where_their_source_is_wanted(unusual: UnusualLine, tmp_path: Path) -> None:
    assert unusual.fault is not None
    (tmp_path / "table").write_bytes(b"z ||| z ||| 1 1\n" + unusual.line + b"\n")
    if cut_source(unusual.line) in (b"", b"a|N b", b"a || b"):
        assert PhraseTable(tmp_path / "table", 2, {b"a"}).lookup((b"a",)) == []
        return
    with pytest.raises(UserError) as caught:
        PhraseTable(tmp_path / "table", 2, {b"a"}).lookup((b"a",))
    assert str(caught.value).startswith(f"{tmp_path}/table: line 2: {unusual.fault.removeprefix('line: ')}")


@pytest.mark.parametrize("unusual", GOOD_LINES, ids=spelling)
def test_unusual_lines_of_a_reordering_table(unusual: UnusualLine, tmp_path: Path) -> None:
    """Unusual lines of a reordering table are read as in a phrase table, but phrases keep their spaces."""
    (tmp_path / "table").write_bytes(unusual.line + b"\n")
    phrases = [b" ".join(unusual.source), b" ".join(unusual.target)]
    is_found = [field.strip(b" ") for field in unusual.line.split(b"|||")[:2]] == phrases
    table = ReorderingTable(tmp_path / "table", 2, True, {phrases[0]})
    assert table.lookup(unusual.source, unusual.target) == (logs_of(unusual) if is_found else None)


@pytest.mark.parametrize("unusual", GOOD_LINES, ids=spelling)
def test_scores_are_counted_as_moses_counts_them(unusual: UnusualLine, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(unusual.line + b"\n")
    assert score_count(tmp_path / "table") == 2


def logs_of(unusual: UnusualLine) -> tuple[float, ...]:
    """Return the decoder's logarithms of the probabilities of a line."""
    return tuple(max(log(p), -100) if p > 0 else -100 for p in unusual.probabilities)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a ||| B ||| 0.5", "line 2: has 1 score where the model's type needs 2"),
        (b"a ||| B ||| 0.5 x", "line 2: scores: has something that Moses cannot read as a number: `x`;"),
        (b"a ||| 0.5 1", "line 2: has 2 fields, at least 3 are needed"),
    ],
)
def test_lines_of_a_reordering_table_that_cannot_be_used(line: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"x ||| x ||| 1\n" + line + b"\n")
    with pytest.raises(UserError, match=f"{tmp_path}/table: {message}"):
        ReorderingTable(tmp_path / "table", 2, True, {b"a"}).lookup((b"a",), (b"B",))


def test_moses_ignores_a_last_line_without_its_end(tmp_path: Path) -> None:
    """A phrase table may lack it."""
    (tmp_path / "table").write_bytes(b"x ||| x ||| 1\na ||| B ||| 1")
    assert PhraseTable(tmp_path / "table", 1, {b"a"}).lookup((b"a",))
    with pytest.raises(UserError, match="table: line 2: has no line end, so Moses ignores it; end the file with a"):
        ReorderingTable(tmp_path / "table", 1, True, {b"x"})


def test_all_lines_in_a_file_are_those_in_memory(tmp_path: Path) -> None:
    """Also lines of a phrase that are not adjacent, and lines of a table that was read before."""
    (tmp_path / "table").write_bytes(b"a ||| B ||| 0.5\nb c ||| ||| 1\na ||| C ||| 0.25\na ||| D ||| 1 |||\n")
    (tmp_path / "empty").write_bytes(b"")
    every, phrases = MappedPhrases(tmp_path / "lines"), [(b"a",), (b"b", b"c"), (b"b",), ()]
    every.folder.mkdir()
    for name in ("table", "table", "empty"):
        stored = PhraseTable(tmp_path / name, 1, every)
        kept = PhraseTable(tmp_path / name, 1, {b" ".join(phrase) for phrase in phrases})
        assert [stored.lookup(phrase) for phrase in phrases] == [kept.lookup(phrase) for phrase in phrases]
        assert [stored.lines(phrase) for phrase in phrases] == [kept.lines(phrase) for phrase in phrases]
    (tmp_path / "table").write_bytes(b"a ||| B ||| 0.5\nb ||| B ||| 0.5\na ||| B ||| 0.25\n")
    # The last line of a phrase pair counts.
    reordering = ReorderingTable(tmp_path / "table", 1, True, every)
    assert [reordering.lookup((word,), (b"B",)) for word in (b"a", b"b", b"B")] == [(log(0.25),), (log(0.5),), None]
