"""The continuous-space language model (CSLM) as a feature of the decoder (Cho et al. 2014, section 4.1.3).

The n-grams of all candidates of a stack are scored in one batch before the stack is pruned; those of earlier stacks
and sentences come from a cache.

Shapes: N extensions, P new pairs of a state and a phrase with words of one number L, c words of a context, Q queries,
D distinct ones, U of them not in the cache, n words of an n-gram.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from moses_integration.decoder.context import LanguageModel
from moses_integration.decoder.ngram_cache import NgramCache, key_of, ngram_keys
from moses_integration.decoder.phrases import Floats, Indices, Words
from phrasescore.files import sha256_of
from phrasescore.phrases import Ids


class NeuralLanguageModelFeature:
    """ln p of the translation under a neural language model, `</s>` included.

    A state is the last n - 1 words: with equal states all later scores are equal. Words outside the network's
    shortlist are told apart, because the back-off model that scores them tells them apart.
    """

    width, tuneable = 1, True

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
        self.label, self.path, self.backoff = label, path, backoff
        self.unnormalised, self.cache = unnormalised, cache
        self.queries = self.served = 0
        """N-grams asked for so far, and how many of them the cache had."""

    def load(self) -> None:
        """Load network and back-off model.

        Raises:
            UserError: a file is missing, damaged, or does not fit.
        """
        from phrasescore.device import choose_device
        from phrasescore.lm.scorer import NeuralLmScorer

        # In 16 bit a score would depend a little on the other n-grams of its batch, and so on the search.
        device = choose_device("auto", "fp32")
        self._scorer = NeuralLmScorer.load(self.path, device, self.backoff, self.unnormalised)
        self._estimator = LanguageModel(self.label, self.backoff)
        self._estimator.load()
        self._cache = NgramCache(self.cache)
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
        self._phrases = [np.array([self._word_id(word) for word in phrase], np.int32) for phrase in phrases]
        self._key_of_word = np.append(self._key_of_word, np.array(self._new_keys, np.uint64))
        self._new_keys = []
        start: Ids = np.full(self._scorer.order - 1, self._scorer.start, np.int32)
        self._contexts = [start]
        self._number_of = {start.tobytes(): 0}
        self._known: dict[int, tuple[float, int]] = {}
        return 0

    def extend(self, states_N: Indices, phrases_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        """Return ln p of the words of phrases behind states, and of `</s>`, and the states behind."""
        pairs, pair_N = np.unique(states_N * len(self._phrases) + phrases_N, return_inverse=True)
        self._score_pairs([pair for pair in pairs.tolist() if pair not in self._known])
        found = [self._known[pair] for pair in pairs.tolist()]
        scores = np.array([score for score, _ in found], np.float64)
        states = np.array([state for _, state in found], np.int64)
        if is_end:
            scores += self._end_scores(states)
        return scores[pair_N][:, None], states[pair_N]

    def _score_pairs(self, pairs: Sequence[int]) -> None:
        """Score phrases behind states, all in one batch, and remember what they come to."""
        by_length: dict[int, list[int]] = {}
        for pair in pairs:
            by_length.setdefault(len(self._phrases[pair % len(self._phrases)]), []).append(pair)
        # Nothing follows from a phrase without words.
        self._known.update((pair, (0.0, pair // len(self._phrases))) for pair in by_length.pop(0, ()))
        texts = [self._texts(some) for some in by_length.values()]
        order = self._scorer.order
        windows = [np.lib.stride_tricks.sliding_window_view(text, order, axis=1).reshape(-1, order) for text in texts]
        if not windows:
            return
        scores_Q = self._log_probs(np.concatenate(windows))
        ends = np.cumsum([len(some) for some in windows])
        for some, text, part_Q in zip(by_length.values(), texts, np.split(scores_Q, ends[:-1]), strict=True):
            score_P = part_Q.reshape(len(some), -1).sum(axis=1)
            for pair, score, context in zip(some, score_P.tolist(), text[:, 1 - order :], strict=True):
                self._known[pair] = score, self._number(context)

    def _texts(self, pairs: Sequence[int]) -> Ids:
        """Return the words of states followed by those of phrases of one length [P, c + L]."""
        states, phrases = zip(*(divmod(pair, len(self._phrases)) for pair in pairs), strict=True)
        before = np.stack([self._contexts[state] for state in states])
        return np.concatenate([before, np.stack([self._phrases[phrase] for phrase in phrases])], axis=1)

    def _end_scores(self, states_N: Indices) -> Floats:
        """Return ln p of `</s>` behind states."""
        contexts = np.stack([self._contexts[state] for state in states_N.tolist()])
        end = np.full((len(contexts), 1), self._scorer.end, np.int32)
        return self._log_probs(np.concatenate([contexts, end], axis=1))

    def _log_probs(self, ngrams_Qn: Ids) -> Floats:
        """Return ln p of the last word of n-grams, from the cache as far as it has them."""
        keys_Q = ngram_keys(self._key_of_word[ngrams_Qn], self._seed)
        distinct_D, first_D, number_Q = np.unique(keys_Q, return_index=True, return_inverse=True)
        scores_D, is_known_D = self._cache.find(distinct_D)
        new_U = np.flatnonzero(~is_known_D)
        asked_Un = ngrams_Qn[first_D[new_U]]
        scores_D[new_U] = self._scorer.log_probs(asked_Un[:, :-1], asked_Un[:, -1])
        self._cache.add(distinct_D[new_U], scores_D[new_U])
        self.queries += len(keys_Q)
        self.served += len(keys_Q) - len(new_U)
        # A score is 32 bit wherever it comes from.
        return scores_D[number_Q].astype(np.float64)

    def _word_id(self, word: bytes) -> int:
        number = self._scorer.word_id(word)
        if number == len(self._key_of_word) + len(self._new_keys):
            self._new_keys.append(key_of(word))
        return number

    def _number(self, context: Ids) -> int:
        number: int = self._number_of.setdefault(context.tobytes(), len(self._contexts))
        if number == len(self._contexts):
            self._contexts.append(context.copy())
        return number
