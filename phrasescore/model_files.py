"""File names of model folders of all kinds; this module does not import PyTorch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

CONFIG, WEIGHTS = "config.json", "weights.safetensors"
SOURCE_VOCABULARY, TARGET_VOCABULARY = "vocab.source.txt", "vocab.target.txt"
VOCABULARY = "vocab.txt"
"""The vocabulary of a language model."""
METRICS = "metrics.jsonl"


def files_of_models(folders: Iterable[str | Path]) -> list[Path]:
    """Return the paths of files that model folders may have, which no output may replace."""
    names = (CONFIG, WEIGHTS, SOURCE_VOCABULARY, TARGET_VOCABULARY, VOCABULARY, METRICS)
    return [Path(folder) / name for folder in folders for name in names]
