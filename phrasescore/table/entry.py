"""One line of a phrase table, as Moses' loader of text tables parses it.

    source ||| target ||| scores ||| alignment ||| counts ||| sparse ||| properties

The first three fields are required. Lines are bytes. Three bars separate fields, with or without surrounding spaces.
Only spaces and tabs separate words and numbers: a no-break space or U+2028 is part of a word. Moses' loader:
moses/TranslationModel/RuleTable/LoaderStandard.cpp.

In a factored table each word is `surface|POS|...`, and selected factors form the words of the network. All words of one
side have the same number of factors; the other side may have a different number: `-translation-factors 0-0,1` creates a
table with one source factor and two target factors. Moses' parser: moses/Word.cpp, `CreateFromString`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple, Self, get_args

from phrasescore.files import LONGEST_LINE
from phrasescore.text import counted
from phrasescore.words import join_words, moses_number, parse_number, quote, split_words, to_float32

SEPARATOR = b"|||"
FACTOR_DELIMITER = b"|"
LOWEST_LOG = -100.0
"""Moses' floor under the logarithm of every score (moses/TypeDef.h)."""
MOST_WORDS, MOST_BYTES = 1_000, 10_000
"""Longer phrases are errors, which bounds the memory of a pair; Moses' extraction ends at 7 words by default."""
Counted = Literal["target", "source", "pair"]
_COUNTS = get_args(Counted)
"""The meaning of the numbers of the counts field, in order."""
ESCAPE = "rebuild the table, and escape a literal `|` as `&#124;`"
_SPACES = b" \t"
_DIGITS_AND_SPACES = b"0123456789.eE+- "
_SURELY_FINITE = 3e38
"""32-bit floats overflow slightly above this."""
# No phrase has as many words as nine digits allow.
_LINK = re.compile(rb"([0-9]{1,9})-([0-9]{1,9})")


class LineFault(ValueError):
    """An error in a line: field, reason, remedy. The reader adds file and line number."""

    def __init__(
        self, field: str, reason: str, remedy: str, *, found: bytes | None = None, is_about_the_table: bool = False
    ) -> None:
        quoted = "" if found is None else f": `{quote(found)}`"
        super().__init__(f"{field}: {reason}{quoted}; {remedy}")
        self.field, self.reason = field, reason
        self.is_about_the_table = is_about_the_table
        """Whether the whole table is of a kind that cannot be used."""


class Entry(NamedTuple):
    """A line and its required fields, with single spaces between words or numbers."""

    source: bytes
    target: bytes
    scores: bytes
    line: bytes
    end: int
    """The index in the line after the last score."""

    def with_columns(self, columns: bytes) -> bytes:
        """Return the line with the space-separated `columns` after the last score; all other bytes stay unchanged."""
        return b"%b %b%b" % (self.line[: self.end], columns, self.line[self.end :])

    def without_last_score(self) -> Entry:
        others, _, score = self.scores.rpartition(b" ")
        kept = self.line[: self.end].removesuffix(score).rstrip(_SPACES)
        return self._replace(scores=others, line=kept + self.line[self.end :], end=len(kept))

    def score_count(self) -> int:
        return self.scores.count(b" ") + 1 if self.scores else 0

    def factors(self) -> tuple[int, int]:
        """Return the number of factors of a source word and of a target word; 0 for a target without words."""
        return count_factors(self.source), count_factors(self.target)

    def other_fields(self) -> list[bytes]:
        """Return the fields after the scores: alignment, counts, sparse features, properties."""
        _, *fields = (field.strip(_SPACES) for field in without_end(self.line[self.end :]).split(SEPARATOR))
        # Moses itself ends a line whose last field is empty with ` |||`.
        return fields[:-1] if fields and not fields[-1] else fields

    def occurrences(self, of: Counted) -> float | None:
        """Return how often the target, the source or the pair was extracted; None if the table lacks the count."""
        fields = self.other_fields()
        counts = split_words(fields[1]) if len(fields) > 1 else []
        try:
            count = parse_number(counts[_COUNTS.index(of)])
        except (IndexError, ValueError):
            return None
        return count if count >= 0 else None


def without_end(line: bytes) -> bytes:
    """Remove the line end: a line feed, optionally after one carriage return."""
    return line[:-1].removesuffix(b"\r") if line.endswith(b"\n") else line


