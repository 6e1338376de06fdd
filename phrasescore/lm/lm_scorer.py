"""Scoring with a neural language model, in batches; each distinct context is computed once.

Legend: Q queries, A distinct contexts, c words of a context, I words in the output layer, N sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.device import Device
from phrasescore.lm.ngram_cache import Keys, NgramCache, ngram_keys
from phrasescore.lm.ngram_model import BackoffModel, as_word
from phrasescore.lm.ngrams import AffiliatedSource, Ngrams, distinct_rows
from phrasescore.model_files import require_finite, require_log_probs
from phrasescore.model_folder import TrainedLanguageModel, load_language_model
from phrasescore.phrases import Phrases
from phrasescore.scoring.columns import SCORE, UNKNOWN_TARGET, UNNORMALISED, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Recipe, Scores
from phrasescore.vocabulary import END, UNKNOWN, WordCounts
from phrasescore.words import split_words

_ROWS = {"cpu": 1024, "cuda": 16384}
"""Contexts per forward pass."""

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


class NeuralLmScorer(PhraseScorer):
    """ln p of words in context, and of target sentences as a feature of n-best lists.

    A score does not depend on the other queries (to 1e-4 in 32 bit).

    Words are ids: those below `shortlist` are the network's ids, and `word_id` assigns further ids to other words. The
    network treats these words as `<unk>`, and the back-off model scores the word itself: see `BackoffModel`. Without a
    back-off model each of these words gets the probability of `<unk>`, which is the total of all of them; the scores
    are then not a distribution over words. `END` is `</s>` as a predicted word, and in contexts `<s>`.
    """

    unit = "sentence"

    def __init__(self, model: TrainedLanguageModel, device: Device, backoff: Path | None = None) -> None:
        super().__init__([model.folder], device)
        self.model = model
        self.backoff = None if backoff is None else BackoffModel(backoff, model.vocabulary.known_words)
        is_self_normalised = model.network.config.self_normalise > 0
        self.columns = (SCORE, UNKNOWN_TARGET, *([UNNORMALISED] if is_self_normalised else []))
        self.norms: NgramCache | None = None
        """An optional cache of ln Z by context, for 32 bit only: in 16 bit ln Z is that of rounded products, but cached
        values are exact."""
        self.order, self.source_window = model.network.config.order, model.network.source_window
        self.shortlist = len(model.vocabulary)
        self._network = model.network.to(device.torch_device)
        self._network.softmax.product_dtype = device.product_dtype
        # Text that spells a symbol is a word outside the shortlist.
        self._ids = {word: number for number, word in enumerate(model.vocabulary.words) if word in model.vocabulary}
        self._texts = [as_word(word) for word in model.vocabulary.words]

    @classmethod
    def load(cls, folder: Path, device: Device, backoff: Path | None = None) -> Self:
        model, device = load_language_model(folder), device.of_this_process()
        scorer = cls(model, device, backoff)
        arguments = model.folder.resolve(), device, backoff and backoff.resolve()
        scorer.recipe = Recipe(cls.load, arguments, scorer.fingerprint)
        return scorer

    @property
    def fingerprint(self) -> str:
        return self.model.weights_digest

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        sentences, columns = [split_words(target) for target in occurrences.targets], columns or self.columns[:1]
        unknown_N = np.array([sum(word not in self.model.vocabulary for word in words) for words in sentences], float)
        values = {UNKNOWN_TARGET: unknown_N}
        for column in {SCORE, UNNORMALISED}.intersection(columns):
            scores = self.sentence_log_probs(sentences, unnormalised=column == UNNORMALISED)
            values[column] = np.array(scores, float)
        counts = WordCounts(target=sum(map(len, sentences)), target_unknown=int(unknown_N.sum()))
        return Scores(np.stack([values[column] for column in columns], axis=1), counts)

    def word_id(self, word: bytes) -> int:
        """Return the id of a word; a word outside the shortlist gets a new id at its first query."""
        number = self._ids.get(word)
        if number is None:
            number = len(self._texts)
            # In this order, because a server's time-out may interrupt between any two statements.
            self._texts.append(as_word(word))
            self._ids[word] = number
        return number

    def sentence_log_probs(self, sentences: Sequence[Sequence[bytes]], *, unnormalised: bool = False) -> list[float]:
        """Return ln p of each sentence, `</s>` included; see `log_probs`."""
        return [float(scores.sum()) for scores in self.word_log_probs(sentences, unnormalised=unnormalised)]

    def word_log_probs(
        self,
        sentences: Sequence[Sequence[bytes]],
        source: AffiliatedSource | None = None,
        *,
        unnormalised: bool = False,
    ) -> list[Floats]:
        """Return ln p of the words and the `</s>` of each sentence, with its source for a joint model."""
        if not sentences:
            return []
        phrases = Phrases.from_lists([self.word_id(word) for word in sentence] for sentence in sentences)
        ngrams = Ngrams(phrases, self.order, source, self.source_window)
        scores = self.log_probs(*ngrams.take(np.arange(len(ngrams))), unnormalised=unnormalised)
        return np.split(scores, (phrases.offsets[1:] + np.arange(1, len(sentences) + 1))[:-1])

    def log_probs(
        self, contexts_Qc: NDArray[np.integer], words_Q: NDArray[np.integer], *, unnormalised: bool = False
    ) -> Floats:
        """Return ln p of words in context, [Q].

        Contexts are the `order` - 1 words before each, the nearest last, padded with `start` on the left; of a joint
        model after the window of ids of its source vocabulary. `end` is predicted at the end of a sentence. With
        `unnormalised`, the outputs of the network are ln p, for which it must have been trained.
        """
        if not len(words_Q):
            return np.zeros(0)
        known_Qc = contexts_Qc.astype(np.int64)
        history_Qc = known_Qc[:, self.source_window :]
        history_Qc[history_Qc >= self.shortlist] = UNKNOWN
        known_Q = np.where(words_Q < self.shortlist, words_Q, UNKNOWN).astype(np.int64)
        scores_Q = self._network_scores(known_Qc, known_Q, unnormalised)
        if self.backoff is not None:
            for query in np.flatnonzero(words_Q >= self.shortlist).tolist():
                before = int(contexts_Qc[query, -1])
                scores_Q[query] += self.backoff.log_share(
                    self._texts[words_Q[query]], None if before == END else self._texts[before]
                )
        return scores_Q

    @torch.inference_mode()
    def _network_scores(self, contexts_Qc: Indices, words_Q: Indices, unnormalised: bool) -> Floats:
        first_A, context_Q = distinct_rows(contexts_Qc)
        contexts_Ac = contexts_Qc[first_A]
        # The cache has ln Z of some contexts; unnormalised scores use its mean.
        log_norm_A = np.full(len(contexts_Ac), float(self._network.mean_log_norm) if unnormalised else np.nan)
        if not unnormalised and self.norms is not None:
            log_norm_A = self.norms.find(_keys(contexts_Ac)).astype(np.float64)
        is_new_A = np.isnan(log_norm_A)
        scores_Q, rows = np.empty(len(words_Q)), _ROWS[self.device.torch_device.type]
        for contexts, is_new in ((np.flatnonzero(is_new_A), True), (np.flatnonzero(~is_new_A), False)):
            for first in range(0, len(contexts), rows):
                some = contexts[first : first + rows]
                query_I = np.flatnonzero(np.isin(context_Q, some))
                node_I = np.searchsorted(some, context_Q[query_I])
                scores_Q[query_I], log_norm_A[some] = self._score_batch(
                    contexts_Ac[some], node_I, words_Q[query_I], None if is_new else log_norm_A[some]
                )
        # Unnormalised scores may be positive.
        require = require_finite if unnormalised else require_log_probs
        require(scores_Q, self.model.folder)
        if self.norms is not None:
            self.norms.add(_keys(contexts_Ac[is_new_A]), log_norm_A[is_new_A].astype(np.float32))
        return scores_Q

    def _score_batch(
        self, contexts_Ac: Indices, node_I: Indices, words_I: Indices, log_norm_A: Floats | None
    ) -> tuple[Floats, Floats]:
        device = self.device.torch_device
        contexts, node, words = (torch.from_numpy(ids).to(device) for ids in (contexts_Ac, node_I, words_I))
        known_A = None if log_norm_A is None else torch.from_numpy(log_norm_A).float().to(device)
        with self.device.products():
            found = self._network.log_probs(contexts, node, words, known_A)
        log_prob_I, norm_A = (values.double().cpu().numpy() for values in found)
        return log_prob_I, norm_A


def _keys(contexts_Ac: Indices) -> Keys:
    return ngram_keys(contexts_Ac.astype(np.uint64))
