"""A comparison of translators: each trained, its perplexities and BLEU on the test set measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from experiments.data import DataFolder, prepare
from experiments.machine import machine, timed
from experiments.seq2seq.beside import each, progress_options
from experiments.seq2seq.config import Config, System, search_config
from experiments.seq2seq.perplexity import perplexities
from experiments.seq2seq.report import write_report
from experiments.steps import Steps
from experiments.training import Json, train
from moses_integration.evaluation import score
from phrasescore import __version__
from phrasescore.device import choose_device
from phrasescore.files import write_lines
from phrasescore.model_folder import load_model
from phrasescore.scoring.engine import Scorer
from phrasescore.search.translator import Translator
from phrasescore.text import text_lines


class Comparison:
    """A comparison in a folder; what is there already is not done again."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        origin: Path | None,
        device: str,
        say: Callable[[str], None],
        processes: int = 1,
    ) -> None:
        """Nothing is done yet.

        Args:
            config: what to compare.
            folder: for everything that is made.
            origin: the folder of Multi30k's files.
            device: auto, cpu or cuda[:N].
            say: told of each step.
            processes: systems that are measured at once.
        """
        self._config, self._folder, self._origin, self._device = config, folder, origin, device
        self._processes = processes
        self._steps = Steps(folder / "steps", say)

    def run(self) -> Json:
        """Do what is not done yet and return the report; report.json and report.md are written after each system."""
        data = self._data()
        report: Json = {
            "version": __version__,
            "config": asdict(self._config),
            "data": dict(data.description),
            "processes": self._processes,
            "systems": {},
        }
        systems = self._config.systems
        measured = each(partial(self._measured, data), systems, self._processes)
        for system, found in zip(systems, measured, strict=True):
            report["systems"][system.name] = found
            write_report(report, self._folder)
        return report

    def _data(self) -> DataFolder:
        section = self._config.data
        return prepare("multi30k", self._folder / "data", section.source, section.target, origin=self._origin)

    def _measured(self, data: DataFolder, system: System) -> Json:
        folder = self._folder / "systems" / system.name
        depends_on = [data.description, system.command]
        trained = self._steps.run(
            f"train.{system.name}", depends_on, lambda: train(folder, self._command(system, data), depends_on)
        )
        perplexity = self._steps.run(f"perplexity.{system.name}", trained, lambda: self._perplexities(folder, data))
        searches = [
            self._steps.run(
                f"translate.{system.name}.{_file_name(search)}",
                [trained, search],
                lambda search=search: self._translate(folder, data, search),  # type: ignore[misc]
            )
            for search in self._config.searches
        ]
        return {**trained, "perplexity": perplexity, "searches": searches}

    def _command(self, system: System, data: DataFolder) -> list[str]:
        command = ["train", "--device", self._device, *progress_options(self._processes)]
        for prefix, part in (("", "train"), ("validation-", "dev")):
            [target] = data.target_files(part)
            command += [f"--{prefix}source", str(data.source_file(part)), f"--{prefix}target", str(target)]
        return [*command, *system.command]

    def _perplexities(self, folder: Path, data: DataFolder) -> dict[str, float]:
        [target] = data.target_files("test")
        # In 32 bit, as the tutorials are.
        return perplexities(load_model(folder), data.source_file("test"), target, choose_device(self._device, "fp32"))

    def _translate(self, folder: Path, data: DataFolder, search: Json) -> Json:
        device = choose_device(self._device, "auto")
        translator = Translator(Scorer(load_model(folder), device), search_config(search, "[[searches]]"))
        sentences = list(text_lines(data.source_file("test")))
        with timed() as timing:
            found = translator.translate(sentences)
        output = folder.with_name(f"{folder.name}.{_file_name(search)}.out")
        write_lines(output, (some[0].text if some else b"" for some in found))
        result = score(output, data.target_files("test"), "none")
        return {
            "search": search,
            "bleu": result.bleu,
            "signature": result.signature,
            "sentences": len(sentences),
            # Reading the network and the text, and BLEU, are left out.
            **asdict(timing),
            "device": str(device),
            "machine": machine(),
        }


def _file_name(search: Json) -> str:
    return ".".join(f"{key}-{value}" for key, value in search.items())
