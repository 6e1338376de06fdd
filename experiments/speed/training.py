"""Training: pairs a second of a network of middle size."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from experiments.steps import run_phrasescore
from experiments.toml import command_options
from phrasescore.documents import read_json, read_json_lines
from phrasescore.model_folder import CONFIG, METRICS

NETWORK = {
    "preset": "base",
    "hidden": 512,
    "embedding": 128,
    "maxout": 256,
    "output-rank": 128,
    "dropout": 0.0,
    "source-vocabulary": 11_000,
    "target-vocabulary": 11_000,
    "batch-size": 768,
}


def measure(table: Path, device: str, updates: int) -> dict[str, Any]:
    """Train for twice so many updates; return the speed of the second half, as the training tells it.

    Raises:
        UserError: the table has nothing to learn.
    """
    with TemporaryDirectory() as name:
        folder = Path(name) / "network"
        length = {"max-updates": 2 * updates, "evaluate-every": updates}
        options = command_options({**NETWORK, **length, "device": device, "quiet": True})
        run_phrasescore(["train", str(table), "-o", str(folder), *options])
        [_, second] = read_json_lines(folder / METRICS, "measure again")
        where = read_json(folder / CONFIG, "measure again")["training"]["device"]
    return {"device": where, "updates": updates, "pairs_per_second": second["pairs_per_second"]}
