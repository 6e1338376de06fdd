"""A neural language model as a feature of the decoder: the CSLM of Cho et al. (2014, section 4.1.3), or a joint model.

The n-grams of all candidates of a stack are scored in one batch before the stack is pruned; repeated n-grams come from
a cache. A joint model (Devlin et al. 2014) also reads a window of source words, which a phrase pair, its position and
its word alignment determine for each target word. So its states are those of the CSLM.

Shapes: N extensions, O options, P distinct pairs of a state and a phrase, S states, T phrases of at most L words, F
source words and the end, w words of a source window, c words of a context, t of a context and a phrase, Q queries, D
distinct ones, U of them not in the cache, n words of an n-gram.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from moses_integration.decoder.language_models import LanguageModel, LanguageModelFeature
from moses_integration.decoder.phrases import Floats, Indices, Words
from phrasescore.errors import UserError
from phrasescore.lm.ngram_cache import Keys, NgramCache, ngram_keys
from phrasescore.lm.ngrams import affiliations, distinct_rows, source_windows
from phrasescore.phrases import Ids
from phrasescore.scoring.columns import UNNORMALISED
from phrasescore.vocabulary import END, UNKNOWN
from phrasescore.words import quote

if TYPE_CHECKING:
    from moses_integration.decoder.tables import Wanted
    from moses_integration.decoder.translation_options import Options


@cache
def _affiliations(points: tuple[tuple[int, int], ...], target_words: int, source_words: int) -> list[int] | None:
    """Return the source position of each target word, None if a point is outside; few alignments are distinct."""
    if any(source >= source_words or target >= target_words for source, target in points):
        return None
    return affiliations(points, target_words, source_words)


class NeuralLanguageModelFeature(LanguageModelFeature):
    """ln p of the translation under a neural language model, for a joint model given the source; `</s>` included.

    A network that was trained with `self_normalise` gives unnormalised scores, without the sum of the softmax.

    A state is the last n - 1 words, with `<unk>` for words outside the network's shortlist. The last word of a state is
    never replaced, because the back-off model, which distributes the probability of `<unk>`, conditions on it.
    """

    # The score of a sentence depends on its batch by about 1e-6.
    decimals = 4

    def __init__(self, label: str, path: Path, backoff: Path) -> None:
        """Make the feature.

        `backoff` is an n-gram model for words outside the shortlist and for estimates of phrases without context.
        """
        super().__init__(label)
        self.path, self.backoff = path, backoff
        self.queries = self.served = 0
        """Distinct n-grams requested per batch, summed over batches, and how many of them the cache served."""

    def load(self, wanted: Wanted = frozenset()) -> None:
        from phrasescore.device import choose_device
        from phrasescore.lm.lm_scorer import NeuralLmScorer

        # In 16 bits a score would depend slightly on the other n-grams of its batch, and so on the search.
        device = choose_device("auto", "fp32")
        self._scorer = NeuralLmScorer.load(self.path, device, self.backoff)
        self._unnormalised = self._scorer.context_column == UNNORMALISED
        self._estimator = LanguageModel(self.label, self.backoff)
        self._estimator.load()
        self._cache, self._scorer.norms = NgramCache(), NgramCache()

    def alone(self, phrases: Sequence[Words]) -> tuple[Floats, Floats]:
        """Return zeros, because the network needs context, and ln p under the back-off model as the estimate."""
        inside_T1, outside_T1 = self._estimator.alone(phrases)
        return np.zeros_like(inside_T1), inside_T1 + outside_T1

    def begin(self, options: Options) -> int:
        numbers: dict[tuple[int, tuple[int, ...]], int] = {}
        self._phrase_O = np.array([numbers.setdefault(key, len(numbers)) for key in self._phrases(options)], np.int64)
        words = [[self._scorer.word_id(word) for word in options.phrases[phrase]] for phrase, _ in numbers]
        self._length_T = np.array([len(phrase) for phrase in words], np.int64)
        self._words_TL, self._position_TL = np.zeros((2, len(words), self._length_T.max(initial=0)), np.int32)
        is_word_TL = np.arange(self._words_TL.shape[1]) < self._length_T[:, None]
        self._words_TL[is_word_TL] = list(chain.from_iterable(words))
        self._position_TL[is_word_TL] = list(chain.from_iterable(positions for _, positions in numbers))
        self._window_Fw = self._source_windows(options.sentence)
        self._key_of_window_F = ngram_keys(self._window_Fw.astype(np.uint64))
        self._context_Sc: Ids = np.full((1, self._scorer.order - 1), END, np.int32)
        return 0

    def _phrases(self, options: Options) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Yield for each option the number of its target phrase, and the source position of each target word."""
        for phrase, start, end, target in zip(
            options.phrase_O.tolist(), options.start_O.tolist(), options.end_O.tolist(), options.targets, strict=False
        ):
            if not self._scorer.source_window:
                yield phrase, (0,) * len(target.words)
                continue
            pair = options.sentence[start : end + 1], target.words
            if target.words and not target.alignment:
                raise self._fault("the phrase table has no word alignment of", pair, "build the table with alignments")
            positions = _affiliations(target.alignment, len(target.words), end + 1 - start)
            if positions is None:
                raise self._fault("the phrase table aligns words outside of", pair, "write points as source-target")
            yield phrase, tuple(start + position for position in positions)

    def _fault(self, reason: str, pair: tuple[Words, Words], remedy: str) -> UserError:
        shown = " ||| ".join(quote(b" ".join(words)) for words in pair)
        return UserError(f"{self.path}: is a joint model, but {reason} `{shown}`; {remedy}")

    def _source_windows(self, sentence: Words) -> Ids:
        vocabulary = self._scorer.model.source_vocabulary
        if vocabulary is None:
            return np.zeros((1, 0), np.int32)
        ids = vocabulary.encode([b" ".join(sentence)])
        return source_windows(ids, self._scorer.source_window)[0][: len(sentence) + 1]

    def extend(self, states_N: Indices, options_N: Indices, is_end: bool) -> tuple[Floats, Indices]:
        # Many hypotheses of a stack share the state and the phrase.
        phrase_N = self._phrase_O[options_N]
        pairs_P, pair_N = np.unique(states_N * len(self._length_T) + phrase_N, return_inverse=True)
        state_P, phrase_P = np.divmod(pairs_P, max(len(self._length_T), 1))
        score_P, context_Pc = self._score(self._context_Sc[state_P], phrase_P)
        first_S, state_P = distinct_rows(context_Pc)
        context_Sc = context_Pc[first_S]
        if is_end:
            end_S1 = np.full((len(context_Sc), 1), END, np.int32)
            ends_S = np.full(len(context_Sc), len(self._window_Fw) - 1)
            score_P += self._log_probs(np.concatenate([context_Sc, end_S1], axis=1), ends_S)[state_P]
        state_P += len(self._context_Sc)
        self._context_Sc = np.concatenate([self._context_Sc, context_Sc])
        return score_P[pair_N][:, None], state_P[pair_N]

    def _score(self, context_Pc: Ids, phrase_P: Indices) -> tuple[Floats, Ids]:
        """Return ln p of phrases after contexts, scored in one batch, and the new contexts."""
        length_P1, order = self._length_T[phrase_P, None], self._scorer.order
        text_Pt = np.concatenate([context_Pc, self._words_TL[phrase_P]], axis=1)
        is_word_PL = np.arange(self._words_TL.shape[1]) < length_P1
        score_PL = np.zeros(is_word_PL.shape)
        if score_PL.size:
            ngrams_Qn = sliding_window_view(text_Pt, order, axis=1)[is_word_PL]
            position_Q = self._position_TL[phrase_P][is_word_PL]
            score_PL[is_word_PL] = self._log_probs(self._with_unknown(ngrams_Qn, keep_last=2), position_Q)
        context_Pc = np.take_along_axis(text_Pt, length_P1 + np.arange(order - 1), axis=1)
        return score_PL.sum(axis=1), self._with_unknown(context_Pc, keep_last=1)

    def _with_unknown(self, words_An: Ids, keep_last: int) -> Ids:
        """Replace words outside the shortlist by `<unk>`, except for the last ones of each row."""
        is_unknown_An = words_An >= self._scorer.shortlist
        is_unknown_An[:, -keep_last:] = False
        return np.where(is_unknown_An, np.int32(UNKNOWN), words_An)

    def _log_probs(self, ngrams_Qn: Ids, position_Q: Ids | Indices) -> Floats:
        """Return ln p of the last word of each n-gram, with its source position, from the cache if possible."""
        keys_Q = self._keys_of(ngrams_Qn, position_Q)
        distinct_D, first_D, number_Q = np.unique(keys_Q, return_index=True, return_inverse=True)
        scores_D = self._cache.find(distinct_D)
        new_U = np.flatnonzero(np.isnan(scores_D))
        query_U = first_D[new_U]
        contexts_Uc = np.concatenate([self._window_Fw[position_Q[query_U]], ngrams_Qn[query_U, :-1]], axis=1)
        words_U = ngrams_Qn[query_U, -1]
        scores_D[new_U] = self._scorer.log_probs(contexts_Uc, words_U, unnormalised=self._unnormalised)
        self._cache.add(distinct_D[new_U], scores_D[new_U])
        self.queries += len(distinct_D)
        self.served += len(distinct_D) - len(new_U)
        # Cached scores have 32 bits, so new scores are rounded, too.
        return scores_D[number_Q].astype(np.float64)

    def _keys_of(self, ngrams_Qn: Ids, position_Q: Ids | Indices) -> Keys:
        window_Q1 = self._key_of_window_F[position_Q][:, None]
        return ngram_keys(np.concatenate([window_Q1, ngrams_Qn.astype(np.uint64)], axis=1))
