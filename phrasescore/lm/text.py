"""A text as word ids that are assigned before the vocabulary is chosen."""

from __future__ import annotations

from array import array
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.phrases import Phrases, offsets_of
from phrasescore.text import text_lines
from phrasescore.vocabulary import Vocabulary
from phrasescore.words import split_words


@dataclass(frozen=True)
class NumberedText:
    """A text whose words are numbered by first occurrence."""

    words: list[bytes]
    """The distinct words, indexed by their ids."""
    sentences: Phrases
    """The ids of each line's words."""

    def counts(self) -> Counter[bytes]:
        """Return the number of occurrences of each word."""
        times = np.bincount(self.sentences.ids, minlength=len(self.words)).tolist()
        return Counter(dict(zip(self.words, times, strict=True)))

    def encode(self, vocabulary: Vocabulary) -> Phrases:
        """Convert the sentences to ids of a vocabulary."""
        id_of_number = vocabulary.encode(self.words).ids
        return Phrases(id_of_number[self.sentences.ids], self.sentences.offsets)


def read_text(path: str | Path, read: Callable[[str | Path], Iterator[bytes]] = text_lines) -> NumberedText:
    """Read a tokenised text, one sentence a line, in four bytes of memory per word.

    Args:
        path: the text.
        read: yields its lines and handles lines that are not UTF-8.

    Raises:
        UserError: the file cannot be read, is not a text, or has no words.
    """
    numbers: defaultdict[bytes, int] = defaultdict()
    # A new word gets the next id.
    numbers.default_factory = numbers.__len__
    ids, lengths = array("i"), array("q")
    for line in read(path):
        words = split_words(line)
        ids.extend(map(numbers.__getitem__, words))
        lengths.append(len(words))
    if not ids:
        raise UserError(f"{display_name(path)}: has no words; give a tokenised text, one sentence a line")
    sentences = Phrases(np.frombuffer(ids, np.int32), offsets_of(np.frombuffer(lengths, np.int64)))
    return NumberedText(list(numbers), sentences)
