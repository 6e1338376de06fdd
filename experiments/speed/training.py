"""Training: pairs a second of a network of middle size."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from phrasescore.device import choose_device
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.config import TrainingConfig
from phrasescore.training.loop import Watcher
from phrasescore.training.run import Settings, prepare

SETTINGS = Settings(
    ModelConfig(hidden=512, embedding=128, maxout=256, output_rank=128, biases="all", initialisation="scaled"),
    DataConfig(source_vocabulary=11_000, target_vocabulary=11_000),
    TrainingConfig(batch_size=768, evaluate_every=10**9),
)
_WARMUP = 20


def measure(table: Path, device_name: str, updates: int) -> dict[str, Any]:
    """Train for some updates after a warm-up and return the speed."""
    looks: list[tuple[int, float]] = []
    device = choose_device(device_name, "auto")
    with TemporaryDirectory() as folder:
        trainer, _ = prepare(table, Path(folder) / "rnn", SETTINGS, device)
        trainer.watcher = Watcher(
            on_update=lambda status: looks.append((status.update, time.perf_counter())),
            should_stop=lambda: trainer.progress.update >= _WARMUP + updates,
        )
        trainer.train()
    (first, started), (last, ended) = looks[0], looks[-1]
    speed = (last - first) * SETTINGS.training.batch_size / (ended - started)
    return {"precision": device.precision, "updates": last - first, "pairs_per_second": speed}
