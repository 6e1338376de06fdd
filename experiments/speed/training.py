"""Training: pairs a second of a network of middle size."""

from __future__ import annotations

import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from phrasescore.device import choose_device
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.loop import Watcher
from phrasescore.training.run import Settings, prepare
from phrasescore.training.training_config import TrainingConfig

SETTINGS = Settings(
    ModelConfig(hidden=512, embedding=128, maxout=256, output_rank=128, biases="all", initialisation="scaled"),
    DataConfig(source_vocabulary=11_000, target_vocabulary=11_000),
    # So many that the learning rate does not fall; the evaluations never come.
    TrainingConfig(batch_size=768, epochs=None, max_updates=10**9, evaluate_every=10**9),
)


_WARMUP = 20
"""Updates before those whose time is taken."""


def measure(table: Path, device_name: str, updates: int) -> dict[str, Any]:
    """Train for some updates after a warm-up and return the speed, by the clock.

    Raises:
        UserError: the table has nothing to learn.
    """
    device, times = choose_device(device_name, "auto"), list[float]()
    with TemporaryDirectory() as folder:
        trainer, _ = prepare(table, Path(folder) / "network", SETTINGS, device)

        def note() -> bool:
            update = trainer.progress.update
            if update in (_WARMUP, _WARMUP + updates):
                if device.torch_device.type == "cuda":
                    torch.cuda.synchronize(device.torch_device)
                times.append(time.perf_counter())
            return update >= _WARMUP + updates

        trainer.watcher = Watcher(should_stop=note)
        trainer.train()
    started, ended = times
    speed = updates * SETTINGS.training.batch_size / (ended - started)
    return {"precision": device.precision, "updates": updates, "pairs_per_second": speed}
