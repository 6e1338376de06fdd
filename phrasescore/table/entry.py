"""One line of a phrase table.

    source ||| target ||| scores ||| alignment ||| counts ||| sparse ||| properties

The first three fields are required. Lines are bytes and are split on ` ||| ` and on the blank only: a
no-break space or U+2028 is part of a word. Moses' loader: moses/TranslationModel/RuleTable/LoaderStandard.cpp.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args, overload

from phrasescore.words import split_words

SEPARATOR = b" ||| "
Counted = Literal["target", "source", "pair"]
_COUNTS = get_args(Counted)
"""What the numbers of the counts field count, in their order."""
_LONGEST_QUOTE = 40


class LineFault(ValueError):
    """What is wrong with a line: the field, the reason, the remedy. The reader adds file and line number."""

    def __init__(self, field: str, reason: str, remedy: str, *, is_about_the_table: bool = False) -> None:
        super().__init__(f"{field}: {reason}; {remedy}")
        self.field, self.reason = field, reason
        self.is_about_the_table = is_about_the_table
        """Whether the line shows that the whole table is of a kind that cannot be used."""


class Entry(NamedTuple):
    """A line cut into the parts that matter; joined again they are the line, byte for byte."""

    source: bytes
    target: bytes
    scores: bytes
    rest: bytes
    """Everything after the last score: the other fields with their separators, and the end of the line."""

    def to_line(self) -> bytes:
        """Return the line the entry was parsed from."""
        return SEPARATOR.join((self.source, self.target, self.scores)) + self.rest

    def with_columns(self, columns: bytes) -> bytes:
        """Return the line with the blank-separated `columns` after the last score."""
        scores = self.scores + b" " + columns if self.scores else columns
        return SEPARATOR.join((self.source, self.target, scores)) + self.rest

    def score_count(self) -> int:
        """Return the number of scores. Empty tokens do not count: Moses skips them."""
        if b"  " in self.scores or self.scores.startswith(b" "):
            return len(split_words(self.scores))
        return self.scores.count(b" ") + 1

    def other_fields(self) -> list[bytes]:
        """Return the fields after the scores: alignment, counts, sparse features, properties."""
        # Of two separators with nothing between them the blank may be shared.
        _, *fields = (field.strip(b" ") for field in self.rest.rstrip(b" \r\n").split(b"|||"))
        # Moses itself ends a line whose last field is empty with ` |||`.
        return fields[:-1] if fields and not fields[-1] else fields

    @overload
    def occurrences(self, of: Counted) -> float | None: ...

    @overload
    def occurrences(self, of: Counted, default: float) -> float: ...

    def occurrences(self, of: Counted, default: float | None = None) -> float | None:
        """Return how often the target, the source or the pair was extracted, the default if the table does not say."""
        fields = self.other_fields()
        counts = fields[1].split(b" ") if len(fields) > 1 else []
        try:
            count = float(counts[_COUNTS.index(of)])
        except (IndexError, ValueError):
            return default
        return count if 0 <= count < math.inf else default


def cut_line(line: bytes) -> Entry:
    """Cut a line, with its line end, into fields without looking into them.

    Raises:
        LineFault: it has fewer than three fields.
    """
    fields = line.split(SEPARATOR, 3)
    if len(fields) == 4:
        source, target, scores, rest = fields
        kept, rest = scores.rstrip(b" "), SEPARATOR + rest
    elif len(fields) == 3:
        source, target, scores = fields
        # The last score may be followed by the line end, or by a closing `|||`.
        kept, rest = scores.rstrip(b" \r\n").removesuffix(b"|||").rstrip(b" "), b""
    else:
        raise _too_few_fields(line)
    return Entry(source, target, kept, scores[len(kept) :] + rest)


def parse_line(line: bytes) -> Entry:
    """Cut a line, with its line end, and check its phrases and scores.

    Raises:
        LineFault: it is not a line of a phrase-based, unfactored table that Moses would load.
    """
    if b"\0" in line:
        raise LineFault("line", "holds a NUL byte", "the file is damaged or not UTF-8; convert or rebuild it")
    entry = cut_line(line)
    check_phrases(entry.source, entry.target)
    _check_scores(entry.scores)
    return entry


def _too_few_fields(line: bytes) -> LineFault:
    if not line.strip():
        return LineFault("line", "is empty", "remove it; a phrase table has no empty lines")
    found = "1 field" if SEPARATOR not in line else "2 fields"
    return LineFault(
        "line",
        f"has {found}, at least 3 are needed",
        "write `source ||| target ||| scores` with one blank on both sides of each `|||`",
    )


def check_phrases(source: bytes, target: bytes) -> None:
    """Check that phrases are words alone, without factors or labels of a hierarchical rule.

    Raises:
        LineFault: they are not, or the source is empty.
    """
    if not source.strip(b" "):
        raise LineFault("field 1 (source)", "is empty", "remove the line; Moses would skip it")
    if b"[" in source or b"[" in target:
        for field, phrase in (("field 1 (source)", source), ("field 2 (target)", target)):
            _check_labels(field, phrase)
    if b"|" in source or b"|" in target:
        field = "field 1 (source)" if b"|" in source else "field 2 (target)"
        raise LineFault(
            field,
            "holds `|`, which separates the factors of a factored table",
            "factored tables cannot be scored; train without factors, or escape a literal `|` as `&#124;`",
            is_about_the_table=True,
        )


def _check_labels(field: str, phrase: bytes) -> None:
    for token in phrase.split(b" "):
        if token.startswith(b"[") and token.endswith(b"]") and len(token) > 1:
            raise LineFault(
                field,
                f"holds `{quote(token)}`, which Moses reads as a label of a hierarchical rule",
                "hierarchical and syntax tables cannot be scored; use a phrase-based table, or escape literal "
                "brackets as `&#91;` and `&#93;`",
                is_about_the_table=True,
            )


def _check_scores(scores: bytes) -> None:
    if not scores:
        raise LineFault("field 3 (scores)", "is empty", "each line needs the scores of its phrase pair")
    try:
        for number in scores.split(b" "):
            float(number or b"0")
            if b"_" in number:  # as Python may write a number, and Moses may not
                raise ValueError
    except ValueError:
        raise LineFault(
            "field 3 (scores)", f"`{quote(number)}` is not a number", "rebuild the table or mend the line"
        ) from None


def quote(text: bytes) -> str:
    """Return bytes as printable text for a message, cut where it gets long."""
    shown = text.decode("utf-8", "backslashreplace")
    if not shown.isprintable():
        shown = shown.encode("unicode_escape").decode("ascii")
    return shown if len(shown) <= _LONGEST_QUOTE else shown[: _LONGEST_QUOTE - 3] + "..."
