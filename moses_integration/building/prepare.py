"""From raw text to the text that Moses is trained on and translates, and back.

Prepared text has a sentence on each line, its words separated by single spaces. Training, development and test text
go through the same `Preparation`. Its `Truecaser` is learnt from the training text and is a file of the system.
`phrasescore.tokenisation` splits punctuation from words and joins it again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from moses_integration.building.text_form import (
    SYSTEM_TEXT_ADVICE,
    TRAINING_TEXT_ADVICE,
    Advice,
    DeclaredForm,
    warn_about_form,
)
from moses_integration.building.truecaser import Truecaser, capitalise
from phrasescore.errors import UserError
from phrasescore.files import display_name, write_lines
from phrasescore.text import Log, chunks, no_log, text_lines
from phrasescore.tokenisation import detokenise, tokenise, with_single_blanks
from phrasescore.workers import map_ordered, start_workers

Casing = Literal["lower", "true", "keep"]

# One process needs a second for it; starting another process takes half a second.
_LINES_A_TASK = 10_000

# escape-special-chars.perl
_ESCAPES = {
    "&": "&amp;",
    "|": "&#124;",
    "<": "&lt;",
    ">": "&gt;",
    "'": "&apos;",
    '"': "&quot;",
    "[": "&#91;",
    "]": "&#93;",
}
_TO_ESCAPES = str.maketrans(_ESCAPES)
_FROM_ESCAPES = {escaped: character for character, escaped in _ESCAPES.items()}
_ESCAPE = re.compile("|".join(_FROM_ESCAPES))


@dataclass(frozen=True)
class Preparation:
    """How the text of one language is prepared, line by line."""

    language: str
    """A code such as en, which selects abbreviations and the rules for apostrophes and quotation marks."""
    tokenise: bool = True
    """Normalise punctuation and split it from the words. Otherwise, spaces separate words."""
    casing: Casing = "lower"
    """`true`: truecase."""
    escape: bool = True
    """Replace the characters & | < > ' " [ ], which have a meaning in Moses. Not for text that is escaped already."""

    def apply(
        self, lines: Iterable[bytes], truecaser: Truecaser | None = None, processes: int | None = None
    ) -> Iterator[bytes]:
        """Prepare lines, many of them in parallel (`processes`: None for all cores).

        Bytes that are not UTF-8 pass through; the tokeniser takes them for words.

        Raises:
            ValueError: a truecaser is missing, or given although the casing is not `true`.
        """
        if (truecaser is not None) != (self.casing == "true"):
            raise ValueError(f"casing `{self.casing}` {'without' if truecaser is None else 'with'} a truecaser")
        texts: Iterator[str] = map(_decode, lines)
        texts = _tokenised(texts, self.language, processes) if self.tokenise else map(with_single_blanks, texts)
        if self.escape:
            texts = map(escape, texts)
        if truecaser is not None:
            texts = map(truecaser.apply, texts)
        elif self.casing == "lower":
            texts = map(str.lower, texts)
        return map(_encode, texts)

    def detokenise(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        """Return translations as plain text: unescape, capitalise sentences, join punctuation to words.

        Each step applies only if its counterpart in `apply` does. docs/formats.md lists what is not restored.
        """
        texts: Iterator[str] = map(_decode, lines)
        if self.escape:
            texts = map(unescape, texts)
        if self.casing == "true":
            texts = map(capitalise, texts)
        if self.tokenise:
            texts = detokenise(texts, self.language)
        return map(_encode, texts)


def prepare_file(
    raw: str | Path,
    output: Path,
    preparation: Preparation,
    truecaser: Truecaser | None = None,
    log: Log = no_log,
    advice: Advice = SYSTEM_TEXT_ADVICE,
    processes: int | None = None,
) -> None:
    """Prepare a text file, line by line.

    Warn (`log`) about lines that are not UTF-8 and about text whose form is not as declared, with `advice`.

    Raises:
        UserError: the text has escapes and would be escaped again, or is not text.
    """
    write_lines(output, preparation.apply(_checked_lines(raw, preparation, log, advice), truecaser, processes))


def prepare_training_file(
    raw: Path,
    output: Path,
    preparation: Preparation,
    model: Path,
    log: Log = no_log,
    processes: int | None = None,
) -> Truecaser | None:
    """Prepare a training text. For casing `true`, learn the truecaser from it, save it to `model` and return it.

    Raises:
        UserError: see `prepare_file`.
    """
    lines = _checked_lines(raw, preparation, log, TRAINING_TEXT_ADVICE)
    if preparation.casing != "true":
        write_lines(output, preparation.apply(lines, processes=processes))
        return None
    cased = [_decode(line) for line in replace(preparation, casing="keep").apply(lines, processes=processes)]
    truecaser = Truecaser.learn(cased)
    truecaser.save(model)
    write_lines(output, (_encode(truecaser.apply(text)) for text in cased))
    return truecaser


def escape(text: str) -> str:
    """Replace the characters that have a meaning in Moses."""
    return text.translate(_TO_ESCAPES)


def unescape(text: str) -> str:
    """Undo `escape`."""
    return _ESCAPE.sub(lambda match: _FROM_ESCAPES[match[0]], text)


def _checked_lines(raw: str | Path, preparation: Preparation, log: Log, advice: Advice) -> Iterator[bytes]:
    declared = DeclaredForm(not preparation.tokenise, not preparation.escape, preparation.casing == "true", advice)
    lines, name = text_lines(raw, log), display_name(raw)
    if preparation.escape and not preparation.tokenise:
        lines = _without_escapes(lines, name, advice.if_escaped)
    return warn_about_form(lines, name, declared, log)


def _without_escapes(lines: Iterable[bytes], name: str, remedy: str) -> Iterator[bytes]:
    """Raise a UserError for text that would be escaped twice."""
    for number, line in enumerate(lines, 1):
        found = _ESCAPE.search(_decode(line))
        if found:
            raise UserError(
                f"{name}: line {number}: has `{found[0]}`, an escape of Moses; {remedy}, or write "
                f"`{unescape(found[0])}` if only some lines are escaped"
            )
        yield line


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _tokenised(texts: Iterator[str], language: str, processes: int | None) -> Iterator[str]:
    """Tokenise lines, many of them in several processes."""
    tasks = chunks(texts, _LINES_A_TASK)
    first = next(tasks, [])
    killed = "tokenising: a process was killed, probably because memory ran out; close other programs"
    with start_workers(killed, processes=processes if len(first) == _LINES_A_TASK else 1) as workers:
        for tokenised in map_ordered(partial(tokenise, language=language), chain([first], tasks), workers):
            yield from tokenised
