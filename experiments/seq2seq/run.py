"""A comparison of translators: each trained, its perplexities and BLEU on the test set measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.data import DataFolder, prepare
from experiments.seq2seq.config import Config, System
from experiments.seq2seq.perplexity import perplexities
from experiments.steps import Steps, run_command
from experiments.toml import command_options
from moses_integration.evaluation import score
from phrasescore import __version__
from phrasescore.device import choose_device
from phrasescore.files import read_bytes, read_lines, write_atomically
from phrasescore.model_folder import load_model, to_json

Json = dict[str, Any]


class Comparison:
    """A comparison in a folder; what is there already is not done again."""

    def __init__(self, config: Config, folder: Path, origin: Path, device: str, say: Callable[[str], None]) -> None:
        """Nothing is done yet.

        Args:
            config: what to compare.
            folder: for everything that is made.
            origin: the folder of Multi30k's files.
            device: auto, cpu or cuda[:N].
            say: told of each step.
        """
        self._config, self._folder, self._origin, self._device = config, folder, origin, device
        self._steps = Steps(folder / "steps", say)

    def run(self) -> Json:
        """Do what is not done yet and return the report."""
        data = self._data()
        report = {
            "version": __version__,
            "config": asdict(self._config),
            "data": dict(data.description),
            "device": str(choose_device(self._device, "auto")),
            "systems": {system.name: self._measured(system, data) for system in self._config.systems},
        }
        write_atomically(self._folder / "report.json", to_json(report))
        return report

    def _data(self) -> DataFolder:
        section = self._config.data
        return prepare("multi30k", self._folder / "data", section.source, section.target, origin=self._origin)

    def _measured(self, system: System, data: DataFolder) -> Json:
        folder = self._folder / "systems" / system.name
        trained = self._steps.run(
            f"train.{system.name}", [data.description, system.command], lambda: self._train(system, folder, data)
        )
        measured: Json = {
            **trained,
            "perplexity": self._steps.run(
                f"perplexity.{system.name}", trained, lambda: self._perplexities(folder, data)
            ),
        }
        measured["searches"] = [
            self._steps.run(
                f"translate.{system.name}.{'.'.join(map(str, search.values()))}",
                [trained, search],
                lambda search=search: self._translate(folder, data, search),  # type: ignore[misc]
            )
            for search in self._config.searches
        ]
        return measured

    def _train(self, system: System, folder: Path, data: DataFolder) -> Json:
        command = ["train", "-o", str(folder), "--device", self._device]
        for prefix, part in (("", "train"), ("validation-", "dev")):
            [target] = data.target_files(part)
            command += [f"--{prefix}source", str(data.source_file(part)), f"--{prefix}target", str(target)]
        run_command([*command, *system.command])
        evaluations = [json.loads(line) for line in read_lines(folder / "metrics.jsonl")]
        parameters = sum(weight.numel() for weight in load_model(folder).network.parameters())
        return {
            "parameters": parameters,
            "config": json.loads(read_bytes(folder / "config.json")),
            "evaluations": evaluations,
            "best": [one for one in evaluations if one["best"]][-1],
        }

    def _perplexities(self, folder: Path, data: DataFolder) -> dict[str, float]:
        [target] = data.target_files("test")
        # In 32 bit, as the tutorials are.
        return perplexities(load_model(folder), data.source_file("test"), target, choose_device(self._device, "fp32"))

    def _translate(self, folder: Path, data: DataFolder, search: Json) -> Json:
        source, output = data.source_file("test"), folder / "test.out"
        command = ["translate", str(source), "-m", str(folder), "-o", str(output), "--device", self._device]
        started = time.monotonic()
        run_command([*command, *command_options(search)])
        seconds = time.monotonic() - started
        result = score(output, data.target_files("test"), "none")
        sentences = data.description["sizes"]["test"]["sentences"]
        return {
            "search": search,
            "bleu": result.bleu,
            "signature": result.signature,
            "seconds_per_sentence": seconds / sentences,
        }
