"""Language models: features of a phrase and the target words before it.

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
from phrasescore.errors import UserError
from phrasescore.lm.ngram_model import as_text, load_kenlm, require_log10_probs

if TYPE_CHECKING:
    import kenlm

    from moses_integration.decoder.tables import Wanted
    from moses_integration.decoder.translation_options import Options

LN_10 = 2.30258509299405
"""Moses' constant: KenLM's log10 becomes a natural log (moses/Util.h)."""

_END, _NO_STATE = 1, -1
"""The number of `</s>`; no number of a state."""
_WORD_BITS = 32
_CACHED = 65_521
"""Slots of the cache, a prime, so that the remainder of a key is a hash."""
_MOST_STATES = 1 << 16
"""States beyond which the next sentence starts without any, to limit memory."""


class LanguageModelFeature(Feature, ABC):
    """A feature whose value depends on the target words before the phrase, and possibly on the source sentence.

    A state is a number. Hypotheses with equal states have equal scores in all continuations. Equivalent states need
    equal numbers only within one call, because only hypotheses of one stack are recombined.
    """

    @abstractmethod
    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return the values [T, K] that do not depend on context, and an estimate [T, K] of the rest."""

    @abstractmethod
    def begin(self, options: Options) -> int:
        """Return the initial state of a sentence; `extend` refers to these options by index."""

    @abstractmethod
    def extend(self, states_N: Indices, options_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return the values [N, K] of options after states, without those of `alone`, and the new states.

        With `is_end`, the sentence ends with these options.
        """


class LanguageModel(LanguageModelFeature):
    """An n-gram model read by KenLM, ARPA or binary (moses/LM/Ken.cpp). Values are natural logs.

    The sum over a sentence is ln p with `</s>`. As in Moses, `</s>` is not scored after an empty last phrase (a dropped
    unknown word). Unlike Moses, a log-probability of minus infinity is an error.

    KenLM's states and words are numbered, so that all candidates of a stack advance by one word in a few operations on
    arrays. A direct-mapped cache keeps recent *steps*, from a state by a word to a score and the next state, because
    calls of KenLM take much of the time.
    """

    def __init__(self, label: str, path: Path) -> None:
        super().__init__(label)
        self.path = path

    def load(self, wanted: Wanted = frozenset()) -> None:
        if not self.path.exists():
            raise UserError(f"{self.path}: does not exist, but the ini names it; fix the line")
        self._model = load_kenlm(self.path)
        self._context = self._model.order - 1
        from kenlm import State

        self._new_state: type[kenlm.State] = State
        self._start_anew()

    def _start_anew(self) -> None:
        start, nothing = self._new_state(), self._new_state()
        self._model.BeginSentenceWrite(start)
        self._model.NullContextWrite(nothing)
        self._states, self._start, self._nothing = [start, nothing], 0, 1
        self._state_numbers = {start: 0, nothing: 1}
        self._words = _WordNumbers()
        self._cached_key = np.full(_CACHED, -1, np.int64)
        self._cached_score, self._cached_state = np.zeros(_CACHED), np.zeros(_CACHED, np.int64)
        self._asking = np.zeros(_CACHED, np.int64)

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return ln p of the words whose n-gram is inside the phrase; estimate the others by shorter n-grams."""
        score_TL: list[list[float]] = []
        before, after = self._new_state(), self._new_state()
        for phrase in phrases:
            self._model.NullContextWrite(before)
            score_TL.append([])
            for word in phrase:
                score_TL[-1].append(self._model.BaseScore(before, as_text(word), after))
                before, after = after, before
        full_T = [sum(score_L) for score_L in score_TL]
        require_log10_probs(full_T, self.path)
        full_T1 = np.array(full_T, np.float64)[:, None]
        inside_T1 = np.array([sum(score_L[self._context :]) for score_L in score_TL], np.float64)[:, None]
        return inside_T1 * LN_10, full_T1 * LN_10 - inside_T1 * LN_10

    def begin(self, options: Options) -> int:
        if len(self._states) > _MOST_STATES:
            self._start_anew()
        self._phrase_O = options.phrase_O
        self._word_LP, self._length_P = self._words.matrix(options.phrases)
        # The state after a long phrase does not depend on the state before it.
        (long,) = np.nonzero(self._length_P > self._context)
        self._end_P = np.full(len(options.phrases), _NO_STATE)
        _, self._end_P[long] = self._score_words(np.full(len(long), self._nothing), self._word_LP[:, long])
        return self._start

    def extend(self, states_N: Indices, options_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return ln p of the words whose n-gram starts before the phrase, plus `</s>` at the end, and new states."""
        phrases_N = self._phrase_O.take(options_N)
        score_N, state_N = self._score_words(states_N, self._word_LP[: self._context].take(phrases_N, axis=1))
        end_N = self._end_P.take(phrases_N)
        state_N = np.where(end_N == _NO_STATE, state_N, end_N)
        if is_end:
            end_1N = np.where(self._length_P[None, phrases_N] > 0, _END, 0)
            score_N += self._score_words(state_N, end_1N)[0]
        return score_N[:, None] * LN_10, state_N

    def _score_words(self, state_N: Indices, word_LN: Indices) -> tuple[Floats, Indices]:
        score_N, state_N = np.zeros(len(state_N)), state_N.copy()
        for word_N in word_LN:
            (word,) = word_N.nonzero()
            if len(word):
                score_n, state_N[word] = self._step(state_N.take(word), word_N.take(word))
                score_N[word] += score_n
        return score_N, state_N

    def _step(self, state_N: Indices, word_N: Indices) -> tuple[Floats, Indices]:
        key_N = (state_N << _WORD_BITS) + word_N
        slot_N = key_N % _CACHED
        score_N, next_N = self._cached_score.take(slot_N), self._cached_state.take(slot_N)
        (new,) = (self._cached_key.take(slot_N) != key_N).nonzero()
        while len(new):
            slot_n = slot_N.take(new)
            # KenLM is asked for one row per slot. The other rows have the same key, except for rare collisions.
            self._asking[slot_n] = new
            asked = new[self._asking.take(slot_n) == new]
            slots = slot_N.take(asked)
            scores, states = self._ask(state_N.take(asked), word_N.take(asked))
            # A time-out may interrupt the server between any two statements.
            self._cached_key[slots] = -1
            self._cached_score[slots], self._cached_state[slots] = scores, states
            self._cached_key[slots] = key_N.take(asked)
            score_N[new], next_N[new] = self._cached_score.take(slot_n), self._cached_state.take(slot_n)
            new = new[self._cached_key.take(slot_n) != key_N.take(new)]
        return score_N, next_N

    def _ask(self, states: Indices, words: Indices) -> tuple[list[float], list[int]]:
        """Ask KenLM for the results of `_step`."""
        score, known, numbers, texts = self._model.BaseScore, self._states, self._state_numbers, self._words.texts
        scores, following, after = [], [], self._new_state()
        for state, word in zip(states.tolist(), words.tolist(), strict=True):
            scores.append(score(known[state], texts[word], after))
            number = numbers.get(after)
            if number is None:
                number = len(known)
                # In this order, because a time-out may interrupt the server between any two statements.
                known.append(after)
                numbers[after] = number
                after = self._new_state()
            following.append(number)
        require_log10_probs(scores, self.path)
        return scores, following


class _WordNumbers(dict[bytes, int]):
    """Numbers of words from 1, in order of first use; 0 is no word."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = [""]
        """For KenLM's module. Words of invalid UTF-8 become unknown words, unlike in Moses."""
        self[b"</s>"]

    def __missing__(self, word: bytes) -> int:
        number = len(self.texts)
        # In this order, because a time-out may interrupt the server between any two statements.
        self.texts.append(as_text(word))
        self[word] = number
        return number

    def matrix(self, phrases: Sequence[Words]) -> tuple[Indices, Indices]:
        """Return the words of phrases as columns [L, P], and their lengths [P]."""
        length_P = np.array([len(phrase) for phrase in phrases], np.int64)
        word_PL = np.zeros((len(phrases), length_P.max(initial=0)), np.int64)
        word_PL[np.arange(word_PL.shape[1]) < length_P[:, None]] = [self[word] for phrase in phrases for word in phrase]
        return np.ascontiguousarray(word_PL.T), length_P
