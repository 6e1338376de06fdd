"""Scoring: the straightforward way against the engine, in 32 and in 16 bit, on the same lines in one run."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from experiments.speed import straightforward
from phrasescore.device import Device, Precision, choose_device
from phrasescore.model_folder import TrainedModel
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.config import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig
from phrasescore.scoring.engine import Scorer
from phrasescore.table.entry import Entry
from phrasescore.table.reader import TableReader
from phrasescore.training.presets import PRESETS
from phrasescore.vocabulary import END, Vocabulary

_BATCHES_A_BLOCK = {"cpu": 1, "cuda": 4}
"""A GPU computes one batch while the next one is made."""
_PRODUCT = {"cpu": 2048, "cuda": 8192}
"""Rows and columns of the matrices that are multiplied."""
_PRODUCTS_AT_ONCE = {"cpu": 1, "cuda": 8}
"""Products between looks at the clock, each of which waits for them."""


def blocks_of_lines(table: Path, lines: int, block_lines: int = 4096) -> list[list[Entry]]:
    """Return blocks of neighbouring lines from evenly spaced places of a table."""
    chunks = [chunk.entries for chunk in TableReader(table, chunk_lines=block_lines)]
    wanted = max(1, lines // block_lines)
    return [chunks[i * len(chunks) // wanted] for i in range(min(wanted, len(chunks)))]


def paper_model(table: Path) -> TrainedModel:
    """Return a network of the paper's sizes with random weights and 15,000 words a side."""
    words: tuple[dict[bytes, None], dict[bytes, None]] = {}, {}
    for chunk in TableReader(table):
        for entry in chunk.entries:
            for side, phrase in zip(words, (entry.source, entry.target), strict=True):
                side.update(dict.fromkeys(phrase.split(b" ")))
    # A table with fewer words is filled up, so that the softmax has the paper's size.
    size = DataConfig().target_vocabulary
    source, target = (
        Vocabulary(islice({**side, **{b"filler%d" % i: None for i in range(size)}}, size)) for side in words
    )
    torch.manual_seed(1)
    network = EncoderDecoder(ModelConfig(**PRESETS["cho2014"]["model"]), len(source), len(target)).eval()
    return TrainedModel(Path("random"), network, source, target, "target-given-source", "random")


def measure(
    table: Path, device_name: str, lines: int, repetitions: int, batch_pairs: int | None = None
) -> dict[str, Any]:
    """Return pairs a second of each way, and of the engine how many times that of the straightforward way it is.

    Besides, the share of the machine's matrix-product rate, and differences of scores from the straightforward ones.

    Args:
        table: whose lines are scored.
        device_name: as `choose_device` takes it.
        lines: how many, at least a block.
        repetitions: of each way.
        batch_pairs: the most pairs of a batch of the engine, None for its own choice.
    """
    model = paper_model(table)
    precisions: tuple[Precision, ...] = ("fp32", "bf16")
    devices = {precision: choose_device(device_name, precision) for precision in precisions}
    batch_pairs = batch_pairs or Scorer(model, devices["fp32"]).batch_pairs
    blocks = blocks_of_lines(table, lines, batch_pairs * _BATCHES_A_BLOCK[devices["fp32"].torch_device.type])
    pairs = sum(map(len, blocks))
    ways: dict[str, Callable[[], NDArray[np.float64]]] = {
        "straightforward": partial(straightforward_scores, model, blocks, devices["fp32"]),
        **{precision: partial(_engine, model, blocks, device, batch_pairs) for precision, device in devices.items()},
    }
    seconds: dict[str, list[float]] = {way: [] for way in ways}
    scores: dict[str, NDArray[np.float64]] = {}
    for _ in range(repetitions):
        for way, score in ways.items():
            started = time.perf_counter()
            scores[way] = score()
            seconds[way].append(time.perf_counter() - started)
    speed = {way: pairs / float(np.median(found)) for way, found in seconds.items()}
    batches = _all_batches(model, blocks, devices["fp32"], batch_pairs)
    operations = 2 * sum(_multiplications(model, batch) for batch in batches) / pairs
    found: dict[str, Any] = {"pairs": pairs, "repetitions": repetitions, "batch_pairs": batch_pairs}
    found["straightforward"] = {"pairs_per_second": speed["straightforward"]}
    for precision, device in devices.items():
        difference = np.abs(scores[precision] - scores["straightforward"])
        found[f"engine, {precision}"] = {
            "pairs_per_second": speed[precision],
            "times_straightforward": speed[precision] / speed["straightforward"],
            "share_of_matrix_product_rate": operations * speed[precision] / product_rate(device),
            "mean_difference": float(difference.mean()),
            "largest_difference": float(difference.max()),
        }
    return {**found, "engine_gflop_per_pair": operations / 1e9}


