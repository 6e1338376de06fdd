"""Measure the perplexities and BLEU of networks that translate sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from experiments.data import DataFolder
from experiments.machine import machine
from experiments.steps import Json, Steps, run_phrasescore
from experiments.timing import timed
from experiments.toml import command_options
from moses_integration.metrics import measure
from phrasescore.device import Device, choose_device
from phrasescore.model_folder import TrainedModel, load_model
from phrasescore.pairs import PhrasePairs
from phrasescore.text import text_lines
from phrasescore.training.batches import BatchTotal, batch_totals, in_batches, perplexity

_TUTORIAL_BATCH = 128


@dataclass(frozen=True)
class Sentences:
    """Parallel text."""

    data: DataFolder
    tests: Mapping[str, str]
    """The part of each test set, by name."""
    searches: tuple[Json, ...]
    """Options of `phrasescore translate`."""
    device: str

    @property
    def description(self) -> Json:
        """Content of data.json."""
        return dict(self.data.description)

    @property
    def learned_from(self) -> Json:
        """The training and dev texts by content; if it changes, the networks are trained again."""
        return self.data.digests("train", "dev")

    @property
    def sha256(self) -> dict[str, str]:
        """Digests of the texts."""
        return dict(self.data.description["sha256"])

    @property
    def options(self) -> list[str]:
        """Options of `phrasescore train`."""
        words = []
        for prefix, part in (("", "train"), ("validation-", "dev")):
            [target] = self.data.target_files(part)
            words += [f"--{prefix}source", str(self.data.source_file(part)), f"--{prefix}target", str(target)]
        return words

    def measure(self, steps: Steps, name: str, model: Path, trained: Json) -> Json:
        """Measure perplexities of the first test set, and BLEU and CPU time of each search on dev and each test set."""
        measured = [trained, self.data.digests(next(iter(self.tests.values())))]
        perplexity = steps.run(f"perplexity.{name}", measured, lambda: self._perplexities(model))
        searches = []
        for search in self.searches:
            found = {}
            for test, part in {"dev": "dev", **self.tests}.items():
                label = ".".join([name, *(f"{key}-{value}" for key, value in search.items()), part])
                work = partial(self._translate, model, search, part, model.with_name(f"{label}.out"))
                found[test] = steps.run(f"translate.{label}", [trained, search, self.data.digests(part)], work)
            searches.append({"search": search, **found})
        return {"perplexity": perplexity, "searches": searches}

    def _perplexities(self, model: Path) -> dict[str, float]:
        part = next(iter(self.tests.values()))
        [target] = self.data.target_files(part)
        # Use 32-bit precision, as the tutorials do.
        device = choose_device(self.device, "fp32")
        return perplexities(load_model(model), self.data.source_file(part), target, device)

    def _translate(self, model: Path, search: Json, part: str, output: Path) -> Json:
        command = ["translate", str(self.data.source_file(part)), "-m", str(model), "-o", str(output)]
        with timed() as timing:
            run_phrasescore([*command, "--device", self.device, *command_options(search)])
        bleu = measure(output, self.data.target_files(part), "none")["BLEU"]
        seconds = timing.cpu_seconds / self.data.description["sizes"][part]["sentences"]
        return {"bleu": bleu.score, "signature": bleu.signature, "cpu_seconds": seconds, "machine": machine()}


def perplexities(model: TrainedModel, source: Path, target: Path, device: Device) -> dict[str, float]:
    """Return perplexities per predicted symbol, words and end symbols.

    `teacher_forced`: the network conditions on the reference words, as in the standard definition of perplexity.
    `free_running`: it conditions on its own most probable words, but is scored on the reference words.
    `tutorial`: free-running, but averaged first within batches and then over batches, which gives short sentences more
    weight. The tutorial calls this the test perplexity.
    """
    network = model.network.to(device.torch_device).eval()
    network.softmax.product_dtype = device.product_dtype
    sides = (
        model.source_vocabulary.encode(list(text_lines(source))),
        model.target_vocabulary.encode(list(text_lines(target))),
    )
    pairs = PhrasePairs(*sides)
    forced, free = (
        batch_totals(network, in_batches(network, pairs, _TUTORIAL_BATCH), device, forcing) for forcing in (1.0, 0.0)
    )
    return {
        "teacher_forced": _of_all(forced),
        "free_running": _of_all(free),
        "tutorial": perplexity(float(np.mean([batch.loss / batch.symbols for batch in free]))),
    }


def _of_all(batches: Sequence[BatchTotal]) -> float:
    return perplexity(sum(batch.loss for batch in batches) / sum(batch.symbols for batch in batches))
