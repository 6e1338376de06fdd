"""Read, extend and write n-best lists, and split their translations into phrases.

    ID ||| word word ... word  ||| Label0= v v Label1= v ||| total [||| segmentation] [||| alignment]

Marian's labels without a following space, as in `F0=-1.5` (src/translator/output_printer.h), are read, too, and written
in Moses' form. Lists with totals only are also supported:

    ID ||| word word ... word ||| total

Moses writes a space after every word, so two spaces precede the second separator. It writes a space after every link of
the alignment, but before every range of the segmentation, so an empty segmentation is `|||` without a space. Numbers
have six significant digits (moses/Manager.cpp, moses/ScoreComponentCollection.cpp).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from moses_integration.decoder.phrases import Words, words_of
from phrasescore.errors import UserError
from phrasescore.files import display_name, open_output, read_lines
from phrasescore.words import parse_number, quote

_BAR = b" |||"
_WITHOUT_SPACE = re.compile(rb"=(?=[^ =]+(?: |$))")
"""The end of a label without a following space."""


class ListFault(UserError):
    """An error in an n-best list; callers add the file name to the message."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"n-best list: {reason}")
        self.reason = reason


def format_number(value: float) -> bytes:
    """Format a number as C++ streams do by default: six significant digits."""
    return b"%g" % value


@dataclass(frozen=True)
class NbestEntry:
    """One translation of one sentence."""

    sentence: int
    words: bytes
    """The translation, with words separated by one space."""
    scores: bytes
    """`Label0= v v Label1= v`"""
    total: bytes
    """The toolkit's ranking criterion; Moses: weighted sum of the scores, including UnknownWordPenalty."""
    extras: tuple[bytes, ...] = ()
    """Fields after the total: segmentation, alignment. An empty alignment is a space."""

    def features(self) -> dict[str, list[float]]:
        """Return the feature values (natural logs of probabilities) by label, in the file's order."""
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
        return replace(self, scores=self.scores + b" " + format_features({label: values}))

    def to_line(self) -> bytes:
        words = self.words + b" " if self.words else b""
        extras = [_BAR + (b" " + extra if extra.strip(b" ") else extra) for extra in self.extras]
        return b"%d ||| %s ||| %s ||| %s%s\n" % (self.sentence, words, self.scores, self.total, b"".join(extras))


def format_features(features: Mapping[str, Sequence[float]]) -> bytes:
    """Return `Label0= v v Label1= v`."""
    return b" ".join(
        b" ".join([label.encode("utf-8", "surrogateescape") + b"=", *map(format_number, values)])
        for label, values in features.items()
    )


def parse_entry(line: bytes) -> NbestEntry:
    """Parse a line without its line feed; a ValueError says how it is malformed."""
    fields = line.split(_BAR + b" ", 3)
    if len(fields) == 3:
        # A list with totals only.
        fields[2:] = [b"Total0= " + fields[2].strip(b" "), fields[2]]
    if len(fields) < 4:
        raise ValueError("has fewer than three fields")
    sentence, words, scores, rest = fields
    total, *extras = rest.split(_BAR)
    extras = [extra.removeprefix(b" ") if extra.strip(b" ") else extra for extra in extras]
    if not re.fullmatch(rb"[0-9]{1,9}", sentence):
        raise ValueError(f"`{quote(sentence)}` is not a sentence number")
    parse_number(total.strip(b" "))
    scores = _WITHOUT_SPACE.sub(b"= ", scores.strip(b" "))
    entry = NbestEntry(int(sentence), words.strip(b" "), scores, total.strip(b" "), tuple(extras))
    entry.features()
    return entry


def read_nbest(path: Path) -> Iterator[NbestEntry]:
    """Yield the entries of a list, plain or compressed."""
    last = 0
    for row, line in enumerate(read_lines(path), 1):
        try:
            entry = parse_entry(line)
        except ValueError as error:
            raise UserError(
                f"{display_name(path)}: line {row}: {error}; give an n-best list as Moses or Marian "
                "writes it, without Marian's alignment and word scores"
            ) from error
        if entry.sentence < last:
            raise UserError(
                f"{display_name(path)}: line {row}: sentence {entry.sentence} after {last}; sort the list by sentence"
            )
        last = entry.sentence
        yield entry


def write_nbest(path: Path, entries: Iterable[NbestEntry]) -> None:
    """Write a list, completely or not at all."""
    with open_output(path) as stream:
        for entry in entries:
            stream.write(entry.to_line())


_UNSIGNED = 1 << 64
"""Moses computes positions with unsigned 64-bit integers, modulo this number."""


class Segment(NamedTuple):
    """A phrase of a derivation: source words `start` to `end`, inclusive, and their translation."""

    start: int
    end: int
    words: Words


def segments_of(entry: NbestEntry) -> list[Segment]:
    """Return the phrases of an n-best entry, in target order; a ListFault says what its segmentation lacks."""
    try:
        sides = [field.split(b"=") for field in words_of(entry.extras[0])]
        sources, ranges = ([[int(position) for position in side[i].split(b"-")] for side in sides] for i in (0, 1))
    except (IndexError, ValueError) as error:
        raise ListFault(
            f"an entry of sentence {entry.sentence} has no segmentation after its total, which scorers of phrases "
            "need; decode with -include-segmentation-in-n-best, or give scorers of sentences only"
        ) from error
    words = words_of(entry.words)
    # A phrase ends where the next one begins. An empty phrase has a range of one word, its position. At the start of a
    # sentence, Moses computes its end as 0 - 1, which wraps around.
    bounds = [*pairwise([*(positions[0] for positions in ranges), len(words)])]
    fits = all(
        end - start in ({1, 0} if len(positions) == 1 else {(positions[-1] - start + 1) % _UNSIGNED})
        for positions, (start, end) in zip(ranges, bounds, strict=True)
    )
    if not fits or (ranges[0][0] if ranges else len(words)):
        raise ListFault(f"an entry of sentence {entry.sentence} has a segmentation that does not fit its words")
    targets = [words[start:end] for start, end in bounds]
    return [Segment(source[0], source[-1], target) for source, target in zip(sources, targets, strict=True)]


def cover_once(segments: Sequence[Segment], length: int) -> bool:
    """Whether the phrases cover each of the `length` source words exactly once."""
    # Check bounds first: the positions of a damaged list may exceed memory.
    if not all(0 <= segment.start <= segment.end < length for segment in segments):
        return False
    covered = [position for segment in segments for position in range(segment.start, segment.end + 1)]
    return sorted(covered) == list(range(length))
