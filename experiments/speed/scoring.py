"""Compare the straightforward scorer with the engine, in 32, 16 and 8 bit, on the same lines.

The engine computes normalised scores, and the unnormalised scores that a self-normalised network would offer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.flop_counter import FlopCounterMode

from experiments.speed import straightforward
from experiments.speed.training import product_rate
from experiments.timing import Timing, timed
from phrasescore.device import Device, Precision, choose_device
from phrasescore.model_folder import TrainedModel
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.cpu_products import has_int8
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import DataConfig
from phrasescore.scoring.columns import SCORE, UNNORMALISED, Column
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.table.entry import Entry
from phrasescore.table.reader import TableReader
from phrasescore.training.settings import Settings
from phrasescore.vocabulary import END, Vocabulary

PAPER = ModelConfig()
"""The paper's sizes."""
_BATCHES_A_CHUNK = {"cpu": 1, "cuda": 4}
"""A GPU computes one batch while the next one is made."""


def chunks_of_lines(table: Path, lines: int, chunk_lines: int = 4096) -> list[list[Entry]]:
    """Return chunks of consecutive lines at evenly spaced positions of a table."""
    chunk_lines = min(chunk_lines, lines)
    chunks = [chunk.entries for chunk in TableReader(table, chunk_lines=chunk_lines)]
    wanted = lines // chunk_lines
    return [chunks[i * len(chunks) // wanted] for i in range(min(wanted, len(chunks)))]


def random_model(table: Path, config: ModelConfig = PAPER) -> TrainedModel:
    """Return a network with random weights and 15,000 words per side."""
    size = DataConfig().vocabulary
    entries = [entry for chunk in TableReader(table) for entry in chunk.entries]
    sides = [entry.source for entry in entries], [entry.target for entry in entries]
    # Pad the vocabulary of a small table, so that the softmax has the paper's size.
    filler = [b"filler%d" % i for i in range(size)]
    source, target = (
        Vocabulary(islice(dict.fromkeys([*b" ".join(side).split(b" "), *filler]), size)) for side in sides
    )
    torch.manual_seed(1)
    network = EncoderDecoder(config, len(source), len(target)).eval()
    return TrainedModel(network, source, target, "target-given-source", folder=Path("random"))


def measure(table: Path, device_name: str, lines: int, repetitions: int) -> dict[str, Any]:
    """Measure the pairs per second of each scorer, and the speedup of the engine over the straightforward scorer.

    The difference between normalised scores is included. CPU times depend less on other load than wall-clock times.

    Args:
        table: the phrase table.
        device_name: device name for `choose_device`.
        lines: number of lines to score.
        repetitions: number of repetitions of each scorer.
    """
    model = random_model(table)
    precisions: list[Precision] = ["fp32", "bf16", *int8_if_supported(device_name)]
    devices = {precision: choose_device(device_name, precision) for precision in precisions}
    # Use one batch size for both precisions, so that both score the same lines.
    batch_pairs = EncoderDecoderScorer(model, devices["fp32"]).batch_pairs
    chunks = chunks_of_lines(table, lines, batch_pairs * _BATCHES_A_CHUNK[devices["fp32"].torch_device.type])
    pairs = sum(map(len, chunks))
    ways: dict[str, Callable[[], NDArray[np.float64]]] = {
        "straightforward": partial(straightforward_scores, model, chunks, devices["fp32"]),
        **{
            f"{precision}{unnormalised}": partial(_engine, model, chunks, device, batch_pairs, column)
            for precision, device in devices.items()
            for unnormalised, column in (("", SCORE), (", unnormalised", UNNORMALISED))
        },
    }
    timings: dict[str, list[Timing]] = {way: [] for way in ways}
    scores: dict[str, NDArray[np.float64]] = {}
    for _ in range(repetitions):
        for way, score in ways.items():
            with timed() as timing:
                scores[way] = score()
            timings[way].append(timing)
    speeds = {way: speed(pairs, found) for way, found in timings.items()}
    found: dict[str, Any] = {"pairs": pairs, "repetitions": repetitions, "batch_pairs": batch_pairs}
    found["straightforward"] = speeds["straightforward"]
    for way in list(ways)[1:]:
        times = speeds[way]["pairs_per_second"] / speeds["straightforward"]["pairs_per_second"]
        found[f"engine, {way}"] = {**speeds[way], "times_straightforward": times}
    for precision in precisions:
        difference = np.abs(scores[precision] - scores["straightforward"])
        found[f"engine, {precision}"] |= {
            "mean_difference": float(difference.mean()),
            "largest_difference": float(difference.max()),
        }
    return found


def measure_engine(table: Path, device_name: str, lines: int, repetitions: int) -> dict[str, Any]:
    """Measure the engine's pairs per second with random networks of the paper's sizes and of the preset `small`.

    The share of the roofline is that of the rate of a large matrix product on the same device.
    """
    device = choose_device(device_name, "auto")
    small = Settings.of("table", None, []).fitted(1).model
    found = {}
    for name, config in {"paper": PAPER, "small": small}.items():
        model = random_model(table, config)
        batch_pairs = EncoderDecoderScorer(model, device).batch_pairs
        chunks = chunks_of_lines(table, lines, batch_pairs * _BATCHES_A_CHUNK[device.torch_device.type])
        pairs = sum(map(len, chunks))
        with FlopCounterMode(display=False) as counter:
            _engine(model, chunks, device, batch_pairs)
        timings = []
        for _ in range(repetitions):
            with timed() as timing:
                _engine(model, chunks, device, batch_pairs)
            timings.append(timing)
        found[name] = speed(pairs, timings)
        rate = counter.get_total_flops() / pairs * found[name]["pairs_per_second"]
        found[name]["share_of_roofline"] = rate / product_rate(device)
    return found


def int8_if_supported(device_name: str) -> list[Precision]:
    """Return the precision int8 as a list, which is empty on a GPU and on CPUs without 8-bit products."""
    on_cpu = choose_device(device_name, "auto").torch_device.type == "cpu"
    return ["int8"] if on_cpu and has_int8() else []


def speed(pairs: int, timings: Sequence[Timing]) -> dict[str, float]:
    """Return pairs per second of wall-clock and of CPU time, by the median of timings."""
    by_clock, by_cpu = ([getattr(one, key) for one in timings] for key in ("seconds", "cpu_seconds"))
    return {
        "pairs_per_second": pairs / float(np.median(by_clock)),
        "pairs_per_cpu_second": pairs / float(np.median(by_cpu)),
    }


def straightforward_scores(model: TrainedModel, chunks: list[list[Entry]], device: Device) -> NDArray[np.float64]:
    """Return ln p of each pair."""
    network = model.network.to(device.torch_device)
    scores = []
    with device.products():
        for entries in chunks:
            sources = model.source_vocabulary.encode([entry.source for entry in entries]).with_end(END)
            targets = model.target_vocabulary.encode([entry.target for entry in entries]).with_end(END)
            for start in range(0, len(entries), straightforward.BATCH):
                some = np.arange(start, min(start + straightforward.BATCH, len(entries)))
                found = straightforward.score(network, sources.take(some), targets.take(some), device.torch_device)
                scores.append(found.double().cpu().numpy())
    return np.concatenate(scores)


def _engine(
    model: TrainedModel, chunks: list[list[Entry]], device: Device, batch_pairs: int, column: Column = SCORE
) -> NDArray[np.float64]:
    scorer = EncoderDecoderScorer(model, device)
    scorer.batch_pairs = batch_pairs
    chunks_of_pairs = [Occurrences([e.source for e in entries], [e.target for e in entries]) for entries in chunks]
    return np.concatenate([scorer.score(pairs, [column]).first_N for pairs in chunks_of_pairs])
