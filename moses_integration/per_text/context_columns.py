"""The columns of a per-text phrase table: the scores of each phrase pair at each position.

Shapes: S positions of a group of sentences, N translation options of these positions, K columns.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.decoder.phrases import Floats, Words
from moses_integration.per_text.positions import Position
from phrasescore.files.resumable import resumable_output
from phrasescore.scoring.occurrences import Column, Context, Occurrences
from phrasescore.scoring.scorer import PhraseScorer, ScoringTask
from phrasescore.table.entry import SURFACE, Factors
from phrasescore.text import Log, no_log
from phrasescore.vocabulary import MANY_UNKNOWN, WordCounts
from phrasescore.workers import map_ordered, start_workers

_KILLED = "scoring positions: a process was killed, probably because memory ran out; use fewer processes"
_SENTENCES_AT_ONCE = 20
"""A chunk of a few thousand options fills large batches, and there are enough chunks for many processes."""


@dataclass
class ContextColumns:
    """Computes the default column of a scorer for each phrase pair at each position of a text."""

    scorer: PhraseScorer
    processes: int | None = None
    scheduler: str | None = None
    log: Log = no_log
    """Receives a message when an interrupted run is resumed, or when many words are unknown."""
    restart: bool = False
    """Discard the work of an interrupted run."""

    @property
    def columns(self) -> tuple[Column, ...]:
        """The columns to add to the phrase table."""
        return self.scorer.columns[:1]

    def values(self, sentences: Sequence[Words], positions: Sequence[Position], scratch: Path) -> Floats:
        """Return the values of all options at all positions, [N, K].

        Positions are ordered by sentence. A later run resumes from the checkpoint file `scratch`, which the caller
        removes.
        """
        task = ScoringTask(self.scorer, self.columns)
        chunks = list(occurrences_of(sentences, positions, self.scorer.factors or SURFACE))
        with resumable_output(scratch, self._fingerprint(chunks), restart=self.restart) as known:
            if known.note:
                self.log(known.note)
            left = chunks[len(known.chunks) :]
            processes = min(self.scorer.device.processes(self.processes), len(left) or 1)
            with start_workers(_KILLED, processes, self.scheduler) as workers:
                for scores in map_ordered(task, left, workers):
                    known.append(scores.values_NK.tobytes(), asdict(scores.words))
            self._warn_unknown(sum((WordCounts(**facts) for facts in known.chunks), WordCounts()))
        return np.fromfile(scratch, np.float64).reshape(-1, len(self.columns))

    def _warn_unknown(self, words: WordCounts) -> None:
        """Warn if too many words are outside the scorer's vocabulary for its scores to be meaningful."""
        for side, share in words.shares().items():
            if share >= MANY_UNKNOWN:
                self.log(
                    f"{share:.2%} of the {side} words are unknown to {self.scorer.name}; check that it "
                    "was trained on text that is tokenised and cased as this is"
                )

    def _fingerprint(self, chunks: Sequence[Occurrences]) -> dict[str, Any]:
        """Return everything that determines the values, under the names that messages use."""
        text, options = hashlib.sha256(), hashlib.sha256()
        for chunk in chunks:
            context = chunk.context
            assert context is not None
            text.update(b"\n".join(context.sentences) + b"\n")
            pairs_N = zip(context.sentence_N, context.start_N, context.end_N, chunk.targets, strict=True)
            options.update(b"".join(b"%d %d %d %b\n" % pair for pair in pairs_N))
        return {
            "text": text.hexdigest(),
            "phrase pairs": options.hexdigest(),
            **self.scorer.run_fingerprint(),
        }


def occurrences_of(
    sentences: Sequence[Words], positions: Sequence[Position], factors: Factors
) -> Iterator[Occurrences]:
    """Yield the options at all positions, in groups of sentences, with the factors that the network reads."""
    for block, found in groupby(positions, lambda position: position.sentence // _SENTENCES_AT_ONCE):
        first, some = block * _SENTENCES_AT_ONCE, list(found)
        span_S3 = np.array([(one.sentence - first, one.start, one.end + 1) for one in some], np.int64)
        options_S = np.array([len(one.phrase.targets) for one in some])
        context = Context(
            [b" ".join(sentence) for sentence in sentences[first : first + _SENTENCES_AT_ONCE]],
            *np.repeat(span_S3, options_S, axis=0).T,
        )
        sources = [b" ".join(one.phrase.words) for one in some for _ in one.phrase.targets]
        targets = [factors.network_words(b" ".join(target)) for one in some for target in one.phrase.targets]
        yield Occurrences(sources, targets, context)
