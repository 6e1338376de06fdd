"""Source phrases in given texts, to filter a table for a test set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.files import sha256_of_input
from phrasescore.text import Log, no_log, text_lines
from phrasescore.words import phrases_of, split_words
from phrasescore.workers import Shared, Stored

# Moses looks up spans of at most this many words by default (max-phrase-length).
LONGEST_PHRASE = 20


def phrases_in_texts(paths: Iterable[str | Path], longest: int = LONGEST_PHRASE, log: Log = no_log) -> frozenset[bytes]:
    """Return every run of 1 to `longest` words in the lines of tokenised texts.

    A table filtered by these sources translates the texts in the same way as the whole table
    (scripts/training/filter-model-given-input.pl). `log` is called if lines are not UTF-8.

    Raises:
        UserError: a file cannot be read, or is not a text.
    """
    phrases: set[bytes] = set()
    for path in paths:
        for line in text_lines(path, log):
            phrases.update(phrases_of(split_words(line), longest))
    return frozenset(phrases)


@dataclass(frozen=True)
class SourcesInTexts:
    """Collects the phrases of texts in a worker process."""

    texts: tuple[Stored, ...]

    def __call__(self) -> frozenset[bytes]:
        """Return the phrases.

        Raises:
            UserError: a text is not accessible to the worker, or has changed.
        """
        for text in self.texts:
            text.require(sha256_of_input(text.place))
        return phrases_in_texts(text.place for text in self.texts)


def sources_in_texts(paths: Sequence[str | Path], log: Log = no_log) -> Shared[frozenset[bytes]]:
    """Return the result of `phrases_in_texts` as a handle for tasks; workers read the texts again if they are files."""
    digests = [sha256_of_input(path) for path in paths]
    texts = tuple(Stored.at(path, digest) for path, digest in zip(paths, digests, strict=True) if digest is not None)
    return Shared(phrases_in_texts(paths, log=log), SourcesInTexts(texts) if len(texts) == len(paths) else None)
