"""Features of a phrase and its target context: language models.

They score all candidates of a stack in one batch, so that a network computes one large product.

Shapes: T translations of one source phrase, N extensions of hypotheses, K components of a feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from moses_integration.decoder.phrases import Feature, Floats, Indices, Words
from moses_integration.decoder.table_lines import Wanted
from phrasescore.errors import UserError
from phrasescore.lm.ngram_model import as_text, load_kenlm, require_log_probs

if TYPE_CHECKING:
    import kenlm

LN_10 = 2.30258509299405
"""Moses' constant: KenLM's log10 becomes a natural log (moses/Util.h)."""


class ContextFeature(Feature, ABC):
    """A feature whose value depends on the target words before the phrase.

    A state is a number. Hypotheses with equal states have equal scores in all continuations. Equivalent states need
    equal numbers only within one call, because only hypotheses of one stack are recombined.
    """

    @abstractmethod
    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return the values [T, K] that do not depend on context, and an estimate [T, K] of the rest."""

    @abstractmethod
    def begin(self, phrases: Sequence[Words]) -> int:
        """Start a sentence and return its initial state; `extend` refers to these phrases by index."""

    @abstractmethod
    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values [N, K] of phrases after these states, without those of `alone`, and the new states.

        With `is_end`, the sentences end with these phrases.
        """


class LanguageModel(ContextFeature):
    """An n-gram model read by KenLM, ARPA or binary (moses/LM/Ken.cpp). Values are natural logs.

    The sum over a sentence is ln p with `</s>`. As in Moses, `</s>` is not scored after an empty last phrase (a dropped
    unknown word). Unlike Moses, a log-probability of minus infinity is an error.
    """

    def __init__(self, label: str, path: Path) -> None:
        super().__init__(label)
        self.path = path

    def load(self, wanted: Wanted = frozenset()) -> None:
        """Load the model."""
        if not self.path.exists():
            raise UserError(f"{self.path}: does not exist, but the ini names it; fix the line")
        self._model = load_kenlm(self.path)
        from kenlm import State

        self._new_state: type[kenlm.State] = State
        self._context = self._model.order - 1
        self._scratch = [State() for _ in range(self._context - 1)]

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return ln p of the words whose n-gram is inside the phrase; estimate the others by shorter n-grams."""
        full_T, inside_T = [], []
        for phrase in phrases:
            scores, _ = self._without_context(_text(phrase))
            full_T.append(sum(scores))
            inside_T.append(sum(scores[self._context :]))
        inside_TK, full_TK = (np.array(scores, np.float64)[:, None] for scores in (inside_T, full_T))
        require_log_probs(full_TK, self.path)
        return inside_TK * LN_10, full_TK * LN_10 - inside_TK * LN_10

    def begin(self, phrases: Sequence[Words]) -> int:
        """Reset the states to that of `<s>`."""
        start = self._new_state()
        self._model.BeginSentenceWrite(start)
        self._phrases = [_text(phrase) for phrase in phrases]
        self._states = [start]
        self._number_of = {start: 0}
        self._scored: dict[int, tuple[float, int]] = {}
        self._last_words: dict[int, int] = {}
        return 0

    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return ln p of the words whose n-gram starts before the phrase, plus `</s>` at the end, and new states."""
        # Many hypotheses share the state and the phrase; each such pair is scored once per sentence.
        pairs, pair_N = np.unique(states_N * len(self._phrases) + phrases_N, return_inverse=True)
        found = [self._scored.get(pair) or self._extend(pair) for pair in pairs.tolist()]
        if is_end:
            phrases = [self._phrases[pair % len(self._phrases)] for pair in pairs.tolist()]
            found = [
                (score + self._model.BaseScore(self._states[state], "</s>", self._new_state()), state)
                if phrase
                else (score, state)
                for phrase, (score, state) in zip(phrases, found, strict=True)
            ]
        scores = np.array([score for score, _ in found], np.float64)
        require_log_probs(scores, self.path)
        states = np.array([state for _, state in found], np.int64)
        return scores[pair_N][:, None] * LN_10, states[pair_N]

    def _extend(self, pair: int) -> tuple[float, int]:
        """Return the score (log10) of a phrase after a state, and the new state."""
        state, number = divmod(pair, len(self._phrases))
        phrase = self._phrases[number]
        score, before = 0.0, self._states[state]
        words = phrase[: self._context]
        # Only the last state needs memory of its own.
        for word, after in zip(words, (*self._scratch[: len(words) - 1], self._new_state()), strict=False):
            score += self._model.BaseScore(before, word, after)
            before = after
        if len(phrase) > self._context:
            # The state after such a long phrase does not depend on the state before it.
            if number not in self._last_words:
                self._last_words[number] = self._number(self._without_context(phrase)[1])
            end = self._last_words[number]
        else:
            end = self._number(before)
        self._scored[pair] = result = (score, end)
        return result

    def _number(self, state: kenlm.State) -> int:
        number: int = self._number_of.setdefault(state, len(self._states))
        if number == len(self._states):
            self._states.append(state)
        return number

    def _without_context(self, phrase: tuple[str, ...]) -> tuple[list[float], kenlm.State]:
        """Return log10 p of each word given the previous words of the phrase, and the state after the phrase."""
        before, after = self._new_state(), self._new_state()
        self._model.NullContextWrite(before)
        scores = []
        for word in phrase:
            scores.append(self._model.BaseScore(before, word, after))
            before, after = after, before
        return scores, before


def _text(phrase: Words) -> tuple[str, ...]:
    """Decode words for KenLM's module. Words of invalid UTF-8 become unknown words, unlike in Moses."""
    return tuple(map(as_text, phrase))