def cut_line(line: bytes) -> Entry:
    """Split a line, with its line end, into fields without validating their content."""
    fields = line.split(SEPARATOR, 3)
    if len(fields) < 3 or len(line) >= LONGEST_LINE:
        raise fault_of_the_whole(line)
    source, target, scores = fields[:3]
    if len(fields) == 3:
        scores = without_end(scores)
    end = len(source) + len(target) + 2 * len(SEPARATOR) + len(scores.rstrip(_SPACES))
    if line.find(b"  ") >= 0 or line.find(b"\t") >= 0:  # which is quicker than `in`
        return Entry(join_words(source), join_words(target), join_words(scores), line, end)
    return Entry(source.strip(b" "), target.strip(b" "), scores.strip(b" "), line, end)


def cut_source(line: bytes) -> bytes | None:
    """Return the source phrase of a line, None if no field follows it or the line is too long."""
    source, separator, _ = line.partition(SEPARATOR)
    return join_words(source) if separator and len(line) < LONGEST_LINE else None


def parse_line(line: bytes) -> Entry:
    """Split a line, with its line end; raise LineFault if Moses would reject or misread its phrases or scores."""
    return parse_line_and_scores(line)[0]


def parse_line_and_scores(line: bytes) -> tuple[Entry, list[float]]:
    """Return what `parse_line` and `parse_scores` return."""
    if line.find(b"\0") >= 0:
        raise LineFault("line", "holds a NUL byte", "the file is damaged or not UTF-8; convert or rebuild it")
    entry = cut_line(line)
    _check_phrases(entry.source, entry.target)
    return entry, parse_scores(entry.scores)


def fault_of_the_whole(line: bytes) -> LineFault:
    """Return the fault of a line that cannot be split into fields."""
    if len(line) >= LONGEST_LINE:
        return LineFault("line", f"has {LONGEST_LINE:,} bytes or more", "the file is damaged or is no phrase table")
    if not line.strip():
        return LineFault("line", "is empty", "remove it; a phrase table has no empty lines")
    found = "2 fields" if SEPARATOR in line else "1 field"
    return LineFault("line", f"has {found}, at least 3 are needed", "write `source ||| target ||| scores`")


def _check_phrases(source: bytes, target: bytes) -> None:
    if not source:
        raise LineFault("field 1 (source)", "is empty", "remove the line; Moses would skip it")
    both = source + target
    if len(both) < MOST_WORDS and both.find(b"[") < 0 and both.find(FACTOR_DELIMITER) < 0:
        return
    for field, phrase in (("field 1 (source)", source), ("field 2 (target)", target)):
        check_length(field, phrase)
        _check_labels(field, phrase)
        check_factors(field, phrase)


def check_factors(field: str, phrase: bytes) -> None:
    """Raise LineFault if words have other numbers of factors or empty ones, which Moses would misread silently."""
    if FACTOR_DELIMITER not in phrase:
        return
    words = [word.split(FACTOR_DELIMITER) for word in phrase.split(b" ")]
    for factors in words:
        if b"" in factors or len(factors) != len(words[0]):
            reason = "mixes words of different numbers of factors"
            if b"" in factors:
                reason = "has a word with an empty factor"
            raise LineFault(field, reason, ESCAPE, found=FACTOR_DELIMITER.join(factors))


def count_factors(phrase: bytes) -> int:
    """Return the number of factors of the first word of a phrase; 0 without words."""
    if phrase.find(FACTOR_DELIMITER) < 0:
        return 1 if phrase else 0
    return phrase.partition(b" ")[0].count(FACTOR_DELIMITER) + 1


def check_length(field: str, phrase: bytes) -> None:
    """Raise LineFault if a phrase with single spaces between words is too long."""
    if len(phrase) > MOST_BYTES or phrase.count(b" ") >= MOST_WORDS:
        reason = f"has more than {MOST_WORDS:,} words or {MOST_BYTES:,} bytes"
        raise LineFault(field, reason, "no phrase is so long; remove the line")


def _check_labels(field: str, phrase: bytes) -> None:
    for token in phrase.split(b" "):
        if token.startswith(b"[") and token.endswith(b"]") and len(token) > 1:
            raise LineFault(
                field,
                "holds what Moses reads as a label of a hierarchical rule",
                "hierarchical and syntax tables cannot be scored; use a phrase-based table, or escape literal "
                "brackets as `&#91;` and `&#93;`",
                found=token,
                is_about_the_table=True,
            )


