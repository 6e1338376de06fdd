"""From raw text to the text that Moses is trained on and translates, and back again.

Prepared text has a sentence on each line, its words separated by single blanks. Training, development and test text
go through the same `Preparation`; what it learns from the training text, a `Truecaser`, lies in a file beside the
system. Words are split from punctuation, and joined to it again, by `phrasescore.tokenisation`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal

from moses_integration.building.text_form import FOR_TEXT_OF_A_SYSTEM, FOR_TRAINING_TEXT, Advice, TextClaim, noting_form
from moses_integration.building.truecaser import Truecaser, capitalise
from phrasescore.errors import UserError
from phrasescore.files import display_name, write_lines
from phrasescore.text import Say, chunks, silently, text_lines
from phrasescore.tokenisation import detokenise, tokenise, with_single_blanks
from phrasescore.workers import share_work

Casing = Literal["lower", "true", "keep"]

# A second's work for one process; to start another takes half a second.
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
    """How the text of one language is prepared. Every line gives one line, even an empty one."""

    language: str
    """Its code, as en, which chooses the abbreviations and the rules for apostrophes and quotation marks."""
    tokenise: bool = True
    """Normalise the punctuation and split it from the words. Otherwise the words stay as blanks separate them."""
    casing: Casing = "lower"
    """`true` writes each word as it is mostly written inside of sentences."""
    escape: bool = True
    """Replace the characters that mean something to Moses, & | < > ' " [ ]. Not for text that has its escapes."""

    def apply(
        self, lines: Iterable[bytes], truecaser: Truecaser | None = None, processes: int | None = None
    ) -> Iterator[bytes]:
        """Return the lines prepared, when there are many by so many processes, all cores if that is None.

        Bytes that are not UTF-8 pass through, but the tokeniser takes them for words.

        Raises:
            ValueError: there is a truecaser and the casing is not `true`, or none and it is.
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
        """Return translations as plain text: unescaped, sentences begun with a capital, punctuation joined to words.

        Each of the three is done where `apply` does the reverse. What casing `lower` took away stays lost; what else
        does not come back as it was is in docs/formats.md.
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
    say: Say = silently,
    advice: Advice = FOR_TEXT_OF_A_SYSTEM,
    processes: int | None = None,
) -> None:
    """Prepare a text file into another of as many lines.

    `say` is told of lines that are not UTF-8, and where the text looks other than it is prepared for, with `advice`.

    Raises:
        UserError: a file cannot be read or written, is no text, or has escapes and is to get them.
    """
    write_lines(output, preparation.apply(_noted(raw, preparation, say, advice), truecaser, processes))


def prepare_training_file(
    raw: Path,
    output: Path,
    preparation: Preparation,
    model: Path,
    say: Say = silently,
    processes: int | None = None,
) -> Truecaser | None:
    """Prepare a training text. For casing `true`, learn the truecaser from it, save it to `model` and return it.

    `say` is told what `prepare_file` tells.

    Raises:
        UserError: a file cannot be read or written.
    """
    lines = _noted(raw, preparation, say, FOR_TRAINING_TEXT)
    if preparation.casing != "true":
        write_lines(output, preparation.apply(lines, processes=processes))
        return None
    cased = [_decode(line) for line in replace(preparation, casing="keep").apply(lines, processes=processes)]
    truecaser = Truecaser.learn(cased)
    truecaser.save(model)
    write_lines(output, (_encode(truecaser.apply(text)) for text in cased))
    return truecaser


def escape(text: str) -> str:
    """Replace the characters that mean something to Moses."""
    return text.translate(_TO_ESCAPES)


def unescape(text: str) -> str:
    """Undo `escape`."""
    return _ESCAPE.sub(lambda match: _FROM_ESCAPES[match[0]], text)


def _noted(raw: str | Path, preparation: Preparation, say: Say, advice: Advice) -> Iterator[bytes]:
    """Yield the lines of a text, and tell what is odd about them."""
    claim = TextClaim(not preparation.tokenise, not preparation.escape, preparation.casing == "true", advice)
    lines, name = text_lines(raw, say), display_name(raw)
    if preparation.escape and not preparation.tokenise:
        lines = _without_escapes(lines, name, advice.if_escaped)
    return noting_form(lines, name, claim, say)


def _without_escapes(lines: Iterable[bytes], name: str, remedy: str) -> Iterator[bytes]:
    """Yield lines whose special characters are to be escaped: one that has escapes, as `&apos;`, would get others.

    Raises:
        UserError: one has.
    """
    for number, line in enumerate(lines, 1):
        found = _ESCAPE.search(_decode(line))
        if found:
            raise UserError(
                f"{name}: line {number}: has `{found[0]}`, as text that is escaped for Moses; {remedy}, or write "
                f"`{unescape(found[0])}` if only some lines are"
            )
        yield line


def _decode(line: bytes) -> str:
    return line.decode("utf-8", "surrogateescape")


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _tokenised(texts: Iterator[str], language: str, processes: int | None) -> Iterator[str]:
    """Tokenise lines, when there are many in several processes."""
    tasks = chunks(texts, _LINES_A_TASK)
    first = next(tasks, [])
    killed = "tokenising: a process was killed, most likely for want of memory; close other programs"
    with share_work(killed, processes=processes if len(first) == _LINES_A_TASK else 1) as workers:
        for tokenised in workers.in_order(partial(tokenise, language=language), chain([first], tasks)):
            yield from tokenised
