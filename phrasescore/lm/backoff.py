"""The back-off model: an n-gram model, read by KenLM, for words outside the shortlist of a neural language model.

For a word w outside the shortlist S of the network, after the history h whose last word is v,

    p(w | h) = p_net(<unk> | h) * p_b(w | v) / m(v),     m(v) = 1 - sum over u in S of p_b(u | v)

where p_b is the back-off model and m(v) is its probability mass outside the shortlist. So for any history p sums to one
over the shortlist, the other words of the back-off model and its `<unk>`, which represents all words unknown to both.
m(v) requires a query for every word of the shortlist, and is as precise as the numbers of the file (1e-7). It is
computed only if a word outside the shortlist follows, and cached for each v, so its cost becomes negligible. Longer
histories would rarely hit the cache. They gain nothing on Multi30k, where words outside the shortlist are rare words:
perplexity 20.74 on the validation text, 20.77 with whole histories.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phrasescore.lm.ngram_model import LN_10, UNKNOWN, as_text, load_kenlm, require_log_probs

if TYPE_CHECKING:
    import kenlm

_START, _END = "<s>", "</s>"


def as_word(word: bytes) -> str:
    """Convert a word for KenLM; text that spells a symbol is an unknown word."""
    text = as_text(word)
    return UNKNOWN if text in (_START, _END) else text


class BackoffModel:
    """An n-gram model: ln p of words, and their share of the probability mass outside a shortlist."""

    def __init__(self, path: Path, shortlist: Iterable[bytes]) -> None:
        """Load the model.

        Args:
            path: ARPA file or KenLM binary.
            shortlist: the words of the network, without its symbols.

        Raises:
            UserError: see `load_kenlm`.
        """
        self._path, self._model = path, load_kenlm(path)
        import kenlm

        self._new_state = kenlm.State
        # Words that the back-off model lacks have no probability mass in it.
        self._shortlist = [_END, *(word for word in map(as_word, shortlist) if word in self._model)]
        self._outside: dict[kenlm.State, float] = {}

    def knows(self, word: bytes) -> bool:
        """Return whether the word is in the vocabulary of the n-gram model."""
        return as_word(word) in self._model

    def log_share(self, word: str, before: str | None) -> float:
        """Return ln of the share of a word in the mass outside the shortlist: ln(p_b(w | v) / m(v)).

        Args:
            word: a word outside the shortlist.
            before: the previous word, None at the start of the sentence.

        Raises:
            UserError: the file has values that are not log-probabilities.
        """
        state = self._state(before)
        [log10_prob] = self._log10_probs(state, [word])
        return min(0.0, LN_10 * float(log10_prob) - math.log(self._mass_outside(state)))

    def word_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[NDArray[np.float64]]:
        """Return ln p of the words and the `</s>` of each sentence by the n-gram model alone.

        Raises:
            UserError: the file has values that are not log-probabilities.
        """
        return [self._log_probs_of(sentence) for sentence in sentences]

    def _log_probs_of(self, sentence: Sequence[bytes]) -> NDArray[np.float64]:
        before, after = self._new_state(), self._new_state()
        self._model.BeginSentenceWrite(before)
        scores = []
        for word in (*map(as_word, sentence), _END):
            scores.append(self._model.BaseScore(before, word, after))
            before, after = after, before
        log10_probs = np.array(scores)
        require_log_probs(log10_probs, self._path)
        return LN_10 * log10_probs

    def _state(self, word: str | None) -> kenlm.State:
        """Return the state after one word, or at the start of the sentence."""
        state, after = self._new_state(), self._new_state()
        if word is None:
            self._model.BeginSentenceWrite(after)
        else:
            self._model.NullContextWrite(state)
            self._model.BaseScore(state, word, after)
        return after

    def _mass_outside(self, state: kenlm.State) -> float:
        mass = self._outside.get(state)
        if mass is None:
            # Rounding errors may exceed the rest if the shortlist has nearly all mass; `<unk>` is always outside, so
            # its probability is a lower bound.
            *inside, least = (10.0 ** self._log10_probs(state, [*self._shortlist, UNKNOWN])).tolist()
            mass = self._outside[state] = max(1.0 - math.fsum(inside), least, sys.float_info.min)
        return mass

    def _log10_probs(self, state: kenlm.State, words: Sequence[str]) -> NDArray[np.float64]:
        """Return log10 p of each word after a state."""
        score, after = self._model.BaseScore, self._new_state()
        log10_probs = np.array([score(state, word, after) for word in words])
        require_log_probs(log10_probs, self._path)
        return log10_probs
