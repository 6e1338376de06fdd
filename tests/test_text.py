"""Splitting text into lines, and detecting files that are not text."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from moses_integration.building.aligned_corpus import read_aligned_corpus
from phrasescore import text
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE
from phrasescore.scoring.annotate_config import phrases_in_texts
from phrasescore.text import chunks, lines_of, parallel_lines, text_lines, utf8_lines
from phrasescore.vocabulary import count_words

Reader = Callable[[Path], Iterator[bytes]]
READERS = pytest.mark.parametrize("read", [text_lines, utf8_lines])

BROKEN = {
    "UTF-16 with a mark": ("le chat\n".encode("utf-16"), "line 1: has a NUL"),
    "UTF-16 without a mark": ("le chat\n".encode("utf-16-le"), "line 1: has a NUL"),
    "big end first": ("\u4e0a le\n".encode("utf-16-be"), "has a NUL"),
    "UTF-32 without a mark": ("le chat\n".encode("utf-32-be"), "line 1: has a NUL"),
    "a NUL further down": (b"le\nchat\0\n", "line 2: has a NUL"),
    "no ends of lines": (b"le\n" + b"a " * LONGEST_LINE, "line 2: is longer than 1,048,576 bytes"),
}


@READERS
@pytest.mark.parametrize("name", BROKEN)
def test_broken_text_is_rejected(tmp_path: Path, read: Reader, name: str) -> None:
    content, message = BROKEN[name]
    path = tmp_path / "text"
    path.write_bytes(content)
    with pytest.raises(UserError, match=message) as caught:
        list(read(path))
    assert str(caught.value).startswith(f"{path}: line ")
    assert str(caught.value).count(";") == 1


def test_a_line_may_be_as_long_as_is_said(tmp_path: Path) -> None:
    longest = b"a" * (LONGEST_LINE - 1)
    assert list(lines_of(io.BytesIO(longest + b"\n" + longest + b"a"), "it")) == [longest, longest + b"a"]
    with pytest.raises(UserError, match="it: line 1: is longer"):
        list(lines_of(io.BytesIO(longest + b"aa"), "it"))


@READERS
def test_lines_end_at_the_line_feed_alone(tmp_path: Path, read: Reader) -> None:
    """A byte order mark is not part of the first word; elsewhere it is ordinary text."""
    path = tmp_path / "text.gz"
    path.write_bytes(gzip.compress("\ufeff\ufeffle\u2028chat\x0cnoir\x0b\x85\r\n\n\ufeffla\rfin".encode()))
    assert [line.decode() for line in read(path)] == ["le\u2028chat\x0cnoir\x0b\x85", "", "\ufeffla\rfin"]


@READERS
@pytest.mark.parametrize("content", [b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf" * 2])
def test_nothing_is_no_line(tmp_path: Path, read: Reader, content: bytes) -> None:
    (tmp_path / "text").write_bytes(content)
    assert list(read(tmp_path / "text")) == []


def test_lines_in_another_encoding_are_counted_or_rejected(tmp_path: Path) -> None:
    path, lines, said = tmp_path / "text", [b"le chat", b"le caf\xe9", b"la fen\xeatre"], list[str]()
    path.write_bytes(b"\n".join(lines))
    assert list(text_lines(path, said.append)) == lines
    (sentence,) = said
    assert sentence.startswith(f"{path}: lines that are not UTF-8: 2, the first is line 2; ")
    with pytest.raises(UserError, match=r"text: line 2: is not UTF-8, .*iconv"):
        list(utf8_lines(path))
    path.write_text("le café")
    assert list(text_lines(path, said.append)) == list(utf8_lines(path)) == ["le café".encode()]
    assert len(said) == 1


@pytest.mark.parametrize(("longer", "shorter"), [("a", "b"), ("b", "a"), ("c", "a"), ("b", "c")])
def test_texts_of_different_length_are_rejected_with_both_counts(longer: str, shorter: str, tmp_path: Path) -> None:
    """Texts of different lengths are an error with both line counts.

    It comes after the common lines; of three texts, the message names the longest and the shortest.
    """
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("x\n" * {longer: 1002, shorter: 1}.get(path.name, 2))
    lines = parallel_lines(*paths)
    assert next(lines) == (b"x", b"x", b"x")
    with pytest.raises(UserError) as caught:
        next(lines)
    files = f"{tmp_path / longer}: has 1,002 lines but {tmp_path / shorter} has 1"
    assert str(caught.value) == f"{files}; give files of the same sentences"


def test_texts_side_by_side(tmp_path: Path) -> None:
    """Lines end at line feeds only, not at U+2028, a form feed or a next-line character."""
    text = "a\u2028b\x0cc\x85d\n"
    paths = tmp_path / "source", tmp_path / "target"
    for path in paths:
        path.write_text(text)
    assert list(parallel_lines(*paths)) == [(text.encode().rstrip(), text.encode().rstrip())]
    assert list(parallel_lines(paths[0])) == [(text.encode().rstrip(),)]


def test_chunks_are_bounded_by_items_and_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "_CHUNK_BYTES", 10)
    lines = [b"a", b"b", b"c", b"d" * 9, b"e" * 30, b"f"]
    assert list(chunks(lines, 3)) == [[b"a", b"b", b"c"], [b"d" * 9, b"e" * 30], [b"f"]]
    assert list(chunks([], 3)) == []
    pairs = [(b"a", b"b" * 8), (b"c", b"d"), ("e", 1000)]
    assert list(chunks(pairs, 3)) == [pairs[:2], pairs[2:]]


OTHER_READERS: dict[str, Callable[[Path], object]] = {
    "train --set data.source_corpus": count_words,
    "annotate --only-sources-in": lambda path: phrases_in_texts([path]),
    "build --alignment": lambda path: read_aligned_corpus(path, path, path),
}
"""Readers of texts of which `TEXTS` in tests/faults/test_directed.py has no case."""


@pytest.mark.parametrize("reader", OTHER_READERS)
def test_other_readers_know_the_encodings(tmp_path: Path, reader: str) -> None:
    """A byte order mark changes nothing, and UTF-16 is rejected."""
    path, read, content = tmp_path / "text", OTHER_READERS[reader], b"0-0\n" * 2
    path.write_bytes(content)
    expected = repr(read(path))
    path.write_bytes(b"\xef\xbb\xbf" + content)
    assert repr(read(path)) == expected
    path.write_bytes(content.decode().encode("utf-16-le"))
    with pytest.raises(UserError, match="line 1: has a NUL"):
        read(path)


@pytest.mark.parametrize(("marked", "lines", "is_reported"), [(3, 60, True), (3, 61, False), (2, 10, False)])
def test_few_lines_with_marks_are_no_fault(tmp_path: Path, marked: int, lines: int, is_reported: bool) -> None:
    (tmp_path / "text").write_text("<s> a </s>\n" * marked + "a\n" * (lines - marked))
    said: list[str] = []
    list(text_lines(tmp_path / "text", said.append))
    assert len(said) == is_reported
