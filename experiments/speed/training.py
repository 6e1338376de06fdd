"""Training: pairs a second of a network of middle size."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from experiments.training import seconds_per_update
from phrasescore.device import choose_device
from phrasescore.nn.config import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.config import TrainingConfig
from phrasescore.training.run import Settings

SETTINGS = Settings(
    ModelConfig(hidden=512, embedding=128, maxout=256, output_rank=128, biases="all", initialisation="scaled"),
    DataConfig(source_vocabulary=11_000, target_vocabulary=11_000),
    TrainingConfig(batch_size=768),
)


def measure(table: Path, device_name: str, updates: int) -> dict[str, Any]:
    """Train for some updates after a warm-up and return the speed, by the clock."""
    device = choose_device(device_name, "auto")
    seconds = seconds_per_update(table, SETTINGS, device, updates, time.perf_counter)
    speed = SETTINGS.training.batch_size / seconds
    return {"precision": device.precision, "updates": updates, "pairs_per_second": speed}
