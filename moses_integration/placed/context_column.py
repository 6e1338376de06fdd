"""The column of a network that reads the sentence: ln p(target phrase | source phrase, the sentence it stands in).

Shapes: S places of some sentences, O their options.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from moses_integration.decoder.phrases import Floats, Words
from moses_integration.placed.places import Place
from phrasescore.device import one_thread
from phrasescore.errors import UserError
from phrasescore.plugins import plugins_blamed
from phrasescore.scoring.engine import Scorer
from phrasescore.workers import Shared, share_work

_KILLED = "scoring places: a process was killed, most likely for want of memory; use fewer processes"
_SENTENCES_AT_ONCE = 20
"""A few thousand options: enough for large batches, few enough for many processes."""


@dataclass(frozen=True)
class _Sentences:
    """Some sentences of the text with their places."""

    sentences: tuple[Words, ...]
    places: tuple[Place, ...]
    """Their sentence numbers count from that of the first."""


@dataclass(frozen=True)
class _Scoring:
    """The task of scoring the options of some sentences."""

    scorer: Shared[Scorer]

    def __call__(self, some: _Sentences) -> Floats:
        """Return ln p of each option, [O]."""
        with plugins_blamed(), one_thread():
            scorer = self.scorer.get()
            place_S3 = np.array([(place.sentence, place.start, place.end + 1) for place in some.places], np.int64)
            options_S = np.array([len(place.phrase.targets) for place in some.places])
            pairs = scorer.encode_places(
                [b" ".join(sentence) for sentence in some.sentences],
                (place_S3[:, 0], place_S3[:, 1], place_S3[:, 2]),
                np.repeat(np.arange(len(some.places)), options_S),
                [b" ".join(target) for place in some.places for target in place.phrase.targets],
            )
            return scorer.score_encoded(pairs).log_prob


@dataclass(frozen=True)
class ContextColumn:
    """One column, scored by as many processes as there are."""

    scorer: Scorer
    processes: int | None = None
    scheduler: str | None = None
    width: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        """Check that the networks read sentences.

        Raises:
            UserError: one was not trained to.
        """
        for model in self.scorer.models:
            if not model.network.config.in_context:
                raise UserError(
                    f"{model.folder}: was trained on phrases alone, and what it would say of them in sentences means "
                    "nothing; give a network that `phrasescore train --alignment` trained"
                )

    def values(self, sentences: Sequence[Words], places: Sequence[Place]) -> Floats:
        """Return ln p of the options of all places, [O, 1]; the places come sentence by sentence."""
        task, some = _Scoring(self.scorer.shared()), list(_cut(sentences, places))
        processes = min(self.scorer.device.processes(self.processes), len(some) or 1)
        with share_work(_KILLED, processes, self.scheduler) as workers:
            found = [np.zeros(0), *workers.in_order(task, some)]
        return np.concatenate(found)[:, None]


def _cut(sentences: Sequence[Words], places: Sequence[Place]) -> Iterator[_Sentences]:
    """Yield some sentences at a time."""
    for block, found in groupby(places, lambda place: place.sentence // _SENTENCES_AT_ONCE):
        first = block * _SENTENCES_AT_ONCE
        yield _Sentences(
            tuple(sentences[first : first + _SENTENCES_AT_ONCE]),
            tuple(place._replace(sentence=place.sentence - first) for place in found),
        )
