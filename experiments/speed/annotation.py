"""Measure `annotate` from one gzip file to another, with a network of the paper's sizes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.speed import scoring
from experiments.timing import timed
from phrasescore.device import Precision
from phrasescore.files import open_output
from phrasescore.model_folder import save_description, save_weights
from phrasescore.workers import available_cores


def measure(
    table: Path, device_name: str, lines: int, repetitions: int, processes: Sequence[int] | None = None
) -> dict[str, Any]:
    """Measure the lines per second of `annotate`, including start-up, by default with one process and one per core.

    Only wall-clock time is measured: the CPU time of worker processes is unknown. The network has the paper's sizes.
    The precision is that of `auto`, and on a CPU also int8. Each repetition runs all variants.
    """
    chunks = scoring.chunks_of_lines(table, lines)
    lines = sum(map(len, chunks))
    precisions: list[Precision] = ["auto", *scoring.int8_if_supported(device_name)]
    variants = product(precisions, processes or sorted({1, available_cores()}))
    seconds: dict[tuple[str, int], list[float]] = {variant: [] for variant in variants}
    with TemporaryDirectory() as folder:
        some, network = Path(folder) / "lines.gz", Path(folder) / "network"
        with open_output(some) as stream:
            stream.writelines(entry.line for chunk in chunks for entry in chunk)
        _write_network(table, network)
        # Call the command as a user does.
        command = [sys.executable, "-m", "phrasescore", "annotate", str(some), "-m", str(network), "--quiet"]
        command += ["--restart", "-o", f"{folder}/out.gz", "--device", device_name]
        for _ in range(repetitions):
            for (precision, number), found in seconds.items():
                with timed() as timing:
                    subprocess.run([*command, "--precision", precision, "--processes", str(number)], check=True)
                found.append(timing.seconds)
    speeds = {
        f"{precision}, {number} processes": {"pairs_per_second": lines / float(np.median(found))}
        for (precision, number), found in seconds.items()
    }
    return {"lines": lines, "repetitions": repetitions, **speeds}


def _write_network(table: Path, folder: Path) -> None:
    model = scoring.random_model(table)
    folder.mkdir()
    vocabularies = model.source_vocabulary, model.target_vocabulary
    save_description(folder, model.network.config, model.direction, *vocabularies, {})
    save_weights(folder, model.network)
