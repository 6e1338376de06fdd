"""Joint subword vocabularies: byte-pair encoding of words (Sennrich et al. 2016) by SentencePiece, and BPE-dropout.

Pieces never cross spaces, so a word has the same pieces in every sentence. The first piece of a word begins with `▁`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError, arg_name
from phrasescore.files import read_regular
from phrasescore.phrases import Phrases
from phrasescore.text import is_text
from phrasescore.vocabulary import END, LARGEST, UNKNOWN, Vocabulary
from phrasescore.words import split_words

_BOUNDARY = "▁"
_BYTES_OF_COUNT = 32
_SEGMENTATIONS = 32
"""Random segmentations of each word."""
_LONGEST = 100
"""Characters of the longest word with several segmentations; the time to draw them is quadratic in the length."""


class SubwordVocabulary(Vocabulary):
    """A map from words to the ids of their pieces; a character outside the training text is `<unk>`."""

    def __init__(self, model: bytes) -> None:
        """Load the content of a SentencePiece model; anything else is a ValueError."""
        self._model = model
        try:
            self._processor = _import_sentencepiece().SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        if (self._processor.unk_id(), self._processor.eos_id()) != (UNKNOWN, END):
            raise ValueError("the model has other symbols")
        pieces = range(len(self._processor))
        self.words = tuple(self._processor.id_to_piece(id_).encode() for id_ in pieces)
        self._pieces_of: dict[bytes, list[int]] = {}
        self._id_of = {piece.decode(): id_ for id_, piece in enumerate(self.words) if id_ not in (UNKNOWN, END)}

    @classmethod
    def learn(cls, counts: Counter[bytes], size: int) -> Self:
        """Learn a vocabulary of at most `size` pieces and symbols from the words of a text."""
        model = io.BytesIO()
        words = sorted(filter(_is_plain, counts), key=lambda word: (-counts[word], word))
        if not words:
            raise UserError(f"{arg_name('subwords')}: no word of the text is UTF-8; convert the text")
        try:
            _import_sentencepiece().SentencePieceTrainer.train(
                sentence_iterator=(f"{word.decode()}\t{int(counts[word])}" for word in words),
                input_format="tsv",
                model_writer=model,
                model_type="bpe",
                vocab_size=size,
                # A text with fewer pieces gets a smaller vocabulary.
                hard_vocab_limit=False,
                # SentencePiece would skip longer words.
                max_sentence_length=max(map(len, words)) + _BYTES_OF_COUNT,
                # Pieces spell every word of the text exactly.
                normalization_rule_name="identity",
                character_coverage=1.0,
                unk_id=UNKNOWN,
                eos_id=END,
                bos_id=-1,
                pad_id=-1,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise UserError(
                f"{arg_name('subwords')}: {size:,} are too few for the characters of the text; give more"
            ) from error
        return cls(model.getvalue())

    def __contains__(self, word: bytes) -> bool:
        return UNKNOWN not in self._encode_word(word)

    def encode(self, phrases: Sequence[bytes]) -> Phrases:
        return Phrases.from_lists(
            [id_ for word in phrase.split(b" ") if word for id_ in self._encode_word(word)] for phrase in phrases
        )

    def segment(self, word: bytes, dropout: float, random: Random) -> list[int]:
        """Return the ids of a word's pieces by BPE-dropout (Provilkov et al. 2020).

        Each step skips each possible merge with the probability `dropout`. For a word of known characters, the result
        with 0 is that of `encode`, and with 1, the characters. A word above 100 characters is not segmented at random.
        """
        if not _is_plain(word):
            return [UNKNOWN]
        pieces = list(_BOUNDARY + word.decode())
        if len(pieces) > _LONGEST:
            return self._encode_word(word)
        while True:
            # Ids are in the order in which the merges were learnt.
            merges = [
                (id_, first)
                for first in range(len(pieces) - 1)
                if (id_ := self._id_of.get(pieces[first] + pieces[first + 1])) is not None
                and random.random() >= dropout
            ]
            if not merges:
                return [self._id_of.get(piece, UNKNOWN) for piece in pieces]
            first = min(merges)[1]
            pieces[first : first + 2] = [pieces[first] + pieces[first + 1]]

    def spell(self, ids: Iterable[int]) -> list[bytes]:
        return split_words(b"".join(super().spell(ids)).replace(_BOUNDARY.encode(), b" "))

    def symbols(self, phrase: bytes) -> list[bytes]:
        return super().spell(self.encode([phrase]).ids)

    def to_bytes(self) -> bytes:
        return self._model

    @classmethod
    def load(cls, path: Path) -> Self:
        try:
            return cls(read_regular(path, LARGEST))
        except ValueError as error:
            raise UserError(f"{path}: is not a subword model of phrasescore; copy the model folder again") from error

    def _encode_word(self, word: bytes) -> list[int]:
        if word not in self._pieces_of:
            self._pieces_of[word] = self._processor.encode(word.decode()) if _is_plain(word) else [UNKNOWN]
        return self._pieces_of[word]


@dataclass(frozen=True)
class RandomSegmentations:
    """Sentences whose words have several random segmentations, for training with BPE-dropout."""

    words: Phrases
    """Each sentence as numbers of its words, from 0."""
    pieces: Phrases
    """Segmentations of the words, the same number for each."""

    @classmethod
    def of(cls, words: Phrases, texts: Iterable[bytes], vocabulary: SubwordVocabulary, dropout: float) -> Self:
        """Draw the segmentations; `texts` are the words by number."""
        random = Random(0)
        drawn = (vocabulary.segment(word, dropout, random) for word in texts for _ in range(_SEGMENTATIONS))
        return cls(words, Phrases.from_lists(drawn))

    def draw(self, sentences: NDArray[np.int64], randoms: Sequence[np.random.Generator]) -> Phrases:
        """Return these sentences as ids of pieces; each has its own generator, which segments its words."""
        words = self.words.take(sentences)
        drawn = [
            random.integers(_SEGMENTATIONS, size=length)
            for random, length in zip(randoms, words.lengths.tolist(), strict=True)
        ]
        found = self.pieces.take(words.ids.astype(np.int64) * _SEGMENTATIONS + np.concatenate(drawn))
        return Phrases(found.ids, found.offsets[words.offsets])


def _is_plain(word: bytes) -> bool:
    """Return whether a word is UTF-8 without the character that marks boundaries."""
    return is_text(word) and _BOUNDARY.encode() not in word


def _import_sentencepiece() -> Any:
    try:
        import sentencepiece
    except ImportError as error:
        raise UserError("networks of subwords need sentencepiece; pip install sentencepiece") from error
    return sentencepiece
