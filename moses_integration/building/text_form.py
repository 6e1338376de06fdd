"""What a text looks like, plain or prepared, and what is said where that is not what it is given as.

A tokenised text that is taken for plain gives a system that works, and translations that do not look like the
references of such text: BLEU is wrong without an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from phrasescore.text import Say

_LINES = 1000
"""Of a text are looked at."""
_FEW_MARKS = 5
"""Commas and full stops that say too little."""
_MOST = 0.8
"""The share of them from which on a text is of a kind."""
_FEW_LINES = 20
"""With letters that have capitals, which say too little where they have none."""

# A comma anywhere, a full stop at the end of a line: inside of it, it may belong to an abbreviation.
_APART = re.compile(r"(?:^|\s)[,،](?=\s|$)|(?:^|\s)[.。।]\s*$")
_JOINED = re.compile(r"[^\s,][,،](?=\s|$)|[^\s.][.。।]\s*$")
# Those of escape-special-chars.perl that no web page has in their place.
_ESCAPED = re.compile(r"&(?:apos|#91|#93|#124);")


@dataclass
class TextForm:
    """What is counted of the first lines of a text."""

    lines: int = 0
    apart: int = 0
    """Commas and final full stops that are words of their own, as in tokenised text."""
    joined: int = 0
    """Those that are joined to a word, as in plain text."""
    escapes: int = 0
    with_letters: int = 0
    """Lines with letters that have capitals."""
    with_capitals: int = 0

    def add(self, text: str) -> None:
        """Count a line."""
        self.lines += 1
        self.apart += len(_APART.findall(text))
        self.joined += len(_JOINED.findall(text))
        self.escapes += len(_ESCAPED.findall(text))
        self.with_letters += text.lower() != text.upper()
        self.with_capitals += text.lower() != text

    @property
    def is_tokenised(self) -> bool:
        """Whether it looks tokenised for sure."""
        return self.apart >= _FEW_MARKS and self.apart >= _MOST * (self.apart + self.joined)

    @property
    def is_plain(self) -> bool:
        """Whether it looks as people write for sure."""
        return self.joined >= _FEW_MARKS and self.joined >= _MOST * (self.apart + self.joined)

    @property
    def is_escaped(self) -> bool:
        """Whether it has escapes for Moses."""
        return self.escapes > 0

    @property
    def is_lower_cased(self) -> bool:
        """Whether capitals are missing for sure."""
        return self.with_letters >= _FEW_LINES and self.with_capitals == 0

    def unlike(self, other: TextForm) -> str | None:
        """Return in words how another text that should look alike looks other than this one; None if it does not."""
        if (self.is_plain and other.is_tokenised) or (self.is_tokenised and other.is_plain):
            return "one is tokenised and the other is plain text"
        if self.is_escaped != other.is_escaped:
            return "one has Moses' escapes, as &apos;, and the other has none"
        if self.is_lower_cased != other.is_lower_cased and min(self.with_letters, other.with_letters) >= _FEW_LINES:
            return "one has capitals and the other has none"
        return None


@dataclass(frozen=True)
class Advice:
    """What to do where a text looks other than it is given as."""

    if_tokenised: str
    if_plain: str
    if_escaped: str
    if_lower_cased: str


FOR_TRAINING_TEXT = Advice(
    "if it is, give --tokenised, or translations will not look like it",
    "if it is, leave out --tokenised",
    "give --tokenised --escaped",
    "give --casing keep if they should not",
)
FOR_TEXT_OF_A_SYSTEM = Advice(
    "give text as the system was built of, or --prepared if it is as in the system's corpus/",
    "give text that is tokenised as what the system was built of",
    "give text without escapes, or --prepared if it is as in the system's corpus/",
    "give text with capitals, as what the system was built of",
)


@dataclass(frozen=True)
class TextClaim:
    """What a text is given as."""

    tokenised: bool
    escaped: bool
    has_capitals: bool
    """Whether translations are to begin with one."""
    advice: Advice

    def doubts(self, form: TextForm) -> Iterator[str]:
        """Yield what a text looks like that it is not given as, and what to do."""
        advice = self.advice
        marks, lines = f"of {form.apart + form.joined} commas and final full stops", form.with_letters
        if form.is_tokenised and not self.tokenised:
            yield f"looks tokenised, for {form.apart} {marks} stand apart, but is taken as plain; {advice.if_tokenised}"
        if form.is_plain and self.tokenised:
            yield f"looks like plain text, for {form.joined} {marks} are joined to a word; {advice.if_plain}"
        if form.is_escaped and not self.escaped:
            yield f"has {form.escapes} of Moses' escapes, as &apos;, which are taken for text; {advice.if_escaped}"
        if form.is_lower_cased and self.has_capitals:
            yield f"has no capital in {lines} lines, but translations will begin with one; {advice.if_lower_cased}"


def noting_form(lines: Iterable[bytes], name: str, claim: TextClaim, say: Say) -> Iterator[bytes]:
    """Yield the lines of a text that messages call `name`; `say` is told where the first ones look unlike the claim."""
    form = TextForm()
    for line in lines:
        if form.lines < _LINES:
            form.add(line.decode("utf-8", "replace"))
        yield line
    for doubt in claim.doubts(form):
        say(f"{name}: {doubt}")


def form_of(lines: Iterable[str]) -> TextForm:
    """Return what the first lines of a text look like."""
    form = TextForm()
    for line in islice(lines, _LINES):
        form.add(line)
    return form
