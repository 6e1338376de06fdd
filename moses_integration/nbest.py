"""n-best lists: read, extend by a feature, write as Moses does.

    ID ||| word word ... word  ||| Label0= v v Label1= v ||| total [||| segmentation] [||| alignment]

Marian's `F0=-1.5`, without a space (src/translator/output_printer.h), is also read, and written as Moses writes it.
So are lists that have totals alone:

    ID ||| word word ... word ||| total

Two blanks stand before the second separator, for every word is followed by one. So is every link of the alignment, but
before every range of the segmentation there is one: without any, `|||` alone is what is left of it. Numbers have six
significant digits.
Writer in Moses: moses/Manager.cpp, moses/ScoreComponentCollection.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import open_output, read_lines
from phrasescore.number import parse_number
from phrasescore.words import quote

_BAR = b" |||"
TOTAL = "Total0"
"""Label of the total where it is the only number that a list has."""


class ListFault(UserError):
    """What is wrong with an n-best list; whoever knows its file says so in place of the message's first words."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"n-best list: {reason}")
        self.reason = reason
        """What is wrong and what to do, without where."""


def format_number(value: float) -> bytes:
    """Format a number as C++ streams do by default: six significant digits."""
    return b"%g" % value


@dataclass(frozen=True)
class NbestEntry:
    """One translation of one sentence."""

    sentence: int
    """Number of the sentence, from 0."""
    words: bytes
    """The words with one blank between them."""
    scores: bytes
    """`Label0= v v Label1= v`, with a space before every value."""
    total: bytes
    """Weighted sum of the scores, UnknownWordPenalty included, or what else the toolkit ranks its translations by."""
    extras: tuple[bytes, ...] = ()
    """Fields after the total: segmentation, alignment. An empty alignment is a blank."""

    def features(self) -> dict[str, list[float]]:
        """Return the feature values (natural logs where they are probabilities) by label, in the file's order.

        Raises:
            ValueError: a value is no finite number, has no label before it, or a label stands twice.
        """
        features: dict[str, list[float]] = {}
        label: str | None = None
        for token in self.scores.split(b" "):
            if token.endswith(b"="):
                label = token[:-1].decode("utf-8", "surrogateescape")
                if label in features:
                    raise ValueError(f"has the label {quote(token[:-1])} twice")
                features[label] = []
            elif token:
                if label is None:
                    raise ValueError("has a score without a label before it")
                features[label].append(parse_number(token))
        return features

    def with_feature(self, label: str, values: Sequence[float]) -> NbestEntry:
        """Return the entry with one more feature, last; the total stays what it was."""
        return replace(self, scores=self.scores + b" " + _format_feature(label, values))

    def to_line(self) -> bytes:
        """Return the line, with its end."""
        head = b"%d ||| %s ||| %s ||| %s" % (
            self.sentence,
            self.words + b" " if self.words else b"",
            self.scores,
            self.total,
        )
        extras = [_BAR + (b" " + extra if extra.strip(b" ") else extra) for extra in self.extras]
        return b"".join((head, *extras, b"\n"))


def format_features(features: Mapping[str, Sequence[float]]) -> bytes:
    """Return `Label0= v v Label1= v`."""
    return b" ".join(_format_feature(label, values) for label, values in features.items())


def _format_feature(label: str, values: Sequence[float]) -> bytes:
    return b" ".join([label.encode("utf-8", "surrogateescape") + b"=", *map(format_number, values)])


_WITHOUT_SPACE = re.compile(rb"=(?=[^ =]+(?: |$))")
"""The end of a label whose value follows at once."""


def parse_entry(line: bytes) -> NbestEntry:
    """Parse a line without its end.

    Raises:
        ValueError: it is not a line of an n-best list.
    """
    fields = line.split(_BAR + b" ", 3)
    if len(fields) == 3:
        # A total alone.
        fields[2:] = [TOTAL.encode() + b"= " + fields[2].strip(b" "), fields[2]]
    if len(fields) < 4:
        raise ValueError("has fewer than three fields")
    sentence, words, scores, rest = fields
    total, *extras = rest.split(_BAR)
    extras = [extra.removeprefix(b" ") if extra.strip(b" ") else extra for extra in extras]
    if not re.fullmatch(rb"[0-9]{1,9}", sentence):
        raise ValueError(f"`{quote(sentence)}` is no sentence number")
    parse_number(total.strip(b" "))
    scores = _WITHOUT_SPACE.sub(b"= ", scores.strip(b" "))
    entry = NbestEntry(int(sentence), words.strip(b" "), scores, total.strip(b" "), tuple(extras))
    entry.features()
    return entry


def read_nbest(path: Path) -> Iterator[NbestEntry]:
    """Yield the entries of a list, plain or compressed.

    Raises:
        UserError: a line is not one of an n-best list, or the sentences do not come in order.
    """
    last = 0
    for row, line in enumerate(read_lines(path), 1):
        try:
            entry = parse_entry(line)
        except ValueError as error:
            raise UserError(
                f"{path}: line {row}: {error}; give an n-best list as Moses or Marian "
                "writes it, without Marian's --alignment and --word-scores"
            ) from error
        if entry.sentence < last:
            raise UserError(f"{path}: line {row}: sentence {entry.sentence} after {last}; sort the list by sentence")
        last = entry.sentence
        yield entry


def write_nbest(path: Path, entries: Iterable[NbestEntry]) -> None:
    """Write a list, whole or not at all."""
    with open_output(path) as stream:
        for entry in entries:
            stream.write(entry.to_line())
