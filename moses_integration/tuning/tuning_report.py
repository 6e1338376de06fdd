"""The report of a tuning run: its inputs, and its results over all seeds."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from moses_integration.ini import MosesIni, files_at
from moses_integration.per_text.context_sections import networks_of
from moses_integration.tuning.tunings import Tuning, spread
from phrasescore.files import sha256_of
from phrasescore.provenance import described


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


def without_paths(facts: Any) -> Any:
    """Remove the paths from descriptions of files, because only contents matter."""
    if isinstance(facts, list):
        return [without_paths(one) for one in facts]
    if isinstance(facts, dict):
        # The `path` of a feature is itself a description.
        return {key: without_paths(one) for key, one in facts.items() if key != "path" or isinstance(one, dict)}
    return facts


def tuning_results(tunings: Sequence[Tuning], seconds: float) -> dict[str, Any]:
    """Return the results over all seeds so far."""
    mean, deviation = spread([tuning.bleu for tuning in tunings])
    return {
        "dev_bleu": {"mean": mean, "standard_deviation": deviation},
        "seconds": round(seconds, 1),
        "runs": [asdict(tuning) for tuning in tunings],
    }
