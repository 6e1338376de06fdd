"""`annotate` from one gzip file to another: with a network of the paper's sizes, without one, and its memory."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import psutil

from experiments.speed import scoring
from experiments.timing import timed
from phrasescore.device import choose_device
from phrasescore.files import open_output
from phrasescore.model_folder import save_description, save_weights
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.annotate import annotate
from phrasescore.scoring.engine import EncodedPairs, Scorer
from phrasescore.scoring.scores import Scores
from phrasescore.table.reader import TableReader
from phrasescore.training.run import Settings, prepare
from phrasescore.training.training_config import TrainingConfig
from phrasescore.workers import available_cores

_ONE_IN = 8
"""The straightforward scorer gets one block of so many, or it would take most of the time."""
_SECONDS_BETWEEN = 0.2
"""Looks at the memory of the processes, which take time from the run."""
_MB = 1 << 20


def measure(table: Path, device_name: str, lines: int, repetitions: int) -> dict[str, Any]:
    """Return lines a second of `annotate` by one process and by one for each core, and of the straightforward scorer.

    The network is of the paper's sizes, in 16 bit; start-up and all is measured. The straightforward scorer has all
    cores, and its pairs are in memory already. Each repetition runs all of them, one after another. Other work disturbs
    the processor's seconds less than those of the clock.
    """
    blocks, model = scoring.blocks_of_lines(table, lines), scoring.paper_model(table)
    lines = sum(map(len, blocks))
    runs: list[tuple[str, int, float, float]] = []
    with TemporaryDirectory() as name:
        some, network = Path(name) / "lines.gz", Path(name) / "network"
        with open_output(some) as stream:
            stream.writelines(entry.line for block in blocks for entry in block)
        network.mkdir()
        vocabularies = model.source_vocabulary, model.target_vocabulary
        save_description(network, model.network.config, model.direction, *vocabularies, {})
        save_weights(network, model.network)
        for _ in range(repetitions):
            with timed() as timing:
                scoring.straightforward_scores(model, blocks[::_ONE_IN], choose_device(device_name, "fp32"))
            scored = sum(map(len, blocks[::_ONE_IN]))
            runs.append(("straightforward", scored, timing.seconds, timing.cpu_seconds))
            for processes in sorted({1, available_cores()}):
                options = ("--device", device_name, "--precision", "bf16", "--processes", str(processes))
                started, cpu_started = time.perf_counter(), _cpu_seconds_of_children()
                _start(some, network, *options).wait()
                seconds, cpu_seconds = time.perf_counter() - started, _cpu_seconds_of_children() - cpu_started
                runs.append((f"processes_{processes}", lines, seconds, cpu_seconds))
    found = pd.DataFrame(runs, columns=["way", "lines", "clock", "cpu"])
    speed = found[["clock", "cpu"]].rdiv(found["lines"], axis=0).groupby(found["way"], sort=False).median()
    times = speed / speed.loc["straightforward"]
    return {
        "lines": lines,
        "repetitions": repetitions,
        "lines_per_second": speed["clock"].to_dict(),
        "lines_per_cpu_second": speed["cpu"].to_dict(),
        "times_straightforward": times["clock"].to_dict(),
        "times_straightforward_by_cpu": times["cpu"].to_dict(),
    }


class WithoutNetwork(Scorer):
    """Reads, encodes and writes, but gives every pair the same score."""

    def score_encoded(self, pairs: EncodedPairs) -> Scores:
        """Return the same score for each pair."""
        nothing = np.zeros(len(pairs), np.int64)
        return Scores(np.full(len(pairs), -10.0), nothing, nothing, nothing, self.model.direction)


def measure_pipeline(table: Path, processes: int) -> dict[str, Any]:
    """Annotate a whole table without a network, to a compressed file, by so many processes."""
    with TemporaryDirectory() as folder:
        _small_model(table, Path(folder))
        scorer = WithoutNetwork.load(Path(folder) / "rnn", device="cpu", precision="fp32")
        counts = annotate(table, scorer, Path(folder) / "out.gz", processes=processes)
    return {"lines": counts.lines_written, "lines_per_second": counts.lines_written / counts.seconds}


def measure_memory(table: Path, lines: int) -> dict[str, Any]:
    """Annotate so many lines by a process for each core; return the memory of the largest, and of all at a time.

    What several processes share is counted once, or on macOS not at all.
    """
    largest = together = 0.0
    with TemporaryDirectory() as folder:
        long_table = Path(folder) / "long.gz"
        _repeat(table, long_table, lines)
        _small_model(table, Path(folder))
        started = time.perf_counter()
        process = _start(long_table, Path(folder) / "rnn", "--device", "cpu")
        while process.poll() is None:
            memory = _memory_of_family(process.pid)
            largest, together = max(largest, *memory, 0.0), max(together, sum(memory))
            time.sleep(_SECONDS_BETWEEN)
        seconds = time.perf_counter() - started
    found = {"lines": lines, "processes": available_cores(), "seconds": seconds}
    return {**found, "peak_memory_of_one_mb": largest, "peak_memory_mb": together}


def _start(table: Path, network: Path, *options: str) -> psutil.Popen:
    """Start `annotate` as a user does."""
    command = [sys.executable, "-m", "phrasescore", "annotate", str(table), "-m", str(network), "--quiet", "--restart"]
    return psutil.Popen([*command, "-o", str(table.with_suffix(".out.gz")), *options], stderr=subprocess.DEVNULL)


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _memory_of_family(parent: int) -> list[float]:
    """Return the memory of a process and of all that descend from it, in megabytes."""
    found = []
    with suppress(psutil.Error):
        for member in (psutil.Process(parent), *psutil.Process(parent).children(recursive=True)):
            with suppress(psutil.Error):
                memory = member.memory_full_info()
                found.append(getattr(memory, "pss", memory.uss) / _MB)
    return found


def _repeat(table: Path, output: Path, lines: int) -> None:
    """Write the lines of a table again and again until there are enough."""
    written = 0
    with open_output(output) as stream:
        while written < lines:
            for chunk in TableReader(table, limit=lines - written):
                stream.writelines(entry.line for entry in chunk.entries)
                written += chunk.lines_read


def _small_model(table: Path, folder: Path) -> None:
    """Train a network just large enough to be one, in `folder`/rnn."""
    settings = Settings(
        ModelConfig(hidden=16, embedding=8, maxout=8, output_rank=8, biases="all", initialisation="scaled"),
        DataConfig(source_vocabulary=15_000, target_vocabulary=15_000),
        TrainingConfig(batch_size=64, max_updates=20),
    )
    trainer, _ = prepare(table, folder / "rnn", settings, choose_device("cpu", "fp32"))
    trainer.train()
