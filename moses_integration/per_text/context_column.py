"""The column of a per-text phrase table: the score of each phrase pair at each position.

Shapes: S positions of a group of sentences, N translation options of these positions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.decoder.phrases import Floats
from moses_integration.per_text.positions import Positions
from phrasescore.files.resumable import resumable_output
from phrasescore.scoring.columns import Column
from phrasescore.scoring.occurrences import Context, Occurrences
from phrasescore.scoring.scorer import PhraseScorer, ScoringTask
from phrasescore.table.entry import SURFACE, Factors
from phrasescore.text import Log, no_log
from phrasescore.vocabulary import MANY_UNKNOWN, WordCounts
from phrasescore.workers import map_ordered, start_workers

_SENTENCES_AT_ONCE = 20
"""A chunk of a few thousand options fills large batches, and there are enough chunks for many processes."""


@dataclass
class ContextColumn:
    """Computes the `context_column` of a scorer for each phrase pair at each position of a text."""

    scorer: PhraseScorer
    processes: int | None = None
    scheduler: str | None = None
    log: Log = no_log
    """Receives a message when an interrupted run is resumed, or when many words are unknown."""
    restart: bool = False
    """Discard the work of an interrupted run."""

    @property
    def column(self) -> Column:
        """The column to add to the phrase table."""
        return self.scorer.context_column

    def values(self, positions: Positions, scratch: Path) -> Floats:
        """Return the values of all options at all positions, [N]; copied words have none.

        A later run resumes from the checkpoint file `scratch`, which the caller removes.
        """
        task, factors = ScoringTask(self.scorer, (self.column,)), self.scorer.factors or SURFACE
        fingerprint, count = self._fingerprint(occurrences_of(positions, factors))
        with resumable_output(scratch, fingerprint, restart=self.restart) as known:
            if known.note:
                self.log(known.note)
            left = islice(occurrences_of(positions, factors), len(known.chunks), None)
            processes = min(self.scorer.device.processes(self.processes), max(1, count - len(known.chunks)))
            with start_workers("scoring positions", processes, self.scheduler) as workers:
                for scores in map_ordered(task, left, workers):
                    known.append(scores.first_N.tobytes(), asdict(scores.words))
            self._warn_unknown(sum((WordCounts(**facts) for facts in known.chunks), WordCounts()))
        return np.fromfile(scratch, np.float64)

    def _warn_unknown(self, words: WordCounts) -> None:
        """Warn if too many words are outside the scorer's vocabulary for its scores to be meaningful."""
        for side, share in words.shares().items():
            if share >= MANY_UNKNOWN:
                self.log(
                    f"{share:.2%} of the {side} words are unknown to {self.scorer.name}; check that it "
                    "was trained on text that is tokenised and cased as this is"
                )

    def _fingerprint(self, chunks: Iterable[Occurrences]) -> tuple[dict[str, Any], int]:
        """Return everything that determines the values, under the names that messages use, and their chunks."""
        text, options, count = hashlib.sha256(), hashlib.sha256(), 0
        for chunk in chunks:
            count += 1
            context = chunk.context
            assert context is not None
            text.update(b"\n".join(context.sentences) + b"\n")
            pairs_N = zip(context.sentence_N, context.start_N, context.end_N, chunk.targets, strict=True)
            options.update(b"".join(b"%d %d %d %b\n" % pair for pair in pairs_N))
        facts = {"text": text.hexdigest(), "phrase pairs": options.hexdigest(), **self.scorer.run_fingerprint()}
        return facts, count


def values_now(scorer: PhraseScorer, positions: Positions) -> Floats:
    """Return the values [N] of the `context_column` of a scorer for a few sentences."""
    task = ScoringTask(scorer, (scorer.context_column,))
    chunks = occurrences_of(positions, scorer.factors or SURFACE)
    return np.concatenate([np.zeros(0), *(task(chunk).first_N for chunk in chunks)])


def occurrences_of(positions: Positions, factors: Factors) -> Iterator[Occurrences]:
    """Yield the options at all positions, in groups of sentences, with the factors that the network reads."""
    translated = (position for position in positions if not position.phrase.is_copied)
    for block, found in groupby(translated, lambda position: position.sentence // _SENTENCES_AT_ONCE):
        first, some = block * _SENTENCES_AT_ONCE, list(found)
        span_S3 = np.array([(one.sentence - first, one.start, one.end + 1) for one in some], np.int64)
        options_S = np.array([len(one.phrase.targets) for one in some])
        context = Context(
            [b" ".join(sentence) for sentence in positions.sentences[first : first + _SENTENCES_AT_ONCE]],
            *np.repeat(span_S3, options_S, axis=0).T,
        )
        sources = [b" ".join(one.phrase.words) for one in some for _ in one.phrase.targets]
        targets = [factors.network_words(b" ".join(target)) for one in some for target in one.phrase.targets]
        yield Occurrences(sources, targets, context)