def parse_scores(scores: bytes, field: str = "field 3 (scores)") -> list[float]:
    """Parse scores as Moses does, in 32 bits; one that it would reject or read as NaN or infinity is a LineFault."""
    if not scores.translate(None, _DIGITS_AND_SPACES):
        # For these bytes Python's parser gives the same results as Moses.
        with suppress(ValueError):
            numbers = list(map(float, scores.split(b" ")))
            if min(numbers) >= 0 and max(numbers) < _SURELY_FINITE:
                return to_float32(numbers)
    found = []
    for token in split_words(scores):
        try:
            number = moses_number(token)
        except ValueError:
            reason = "has something that Moses cannot read as a number"
            raise LineFault(field, reason, "rebuild the table or fix the line", found=token) from None
        if number < 0:
            reason = "has a number below 0, which Moses silently reads as NaN"
            raise LineFault(field, reason, "columns are probabilities, not logarithms; rebuild the table", found=token)
        if math.isinf(number):
            reason = "has a number beyond 32 bits, which Moses silently reads as infinity"
            raise LineFault(field, reason, "rebuild the table or fix the line", found=token)
        found.append(number)
    if not found:
        raise LineFault(field, "is empty", "each line needs the scores of its phrase pair")
    return found


# A table has few different alignments.
@lru_cache(maxsize=1 << 14)
def parse_alignment(alignment: bytes) -> tuple[tuple[int, int], ...]:
    """Return the links of a field: word positions in the source and in the target, from 0."""
    links = []
    for token in split_words(alignment):
        link = _LINK.fullmatch(token)
        if link is None:
            reason = "is not a list of `source-target` positions"
            raise LineFault("field 4 (alignment)", reason, "rebuild the table or fix the line", found=token)
        links.append((int(link[1]), int(link[2])))
    return tuple(links)


_MOST = 100
"""Upper bound of positions; Moses is compiled for four factors."""


@dataclass(frozen=True)
class Factors:
    """The factors that form a word of the network, joined by `|` in this order."""

    positions: tuple[int, ...] = (0,)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a list of positions such as `0,1`; anything else is a ValueError."""
        if not re.fullmatch(r"[0-9]{1,2}(,[0-9]{1,2})*", text):
            raise ValueError(f"`{text}` is not a list of factors, such as 0 or 0,1; factors count from 0")
        return cls.of([int(position) for position in text.split(",")])

    @classmethod
    def of(cls, positions: object) -> Self:
        """Return the factors at the given positions; anything but a list of distinct integers is a ValueError."""
        if not isinstance(positions, list) or not all(type(one) is int and 0 <= one < _MOST for one in positions):
            raise ValueError(f"`{positions!r:.60}` is not a list of factors; factors count from 0")
        if not positions or len(set(positions)) < len(positions):
            raise ValueError("names no factor, or one twice; name each factor once")
        return cls(tuple(positions))

    def __str__(self) -> str:
        return ",".join(map(str, self.positions))

    def network_words(self, phrase: bytes) -> bytes:
        """Convert a phrase of a table, with single spaces, to the words of the network."""
        if FACTOR_DELIMITER not in phrase:
            return phrase
        words = (word.split(FACTOR_DELIMITER) for word in phrase.split(b" "))
        return b" ".join(FACTOR_DELIMITER.join([word[position] for position in self.positions]) for word in words)

    def network_phrases(self, entries: Iterable[Entry]) -> tuple[list[bytes], list[bytes]]:
        """Convert the source and the target phrases of table lines to the words of the network."""
        pairs = [(self.network_words(entry.source), self.network_words(entry.target)) for entry in entries]
        return [source for source, _ in pairs], [target for _, target in pairs]

    def of_phrase(self, phrase: bytes, field: str) -> bytes:
        """Validate a phrase that is not from a table, and convert it; `field` is its name in messages."""
        check_factors(field, phrase)
        self.require_in(count_factors(phrase), field)
        return self.network_words(phrase)

    def require_in(self, factors: int, field: str) -> None:
        """Raise LineFault if words with `factors` factors lack a selected one; words without factors are valid."""
        if 1 < factors <= max(self.positions):
            raise LineFault(
                field,
                f"has words of {factors} factors, but the network is for factor {max(self.positions)}, counted from 0",
                "train on another factor, or give a table that has it",
                is_about_the_table=True,
            )


SURFACE = Factors()
"""The first factor, by convention the surface form."""


def describe_factors(source: int, target: int) -> str:
    """Return the number of factors of both sides as text."""
    return f"{counted(source, 'factor')} per source word, {counted(target, 'factor')} per target word"