def straightforward_scores(model: TrainedModel, blocks: list[list[Entry]], device: Device) -> NDArray[np.float64]:
    """Return ln p of each pair."""
    network = model.network.to(device.torch_device)
    scores = []
    with device.products():
        for entries in blocks:
            sources = model.source_vocabulary.encode([entry.source for entry in entries]).with_end(END)
            targets = model.target_vocabulary.encode([entry.target for entry in entries]).with_end(END)
            for start in range(0, len(entries), straightforward.BATCH):
                some = np.arange(start, min(start + straightforward.BATCH, len(entries)))
                found = straightforward.score(network, sources.take(some), targets.take(some), device.torch_device)
                scores.append(found.double().cpu().numpy())
    return np.concatenate(scores)


def _engine(model: TrainedModel, blocks: list[list[Entry]], device: Device, batch_pairs: int) -> NDArray[np.float64]:
    scorer = Scorer(model, device)
    scorer.batch_pairs = batch_pairs
    encoded = [scorer.encode([e.source for e in entries], [e.target for e in entries]) for entries in blocks]
    return np.concatenate([scorer.score_encoded(pairs).log_prob for pairs in encoded])


def _all_batches(model: TrainedModel, blocks: list[list[Entry]], device: Device, batch_pairs: int) -> list[PairBatch]:
    scorer = Scorer(model, device)
    scorer.batch_pairs = batch_pairs
    encoded = [scorer.encode([e.source for e in entries], [e.target for e in entries]) for entries in blocks]
    return [batch for pairs in encoded for batch in scorer.batches(pairs)]


def _multiplications(model: TrainedModel, batch: PairBatch) -> int:
    """Return the multiplications that the engine's matrix products need for a batch."""
    config = model.network.config
    n, m, s, r = config.hidden, config.embedding, config.maxout, config.output_rank
    step = 3 * n * n + 3 * n * m
    source_nodes, nodes = len(batch.sources.reading().tree.words_N), len(batch.source_of_node_A)
    once_a_source = n * n + n * n + 3 * n * n + 2 * s * n
    readout = 2 * s * n + 2 * s * m + s * r + r * len(model.target_vocabulary)
    return source_nodes * step + len(batch.sources) * once_a_source + nodes * (step + readout)


def product_rate(device: Device) -> float:
    """Return the operations a second of a large square matrix product in the device's precision, tried for a second."""
    size, number = _PRODUCT[device.torch_device.type], _PRODUCTS_AT_ONCE[device.torch_device.type]
    left = torch.randn(size, size, device=device.torch_device, dtype=device.product_dtype)
    right = torch.randn(size, size, device=device.torch_device, dtype=device.product_dtype)
    best = 0.0
    deadline = time.perf_counter() + 1
    with device.products():
        while time.perf_counter() < deadline:
            started = time.perf_counter()
            products = [left @ right for _ in range(number)]
            float(products[-1][0, 0])
            best = max(best, 2 * number * size**3 / (time.perf_counter() - started))
    return best
