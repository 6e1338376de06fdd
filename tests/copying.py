"""A copying task, and a network that learns it in seconds."""

from __future__ import annotations

import random
from pathlib import Path

_LETTERS = "abcdefgh"
OPTIONS = (
    "--hidden 32 --set model.embedding=16 --dropout 0 --batch-size 64 --learning-rate 0.01 --epochs 8 "
    "--set training.warmup_updates=20 --device cpu --precision fp32 -q"
)


def write_sentences(folder: Path, name: str, number: int, seed: int) -> tuple[Path, Path]:
    """Write random sentences and their copies; some contain a name that occurs nowhere else."""
    chance = random.Random(seed)
    lines = []
    for line in range(number):
        words = chance.choices(_LETTERS, k=chance.randint(1, 6))
        if line % 3 == 0:
            words[chance.randrange(len(words))] = f"Name{seed}-{line}"
        lines.append(" ".join(words))
    for side in ("source", "target"):
        (folder / f"{name}.{side}").write_text("".join(f"{line}\n" for line in lines))
    return folder / f"{name}.source", folder / f"{name}.target"
