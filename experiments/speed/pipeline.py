"""The pipeline of `annotate`: lines a second with the network left out, and peak memory on a huge table."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from experiments.speed import command
from phrasescore.device import choose_device
from phrasescore.files import open_output
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.annotate import Counts, annotate
from phrasescore.scoring.engine import EncodedPairs, Scorer, Scores
from phrasescore.table.reader import TableReader
from phrasescore.training.config import TrainingConfig
from phrasescore.training.run import Settings, prepare
from phrasescore.workers import available_cores


class WithoutNetwork(Scorer):
    """Reads, encodes and writes, but gives every pair the same score."""

    def score_encoded(self, pairs: EncodedPairs) -> Scores:
        """Return the same score for each pair."""
        nothing = np.zeros(len(pairs), np.int64)
        return Scores(np.full(len(pairs), -10.0), nothing, nothing, nothing, self.model.direction)


def measure_pipeline(table: Path, processes: int) -> dict[str, Any]:
    """Annotate a whole table without a network, to a compressed file, by so many processes."""
    counts = annotate_without_network(table, processes=processes)
    return {
        "processes": processes,
        "lines": counts.lines_written,
        "lines_per_second": counts.lines_written / counts.seconds,
    }


def annotate_without_network(table: Path, *, processes: int | None = None, scheduler: str | None = None) -> Counts:
    """Annotate a whole table without a network, to a compressed file."""
    with TemporaryDirectory() as folder:
        _small_model(table, Path(folder))
        scorer = WithoutNetwork.load(Path(folder) / "rnn", device="cpu", precision="fp32")
        return annotate(table, scorer, Path(folder) / "out.gz", processes=processes, scheduler=scheduler)


def measure_memory(table: Path, lines: int) -> dict[str, Any]:
    """Annotate a table of so many lines by a process for each core; return how much memory they had."""
    with TemporaryDirectory() as folder:
        long_table = Path(folder) / "long.gz"
        _repeat(table, long_table, lines)
        _small_model(table, Path(folder))
        run = command.annotate(long_table, Path(folder) / "rnn", "--device", "cpu", measure_memory=True)
    return {
        "lines": lines,
        "processes": available_cores(),
        "seconds": run.seconds,
        "peak_memory_of_one_mb": run.process_mb,
        "peak_memory_mb": run.all_mb,
    }


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
