"""Train a network of an experiment with `phrasescore`, and describe it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from experiments.machine import machine
from experiments.steps import Json, Steps, run_phrasescore
from phrasescore.files import sha256_of
from phrasescore.files.documents import read_json, read_json_lines
from phrasescore.model_files import CONFIG, METRICS, WEIGHTS


def train(steps: Steps, folder: Path, command: Sequence[str], depends_on: Any) -> Json:
    """Train a network in a step named after its folder.

    Args:
        steps: steps of the experiment.
        folder: the model folder.
        command: the arguments before `-o FOLDER`, beginning with `train` or `lm train`. Validate them first, because
            changed options delete the folder.
        depends_on: all dependencies of the network, as JSON values.

    Returns:
        Description of the network: size, configuration with device and software versions, machine, and all evaluations;
        `best` is the evaluation of the saved weights.
    """
    known: Json = steps.run(f"train.{folder.name}", depends_on, lambda: _train(folder, command), folder)
    return known


def _train(folder: Path, command: Sequence[str]) -> Json:
    folder.parent.mkdir(parents=True, exist_ok=True)
    run_phrasescore([*command, "-o", str(folder)])
    evaluations = read_json_lines(folder / METRICS, "train again")
    return {
        "parameters": sum(weight.size for weight in load_file(folder / WEIGHTS).values()),
        "weights_sha256": sha256_of(folder / WEIGHTS),
        "config": read_json(folder / CONFIG, "train again"),
        "machine": machine(),
        "evaluations": evaluations,
        "best": [one for one in evaluations if one["best"]][-1],
    }
