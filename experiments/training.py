"""A network of an experiment: trained by `phrasescore`, and what is known of it then."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from experiments.machine import machine
from experiments.steps import clear_if_changed, run_phrasescore
from phrasescore.cli import make_parser
from phrasescore.files import read_bytes, read_lines, sha256_of
from phrasescore.model_folder import CONFIG, WEIGHTS

Json = dict[str, Any]


def train(folder: Path, command: Sequence[str], depends_on: Any) -> Json:
    """Train a network, going on where an earlier call with the same settings was stopped.

    Args:
        folder: the model folder.
        command: the words before `-o FOLDER`, beginning with `train` or `lm train`.
        depends_on: all that the network depends on, as JSON can hold it.

    Returns:
        What is known of the network: its size, its configuration with the device and the versions it was computed with,
        where that was, and all evaluations, of which `best` is that of the weights kept.

    Raises:
        UserError: the training fails.
        SystemExit: the command has an option that there is not; what it says of it stands on standard error.
    """
    words = [*command, "-o", str(folder)]
    # A mistyped option is told before an earlier network is deleted for it.
    make_parser().parse_args(words)
    clear_if_changed(folder, depends_on)
    run_phrasescore(words)
    evaluations = [json.loads(line) for line in read_lines(folder / "metrics.jsonl")]
    return {
        "parameters": sum(weight.size for weight in load_file(folder / WEIGHTS).values()),
        "weights_sha256": sha256_of(folder / WEIGHTS),
        "config": json.loads(read_bytes(folder / CONFIG)),
        "machine": machine(),
        "evaluations": evaluations,
        "best": [one for one in evaluations if one["best"]][-1],
    }
