"""Translation of tokenised text.

Legend: T target symbols (words and the end symbol), L source symbols (likewise).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from phrasescore.beam_search import AttentionWeights, Decoding, Hypothesis, Numbers, beam_search, draw_translations
from phrasescore.errors import UserError, arg_name
from phrasescore.phrases import Phrases
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.search_config import SearchConfig
from phrasescore.subwords import SubwordVocabulary
from phrasescore.vocabulary import UNKNOWN, WordCounts
from phrasescore.words import split_words

_MOST_WORDS = 8192
"""Words of a batch if all its sentences were as long as the longest: 64 sentences of 128 words."""


@dataclass(frozen=True)
class Translation:
    """A translation of a sentence."""

    words: tuple[bytes, ...]
    log_prob: float
    """ln p(target | source), end symbol included, before `replace_unknown`."""
    value: float
    """The ranking score: `log_prob` with length penalty."""
    times: int
    attention_TL: AttentionWeights | None

    @property
    def text(self) -> bytes:
        return b" ".join(self.words)

    def __str__(self) -> str:
        return self.text.decode("utf-8", "replace")


class Translator:
    """Translates tokenised sentences or phrases, in batches of similar length."""

    def __init__(self, scorer: EncoderDecoderScorer, config: SearchConfig, batch_size: int = 64) -> None:
        has_words = not isinstance(scorer.model.target_vocabulary, SubwordVocabulary)
        self.has_attention = has_words and all(network.config.has_attention for network in scorer.networks)
        """Whether there are attention weights of words."""
        if config.replace_unknown and not self.has_attention:
            raise UserError(
                f"{arg_name('replace_unknown')}: needs attention to words, which this network does not have; leave it "
                "out, or give a network of words with attention"
            )
        self._scorer, self._config, self._batch_size = scorer, config, batch_size
        self.words = WordCounts()
        """Counted over all sentences so far."""

    def translate(self, sentences: Sequence[bytes], first: int = 0) -> list[list[Translation]]:
        """Return the translations of each sentence, best first; the number of the `first` seeds the samples."""
        split = [split_words(sentence) for sentence in sentences]
        ids = self._scorer.model.source_vocabulary.encode([b" ".join(words) for words in split])
        self.words += WordCounts(len(ids.ids), int((ids.ids == UNKNOWN).sum()))
        order = np.argsort(-ids.lengths, kind="stable")
        order = order[ids.lengths[order] > 0]
        found: list[list[Translation]] = [[] for _ in sentences]
        start = 0
        while start < len(order):
            # Memory: the attention weights are kept for each word of each hypothesis.
            most = max(1, _MOST_WORDS // int(ids.lengths[order[start]]))
            numbers = order[start : start + min(self._batch_size, most)]
            start += len(numbers)
            searched = self._search(numbers + first, ids.take(numbers))
            for number, some in zip(numbers.tolist(), searched, strict=True):
                found[number] = [self._spell(one, split[number]) for one in some]
        return found

    def _search(self, numbers: Numbers, sources: Phrases) -> list[list[Hypothesis]]:
        config = self._config
        decoding = Decoding(self._scorer.networks, self._scorer.device, sources, self._scorer.name)
        if config.sample:
            randoms = [np.random.default_rng([config.seed, number]) for number in numbers.tolist()]
            return draw_translations(decoding, config, randoms)
        return [some[: config.n_best] for some in beam_search(decoding, config)]

    def _spell(self, one: Hypothesis, source: list[bytes]) -> Translation:
        words = self._scorer.model.target_vocabulary.spell(one.words)
        attention_TL = one.attention_TL if self.has_attention else None
        if self._config.replace_unknown and attention_TL is not None:
            positions = attention_TL[:, :-1].argmax(axis=1).tolist()
            words = [
                source[position] if id_ == UNKNOWN else word
                for id_, word, position in zip(one.words, words, positions, strict=False)
            ]
        return Translation(tuple(words), one.log_prob, one.value, one.times, attention_TL)


def as_json(sentence: bytes, translations: Sequence[Translation], *, sampled: bool) -> bytes:
    """Return a sentence and its translations as a JSON object, with the numbers of samples if they were drawn."""
    records: list[dict[str, Any]] = []
    for one in translations:
        records.append({"text": str(one), "score": one.log_prob, "value": one.value})
        if sampled:
            records[-1]["times"] = one.times
        if one.attention_TL is not None:
            records[-1]["attention"] = [[round(weight, 4) for weight in row] for row in one.attention_TL.tolist()]
    record = {"source": sentence.decode("utf-8", "replace"), "translations": records}
    return json.dumps(record, ensure_ascii=False).encode()


def as_nbest(number: int, translations: Sequence[Translation]) -> list[bytes]:
    """Return the lines of a sentence in an n-best list of Moses, without line feeds; `number` counts from 0."""
    for one in translations:
        if b"|||" in one.words:
            raise UserError(
                f"a translation of line {number + 1} has the word `|||`, which n-best lists cannot contain; give "
                f"{arg_name('json')}"
            )
    # Moses writes a space after each word.
    return [
        b"%d ||| %s ||| LogProb0= %g ||| %g"
        % (number, b"".join(word + b" " for word in one.words), one.log_prob, one.value)
        for one in translations
    ]
