"""Joint subword vocabularies: byte-pair encoding of words (Sennrich et al. 2016) by SentencePiece.

Pieces never cross spaces, so a word has the same pieces in every sentence. The first piece of a word begins with `▁`.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from phrasescore.errors import UserError, arg_name
from phrasescore.files import read_regular
from phrasescore.phrases import Phrases
from phrasescore.text import is_text
from phrasescore.vocabulary import END, LARGEST, UNKNOWN, Vocabulary
from phrasescore.words import split_words

_BOUNDARY = "▁".encode()
_BYTES_OF_COUNT = 32


class SubwordVocabulary(Vocabulary):
    """A map from words to the ids of their pieces; a character outside the training text is `<unk>`."""

    def __init__(self, model: bytes) -> None:
        """Load the content of a SentencePiece model; anything else is a ValueError."""
        from sentencepiece import SentencePieceProcessor

        self._model = model
        try:
            self._processor = SentencePieceProcessor(model_proto=model)
        except RuntimeError as error:
            raise ValueError("not a SentencePiece model") from error
        if (self._processor.unk_id(), self._processor.eos_id()) != (UNKNOWN, END):
            raise ValueError("the model has other symbols")
        pieces = range(len(self._processor))
        self.words = tuple(self._processor.id_to_piece(id_).encode() for id_ in pieces)
        self._pieces_of: dict[bytes, list[int]] = {}

    @classmethod
    def learn(cls, counts: Counter[bytes], size: int) -> Self:
        """Learn a vocabulary of at most `size` pieces and symbols from the words of a text."""
        from sentencepiece import SentencePieceTrainer

        model = io.BytesIO()
        words = sorted(filter(_is_plain, counts), key=lambda word: (-counts[word], word))
        if not words:
            raise UserError(f"{arg_name('subwords')}: no word of the text is UTF-8; convert the text")
        try:
            SentencePieceTrainer.train(
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

    def spell(self, ids: Iterable[int]) -> list[bytes]:
        return split_words(b"".join(super().spell(ids)).replace(_BOUNDARY, b" "))

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


def _is_plain(word: bytes) -> bool:
    """Return whether a word is UTF-8 without the character that marks boundaries."""
    return is_text(word) and _BOUNDARY not in word
