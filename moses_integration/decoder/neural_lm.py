"""The continuous-space language model (CSLM) as a feature of the decoder (Cho et al. 2014, section 4.1.3).

The n-grams of all candidates of a stack are scored in one batch before the stack is pruned; those of earlier stacks
and sentences come from a cache.

Shapes: N extensions, P distinct pairs of a state and a phrase, S states, T phrases of at most L words, c words of a
context, t of a context and a phrase, Q queries, D distinct ones, U of them not in the cache, n words of an n-gram.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from moses_integration.decoder.context import ContextFeature, LanguageModel
from moses_integration.decoder.ngram_cache import Keys, NgramCache, key_of, ngram_keys
from moses_integration.decoder.phrases import Floats, Indices, Words
from phrasescore.files import sha256_of
from phrasescore.lm.ngrams import distinct_rows
from phrasescore.log_probs import are_log_probs
from phrasescore.phrases import Ids
from phrasescore.vocabulary import UNKNOWN


class _Norms:
    """ln Z of contexts that were asked for before, by this process."""

    def __init__(self) -> None:
        self._cache = NgramCache()

    def find(self, contexts_Ac: Indices) -> Floats:
        """Return ln Z, NaN where it is not known, [A]."""
        log_norm_A, is_known_A = self._cache.find(self._keys(contexts_Ac))
        return np.where(is_known_A, log_norm_A, np.nan)

    def add(self, contexts_Ac: Indices, log_norm_A: Floats) -> None:
        """Remember ln Z of contexts."""
        self._cache.add(self._keys(contexts_Ac), log_norm_A.astype(np.float32))

    def _keys(self, contexts_Ac: Indices) -> Keys:
        return ngram_keys(contexts_Ac.astype(np.uint64), seed=0)


class NeuralLanguageModelFeature(ContextFeature):
    """ln p of the translation under a neural language model, `</s>` included.

    A state is the last n - 1 words: with equal states all later scores are equal. To the network all words outside its
    shortlist are `<unk>`; but the back-off model, which shares `<unk>` out among them, looks at the word before, so the
    last word of a state is told apart from all others.
    """

    def __init__(
        self, label: str, path: Path, backoff: Path, *, unnormalised: bool = False, cache: Path | None = None
    ) -> None:
        """Describe the feature; `load` reads the files.

        Args:
            label: its name in moses.ini.
            path: what `phrasescore lm train` wrote.
            backoff: n-gram model for words outside the shortlist; it also estimates what phrases will score.
            unnormalised: take the network's outputs for ln p, which it must have been trained for.
            cache: file that keeps scores of n-grams, for other processes and later runs too; None keeps them in memory.
        """
        super().__init__(label)
        self.path, self.backoff = path, backoff
        self.unnormalised, self.cache = unnormalised, cache
        self.queries = self.served = 0
        """N-grams asked for so far, each counted once a batch, and how many of them the cache had."""

    def load(self, wanted: Set[bytes] = frozenset()) -> None:
        """Load network and back-off model, all of them."""
        from phrasescore.device import choose_device
        from phrasescore.lm.scorer import NeuralLmScorer

        # In 16 bit a score would depend a little on the other n-grams of its batch, and so on the search.
        device = choose_device("auto", "fp32")
        self._scorer = NeuralLmScorer.load(self.path, device, self.backoff, self.unnormalised)
        self._estimator = LanguageModel(self.label, self.backoff)
        self._estimator.load()
        self._cache = NgramCache(self.cache)
        self._scorer.norms = _Norms()
        # Words outside the shortlist are numbered as they are met, in each process in another order.
        self._key_of_word = np.arange(self._scorer.shortlist, dtype=np.uint64)
        self._new_keys: list[int] = []
        self._seed = 0 if self.cache is None else self._identity()

    def _identity(self) -> int:
        """Return a number for all that scores depend on: a file may hold those of several models."""
        parts = (self._scorer.model.weights_digest, sha256_of(self.backoff), self.unnormalised)
        return key_of(" ".join(map(str, parts)).encode())

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return zeros, and ln p of the phrases under the back-off model: the network scores nothing out of context."""
        inside_T1, outside_T1 = self._estimator.alone(phrases)
        return np.zeros_like(inside_T1), inside_T1 + outside_T1

    def begin(self, phrases: Sequence[Words]) -> int:
        """Forget all states but that of the begin of the sentence."""
        words = [[self._word_id(word) for word in phrase] for phrase in phrases]
        self._key_of_word = np.append(self._key_of_word, np.array(self._new_keys, np.uint64))
        self._new_keys = []
        self._length_T = np.array([len(phrase) for phrase in words], np.int64)
        self._words_TL = np.zeros((len(words), self._length_T.max(initial=0)), np.int32)
        self._words_TL[np.arange(self._words_TL.shape[1]) < self._length_T[:, None]] = list(chain.from_iterable(words))
        self._context_Sc: Ids = np.full((1, self._scorer.order - 1), self._scorer.start, np.int32)
        return 0

    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return ln p of the words of phrases behind states, and of `</s>`, and the states behind."""
        # Many hypotheses of a stack share state and phrase.
        pairs_P, pair_N = np.unique(states_N * len(self._length_T) + phrases_N, return_inverse=True)
        state_P, phrase_P = np.divmod(pairs_P, max(len(self._length_T), 1))
        score_P, context_Pc = self._score(self._context_Sc[state_P], phrase_P)
        first_S, state_P = distinct_rows(context_Pc)
        context_Sc = context_Pc[first_S]
        if is_end:
            end_S1 = np.full((len(context_Sc), 1), self._scorer.end, np.int32)
            score_P += self._log_probs(np.concatenate([context_Sc, end_S1], axis=1))[state_P]
        state_P += len(self._context_Sc)
        self._context_Sc = np.concatenate([self._context_Sc, context_Sc])
        return score_P[pair_N][:, None], state_P[pair_N]

    def _score(self, context_Pc: Ids, phrase_P: Indices) -> tuple[Floats, Ids]:
        """Return ln p of the words of phrases behind contexts, all scored in one batch, and the contexts behind."""
        length_P1, order = self._length_T[phrase_P, None], self._scorer.order
        text_Pt = np.concatenate([context_Pc, self._words_TL[phrase_P]], axis=1)
        is_word_PL = np.arange(self._words_TL.shape[1]) < length_P1
        score_PL = np.zeros(is_word_PL.shape)
        if score_PL.size:
            ngrams_Qn = sliding_window_view(text_Pt, order, axis=1)[is_word_PL]
            score_PL[is_word_PL] = self._log_probs(self._as_the_network_sees(ngrams_Qn, but_for=2))
        context_Pc = np.take_along_axis(text_Pt, length_P1 + np.arange(order - 1), axis=1)
        return score_PL.sum(axis=1), self._as_the_network_sees(context_Pc, but_for=1)

    def _as_the_network_sees(self, words_An: Ids, but_for: int) -> Ids:
        """Return rows of words with `<unk>` for those outside the shortlist, but for some at the end of each row."""
        is_unknown_An = words_An >= self._scorer.shortlist
        is_unknown_An[:, -but_for:] = False
        return np.where(is_unknown_An, np.int32(UNKNOWN), words_An)

    def _log_probs(self, ngrams_Qn: Ids) -> Floats:
        """Return ln p of the last word of n-grams, from the cache as far as it has them."""
        keys_Q = ngram_keys(self._key_of_word[ngrams_Qn], self._seed)
        distinct_D, first_D, number_Q = np.unique(keys_Q, return_index=True, return_inverse=True)
        scores_D, is_known_D = self._cache.find(distinct_D)
        # What no network can have said is asked for anew.
        is_possible_D = np.isfinite(scores_D) if self.unnormalised else are_log_probs(scores_D)
        new_U = np.flatnonzero(~(is_known_D & is_possible_D))
        asked_Un = ngrams_Qn[first_D[new_U]]
        scores_D[new_U] = self._scorer.log_probs(asked_Un[:, :-1], asked_Un[:, -1])
        self._cache.add(distinct_D[new_U], scores_D[new_U])
        self.queries += len(distinct_D)
        self.served += len(distinct_D) - len(new_U)
        # A score is 32 bit wherever it comes from.
        return scores_D[number_Q].astype(np.float64)

    def _word_id(self, word: bytes) -> int:
        number = self._scorer.word_id(word)
        if number == len(self._key_of_word) + len(self._new_keys):
            self._new_keys.append(key_of(word))
        return number
