"""Features of the target words before a phrase: language models.

They are asked in batches: once for all hypotheses of a stack, so that a network in this place computes one large
product instead of many small ones.
Shapes: T translations of one source phrase, N extensions of hypotheses, K components of a feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from moses_integration.decoder.phrases import Feature, Floats, Indices, Words
from phrasescore.errors import UserError
from phrasescore.lm.ngram_model import as_text, load_kenlm, require_log_probs

if TYPE_CHECKING:
    import kenlm

LN_10 = 2.30258509299405
"""Moses' constant: KenLM's log10 becomes a natural log (moses/Util.h)."""


class ContextFeature(Feature, ABC):
    """A feature whose value depends on the target words before the phrase.

    States are numbers that it hands out: two hypotheses with the same number are alike in all that may follow. Of those
    that are alike it need tell so only when they come of one call, for only hypotheses of one stack are recombined.
    """

    @abstractmethod
    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return the values [T, K] that no context can change, and an estimate [T, K] of what context will add."""

    @abstractmethod
    def begin(self, phrases: Sequence[Words]) -> int:
        """Forget the last sentence; return the state before the first word. Phrases are then known by their index."""

    @abstractmethod
    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values [N, K] that phrases add behind these states, without what `alone` gave, and the states.

        `is_end` says that the sentences end with these phrases.
        """


class LanguageModel(ContextFeature):
    """An n-gram model read by KenLM, ARPA or binary (moses/LM/Ken.cpp). Values are natural logs.

    The sum over a sentence is ln p of the sentence with `</s>`; but behind an empty last phrase, as a dropped unknown
    word is, it lacks that of `</s>`, which Moses forgets there. Where a file has minus infinity, Moses goes on with it;
    here it is refused.
    """

    def __init__(self, label: str, path: Path) -> None:
        super().__init__(label)
        self.path = path

    def load(self, wanted: Set[bytes] = frozenset()) -> None:
        """Load the file, all of it."""
        if not self.path.exists():
            raise UserError(f"{self.path}: is not there, but the ini names it; mend the line")
        self._model = load_kenlm(self.path)
        from kenlm import State

        self._new_state: type[kenlm.State] = State
        self._context = self._model.order - 1
        self._passing = [State() for _ in range(self._context - 1)]

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return ln p of the words whose whole n-gram lies in the phrase, and of the others with what is known."""
        full_T, inside_T = [], []
        for phrase in phrases:
            scores, _ = self._without_context(_text(phrase))
            full_T.append(sum(scores))
            inside_T.append(sum(scores[self._context :]))
        inside_TK, full_TK = (np.array(scores, np.float64)[:, None] for scores in (inside_T, full_T))
        require_log_probs(full_TK, self.path)
        return inside_TK * LN_10, full_TK * LN_10 - inside_TK * LN_10

    def begin(self, phrases: Sequence[Words]) -> int:
        """Forget all states but the one of `<s>`."""
        start = self._new_state()
        self._model.BeginSentenceWrite(start)
        self._phrases = [_text(phrase) for phrase in phrases]
        self._states = [start]
        self._number_of = {start: 0}
        self._known: dict[int, tuple[float, int]] = {}
        self._last_words: dict[int, int] = {}
        return 0

    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return ln p of the first words of the phrases in their context, and of `</s>`, and the states behind."""
        # Many hypotheses of a stack share state and phrase; each such pair is scored once a sentence.
        pairs, pair_N = np.unique(states_N * len(self._phrases) + phrases_N, return_inverse=True)
        found = [self._known.get(pair) or self._extend(pair) for pair in pairs.tolist()]
        if is_end:
            phrases = [self._phrases[pair % len(self._phrases)] for pair in pairs.tolist()]
            found = [
                (score + self._end_score(state) if phrase else score, state)
                for phrase, (score, state) in zip(phrases, found, strict=True)
            ]
        scores = np.array([score for score, _ in found], np.float64)
        require_log_probs(scores, self.path)
        states = np.array([state for _, state in found], np.int64)
        return scores[pair_N][:, None] * LN_10, states[pair_N]

    def _extend(self, pair: int) -> tuple[float, int]:
        """Score one phrase behind one state (log10), and remember it."""
        state, number = divmod(pair, len(self._phrases))
        phrase = self._phrases[number]
        score, before = 0.0, self._states[state]
        seen = phrase[: self._context]
        # Only the last state is kept.
        for word, after in zip(seen, (*self._passing[: len(seen) - 1], self._new_state()), strict=False):
            score += self._model.BaseScore(before, word, after)
            before = after
        if len(phrase) > self._context:
            # The first words are out of sight behind a phrase this long: one state for all that precede it.
            end = self._last_words.get(number)
            if end is None:
                end = self._last_words[number] = self._number(self._without_context(phrase)[1])
        else:
            end = self._number(before)
        self._known[pair] = result = (score, end)
        return result

    def _number(self, state: kenlm.State) -> int:
        number: int = self._number_of.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _without_context(self, phrase: tuple[str, ...]) -> tuple[list[float], kenlm.State]:
        """Return log10 p of each word given the words of the phrase before it, and the state behind the phrase."""
        before, after = self._new_state(), self._new_state()
        self._model.NullContextWrite(before)
        scores = []
        for word in phrase:
            scores.append(self._model.BaseScore(before, word, after))
            before, after = after, before
        return scores, before

    def _end_score(self, state: int) -> float:
        score: float = self._model.BaseScore(self._states[state], "</s>", self._new_state())
        return score


def _text(phrase: Words) -> tuple[str, ...]:
    """Return words as KenLM's module wants them: one that is not UTF-8 is unknown, where Moses asks by its bytes."""
    return tuple(map(as_text, phrase))
