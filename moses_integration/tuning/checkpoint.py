"""The checkpoint of a tuning run, from which the same command resumes it, and its report.

FOLDER/tuned/
  fingerprint.json  digests of system and texts, and settings
  seed1.2.step      the third iteration of seed 1, its n-best lists and the weights found on them: NumPy's .npz
  seed1.tuning      the result of seed 1, written at its end: JSON
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_integration.ini import MosesIni, files_at
from moses_integration.per_text.context_sections import networks_of
from moses_integration.prepared_text import DevSet
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tunings import Iteration, Tuning, spread
from phrasescore.files import sha256_of, write_json
from phrasescore.files.resumable import ResumableFolder
from phrasescore.model_files import described, versions
from phrasescore.plugins import loaded_plugins
from phrasescore.text import Log, no_log


@dataclass(frozen=True)
class TuningStep:
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

    def __init__(
        self, folder: Path, fingerprint: Mapping[str, Any], *, restart: bool = False, log: Log = no_log
    ) -> None:
        """Open the checkpoint in a folder that is kept between runs.

        Args:
            folder: the folder of --work.
            fingerprint: everything that determines the weights except the seeds, as a JSON object; another one than
                that of an earlier checkpoint is an error.
            restart: discard an earlier checkpoint.
            log: receives a line about an earlier tuning.
        """
        self._files = ResumableFolder(folder / "tuned", fingerprint, restart=restart)
        if self._files.note:
            log(self._files.note)

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

    def load_step(self, seed: int, number: int) -> TuningStep | None:
        """Return a step of a seed, counted from 0; None if it is not saved."""
        content = self._files.read(f"seed{seed}.{number}.step")
        if content is None:
            return None
        with np.load(io.BytesIO(content)) as stored:
            names = tuple(stored["names"].tolist())
            candidates = Candidates(names, stored["features_CF"], stored["statistics_C9"], stored["offsets"])
            achieved, predicted, seconds = stored["numbers"].tolist()
            return TuningStep(candidates, achieved, stored["next_F"], predicted, seconds)

    def save_step(self, seed: int, number: int, step: TuningStep) -> None:
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


def tuning_inputs(ini: MosesIni, source: Path, references: Sequence[Path]) -> dict[str, Any]:
    """Return the files that tuned weights depend on, with their hashes."""
    models = {
        one.label: {key: _described(ini.path_of(one, key)) for key in ("path", "backoff") if key in one.arguments}
        for one in ini.features()
    }
    return {
        "ini": described(ini.name),
        "models": {label: files for label, files in models.items() if files},
        "source": described(source),
        "references": [described(path) for path in references],
        "networks": [described(folder) for folder in networks_of(ini)],
    }


def _described(path: Path) -> dict[str, str | None]:
    """Return path and SHA-256 of the file of a feature; for several files, the SHA-256 of their hashes."""
    found = described(path)
    if found["sha256"] is None:
        hashes = [sha256_of(file) for file in files_at(path)]
        found["sha256"] = hashes[0] if len(hashes) == 1 else hashlib.sha256("".join(hashes).encode()).hexdigest()
    return found


def tuning_fingerprint(
    toolkit: str, inputs: Mapping[str, Any], settings: Mapping[str, Any], dev: DevSet, computing: Mapping[str, Any]
) -> dict[str, Any]:
    """Return everything that determines tuned weights, except the seeds."""
    return {
        "toolkit": toolkit,
        **_without_paths(inputs),
        "prepared texts": [sha256_of(path) for path in (dev.source, *dev.references)],
        **settings,
        **computing,
        "plugin": list(loaded_plugins().values()),
    }


def _without_paths(facts: Any) -> Any:
    """Remove the paths from descriptions of files, because only contents matter."""
    if isinstance(facts, list):
        return [_without_paths(one) for one in facts]
    if isinstance(facts, dict):
        # The `path` of a feature is itself a description.
        return {key: _without_paths(one) for key, one in facts.items() if key != "path" or isinstance(one, dict)}
    return facts


def write_report(path: Path, facts: Mapping[str, Any], tunings: Sequence[Tuning], seconds: float) -> None:
    """Write `facts` and the results over all seeds so far."""
    mean, deviation = spread([tuning.bleu for tuning in tunings])
    results = {
        "dev_bleu": {"mean": mean, "standard_deviation": deviation},
        "seconds": round(seconds, 1),
        "runs": [asdict(tuning) for tuning in tunings],
    }
    write_json(path, {"schema": 1, "versions": versions(), **facts, **results})
