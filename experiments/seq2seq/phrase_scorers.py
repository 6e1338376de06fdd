"""Train networks on a phrase table and measure how fast they score it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

from experiments.machine import machine
from experiments.speed.scoring import chunks_of_lines
from experiments.steps import Json, Steps
from experiments.timing import timed
from phrasescore.device import choose_device
from phrasescore.model_files import described
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import load_scorer

_LINES = 16_384
"""Number of lines for measuring the scoring speed."""


@dataclass(frozen=True)
class Tables:
    """A training table, and a validation table from other sentences."""

    train: Path
    validation: Path
    device: str

    @cached_property
    def description(self) -> Json:
        """Paths and digests."""
        return {"train": described(self.train), "validation": described(self.validation)}

    @property
    def sha256(self) -> dict[str, str]:
        """Digests of the tables."""
        return {name: table["sha256"] for name, table in self.description.items()}

    @property
    def learned_from(self) -> Json:
        """The tables by content; if it changes, the networks are trained again."""
        return self.sha256

    @property
    def options(self) -> list[str]:
        """Options of `phrasescore train`."""
        return [str(self.train), "--validation", str(self.validation)]

    def measure(self, steps: Steps, name: str, model: Path, trained: Json) -> Json:
        """Measure the scoring speed on pairs of the table, without the time to read them."""
        # Times of different machines are not comparable.
        place = [str(choose_device(self.device, "auto")), machine()["cpu"]]
        return {"scoring": steps.run(f"score.{name}", [trained, place], lambda: self._score(model))}

    def _score(self, model: Path) -> Json:
        scorer = load_scorer(model, device=self.device)
        chunks = [
            Occurrences([one.source for one in chunk], [one.target for one in chunk])
            for chunk in chunks_of_lines(self.train, _LINES)
        ]
        scorer.score(chunks[0])
        with timed() as timing:
            for chunk in chunks:
                scorer.score(chunk)
        return {"pairs": sum(map(len, chunks)), **asdict(timing), "device": str(scorer.device), "machine": machine()}
