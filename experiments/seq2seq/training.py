"""One system of a comparison: trained by `phrasescore train`, and what is known of it then."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.machine import machine
from experiments.steps import clear_if_changed, run_command
from phrasescore.files import read_bytes, read_lines
from phrasescore.model_folder import load_model

Json = dict[str, Any]


def train(folder: Path, command: Sequence[str], depends_on: Any) -> Json:
    """Train a network, going on where an earlier call with the same settings was stopped.

    Args:
        folder: the model folder.
        command: the words after `train -o FOLDER`.
        depends_on: all that the network depends on, as JSON can hold it.

    Raises:
        UserError: the training fails.
    """
    clear_if_changed(folder, depends_on)
    run_command(["train", "-o", str(folder), *command])
    evaluations = [json.loads(line) for line in read_lines(folder / "metrics.jsonl")]
    model = load_model(folder)
    return {
        "parameters": sum(weight.numel() for weight in model.network.parameters()),
        "weights_sha256": model.weights_digest,
        # With its device, its precision and the versions of what it was computed with.
        "config": json.loads(read_bytes(folder / "config.json")),
        "machine": machine(),
        "evaluations": evaluations,
        "best": [one for one in evaluations if one["best"]][-1],
    }


@dataclass
class Timing:
    """How long something took."""

    seconds: float = 0.0
    """By the clock."""
    cpu_seconds: float = 0.0
    """Of the processor, all threads of this process."""


@contextmanager
def timed() -> Iterator[Timing]:
    """Measure what is done inside the `with`; the result is filled in at its end."""
    timing, started, cpu_started = Timing(), time.monotonic(), time.process_time()
    yield timing
    timing.seconds, timing.cpu_seconds = time.monotonic() - started, time.process_time() - cpu_started
