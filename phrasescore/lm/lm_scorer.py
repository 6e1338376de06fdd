"""Scoring with a neural language model, in batches; each distinct context is computed once.

Legend: Q queries, A distinct contexts, c = n - 1 words of a context, I words in the output layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.device import Device
from phrasescore.errors import UserError, spelled
from phrasescore.lm.backoff import BackoffModel, as_word
from phrasescore.lm.model_folder import TrainedLanguageModel, load_language_model
from phrasescore.lm.ngrams import contexts_and_words, distinct_rows
from phrasescore.log_probs import require_finite, require_log_probs
from phrasescore.model_folder import load_again
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import END, UNKNOWN
from phrasescore.workers import Shared, Stored

_ROWS = {"cpu": 1024, "cuda": 16384}
"""Contexts per forward pass."""

Indices = NDArray[np.int64]
Floats = NDArray[np.float64]


class NormCache(Protocol):
    """A cache of ln Z by context, which avoids repeated sums of the softmax."""

    def find(self, contexts_Ac: Indices) -> Floats:
        """Return the cached ln Z of contexts, NaN where there is none, [A]."""
        ...

    def add(self, contexts_Ac: Indices, log_norm_A: Floats) -> None:
        """Cache ln Z of contexts."""
        ...


@dataclass(frozen=True)
class Loading:
    """Loads a scorer in a worker process."""

    network: Stored
    device: Device
    backoff: Path | None
    unnormalised: bool

    def __call__(self) -> NeuralLmScorer:
        """Load the scorer.

        Raises:
            UserError: a file is not accessible to the worker, or the network has changed.
        """
        model, device = load_again(self.network, load_language_model), self.device.of_this_process()
        return NeuralLmScorer(model, device, _read_backoff(self.backoff, model), unnormalised=self.unnormalised)


class NeuralLmScorer:
    """ln p of words in context. A score does not depend on the other queries (to 1e-4 in 32 bit).

    Words are ids: those below `shortlist` are the network's ids, and `word_id` assigns further ids to other words. The
    network treats these words as `<unk>`, and the back-off model scores the word itself: `lm/backoff.py` has the
    formula. Without a back-off model each of these words gets the probability of `<unk>`, which is the total of all of
    them; the scores are then not a distribution over words (`is_distribution`).
    """

    start = END
    """The id of `<s>`, which fills the context before the first word of a sentence."""
    end = END
    """The id of `</s>` as a predicted word."""

    def __init__(
        self,
        model: TrainedLanguageModel,
        device: Device,
        backoff: BackoffModel | None = None,
        *,
        unnormalised: bool = False,
    ) -> None:
        """Move the network to the device.

        Args:
            model: the network and its shortlist.
            device: device and precision.
            backoff: scores words outside the shortlist.
            unnormalised: use the network's outputs as ln p; it must have been trained for that.
        """
        self._loading: Loading | None = None
        self.model, self.device, self.backoff, self.unnormalised = model, device, backoff, unnormalised
        self.norms: NormCache | None = None
        """An optional cache for 32 bit only: in 16 bit ln Z is that of rounded products, but cached values are exact.
        """
        self.order = model.network.config.order
        self.shortlist = len(model.vocabulary)
        self._network = model.network.to(device.torch_device)
        self._network.multiply_in(device.product_dtype)
        # Text that spells a symbol is a word outside the shortlist.
        self._ids = {word: number for number, word in enumerate(model.vocabulary.words) if word in model.vocabulary}
        self._texts = [as_word(word) for word in model.vocabulary.words]

    @classmethod
    def load(
        cls, folder: Path, device: Device, backoff: Path | None = None, unnormalised: bool = False
    ) -> NeuralLmScorer:
        """Load a model folder and a back-off model.

        Args:
            folder: a folder that `phrasescore lm train` wrote.
            device: device and precision.
            backoff: an ARPA file or a KenLM binary.
            unnormalised: use the network's outputs as ln p.

        Raises:
            UserError: a file is missing or damaged, or the network was not trained for unnormalised scores.
        """
        model = load_language_model(folder)
        if unnormalised and not model.network.config.self_normalise:
            raise UserError(
                f"{folder}: was not trained with {spelled('self_normalise')}, so its outputs are no "
                "probabilities; train it with that, or ask for normalised scores"
            )
        scorer = cls(model, device, _read_backoff(backoff, model), unnormalised=unnormalised)
        scorer._loading = Loading(model.stored, device, backoff and backoff.resolve(), unnormalised)
        return scorer

    def shared(self) -> Shared[NeuralLmScorer]:
        """Return a handle for tasks, which load a scorer of a folder again in the worker."""
        return Shared(self, self._loading)

    @property
    def is_distribution(self) -> bool:
        """Whether the probabilities of all words sum to one."""
        return self.backoff is not None and not self.unnormalised

    def word_id(self, word: bytes) -> int:
        """Return the id of a word; a word outside the shortlist gets a new id at its first query."""
        number = self._ids.setdefault(word, len(self._texts))
        if number == len(self._texts):
            self._texts.append(as_word(word))
        return number

    def log_probs(self, contexts_Qc: NDArray[np.integer], words_Q: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return ln p of words in context, [Q].

        Args:
            contexts_Qc: the `order` - 1 words before each, the nearest last, padded with `start` on the left.
            words_Q: the words; `end` for the end of the sentence.

        Raises:
            UserError: the network or the back-off model returns an invalid log-probability.
        """
        if not len(words_Q):
            return np.zeros(0)
        known_Qc = np.where(contexts_Qc < self.shortlist, contexts_Qc, UNKNOWN).astype(np.int64)
        known_Q = np.where(words_Q < self.shortlist, words_Q, UNKNOWN).astype(np.int64)
        scores_Q = self._network_scores(known_Qc, known_Q)
        if self.backoff is not None:
            for query in np.flatnonzero(words_Q >= self.shortlist).tolist():
                before = int(contexts_Qc[query, -1])
                scores_Q[query] += self.backoff.log_share(
                    self._texts[words_Q[query]], None if before == self.start else self._texts[before]
                )
        return scores_Q

    def sentence_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[float]:
        """Return ln p of each sentence, `</s>` included; see `log_probs`."""
        return [float(scores.sum()) for scores in self.word_log_probs(sentences)]

    def word_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[NDArray[np.float64]]:
        """Return ln p of the words and the `</s>` of each sentence; see `log_probs`."""
        if not sentences:
            return []
        phrases = Phrases.from_lists([self.word_id(word) for word in sentence] for sentence in sentences)
        scores = self.log_probs(*contexts_and_words(phrases, self.order))
        return np.split(scores, (phrases.offsets[1:] + np.arange(1, len(sentences) + 1))[:-1])

    @torch.inference_mode()
    def _network_scores(self, contexts_Qc: Indices, words_Q: Indices) -> NDArray[np.float64]:
        """Return ln p of words of the shortlist and `<unk>`."""
        first_A, context_Q = distinct_rows(contexts_Qc)
        contexts_Ac = contexts_Qc[first_A]
        log_norm_A = self._known_norms(contexts_Ac)
        # Sort contexts with unknown ln Z to the front.
        order_A = np.argsort(~np.isnan(log_norm_A), kind="stable")
        contexts_Ac, log_norm_A, context_Q = contexts_Ac[order_A], log_norm_A[order_A], np.argsort(order_A)[context_Q]
        unknown, rows = np.count_nonzero(np.isnan(log_norm_A)), _ROWS[self.device.torch_device.type]
        cuts = [*range(0, unknown, rows), *range(unknown, len(order_A), rows), len(order_A)]
        scores_Q = np.empty(len(words_Q))
        by_context = np.argsort(context_Q, kind="stable")
        ends = np.searchsorted(context_Q[by_context], cuts)
        for (first, last), (begin, end) in zip(pairwise(cuts), pairwise(ends.tolist()), strict=True):
            some_I, batch = by_context[begin:end], slice(first, last)
            known_A = None if first < unknown else log_norm_A[batch]
            scores_Q[some_I], log_norm_A[batch] = self._score_batch(
                contexts_Ac[batch], context_Q[some_I] - first, words_Q[some_I], known_A
            )
        # Unnormalised scores may be positive.
        require = require_finite if self.unnormalised else require_log_probs
        require(scores_Q, self.model.folder)
        if self.norms is not None:
            self.norms.add(contexts_Ac[:unknown], log_norm_A[:unknown])
        return scores_Q

    def _known_norms(self, contexts_Ac: Indices) -> Floats:
        """Return ln Z of contexts from the cache, or the mean ln Z for unnormalised scores; NaN elsewhere."""
        if self.unnormalised:
            return np.full(len(contexts_Ac), float(self._network.mean_log_norm))
        return np.full(len(contexts_Ac), np.nan) if self.norms is None else self.norms.find(contexts_Ac)

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


def _read_backoff(path: Path | None, model: TrainedLanguageModel) -> BackoffModel | None:
    return None if path is None else BackoffModel(path, model.vocabulary.known_words)
