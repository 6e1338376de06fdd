"""What Moses' decoder takes for something else than words in a line of plain text."""

from __future__ import annotations

from collections.abc import Iterable

from phrasescore.errors import UserError
from phrasescore.words import quote, split_words


def require_moses_words(sentences: Iterable[bytes], name: object, factors: int = 1) -> None:
    """Check that Moses reads sentences as their words.

    Args:
        sentences: prepared text.
        name: that of their file, for messages.
        factors: how many each word has. Moses stops at a word with fewer, and ignores more without a warning.

    Raises:
        UserError: Moses would stop at a sentence, or translate something else.
    """
    for number, sentence in enumerate(sentences, 1):
        for word in split_words(sentence):
            if _is_non_terminal(word):
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, which Moses takes for a non-terminal of a grammar; "
                    "write its brackets as `&#91;` and `&#93;`, as prepared text has them"
                )
            if word.count(b"|") != factors - 1:
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, where Moses expects {factors} "
                    f"{'factor' if factors == 1 else 'factors'} a word, separated by `|`; write a `|` that separates "
                    "none as `&#124;`, as prepared text has it"
                )
        if _has_markup(sentence):
            raise UserError(
                f"{name}: line {number}: has a tag `<seg ...>` or `<dlt .../>`, which Moses does not translate; remove "
                "it, or write `<` as `&lt;`, as prepared text has it"
            )


def _is_non_terminal(word: bytes) -> bool:
    """Whether a word stands in brackets (Phrase::CreateFromString, moses/Phrase.cpp)."""
    return len(word) > 1 and word.startswith(b"[") and word.endswith(b"]")


def _has_markup(sentence: bytes) -> bool:
    """Whether Moses takes tags from a line (ProcessAndStripSGML and ProcessAndStripDLT, moses/Util.cpp)."""
    line = sentence.strip(b" \t\r\n").lower()
    return (line.startswith(b"<seg") and b">" in line) or (b"<dlt" in line and b"/>" in line)
