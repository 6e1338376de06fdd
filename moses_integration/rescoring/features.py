"""New features of n-best lists: their specification `LABEL=[COLUMN:]PATH`, and their values.

PATH is the model folder of a scorer or a neural language model, as `config.json` in the folder declares, or a file of
numbers. All features of one folder share computed values.

Shapes: E entries of a list, K columns, N phrase pairs of all entries, P distinct phrase pairs.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.phrases import Words, words_of
from moses_integration.ini import LABEL
from moses_integration.nbest import ListFault, NbestEntry, cover_once, segments_of
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from phrasescore.scoring.columns import UNNORMALISED, Column
from phrasescore.scoring.occurrences import Context, Occurrences
from phrasescore.vocabulary import WordCounts
from phrasescore.words import parse_number, quote
from phrasescore.workers import Workers, map_ordered, start_workers

if TYPE_CHECKING:
    from phrasescore.device import Device
    from phrasescore.scoring.scorer import PhraseScorer

_AT_ONCE = 4096
"""Phrase pairs of a chunk: enough for large batches, few enough for memory and for an even load of workers."""
_SPEC = re.compile(rf"({LABEL.pattern})=(?:([a-z-]+):)?(.+)")

Floats = NDArray[np.float64]
Unit = Literal["phrase", "sentence"]


@dataclass(frozen=True)
class FeatureSpec:
    """The specification of a feature on the command line."""

    label: str
    path: Path
    column: str | None = None

    @classmethod
    def parse(cls, text: str) -> FeatureSpec:
        found = _SPEC.fullmatch(text)
        if found is None:
            raise ValueError(f"`{text}` is not LABEL=[COLUMN:]PATH, with letters and digits, as in RNN=rnn/")
        return cls(found[1], Path(found[3]), found[2])

    @property
    def source(self) -> str:
        return f"{self.column}:{self.path}" if self.column else str(self.path)


@dataclass(frozen=True)
class ScorerFeature:
    """The sum of a scorer's values over the phrase pairs of an entry's derivation, or over the whole sentence."""

    label: str
    column: Column
    unit: Unit
    found: _Values

    @property
    def fingerprint(self) -> str:
        return self.found.scorer.fingerprint

    def values(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        """Return the sums, [E, 1]; `sentences[entry.sentence]` is the source of an entry."""
        numbers: dict[_Pair, int] = {}
        pair_N, count_E = array("q"), array("q")
        pairs_of = _phrase_pairs if self.unit == "phrase" else _sentence_pair
        for entry in entries:
            pairs = pairs_of(sentences[entry.sentence], entry)
            if not self.found.scorer.in_context:
                pairs = [pair._replace(sentence=0, start=0, end=0) for pair in pairs]
            pair_N.extend(numbers.setdefault(pair, len(numbers)) for pair in pairs)
            count_E.append(len(pairs))
        value_P = self.found.values(list(numbers), sentences, self.column)
        entry_N = np.repeat(np.arange(len(entries)), np.array(count_E))
        sums_E: Floats = np.bincount(entry_N, value_P[np.array(pair_N)], minlength=len(entries)).astype(np.float64)
        return sums_E[:, np.newaxis]


@dataclass(frozen=True)
class Numbers:
    """Values from another program: a line for each entry, with the same number of values in each line."""

    label: str
    path: Path
    fingerprint: None = None

    def values(self, sentences: Sequence[Words], entries: Sequence[NbestEntry]) -> Floats:
        rows: list[list[float]] = []
        for number, line in enumerate(read_lines(self.path), 1):
            try:
                rows.append([parse_number(token) for token in words_of(line)])
            except ValueError as error:
                raise UserError(f"{self.path}: line {number}: {error}; give each entry a line of numbers") from error
            if not rows[-1] or len(rows[-1]) != len(rows[0]):
                raise UserError(
                    f"{self.path}: line {number}: has not {len(rows[0]) or 1} numbers like the first; correct it"
                )
        if len(rows) != len(entries):
            raise UserError(
                f"{self.path}: has {len(rows)} lines where the n-best list has {len(entries)} entries; give a line for "
                "each entry"
            )
        return np.array(rows, np.float64).reshape(len(entries), len(rows[0]) if rows else 1)


ListFeature = ScorerFeature | Numbers


class _Pair(NamedTuple):
    """A phrase pair and its source position, which is 0 if the scorer does not depend on it."""

    sentence: int
    start: int
    end: int
    source: bytes
    target: bytes


@dataclass
class _Values:
    """Caches the values of a scorer for phrase pairs."""

    scorer: PhraseScorer
    workers: Workers
    columns: list[Column] = field(default_factory=list)
    words: WordCounts | None = None
    """Word counts of the distinct pairs so far."""
    _known: dict[_Pair, list[float]] = field(default_factory=dict)

    def values(self, pairs: Sequence[_Pair], sentences: Sequence[Words], column: Column) -> Floats:
        from phrasescore.scoring.scorer import ScoringTask

        # Sorted pairs share the states of common prefixes within a batch, and each sentence is encoded once.
        new = sorted({*pairs} - self._known.keys())
        task = ScoringTask(self.scorer, tuple(self.columns))
        sources, targets = [pair.source for pair in new], [pair.target for pair in new]
        context = None
        if self.scorer.in_context:
            span_P3 = np.array([pair[:3] for pair in new], np.int64).reshape(-1, 3)
            context = Context([b" ".join(words) for words in sentences], *span_P3.T)
        chunks = Occurrences(sources, targets, context).chunks(_AT_ONCE)
        found = list(map_ordered(task, list(chunks), self.workers))
        rows = [row for scores in found for row in scores.values_NK.tolist()]
        self._known.update(zip(new, rows, strict=True))
        self.words = sum((scores.words for scores in found), self.words or WordCounts())
        index = self.columns.index(column)
        return np.array([self._known[pair][index] for pair in pairs], np.float64)


def _phrase_pairs(sentence: Words, entry: NbestEntry) -> list[_Pair]:
    segments = segments_of(entry)
    if not cover_once(segments, len(sentence)):
        raise ListFault(
            f"the segmentation of an entry of sentence {entry.sentence} (from 0) does not cover the "
            f"{len(sentence)} words of `{quote(b' '.join(sentence))}` once each; give the text that was decoded, "
            "prepared in the same way"
        )
    spans = [(one.start, one.end + 1, b" ".join(one.words)) for one in segments]
    return [_Pair(entry.sentence, start, end, b" ".join(sentence[start:end]), target) for start, end, target in spans]


def _sentence_pair(sentence: Words, entry: NbestEntry) -> list[_Pair]:
    return [_Pair(entry.sentence, 0, len(sentence), b" ".join(sentence), b" ".join(words_of(entry.words)))]


def load_features(
    specs: Sequence[FeatureSpec], device: Device, backoff: Path | None = None, workers: Workers = None
) -> list[ListFeature]:
    """Load the scorers of features.

    Without `backoff`, an n-gram model for words outside the shortlist, the scores of a neural language model are not a
    probability distribution.
    """

    @cache
    def scorer_of(folder: Path) -> PhraseScorer:
        from phrasescore.lm.lm_scorer import NeuralLmScorer
        from phrasescore.model_files import LANGUAGE_MODEL, model_kind
        from phrasescore.scoring.scorer import load_scorer

        if model_kind(folder) == LANGUAGE_MODEL:
            scorer = NeuralLmScorer.load(folder, device, backoff)
            if scorer.source_window:
                raise UserError(f"{folder}: is a joint model, which only the decoder uses; add it by `add-lm`")
            return scorer
        return load_scorer(folder, device=str(device.torch_device), precision=device.precision)

    @cache
    def values_of(scorer: PhraseScorer, unit: str) -> _Values:
        return _Values(scorer, workers)

    def load(spec: FeatureSpec) -> ListFeature:
        if spec.path.is_file():
            if spec.column is not None:
                raise UserError(f"{spec.path}: is a file of numbers, which has no column `{spec.column}`; leave it out")
            return Numbers(spec.label, spec.path)
        scorer = scorer_of(spec.path)
        column = scorer.columns[0] if spec.column is None else scorer.column(spec.column)
        # Word counts are sums over phrases, so they need no segmentation.
        unit: Unit = "sentence" if column.kind == "count" else scorer.unit
        values = values_of(scorer, unit)
        if column not in values.columns:
            values.columns.append(column)
        return ScorerFeature(spec.label, column, unit, values)

    return [load(spec) for spec in specs]


def needs_backoff(spec: FeatureSpec) -> bool:
    """Whether a feature is the score of a neural language model, which needs an n-gram model."""
    from phrasescore.model_files import LANGUAGE_MODEL, model_kind

    is_score = spec.column in (None, UNNORMALISED.name)
    return is_score and not spec.path.is_file() and model_kind(spec.path) == LANGUAGE_MODEL


def share_scoring(
    entries: int, device: Device, processes: int | None = None, scheduler: str | None = None
) -> AbstractContextManager[Workers]:
    """Start workers for a list of `entries` translations (see `start_workers`); score a short list serially."""
    number = min(device.processes(processes), max(1, -(-entries // _AT_ONCE)))
    return start_workers("scoring the n-best list", number, scheduler)
