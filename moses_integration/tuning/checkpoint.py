"""The checkpoint of a tuning run, from which the same command resumes it.

FOLDER/tuned/
  fingerprint.json  digests of system and texts, and settings
  seed1.2.step      the third iteration of seed 1, its n-best lists and the weights found on them: NumPy's .npz
  seed1.tuning      the result of seed 1, written at its end: JSON
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tunings import Iteration, Tuning
from phrasescore.files.resumable import ResumableFolder


@dataclass(frozen=True)
class Step:
    """The data of one iteration, for a checkpoint."""

    candidates: Candidates
    """The candidates of this decoding only."""
    achieved: float
    """BLEU of the 1-best translations on the dev set, 0 to 1."""
    next_F: NDArray[np.float64]
    """The weights of tuned features for the next decoding."""
    predicted: float
    """BLEU of `next_F` on the accumulated lists, 0 to 1."""
    seconds: float


class TuningCheckpoint:
    """The finished iterations of a tuning run."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False) -> None:
        """Open the checkpoint in a folder that is kept between runs.

        Args:
            folder: the folder of --work.
            fingerprint: everything that determines the weights except the seeds, as a JSON object; another one than
                that of an earlier checkpoint is an error.
            restart: discard an earlier checkpoint.
        """
        self._files = ResumableFolder(folder / "tuned", fingerprint, restart=restart)
        self.note = self._files.note
        """A sentence about an earlier tuning, None if there is none."""

    def tunings(self, seeds: Sequence[int], tune: Callable[[Sequence[int]], Iterable[Tuning]]) -> Iterator[Tuning]:
        """Yield the result of each seed: first the finished seeds, then the others, which `tune` computes."""
        results = {seed: content for seed in seeds if (content := self._files.read(f"seed{seed}.tuning")) is not None}
        for content in results.values():
            found = json.loads(content)
            yield Tuning(**{**found, "iterations": [Iteration(**one) for one in found["iterations"]]})
        if others := [seed for seed in seeds if seed not in results]:
            for tuning in tune(others):
                self._files.write(f"seed{tuning.seed}.tuning", json.dumps(asdict(tuning)).encode())
                self._files.remove(f"seed{tuning.seed}.*.step")
                yield tuning

    def load_step(self, seed: int, number: int) -> Step | None:
        """Return a step of a seed, counted from 0; None if it is not saved."""
        content = self._files.read(f"seed{seed}.{number}.step")
        if content is None:
            return None
        with np.load(io.BytesIO(content)) as stored:
            names = tuple(stored["names"].tolist())
            candidates = Candidates(names, stored["features_CF"], stored["statistics_C9"], stored["offsets"])
            achieved, predicted, seconds = stored["numbers"].tolist()
            return Step(candidates, achieved, stored["next_F"], predicted, seconds)

    def save_step(self, seed: int, number: int, step: Step) -> None:
        """Save a step of a seed, counted from 0."""
        found, content = step.candidates, io.BytesIO()
        np.savez(
            content,
            names=np.array(found.names),
            features_CF=found.features_CF,
            statistics_C9=found.statistics_C9,
            offsets=found.offsets,
            numbers=np.array([step.achieved, step.predicted, step.seconds]),
            next_F=step.next_F,
        )
        self._files.write(f"seed{seed}.{number}.step", content.getvalue())
