"""The back-off model: an n-gram model read by KenLM, for words that a neural language model does not know.

For a word w outside the shortlist S of the network, behind the history h whose last word is v,

    p(w | h) = p_net(<unk> | h) * p_b(w | v) / m(v),     m(v) = 1 - sum over u in S of p_b(u | v)

where p_b is the back-off model: m(v) is what it gives to all words outside the shortlist, so the sum of p over the
shortlist, the other words of the back-off model and its `<unk>` (one more word, which stands for all that neither
knows) is one, whatever the history. m(v) costs a look at every word of the shortlist, and is as precise as the numbers
of the file (1e-7). It is asked for only where a word outside the shortlist follows, and kept for each v, so that its
cost vanishes in the long run; longer histories would be new ones nearly every time. They gain nothing on Multi30k,
where words outside the shortlist are rare words: perplexity 20.74 on the validation text, 20.77 with whole histories.
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
    """Return a word as KenLM wants it; text that spells a symbol is an unknown word."""
    text = as_text(word)
    return UNKNOWN if text in (_START, _END) else text


class BackoffModel:
    """ln p of words as an n-gram model gives them, and their share among the words outside a shortlist."""

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
        # A word of the shortlist that the back-off model does not know has no share in what it gives.
        self._shortlist = [_END, *(word for word in map(as_word, shortlist) if word in self._model)]
        self._outside: dict[kenlm.State, float] = {}

    def knows(self, word: bytes) -> bool:
        """Whether the word is one of the model's own."""
        return as_word(word) in self._model

    def log_share(self, word: str, before: str | None) -> float:
        """Return ln of the share of a word among all words outside the shortlist: p_b(w | v) / m(v).

        Args:
            word: the word; it is not in the shortlist.
            before: the word before it, None at the start of the sentence.

        Raises:
            UserError: the file has numbers that are no log-probabilities.
        """
        state = self._state(before)
        [log10_prob] = self._log10_probs(state, [word])
        return min(0.0, LN_10 * float(log10_prob) - math.log(self._mass_outside(state)))

    def word_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[NDArray[np.float64]]:
        """Return ln p of the words of each sentence, in their order, and of its `</s>`, by the n-gram model alone.

        Raises:
            UserError: the file has numbers that are no log-probabilities.
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
        """Return the state behind one word, or at the start of the sentence."""
        state, after = self._new_state(), self._new_state()
        if word is None:
            self._model.BeginSentenceWrite(after)
        else:
            self._model.NullContextWrite(state)
            self._model.BaseScore(state, word, after)
        return after

    def _mass_outside(self, state: kenlm.State) -> float:
        """Return m(v)."""
        mass = self._outside.get(state)
        if mass is None:
            # What is lost to rounding where the shortlist takes nearly all; the unknown word is always outside.
            *inside, least = (10.0 ** self._log10_probs(state, [*self._shortlist, UNKNOWN])).tolist()
            mass = self._outside[state] = max(1.0 - math.fsum(inside), least, sys.float_info.min)
        return mass

    def _log10_probs(self, state: kenlm.State, words: Sequence[str]) -> NDArray[np.float64]:
        """Return log10 p of each of some words behind a state."""
        score, after = self._model.BaseScore, self._new_state()
        log10_probs = np.array([score(state, word, after) for word in words])
        require_log_probs(log10_probs, self._path)
        return log10_probs
