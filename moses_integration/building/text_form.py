"""Detect whether text is plain or prepared, and warn where it is not as declared.

Tokenised text that is taken for plain text gives a working system, but BLEU against its references is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from phrasescore.errors import arg_name
from phrasescore.text import Log

# The lines of a text that are examined.
_LINES = 1000
# Commas and full stops that suffice for a decision, and the share of them that must be of one kind.
_MIN_MARKS, _MIN_SHARE = 5, 0.8
# Lines with cased letters that suffice for a decision.
_MIN_LINES = 20

# Full stops count at the end of a line only: elsewhere they may belong to an abbreviation.
_SEPARATE = re.compile(r"(?:^|\s)[,،](?=\s|$)|(?:^|\s)[.。।]\s*$")
_JOINED = re.compile(r"[^\s,][,،](?=\s|$)|[^\s.][.。।]\s*$")
# The escapes of escape-special-chars.perl that HTML does not use.
_ESCAPED = re.compile(r"&(?:apos|#91|#93|#124);")
_UNESCAPED = re.compile(r"['\[\]|]")


@dataclass
class TextForm:
    """Counts over the first lines of a text."""

    separate: int = 0
    """Commas and final full stops that are tokens, as in tokenised text."""
    joined: int = 0
    """Commas and final full stops that are joined to a word, as in plain text."""
    escapes: int = 0
    unescaped: int = 0
    """Characters that Moses escapes."""
    cased: int = 0
    with_capitals: int = 0

    def add(self, text: str) -> None:
        self.separate += len(_SEPARATE.findall(text))
        self.joined += len(_JOINED.findall(text))
        self.escapes += len(_ESCAPED.findall(text))
        self.unescaped += len(_UNESCAPED.findall(text))
        self.cased += text.lower() != text.upper()
        self.with_capitals += text.lower() != text

    @property
    def is_tokenised(self) -> bool | None:
        """Whether the text is tokenised or plain, None if it is neither clearly."""
        needed = max(_MIN_MARKS, _MIN_SHARE * (self.separate + self.joined))
        return True if self.separate >= needed else False if self.joined >= needed else None

    @property
    def is_escaped(self) -> bool | None:
        """Whether the text has Moses' escapes, None if it has neither escapes nor such characters, or both."""
        return None if bool(self.escapes) == bool(self.unescaped) else self.escapes > 0

    @property
    def is_lower_cased(self) -> bool:
        """Whether the text clearly has no capitals."""
        return self.cased >= _MIN_LINES and self.with_capitals == 0

    def difference(self, other: TextForm) -> str | None:
        if {self.is_tokenised, other.is_tokenised} == {True, False}:
            return "one is tokenised and the other is plain text"
        if {self.is_escaped, other.is_escaped} == {True, False}:
            return "one has Moses' escapes, as &apos;, and the other has none"
        if self.is_lower_cased != other.is_lower_cased and min(self.cased, other.cased) >= _MIN_LINES:
            return "one has capitals and the other has none"
        return None


def form_of(lines: Iterable[str]) -> TextForm:
    """Return the form of a text."""
    form = TextForm()
    for line in islice(lines, _LINES):
        form.add(line)
    return form


def warn_about_form(
    lines: Iterable[bytes], name: str, log: Log, *, tokenised: bool, escaped: bool, capitalised: bool
) -> Iterator[bytes]:
    """Yield the lines of a text; warn after the last one if the first ones differ from the declared form.

    `capitalised` is whether translations will begin with a capital.
    """
    form = TextForm()
    for number, line in enumerate(lines):
        if number < _LINES:
            form.add(line.decode("utf-8", "replace"))
        yield line
    prepared = arg_name("prepared")
    marks = f"of {form.separate + form.joined} commas and final full stops are"
    if form.is_tokenised and not tokenised:
        log(
            f"{name}: looks tokenised ({form.separate} {marks} separate tokens), but is treated as plain text; give "
            f"{arg_name('tokenised')} to `build`, or {prepared} if the text is like that in the system's corpus/"
        )
    if form.is_tokenised is False and tokenised:
        log(
            f"{name}: looks like plain text ({form.joined} {marks} joined to a word), but is treated as tokenised; "
            f"leave out {arg_name('tokenised')} or {prepared}"
        )
    if form.escapes and not escaped:
        log(
            f"{name}: has {form.escapes} of Moses' escapes, as &apos;, which are treated as text; give "
            f"{arg_name('tokenised')} and {arg_name('escaped')} to `build`, or {prepared} if the text is like that in "
            "the system's corpus/"
        )
    if form.is_lower_cased and capitalised:
        log(
            f"{name}: has no capital in {form.cased} lines, but translations will begin with one; give text with "
            f"capitals, or {arg_name('casing', 'keep')} to `build`"
        )
