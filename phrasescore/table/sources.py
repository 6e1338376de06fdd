"""Which source phrases occur in given texts: the filter that makes a table fit a test set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.files import sha256_of_input
from phrasescore.text import Say, silently, text_lines
from phrasescore.words import phrases_of, split_words
from phrasescore.workers import Shared, Stored

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
            phrases.update(phrases_of(split_words(line), longest))
    return frozenset(phrases)


@dataclass(frozen=True)
class SourcesInTexts:
    """How to find the phrases of some texts where another process is."""

    texts: tuple[Stored, ...]

    def __call__(self) -> frozenset[bytes]:
        """Return the phrases.

        Raises:
            UserError: a text is not to be seen from there, or is another one now.
        """
        for text in self.texts:
            text.require(sha256_of_input(text.place))
        return phrases_in_texts(text.place for text in self.texts)


def sources_in_texts(paths: Sequence[str | Path], say: Say = silently) -> Shared[frozenset[bytes]]:
    """Return what `phrases_in_texts` does as what a task takes, which reads the texts again if they are files."""
    digests = [sha256_of_input(path) for path in paths]
    texts = tuple(Stored.at(path, digest) for path, digest in zip(paths, digests, strict=True) if digest is not None)
    return Shared(phrases_in_texts(paths, say=say), SourcesInTexts(texts) if len(texts) == len(paths) else None)
