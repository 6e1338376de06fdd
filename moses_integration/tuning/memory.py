"""What a tuning has done so far, in a folder that is kept, so that one that was killed goes on.

FOLDER/tuned/
  rests-on.json     system, texts and settings: of another tuning nothing is taken
  seed1.2.step      the third decoding of seed 1, and the weights that were found after it: numpy's .npz
  seed1.tuning      all of seed 1, when it is done: JSON

The last two begin with the SHA-256 of what follows.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tunings import Iteration, Step, Tuning
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import write_atomically, write_json

_FOLDER, _RESTS_ON = "tuned", "rests-on.json"


class TuningMemory:
    """What was done of one tuning. A file that is damaged counts as not there: its work is done again."""

    def __init__(self, folder: Path, rests_on: Mapping[str, Any]) -> None:
        """Take what is in a folder, or forget it if it is of another tuning.

        Args:
            folder: that is kept between runs.
            rests_on: all that decides what is found, but for the seeds, as JSON; a user is told the names of what has
                changed.

        Raises:
            UserError: the folder cannot be written to.
        """
        self._folder = folder / _FOLDER
        self.note: str | None = None
        """A sentence about what a run before has left, None if that was nothing."""
        path = self._folder / _RESTS_ON
        if path.exists():
            changed = _changed(path, rests_on)
            if not changed:
                self.note = f"{folder}: has some of this tuning, which goes on from there"
                return
            self.note = f"{folder}: starts over, for a tuning before had other {', '.join(changed)}"
        shutil.rmtree(self._folder, ignore_errors=True)
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
        content = _read(self._folder / f"seed{seed}.tuning")
        if content is None:
            return None
        found = json.loads(content)
        return Tuning(**{**found, "iterations": [Iteration(**one) for one in found["iterations"]]})

    def _finish(self, tuning: Tuning) -> None:
        """Keep what a seed has found, in the place of its steps.

        Raises:
            UserError: it cannot be written.
        """
        _write(self._folder / f"seed{tuning.seed}.tuning", json.dumps(asdict(tuning)).encode())
        for path in self._folder.glob(f"seed{tuning.seed}.*.step"):
            path.unlink()

    def recall(self, seed: int, number: int) -> Step | None:
        """Return a step of a seed, counted from 0; None if it was not done."""
        content = _read(self._folder / f"seed{seed}.{number}.step")
        if content is None:
            return None
        with np.load(io.BytesIO(content)) as stored:
            names = tuple(stored["names"].tolist())
            candidates = Candidates(names, stored["features_CF"], stored["statistics_C9"], stored["offsets"])
            achieved, predicted, seconds = stored["numbers"].tolist()
            return Step(candidates, achieved, stored["next_F"], predicted, seconds)

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
        _write(self._folder / f"seed{seed}.{number}.step", content.getvalue())


def _changed(path: Path, rests_on: Mapping[str, Any]) -> list[str]:
    """Return the names of what an earlier tuning rested on that is other now."""
    try:
        before = read_json(path, "remove it")
    except UserError:
        return ["settings, which nobody can read any more"]
    return [name.removesuffix(".sha256") for name in _unequal(json.loads(json.dumps(rests_on)), before)]


def _unequal(asked: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
    """Yield the names of values that differ, as in `settings.nbest`."""
    for name in {**asked, **before}:
        ours, theirs = asked.get(name), before.get(name)
        if isinstance(ours, dict) and isinstance(theirs, dict):
            yield from (f"{name}.{inner}" for inner in _unequal(ours, theirs))
        elif ours != theirs:
            yield name


def _write(path: Path, content: bytes) -> None:
    """Write a file that `_read` knows to be whole.

    Raises:
        UserError: it cannot be written.
    """
    write_atomically(path, hashlib.sha256(content).digest() + content)


def _read(path: Path) -> bytes | None:
    """Return the content of a file, None if it is not there or damaged."""
    stored = path.read_bytes() if path.exists() else b""
    size = hashlib.sha256().digest_size
    return stored[size:] if stored[:size] == hashlib.sha256(stored[size:]).digest() else None
