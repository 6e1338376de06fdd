"""Scores of a text under a neural language model, its back-off model and their interpolation.

The counts are as in KenLM's `query`: ends of sentences are words, and unknown words count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.lm.interpolation import Scores, best_weight, interpolate
from phrasescore.log_probs import perplexity
from phrasescore.text import Log, chunks, no_log, utf8_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.lm.lm_scorer import NeuralLmScorer

_SENTENCES_AT_ONCE = 10_000


@dataclass(frozen=True)
class ScoredSentences:
    """Some sentences and, for each, ln p of its words and its end under both models."""

    sentences: list[list[bytes]]
    network: list[Scores]
    backoff: list[Scores]
    """Empty without a back-off model."""


def score_text(
    scorer: NeuralLmScorer, path: str | Path, read: Callable[[str | Path], Iterator[bytes]]
) -> Iterator[ScoredSentences]:
    """Yield the sentences of a text with their scores in bounded memory.

    Args:
        scorer: the models.
        path: a tokenised text, one sentence a line.
        read: yields the lines of the text.

    Raises:
        UserError: the text is empty or rejected by `read`, or a model returns an invalid log-probability.
    """
    is_empty = True
    for lines in chunks(read(path), _SENTENCES_AT_ONCE):
        is_empty = False
        some = [split_words(line) for line in lines]
        network = scorer.word_log_probs(some)
        yield ScoredSentences(some, network, [] if scorer.backoff is None else scorer.backoff.word_log_probs(some))
    if is_empty:
        raise UserError(f"{display_name(path)}: is empty; give a tokenised text, one sentence a line")


def learn_weight(scorer: NeuralLmScorer, path: Path, log: Log = no_log) -> float:
    """Return the weight of the network that maximises the likelihood of a text; see `best_weight`.

    `log` is called with unusual lines of the text.

    Raises:
        UserError: see `score_text`; or the text is not UTF-8.
    """
    scored = list(score_text(scorer, path, partial(utf8_lines, log=log)))
    network = [scores for some in scored for scores in some.network]
    backoff = [scores for some in scored for scores in some.backoff]
    return best_weight(np.concatenate(network), np.concatenate(backoff))


class TextScores:
    """The word counts of a text, and its perplexity under each model."""

    def __init__(self, scorer: NeuralLmScorer, weight: float | None = None) -> None:
        """Take the models, and the weight of the network for an interpolation."""
        self.scorer, self.weight = scorer, weight
        self.sentences = self.outside_shortlist = self._unknown_to_backoff = 0
        self.words = 0
        """Includes ends of sentences."""
        self._network = self._backoff = self._interpolation = 0.0

    def add(self, scored: ScoredSentences) -> list[Scores]:
        """Count some sentences; return the scores of each, interpolated if there is a weight."""
        words = list(chain.from_iterable(scored.sentences))
        self.sentences += len(scored.sentences)
        self.words += len(words) + len(scored.sentences)
        self.outside_shortlist += sum(self.scorer.word_id(word) >= self.scorer.shortlist for word in words)
        self._network += _sum(scored.network)
        if self.scorer.backoff is not None:
            self._unknown_to_backoff += sum(not self.scorer.backoff.knows(word) for word in words)
            self._backoff += _sum(scored.backoff)
        if self.weight is None:
            return scored.network
        pairs = zip(scored.network, scored.backoff, strict=True)
        both = [interpolate(first, second, self.weight) for first, second in pairs]
        self._interpolation += _sum(both)
        return both

    @property
    def unknown_to_backoff(self) -> int | None:
        """Number of words unknown to the back-off model; None without one."""
        return None if self.scorer.backoff is None else self._unknown_to_backoff

    @property
    def network(self) -> float:
        """Perplexity of the network."""
        return perplexity(-self._network / self.words)

    @property
    def backoff(self) -> float | None:
        """Perplexity of the back-off model; None without one."""
        return None if self.scorer.backoff is None else perplexity(-self._backoff / self.words)

    @property
    def interpolation(self) -> float | None:
        """Perplexity of the interpolation; None without a weight."""
        return None if self.weight is None else perplexity(-self._interpolation / self.words)


def _sum(scores: list[Scores]) -> float:
    return float(np.concatenate(scores).sum())
