"""What is read of tables, and what is said of tables that cannot be used."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.phrases import TargetPhrase
from moses_integration.decoder.tables import PhraseTable, ReorderingTable, phrases_of
from phrasescore.errors import UserError


def phrase_table(folder: Path, text: bytes, width: int = 2) -> PhraseTable:
    (folder / "table").write_bytes(text)
    return PhraseTable(folder / "table", width, {b"a", b"a b"})


def test_phrases_of_sentences() -> None:
    assert phrases_of([(b"a", b"b", b"c"), (), (b"b",)], 2) == {b"a", b"b", b"c", b"a b", b"b c"}


def log(probability: float) -> float:
    """Return what Moses makes of a probability, by NumPy."""
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


def test_source_phrases_with_other_blanks(tmp_path: Path) -> None:
    """Moses splits them at blanks and tabs, however many."""
    text = b"".join(b"%s ||| %d ||| 1 1\n" % (s, n) for n, s in enumerate((b"a  b", b"a\tb", b" a b", b"a b ", b"a b")))
    found = phrase_table(tmp_path, text).lookup((b"a", b"b"))
    assert [target.words for target in found] == [(b"%d" % number,) for number in range(5)]


def test_a_compressed_table_is_told_by_its_content(tmp_path: Path) -> None:
    table = phrase_table(tmp_path, gzip.compress(b"a ||| B ||| 1 1\n"))
    assert table.lookup((b"a",)) == [TargetPhrase((b"B",), (0, 0))]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a ||| B ||| 0.5", "line 2: has 1 scores where moses.ini says num-features=2"),
        (b"a ||| B ||| 0.5 1 1", "line 2: has 3 scores where moses.ini says num-features=2"),
        (b"a ||| B ||| 0.5 -1", "line 2: the score `-1` is no probability"),
        (b"a ||| B ||| 0.5 nan", "line 2: the score `nan` is no probability"),
        (b"a ||| B ||| inf 1", "line 2: the score `inf` is no probability"),
        (b"a ||| B ||| 0.5 0_5", "line 2: the score `0_5` is no probability"),
        (b"a ||| B ||| 0.5 0,5", "line 2: the score `0,5` is no probability"),
        (b"a ||| B", "line 2: has fewer than three fields"),
        (b"a ||| B ||| 1 1 ||| ||| ||| x 1 ||| {{p}}", "line 2: has sparse features, which the embedded decoder does"),
        (b"a ||| B ||| 1 1e39", "line 2: the score `1e39` is no probability"),
        (b"a ||| B ||| 1 1 ||| 0-", "line 2: the alignment has `0-` in the place of a link"),
        (b"a ||| B|x ||| 1 1", r"line 2: field 2 \(target\): holds `\|`, which separates the factors of a fac"),
        (b"a ||| B [laughter] ||| 1 1", r"line 2: field 2 \(target\): holds `\[laughter\]`, which Moses reads as a"),
        (b"a B 1 1", r"line 2: has no ` \|\|\| `"),
    ],
)
def test_lines_of_a_phrase_table_that_cannot_be_used(line: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=f"{tmp_path}/table: {message}"):
        phrase_table(tmp_path, b"x ||| x ||| 1\n" + line + b"\n").lookup((b"a",))


def test_scores_are_of_32_bit_as_in_moses(tmp_path: Path) -> None:
    """What Moses makes of them: the nearest 32-bit number of the logarithm of the nearest one."""
    table = phrase_table(tmp_path, b"a ||| B ||| 0.999877 1.01122149e-43 ||| ||| 1 ||| ||| {{p}}\n")
    [found] = table.lookup((b"a",))
    assert found.scores == (log(0.999877), log(1.01122149e-43))
    assert found.scores == pytest.approx((-0.000123032, -99.0023), rel=1e-5)


@pytest.mark.parametrize("kind", [PhraseTable, lambda path, width, wanted: ReorderingTable(path, width, True, wanted)])
def test_a_missing_table(kind: type[PhraseTable], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere: is not there, but"):
        kind(tmp_path / "nowhere", 2, {b"a"})


def test_reordering_rows(tmp_path: Path) -> None:
    text = b"\ta  ||| B C ||| 0.5 0\na |||  ||| 1 1\nb ||| B ||| 1 1\na ||| D |||  0.25\t1 \r\n"
    # Moses takes PATH.gz for PATH that is not there.
    (tmp_path / "table.gz").write_bytes(gzip.compress(text))
    table = ReorderingTable(tmp_path / "table", 2, True, {b"a"})
    assert table.lookup((b"a",), (b"B", b"C")) == (log(0.5), -100)
    assert table.lookup((b"a",), ()) == (0, 0)
    assert table.lookup((b"a",), (b"D",)) == (log(0.25), 0)
    assert table.lookup((b"a",), (b"B",)) is None
    assert table.lookup((b"b",), (b"B",)) is None


def test_reordering_rows_by_source_alone(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| 0.5 1\n")
    table = ReorderingTable(tmp_path / "table", 2, False, {b"a"})
    assert table.lookup((b"a",), (b"B",)) == table.lookup((b"a",), ()) == (log(0.5), 0)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"a ||| B ||| 0.5", "line 2: has 1 scores where the model's type needs 2"),
        (b"a ||| B ||| 0.5 x", "line 2: the score `x` is no probability"),
        (b"a ||| 0.5 1", "line 2: has no target field"),
    ],
)
def test_lines_of_a_reordering_table_that_cannot_be_used(line: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"x ||| x ||| 1\n" + line + b"\n")
    with pytest.raises(UserError, match=f"{tmp_path}/table: {message}"):
        ReorderingTable(tmp_path / "table", 2, True, {b"a"}).lookup((b"a",), (b"B",))
