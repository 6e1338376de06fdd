"""Which source phrases occur in given texts: the filter that makes a table fit a test set."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from phrasescore.text import Say, silently, text_lines
from phrasescore.words import split_words

# Moses looks up spans of at most this many words by default (max-phrase-length).
LONGEST_PHRASE = 20


def phrases_in_texts(
    paths: Iterable[str | Path], longest: int = LONGEST_PHRASE, say: Say = silently
) -> frozenset[bytes]:
    """Return every run of 1 to `longest` words in the lines of tokenised texts.

    A table reduced to these sources translates the texts as the whole one does
    (scripts/training/filter-model-given-input.pl). `say` is told of lines that are not UTF-8.

    Raises:
        UserError: a text cannot be read, or is none.
    """
    phrases: set[bytes] = set()
    for path in paths:
        for line in text_lines(path, say):
            words = split_words(line)
            for start in range(len(words)):
                for end in range(start + 1, min(start + longest, len(words)) + 1):
                    phrases.add(b" ".join(words[start:end]))
    return frozenset(phrases)
