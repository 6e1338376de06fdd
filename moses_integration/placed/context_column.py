"""The column of a network that reads the sentence: ln p(target phrase | source phrase, the sentence it stands in).

Shapes: S places of some sentences, O their options.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import torch

from moses_integration.decoder.phrases import Floats, Words
from moses_integration.placed.places import Place
from phrasescore.device import one_thread
from phrasescore.files.resumable import resumable_output
from phrasescore.plugins import loaded_plugins, plugins_blamed
from phrasescore.scoring.engine import Scorer
from phrasescore.scoring.scores import MANY_UNKNOWN, UnknownSide
from phrasescore.text import Say, silently
from phrasescore.versions import code_version
from phrasescore.workers import Shared, share_work

_KILLED = "scoring places: a process was killed, most likely for want of memory; use fewer processes"
_SIDES: tuple[UnknownSide, UnknownSide] = ("source", "target")
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

    def __call__(self, some: _Sentences) -> tuple[Floats, dict[str, int]]:
        """Return ln p of each option, [O], and how many words the network was asked about and does not know."""
        with plugins_blamed(), one_thread():
            scorer = self.scorer.get()
            place_S3 = np.array([(place.sentence, place.start, place.end + 1) for place in some.places], np.int64)
            options_S = np.array([len(place.phrase.targets) for place in some.places])
            pairs = scorer.encode_places(
                [b" ".join(sentence) for sentence in some.sentences],
                (place_S3[:, 0], place_S3[:, 1], place_S3[:, 2]),
                np.repeat(np.arange(len(some.places)), options_S),
                [
                    scorer.factors.network_words(b" ".join(target))
                    for place in some.places
                    for target in place.phrase.targets
                ],
            )
            scores = scorer.score_encoded(pairs)
            words: dict[str, int] = {}
            for side, number in zip(_SIDES, scores.words, strict=True):
                words |= {side: number, f"unknown_{side}": int(scores.unknown(side).sum())}
            return scores.log_prob, words


@dataclass(frozen=True)
class ContextColumn:
    """One column, scored by as many processes as there are."""

    scorer: Scorer
    processes: int | None = None
    scheduler: str | None = None
    say: Say = silently
    """Told where scoring goes on after a run that was stopped."""
    width: int = field(default=1, init=False)

    def __post_init__(self) -> None:
        """Check that the networks read sentences.

        Raises:
            UserError: one was not trained to.
        """
        self.scorer.require_in_context()

    def values(self, sentences: Sequence[Words], places: Sequence[Place], scratch: Path) -> Floats:
        """See `PlaceColumns`: ln p of each option, [O, 1].

        Raises:
            UserError: the scratch file cannot be written.
            WorkersLostError: a process was killed; the scores until then are in the scratch file.
        """
        task, some = _Scoring(self.scorer.shared()), list(_cut(sentences, places))
        with resumable_output(scratch, self._identity(some)) as known:
            if known.note:
                self.say(known.note)
            left = some[len(known.pieces) :]
            processes = min(self.scorer.device.processes(self.processes), len(left) or 1)
            with share_work(_KILLED, processes, self.scheduler) as workers:
                for log_prob_O, words in workers.in_order(task, left):
                    known.append(log_prob_O.astype(np.float64).tobytes(), {"options": len(log_prob_O), **words})
            self._tell_unknown(known.pieces)
        return np.fromfile(scratch, np.float64)[:, None]

    def _tell_unknown(self, pieces: Sequence[Mapping[str, int]]) -> None:
        """Say so where the network knows so few of the words that its scores mean little."""
        for side in _SIDES:
            words, unknown = (sum(piece[name] for piece in pieces) for name in (side, f"unknown_{side}"))
            if words and unknown >= MANY_UNKNOWN * words:
                self.say(
                    f"{unknown / words:.2%} of the {side} words are unknown to {self.scorer.origin}; check that it was "
                    "trained on text that is tokenised and cased as this is"
                )

    @property
    def networks(self) -> list[str]:
        """Which networks they are: the SHA-256 of the weights of each."""
        return [model.weights_digest for model in self.scorer.models]

    def _identity(self, some: Sequence[_Sentences]) -> dict[str, Any]:
        """Return all that decides what the scores are."""
        text, options = hashlib.sha256(), hashlib.sha256()
        for block in some:
            text.update(b"\n".join(map(b" ".join, block.sentences)) + b"\n")
            for place in block.places:
                targets = b"\n".join(map(b" ".join, place.phrase.targets))
                options.update(b"%d %d %d\n%b\n\n" % (place.sentence, place.start, place.end, targets))
        return {
            "format": 2,
            "text": text.hexdigest(),
            "options of the phrase table": options.hexdigest(),
            "networks": self.networks,
            "plugins": list(loaded_plugins().values()),
            "device": self.scorer.device.torch_device.type,
            "precision": self.scorer.device.precision,
            "versions": [code_version(), torch.__version__],
        }


def _cut(sentences: Sequence[Words], places: Sequence[Place]) -> Iterator[_Sentences]:
    """Yield some sentences at a time."""
    for block, found in groupby(places, lambda place: place.sentence // _SENTENCES_AT_ONCE):
        first = block * _SENTENCES_AT_ONCE
        yield _Sentences(
            tuple(sentences[first : first + _SENTENCES_AT_ONCE]),
            tuple(place._replace(sentence=place.sentence - first) for place in found),
        )
