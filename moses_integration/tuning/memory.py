"""What a tuning has done so far, in a folder that is kept, so that one that was killed goes on.

FOLDER/tuned/
  rests-on.json     system, texts and settings: of another tuning nothing is taken
  seed1.2.npz       the third decoding of seed 1, and the weights that were found after it
  seed1.json        all of seed 1, when it is done
"""

from __future__ import annotations

import io
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tunings import Iteration, Step, Tuning
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import to_json, write_atomically, write_json

_FOLDER, _RESTS_ON = "tuned", "rests-on.json"
_ADVICE = "remove it"


class TuningMemory:
    """What was done of one tuning. A file that is damaged counts as not there: its work is done again."""

    def __init__(self, folder: Path, rests_on: Mapping[str, Any]) -> None:
        """Take what is in a folder, or forget it if it is of another tuning.

        Args:
            folder: that is kept between runs.
            rests_on: all that decides what is found, but for the seeds.

        Raises:
            UserError: the folder cannot be written to.
        """
        self._folder = folder / _FOLDER
        path = self._folder / _RESTS_ON
        self.is_new = not path.exists() or path.read_bytes() != to_json(rests_on)
        """Whether nothing of this tuning was done before."""
        if self.is_new:
            if self._folder.exists():
                shutil.rmtree(self._folder)
            self._folder.mkdir(parents=True)
            write_json(path, rests_on)

    def tunings(self, seeds: Sequence[int], tune: Callable[[Sequence[int]], Iterable[Tuning]]) -> Iterator[Tuning]:
        """Yield what each seed has found, those first that are done, then what `tune` finds with the others."""
        done = {seed: found for seed in seeds if (found := self._finished(seed)) is not None}
        yield from done.values()
        if others := [seed for seed in seeds if seed not in done]:
            for tuning in tune(others):
                self._finish(tuning)
                yield tuning

    def _finished(self, seed: int) -> Tuning | None:
        """Return what a seed has found, None if it is not done."""
        path = self._folder / f"seed{seed}.json"
        if not path.exists():
            return None
        try:
            found = read_json(path, _ADVICE)
            return Tuning(**{**found, "iterations": [Iteration(**one) for one in found["iterations"]]})
        except (UserError, TypeError, KeyError):
            return None

    def _finish(self, tuning: Tuning) -> None:
        """Keep what a seed has found, in the place of its steps.

        Raises:
            UserError: it cannot be written.
        """
        write_json(self._folder / f"seed{tuning.seed}.json", asdict(tuning))
        for path in self._folder.glob(f"seed{tuning.seed}.*.npz"):
            path.unlink()

    def recall(self, seed: int, number: int) -> Step | None:
        """Return a step of a seed, counted from 0; None if it was not done."""
        path = self._folder / f"seed{seed}.{number}.npz"
        if not path.exists():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes())) as stored:
                names = tuple(stored["names"].tolist())
                candidates = Candidates(names, stored["features_CF"], stored["statistics_C9"], stored["offsets"])
                achieved, predicted, seconds = stored["numbers"].tolist()
                return Step(candidates, achieved, stored["next_F"], predicted, seconds)
        except (BadZipFile, EOFError, OSError, ValueError, KeyError):
            return None

    def keep(self, seed: int, number: int, step: Step) -> None:
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
        write_atomically(self._folder / f"seed{seed}.{number}.npz", content.getvalue())
