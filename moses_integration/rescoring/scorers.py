"""Scorers of n-best lists: each gives every translation of a list one more feature.

A scorer sees a whole list at once, so networks get large batches, and each computes a thing once: all scorers that use
one encoder-decoder share what it has computed. The work of networks is cut into tasks, the same however many share it.

Array names: E entries of a list, K values of a feature, N pairs of texts of all entries, P distinct ones, 2 numbers of
a pair.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.phrases import Words, words_of
from moses_integration.nbest import ListFault, NbestEntry
from moses_integration.segmentation import cover_once, segments_of
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from phrasescore.number import parse_number
from phrasescore.pairs import orient
from phrasescore.plugins import plugins_blamed
from phrasescore.text import chunks
from phrasescore.words import quote
from phrasescore.workers import Here, Shared, Workers, share_work

if TYPE_CHECKING:
    from phrasescore.device import Device
    from phrasescore.model_folder import TrainedModel
    from phrasescore.scoring.engine import Scorer
    from phrasescore.scoring.scores import UnknownSide
    from phrasescore.vocabulary import Vocabulary

_KILLED = "scoring the list: a process was killed, most likely for want of memory; use fewer processes"
_AT_ONCE = 4096
"""Pairs or sentences of a task: enough for large batches, few enough for memory and to share the work evenly."""

Floats = NDArray[np.float64]
Pair = tuple[bytes, bytes]
"""A source and a target text."""


class ListScorer(Protocol):
    """Gives every entry of an n-best list a feature."""

    @property
    def label(self) -> str:
        """The feature's label."""
        ...

    @property
    def digest(self) -> str | None:
        """SHA-256 of what gives the numbers, for provenance; None if they change with the list."""
        ...

    def score(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return the feature's values [E, K]; `sentences[entry.sentence]` is the source of an entry.

        Raises:
            UserError: the entries, the sentences and the scorer do not go together.
        """
        ...


class PairScores:
    """ln p(target | source) of pairs of texts under a network; a pair that comes again is not computed again.

    A network trained for source given target scores in its direction.
    """

    def __init__(self, engine: Scorer, workers: Workers | None = None) -> None:
        """Take the network, and who shares the work: nobody if it is None."""
        self.engine, self._workers = engine, workers or Here()
        self._known: dict[Pair, tuple[float, int]] = {}
        self._words = self._unknown = 0

    def __call__(self, pairs: Sequence[Pair]) -> Floats:
        """Return ln p, end symbol included, and the number of predicted symbols of each pair, [P, 2].

        Raises:
            UserError: the network is damaged.
        """
        # Neighbours in a batch share the states of their common beginnings.
        new = sorted(set(pairs) - self._known.keys())
        if new:
            found = list(self._workers.in_order(_PairTask(self.engine.shared()), chunks(new, _AT_ONCE)))
            numbers = list(chain.from_iterable(numbers for numbers, _ in found))
            self._known.update(zip(new, numbers, strict=True))
            self._words += sum(symbols for _, symbols in numbers) - len(new)
            self._unknown += sum(unknown for _, unknown in found)
        return np.array([self._known[pair] for pair in pairs], np.float64).reshape(-1, 2)

    @property
    def unknown_share(self) -> float:
        """The share of predicted words, in the distinct pairs so far, that the network does not know."""
        return self._unknown / max(self._words, 1)


@dataclass(frozen=True)
class _PairTask:
    """The task of scoring some pairs."""

    engine: Shared[Scorer]

    def __call__(self, pairs: Sequence[Pair]) -> tuple[list[tuple[float, int]], int]:
        """Return ln p and the number of predicted symbols of each, and how many words of all are unknown."""
        from phrasescore.device import one_thread

        with plugins_blamed(), one_thread():
            engine = self.engine.get()
            scores = engine.score_encoded(engine.encode([s for s, _ in pairs], [t for _, t in pairs]))
        numbers = zip(scores.log_prob.tolist(), scores.symbols.tolist(), strict=True)
        return list(numbers), int(scores.unknown_target.sum())


def phrase_pairs(sentence: Words, entry: NbestEntry) -> list[Pair]:
    """Return the phrase pairs of an entry's derivation.

    A word that the system could not translate stands there as its own translation, though the table has no such pair.

    Raises:
        ListFault: the entry has no segmentation, or it is not one of this sentence.
    """
    segments = segments_of(entry)
    if not cover_once(segments, len(sentence)):
        raise ListFault(
            f"the segmentation of an entry of sentence {entry.sentence} (from 0) does not cover the "
            f"{len(sentence)} words of `{quote(b' '.join(sentence))}` once each; give the text that was decoded, "
            "prepared in the same way"
        )
    return [(b" ".join(sentence[one.start : one.end + 1]), b" ".join(one.words)) for one in segments]


def sentence_pair(sentence: Words, entry: NbestEntry) -> list[Pair]:
    """Return the sentence and its translation, the one pair of an entry."""
    return [(b" ".join(sentence), b" ".join(words_of(entry.words)))]


@dataclass(frozen=True)
class PairScorer:
    """The sum of ln p(target | source) over the pairs that an entry consists of."""

    label: str
    scores: PairScores
    pairs_of: Callable[[Words, NbestEntry], list[Pair]]
    """`phrase_pairs` or `sentence_pair`."""
    per_word: bool = False
    """Divide ln p of each pair by the number of predicted symbols before adding, as `annotate --per-word` does."""

    @property
    def digest(self) -> str:
        """SHA-256 of the network's weights."""
        return self.scores.engine.model.weights_digest

    def score(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return the sums, [E, 1]."""
        numbers: dict[Pair, int] = {}
        pair_N, count_E = array("q"), array("q")
        for entry in entries:
            pairs = self.pairs_of(sentences[entry.sentence], entry)
            pair_N.extend(numbers.setdefault(pair, len(numbers)) for pair in pairs)
            count_E.append(len(pairs))
        log_prob_P, symbols_P = self.scores(list(numbers)).T
        value_P = log_prob_P / symbols_P if self.per_word else log_prob_P
        entry_N = np.repeat(np.arange(len(entries)), np.array(count_E))
        sums_E: Floats = np.bincount(entry_N, value_P[np.array(pair_N)], minlength=len(entries)).astype(np.float64)
        return sums_E[:, np.newaxis]


@dataclass(frozen=True)
class UnknownWords:
    """How many words of an entry a network does not know: the paper's WP, a count and no logarithm.

    A word that the system copied counts like any other. The column of `annotate --unknown-words` does not count it, for
    it has no line in the table: a difference that is the same for all translations of a sentence, except where a longer
    phrase covers the word.
    """

    label: str
    digest: str
    """SHA-256 of the network's weights."""
    source_words: Vocabulary | None
    """The source words that the network knows; None if those of the source are not to be counted."""
    target_words: Vocabulary | None
    """The same of the target."""

    @classmethod
    def of(cls, label: str, model: TrainedModel, side: UnknownSide = "target") -> UnknownWords:
        """Count the words that an encoder-decoder does not know."""
        source, target = orient((model.source_vocabulary, model.target_vocabulary), model.direction)
        return cls(
            label, model.weights_digest, None if side == "target" else source, None if side == "source" else target
        )

    def score(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return the counts, [E, 1]."""
        counts_E = np.zeros(len(entries))
        for row, entry in enumerate(entries):
            if self.source_words is not None:
                counts_E[row] += sum(word not in self.source_words for word in sentences[entry.sentence])
            if self.target_words is not None:
                counts_E[row] += sum(word not in self.target_words for word in words_of(entry.words))
        return counts_E[:, np.newaxis]


class SentenceModel(Protocol):
    """A language model."""

    def sentence_log_probs(self, sentences: Sequence[Sequence[bytes]]) -> list[float]:
        """Return ln p of sentences, end symbols included."""
        ...


@dataclass(frozen=True)
class LanguageModelScorer:
    """ln p of an entry's words under a language model."""

    label: str
    model: Shared[SentenceModel]
    digest: str
    workers: Workers = field(default_factory=Here)

    def score(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return ln p, [E, 1]."""
        texts = [words_of(entry.words) for entry in entries]
        # In the list's order, for translations of one sentence have most contexts in common.
        distinct = list(dict.fromkeys(texts))
        found = self.workers.in_order(_SentenceTask(self.model), chunks(distinct, _AT_ONCE))
        log_prob = dict(zip(distinct, chain.from_iterable(found), strict=True))
        return np.array([log_prob[text] for text in texts], np.float64).reshape(-1, 1)


@dataclass(frozen=True)
class _SentenceTask:
    """The task of scoring some sentences."""

    model: Shared[SentenceModel]

    def __call__(self, sentences: Sequence[Words]) -> list[float]:
        """Return ln p of each."""
        from phrasescore.device import one_thread

        with one_thread():
            return self.model.get().sentence_log_probs(sentences)


@dataclass(frozen=True)
class Numbers:
    """Numbers that something else computed: a line for each entry, each with equally many numbers."""

    label: str
    path: Path
    digest: None = None

    def score(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return the numbers, [E, K].

        Raises:
            UserError: the file is not one of as many lines of equally many finite numbers.
        """
        rows: list[list[float]] = []
        for number, line in enumerate(read_lines(self.path), 1):
            try:
                rows.append([parse_number(token) for token in words_of(line)])
            except ValueError as error:
                raise UserError(f"{self.path}: line {number}: {error}; give each entry a line of numbers") from error
            if not rows[-1] or len(rows[-1]) != len(rows[0]):
                raise UserError(
                    f"{self.path}: line {number}: has not {len(rows[0]) or 1} numbers like the first; mend it"
                )
        if len(rows) != len(entries):
            raise UserError(
                f"{self.path}: has {len(rows)} lines where the n-best list has {len(entries)} entries; give a line for "
                "each entry"
            )
        return np.array(rows, np.float64).reshape(len(entries), len(rows[0]) if rows else 1)


def share_scoring(
    entries: int, device: Device, processes: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Workers]:
    """Return the workers, see `share_work`, that suit a list of so many entries: a short one has nothing to share."""
    return share_work(_KILLED, min(device.processes(processes), max(1, -(-entries // _AT_ONCE))), scheduler)
