"""Check input text for words that Moses' decoder would misread."""

from __future__ import annotations

from collections.abc import Iterable

from phrasescore.errors import UserError
from phrasescore.words import quote, split_words


def require_moses_words(sentences: Iterable[bytes], name: object, factors: int = 1) -> None:
    """Check that Moses reads every word of the sentences as a word.

    Args:
        sentences: prepared text.
        name: the file name, for messages.
        factors: per word. Moses stops at a word with fewer factors, and ignores additional ones silently.

    Raises:
        UserError: Moses would misread a word.
    """
    for number, sentence in enumerate(sentences, 1):
        for word in split_words(sentence):
            if _is_non_terminal(word):
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, which Moses takes for a non-terminal of a grammar; "
                    "write its brackets as `&#91;` and `&#93;`"
                )
            if word.count(b"|") != factors - 1:
                raise UserError(
                    f"{name}: line {number}: has `{quote(word)}`, where Moses expects {factors} "
                    f"{'factor' if factors == 1 else 'factors'} a word, separated by `|`; write other `|` as "
                    "`&#124;`"
                )
        if _has_markup(sentence):
            raise UserError(
                f"{name}: line {number}: has a tag `<seg ...>` or `<dlt .../>`, which Moses does not translate; remove "
                "it, or write `<` as `&lt;`"
            )


def _is_non_terminal(word: bytes) -> bool:
    """Whether a word is in brackets (Phrase::CreateFromString, moses/Phrase.cpp)."""
    return len(word) > 1 and word.startswith(b"[") and word.endswith(b"]")


def _has_markup(sentence: bytes) -> bool:
    """Whether Moses removes tags from a line (ProcessAndStripSGML and ProcessAndStripDLT, moses/Util.cpp)."""
    line = sentence.strip(b" \t\r\n").lower()
    return (line.startswith(b"<seg") and b">" in line) or (b"<dlt" in line and b"/>" in line)
