"""`annotate` from one gzip file to another: with a network of the paper's sizes, without one, and its memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.speed import scoring
from experiments.timing import Timing, timed
from phrasescore.files import open_output
from phrasescore.model_folder import TrainedModel, save_description, save_weights
from phrasescore.nn.architecture import ModelConfig
from phrasescore.scoring.annotate import annotate
from phrasescore.scoring.engine import EncodedPairs, Scorer
from phrasescore.scoring.scores import Scores
from phrasescore.table.reader import TableReader
from phrasescore.workers import available_cores

_SMALL = ModelConfig(hidden=16, embedding=8, maxout=8, output_rank=8)
"""Just large enough to be a network."""
_RUN_AND_TELL_MEMORY = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A process begins with the peak memory of the one that starts it, so one that has hardly any must start it."""
_MAXRSS_A_MB = 1 << (20 if sys.platform == "darwin" else 10)
"""macOS tells bytes, others kilobytes."""


def measure(table: Path, device_name: str, lines: int, repetitions: int) -> dict[str, Any]:
    """Return lines a second of `annotate` by one process and by one for each core, start-up and all.

    The network is of the paper's sizes, in 16 bit. Each repetition runs both, one after the other.
    """
    blocks = scoring.blocks_of_lines(table, lines)
    lines = sum(map(len, blocks))
    timings: dict[int, list[Timing]] = {processes: [] for processes in sorted({1, available_cores()})}
    with TemporaryDirectory() as name:
        some, network = Path(name) / "lines.gz", Path(name) / "network"
        with open_output(some) as stream:
            stream.writelines(entry.line for block in blocks for entry in block)
        _save(scoring.random_model(table), network)
        for _ in range(repetitions):
            for processes, found in timings.items():
                options = ("--device", device_name, "--precision", "bf16", "--processes", str(processes))
                started, cpu_started = time.monotonic(), _cpu_seconds_of_children()
                subprocess.run(_command(some, network, *options), check=True)
                found.append(Timing(time.monotonic() - started, _cpu_seconds_of_children() - cpu_started))
    speeds = {f"{processes} processes": scoring.speed(lines, found) for processes, found in timings.items()}
    return {"lines": lines, "repetitions": repetitions, **speeds}


class WithoutNetwork(Scorer):
    """Reads, encodes and writes, but gives every pair the same score."""

    def score_encoded(self, pairs: EncodedPairs) -> Scores:
        """Return the same score for each pair."""
        nothing = np.zeros(len(pairs), np.int64)
        return Scores(np.full(len(pairs), -10.0), nothing, nothing, nothing, self.model.direction)


def measure_pipeline(table: Path, processes: int) -> dict[str, Any]:
    """Annotate a whole table without a network, to a compressed file, by so many processes."""
    with TemporaryDirectory() as folder:
        network = Path(folder) / "network"
        _save(scoring.random_model(table, _SMALL), network)
        scorer = WithoutNetwork.load(network, device="cpu", precision="fp32")
        counts = annotate(table, scorer, Path(folder) / "out.gz", processes=processes)
    return {"lines": counts.lines_written, "lines_per_second": counts.lines_written / counts.seconds}


def measure_memory(table: Path, lines: int) -> dict[str, Any]:
    """Annotate so many lines by a process for each core; return the most memory that one of them had."""
    with TemporaryDirectory() as folder:
        long_table, network = Path(folder) / "long.gz", Path(folder) / "network"
        _repeat(table, long_table, lines)
        _save(scoring.random_model(table, _SMALL), network)
        command = [sys.executable, "-c", _RUN_AND_TELL_MEMORY, *_command(long_table, network, "--device", "cpu")]
        with timed() as timing:
            told = subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    found = {"lines": lines, "processes": available_cores(), "seconds": timing.seconds}
    return {**found, "peak_memory_of_one_mb": int(told) / _MAXRSS_A_MB}


def _command(table: Path, network: Path, *options: str) -> list[str]:
    """Return a call of `annotate` as a user makes it."""
    command = [sys.executable, "-m", "phrasescore", "annotate", str(table), "-m", str(network), "--quiet", "--restart"]
    return [*command, "-o", str(table.with_suffix(".out.gz")), *options]


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _save(model: TrainedModel, folder: Path) -> None:
    folder.mkdir()
    vocabularies = model.source_vocabulary, model.target_vocabulary
    save_description(folder, model.network.config, model.direction, *vocabularies, {})
    save_weights(folder, model.network)


def _repeat(table: Path, output: Path, lines: int) -> None:
    """Write the lines of a table again and again until there are enough."""
    written = 0
    with open_output(output) as stream:
        while written < lines:
            for chunk in TableReader(table, limit=lines - written):
                stream.writelines(entry.line for entry in chunk.entries)
                written += chunk.lines_read
