"""The checkpoint of a tuning, from which the same command resumes it.

FOLDER/tuned/
  fingerprint.json  digests of system and texts, and settings
  seed1.2.step      the third decoding of seed 1, and the weights that were found after it: numpy's .npz
  seed1.tuning      all of seed 1, when it is done: JSON
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tunings import Iteration, Step, Tuning
from phrasescore.files.resumable import ResumableFolder


class TuningCheckpoint:
    """The steps of a tuning that are done."""

    def __init__(self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False) -> None:
        """Open the checkpoint in a folder that is kept between runs.

        Args:
            folder: where it is.
            fingerprint: everything that determines the weights but the seeds, as an object for JSON.
            restart: discard an earlier tuning.

        Raises:
            UserError: it is of a tuning with another fingerprint, or the folder cannot be written to.
        """
        self._files = ResumableFolder(folder / "tuned", fingerprint, restart=restart)
        self.note = self._files.note
        """A sentence about an earlier tuning, None if there is none."""

    def tunings(self, seeds: Sequence[int], tune: Callable[[Sequence[int]], Iterable[Tuning]]) -> Iterator[Tuning]:
        """Yield the result of each seed: first of those that are done, then those of `tune` for the others."""
        done = {seed: found for seed in seeds if (found := self._finished(seed)) is not None}
        yield from done.values()
        if others := [seed for seed in seeds if seed not in done]:
            for tuning in tune(others):
                self._finish(tuning)
                yield tuning

    def _finished(self, seed: int) -> Tuning | None:
        """Return the result of a seed, None if it is not done."""
        content = self._files.read(f"seed{seed}.tuning")
        if content is None:
            return None
        found = json.loads(content)
        return Tuning(**{**found, "iterations": [Iteration(**one) for one in found["iterations"]]})

    def _finish(self, tuning: Tuning) -> None:
        """Keep the result of a seed in place of its steps."""
        self._files.write(f"seed{tuning.seed}.tuning", json.dumps(asdict(tuning)).encode())
        self._files.remove(f"seed{tuning.seed}.*.step")

    def load_step(self, seed: int, number: int) -> Step | None:
        """Return a step of a seed, counted from 0; None if it is not done."""
        content = self._files.read(f"seed{seed}.{number}.step")
        if content is None:
            return None
        with np.load(io.BytesIO(content)) as stored:
            names = tuple(stored["names"].tolist())
            candidates = Candidates(names, stored["features_CF"], stored["statistics_C9"], stored["offsets"])
            achieved, predicted, seconds = stored["numbers"].tolist()
            return Step(candidates, achieved, stored["next_F"], predicted, seconds)

    def save_step(self, seed: int, number: int, step: Step) -> None:
        """Keep a step of a seed, counted from 0.

        Raises:
            UserError: it cannot be written.
        """
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
