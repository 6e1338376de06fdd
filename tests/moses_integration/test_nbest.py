"""Reading, extending and writing n-best lists in Moses' format."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.nbest import NbestEntry, format_features, parse_entry, read_nbest, write_nbest
from phrasescore.errors import UserError
from tests.conftest import MINI

GOLDENS = sorted((MINI / "decode").glob("*.nbest.gz"))
LINE = b"0 ||| le chat  ||| LexicalReordering0= -1 0 Distortion0= 0 LM0= -4.5 ||| -3.25 ||| 0=0 1=1 ||| 0-0 1-1 \n"


@pytest.mark.parametrize("path", GOLDENS, ids=lambda path: str(path.name))
def test_the_lists_of_a_real_moses_keep_their_bytes(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.nbest"
    write_nbest(copy, read_nbest(path))
    assert copy.read_bytes() == gzip.decompress(path.read_bytes())


def test_there_are_lists_of_a_real_moses() -> None:
    assert len(GOLDENS) == 7


def test_the_fields_of_an_entry() -> None:
    entry = parse_entry(LINE[:-1])
    assert (entry.sentence, entry.words, entry.total) == (0, b"le chat", b"-3.25")
    assert entry.features() == {"LexicalReordering0": [-1, 0], "Distortion0": [0], "LM0": [-4.5]}
    assert list(entry.features()) == ["LexicalReordering0", "Distortion0", "LM0"]
    assert entry.extras == (b"0=0 1=1", b"0-0 1-1 ")


def test_an_entry_extended_by_a_feature() -> None:
    entry = parse_entry(LINE[:-1]).with_feature("RNN0", [-0.0000123456789, 12])
    assert entry.to_line() == LINE.replace(b"-4.5 |||", b"-4.5 RNN0= -1.23457e-05 12 |||")
    assert parse_entry(entry.to_line()[:-1]).features()["RNN0"] == [-1.23457e-05, 12]


def test_an_empty_translation() -> None:
    """An empty translation has the two spaces of its separators, because moses/Manager.cpp writes no word."""
    line = b"7 |||  ||| LM0= -2 ||| -1\n"
    entry = parse_entry(line[:-1])
    assert entry.words == b""
    assert entry.to_line() == line


@pytest.mark.parametrize(
    ("end", "extras"),
    [
        (b"", ()),
        (b" |||", (b"",)),
        (b" ||| ", (b" ",)),
        (b" ||| ||| ", (b"", b" ")),
        (b" ||| 0=0 ||| ", (b"0=0", b" ")),
    ],
    ids=["bare", "segmentation", "alignment", "both", "no links"],
)
def test_an_empty_line_as_a_real_moses_lists_it(end: bytes, extras: tuple[bytes, ...]) -> None:
    line = b"1 |||  ||| Distortion0= 0 LM0= 0 WordPenalty0= 0 PhrasePenalty0= 0 ||| 0" + end + b"\n"
    entry = parse_entry(line[:-1])
    assert (entry.words, entry.total, entry.extras) == (b"", b"0", extras)
    assert entry.to_line() == line


def test_words_are_bytes() -> None:
    """Words are bytes: a no-break space, a line separator and invalid UTF-8 are parts of words."""
    line = "0 ||| a\xa0b c\u2028d  ||| LM0= -2 ||| -1\n".encode().replace(b"c", b"\xff")
    assert parse_entry(line[:-1]).to_line() == line


def test_the_lists_of_marian() -> None:
    """Marian's n-best lists are read.

    Its output_printer.h writes a space before each score of several models, but none before a single one.
    """
    single = parse_entry("0 ||| ▁le ▁chat ||| F0=-1.5 ||| -0.75".encode())
    assert (single.words, single.features(), single.total) == ("▁le ▁chat".encode(), {"F0": [-1.5]}, b"-0.75")
    assert parse_entry(single.with_feature("X", [2]).to_line()[:-1]).features() == {"F0": [-1.5], "X": [2]}
    assert single.scores == b"F0= -1.5"
    assert parse_entry(b"0 ||| le ||| LM0= -2 a=b=1 P0=0 ||| -1").scores == b"LM0= -2 a=b= 1 P0= 0"
    several = parse_entry(b"0 ||| le chat ||| F0= -1.5 F1= -2e-05 ||| -0.75")
    assert several.features() == {"F0": [-1.5], "F1": [-2e-05]}
    assert parse_entry(b"3 |||  ||| F0=-1.5 ||| -0.75").words == b""


def test_a_list_of_totals_alone() -> None:
    entry = parse_entry(b"0 ||| le chat ||| -0.75")
    assert entry.features() == {"Total0": [-0.75]}
    assert entry.to_line() == b"0 ||| le chat  ||| Total0= -0.75 ||| -0.75\n"


numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(
    sentence=st.integers(0, 10**6),
    words=st.lists(st.sampled_from([b"a", b"&#124;", b"\xc2\xa0", b"="]), max_size=4),
    features=st.dictionaries(st.sampled_from(["LM0", "TM_x", "A1"]), st.lists(numbers, min_size=1, max_size=3)),
)
def test_written_files_are_read_again(sentence: int, words: list[bytes], features: dict[str, list[float]]) -> None:
    entry = NbestEntry(sentence, b" ".join(words), format_features(features), b"-1.5")
    again = parse_entry(entry.to_line()[:-1])
    assert again == entry
    for label, values in features.items():
        # Six digits, as Moses prints them.
        assert again.features()[label] == pytest.approx(values, rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"0 ||| a ||| LM0= 1\n", "`LM0= 1` is no finite number"),
        (b"0 ||| a\n", "has fewer than three fields"),
        (b"\n", "has fewer than three fields"),
        (b"1%s ||| a  ||| LM0= 1 ||| 1\n" % (b"0" * 5000), "`1000000000000000000000000000000000000...` is not a sent"),
        (b"0 ||| a ||| 0-0 1-1 ||| F0= 1 ||| 1\n", "`F0= 1` is no finite number"),
        (b"0 ||| a ||| F0=x ||| 1\n", "`x` is no finite number"),
        (b"zero ||| a  ||| LM0= 1 ||| 1\n", "`zero` is not a sentence number"),
        (b"-1 ||| a  ||| LM0= 1 ||| 1\n", "`-1` is not a sentence number"),
        (b"0 ||| a  ||| LM0= one ||| 1\n", "`one` is no finite number"),
        (b"0 ||| a  ||| LM0= 1 ||| x\n", "`x` is no finite number"),
        (b"0 ||| a  ||| LM0= -1_0 ||| 1\n", "`-1_0` is no finite number"),
        (b"0 ||| a  ||| LM0= nan ||| 1\n", "`nan` is no finite number"),
        (b"0 ||| a  ||| LM0= 1 ||| -inf\n", "`-inf` is no finite number"),
        (b"0 ||| a  ||| -1 -2 ||| 1\n", "has a score without a label before it"),
        (b"0 ||| a  ||| LM0= 1 LM0= 2 ||| 1\n", "has the label LM0 twice"),
    ],
)
def test_malformed_lines_are_named(tmp_path: Path, line: bytes, reason: str) -> None:
    path = tmp_path / "list"
    path.write_bytes(LINE + line)
    with pytest.raises(UserError) as caught:
        list(read_nbest(path))
    assert f"{path}: line 2: {reason}" in str(caught.value)
    assert str(caught.value).endswith(
        "; give an n-best list as Moses or Marian writes it, without Marian's alignment and word scores"
    )


def test_sentences_come_in_order(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(LINE.replace(b"0 |||", b"3 |||", 1) + LINE)
    with pytest.raises(UserError, match=r"line 2: sentence 0 after 3; sort the list"):
        list(read_nbest(path))


def test_a_damaged_or_missing_list(tmp_path: Path) -> None:
    path = tmp_path / "list.gz"
    path.write_bytes(GOLDENS[0].read_bytes()[:-100])
    with pytest.raises(UserError, match="truncated or corrupt"):
        list(read_nbest(path))
    with pytest.raises(UserError, match="cannot be read"):
        list(read_nbest(tmp_path / "nowhere"))


def test_a_list_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "list.gz"
    path.write_bytes(gzip.compress(LINE + LINE.replace(b"LM0= -4.5", b"LM0= x")))
    with pytest.raises(UserError):
        write_nbest(tmp_path / "out", read_nbest(path))
    assert [file.name for file in tmp_path.iterdir()] == ["list.gz"]
