"""Vocabularies: the K most frequent words of one side, `<unk>` and `<eos>`."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from itertools import repeat
from operator import add
from pathlib import Path
from typing import Self

import numpy as np

from phrasescore.errors import UserError
from phrasescore.files import display_name, read_regular, write_atomically
from phrasescore.phrases import Phrases, offsets_of
from phrasescore.text import Log, is_text, no_log, text_lines
from phrasescore.words import split_words

UNKNOWN = 0
"""Id of `<unk>`, for every word outside the vocabulary."""
END = 1
"""Id of `<eos>`, the end of a phrase on both sides."""
_SYMBOLS = (b"<unk>", b"<eos>")
LARGEST = 1 << 26
"""Maximum bytes of a vocabulary file: millions of words."""


class Vocabulary:
    """A map from words (bytes) to ids: 0 `<unk>`, 1 `<eos>`, then words by falling frequency."""

    def __init__(self, words: Iterable[bytes]) -> None:
        """Number the words, most frequent first, after the two symbols."""
        self.words: tuple[bytes, ...] = (*_SYMBOLS, *words)
        self._ids = {word: id_ for id_, word in enumerate(self.words)}
        if len(self._ids) != len(self.words):
            raise ValueError("a word occurs twice in the vocabulary")
        # In a text the spelling of a symbol is an unknown word.
        for symbol in _SYMBOLS:
            self._ids[symbol] = UNKNOWN

    @classmethod
    def most_frequent(cls, counts: Counter[bytes], size: int, min_count: int = 0) -> Vocabulary:
        """Keep the `size` most frequent words with at least `min_count`; ties are ordered by their bytes."""
        frequent = [word for word, count in counts.items() if count >= min_count]
        candidates = [word for word in frequent if word and word not in _SYMBOLS and is_text(word)]
        candidates.sort(key=lambda word: (-counts[word], word))
        return cls(candidates[:size])

    def __len__(self) -> int:
        return len(self.words)

    @property
    def known_words(self) -> tuple[bytes, ...]:
        """The words without the two symbols, most frequent first."""
        return self.words[len(_SYMBOLS) :]

    def __contains__(self, word: bytes) -> bool:
        return self._ids.get(word, UNKNOWN) != UNKNOWN

    def encode(self, phrases: Sequence[bytes]) -> Phrases:
        """Return the ids of phrases, split at spaces, without end symbols; empty tokens are skipped."""
        words = b" ".join(phrases).split(b" ") if phrases else []
        lengths = np.fromiter((phrase.count(b" ") for phrase in phrases), np.int64, len(phrases)) + 1
        ids = np.fromiter(map(self._ids.get, words, repeat(UNKNOWN)), np.int32, len(words))
        if b"" in words:
            empty = np.fromiter((not word for word in words), np.bool_, len(words))
            lengths -= np.add.reduceat(empty, offsets_of(lengths)[:-1], dtype=np.int64)
            ids = ids[~empty]
        return Phrases(ids, offsets_of(lengths))

    def spell(self, ids: Iterable[int]) -> list[bytes]:
        return [self.words[id_] for id_ in ids]

    def symbols(self, phrase: bytes) -> list[bytes]:
        """Return the texts of the symbols as which a phrase is encoded, unknown words as they are spelled."""
        return split_words(phrase)

    def coverage(self, counts: Counter[bytes]) -> float:
        """Return the share of running words that are in the vocabulary."""
        total = sum(counts.values())
        known = sum(count for word, count in counts.items() if word in self)
        return known / total if total else 1.0

    def to_bytes(self) -> bytes:
        """Return the text form: one word per line, in the order of their ids."""
        return b"".join(word + b"\n" for word in self.words)

    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def save(self, path: Path) -> None:
        write_atomically(path, self.to_bytes())

    @classmethod
    def load(cls, path: Path) -> Self:
        words = read_regular(path, LARGEST).removesuffix(b"\n").split(b"\n")
        if tuple(words[: len(_SYMBOLS)]) != _SYMBOLS or len(set(words)) != len(words):
            raise UserError(f"{path}: is not a vocabulary of phrasescore; copy the model folder again")
        return cls(words[len(_SYMBOLS) :])


def count_words(path: Path, log: Log = no_log) -> Counter[bytes]:
    """Count the words of a tokenised text; `log` is called for lines that are not UTF-8."""
    counts = Counter(word for line in text_lines(path, log) for word in split_words(line))
    if not counts:
        raise UserError(f"{display_name(path)}: has no words; give a tokenised text")
    return counts


MANY_UNKNOWN = 0.3
"""A share of words. Scores and translations are unreliable if a larger share is unknown."""


@dataclass(frozen=True)
class WordCounts:
    """Numbers of words of a phrase table that a model looked up, and of unknown words among them."""

    source: int = 0
    source_unknown: int = 0
    target: int = 0
    target_unknown: int = 0

    def __add__(self, other: WordCounts) -> WordCounts:
        return WordCounts(*map(add, astuple(self), astuple(other)))

    def __str__(self) -> str:
        """Return the numbers and shares of unknown words, as the subject of a sentence."""
        return " and ".join(
            f"{unknown:,} of {words:,} {side} words ({unknown / words:.0%})" for side, unknown, words in self._sides()
        )

    def _sides(self) -> list[tuple[str, int, int]]:
        sides = [("source", self.source_unknown, self.source), ("target", self.target_unknown, self.target)]
        return [side for side in sides if side[2]]

    def shares(self) -> dict[str, float]:
        """Return the share of unknown words of each side that has words, by `source` and `target`."""
        return {side: unknown / words for side, unknown, words in self._sides()}

    def are_many_unknown(self) -> bool:
        """Return whether so many words of a side are unknown that scores are unreliable."""
        return any(share >= MANY_UNKNOWN for share in self.shares().values())

    def warn_if_many_unknown(self, text: str, model: str, log: Log) -> None:
        """Warn if so many words of a text to translate are unknown to a model that its translation is unreliable."""
        if self.are_many_unknown():
            log(
                f"{text}: {self} are unknown to the {model} and cannot be translated; check that the text is in the "
                f"source language, and tokenised and cased as the {model} was trained"
            )
