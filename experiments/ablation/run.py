"""The ablation: one system, one network; each row tuned with every seed, decoded, and compared with the baseline."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.ablation.config import BASELINE, RNN, Config
from experiments.ablation.report import side_by_side
from experiments.ablation.steps import Steps
from experiments.data import DataFolder, prepare
from moses_integration.build.system import BuildSettings, SystemText, TextSettings, build_system
from moses_integration.evaluation import compare, score
from moses_integration.ini import MosesIni
from moses_integration.toolkit import choose_toolkit
from moses_integration.tuning.tune import TuningSettings, spread
from phrasescore import __version__
from phrasescore.cli import main as phrasescore
from phrasescore.errors import UserError
from phrasescore.files import read_bytes, read_lines, write_atomically

Json = dict[str, Any]


class Ablation:
    """An ablation in a folder; what is there already is not done again."""

    def __init__(
        self, config: Config, folder: Path, data_options: Json, say: Callable[[str], None], processes: int | None = None
    ) -> None:
        """Choose the toolkit.

        Args:
            config: what to compare.
            folder: for everything that is made.
            data_options: where the data set comes from, as `experiments.data.prepare` wants it.
            say: told of each step.
            processes: to share the work among.
        """
        self._config, self._folder, self._data_options, self._say = config, folder, data_options, say
        self._toolkit = choose_toolkit(config.toolkit, processes)
        self._steps = Steps(folder / "steps", say)

    def run(self) -> Json:
        """Do what is not done yet and return the report."""
        data = self._data()
        system = self._steps.run(
            "build", [data.description, asdict(self._config.build), self._toolkit.name], lambda: self._build(data)
        )
        network = None
        if RNN in self._config.rows:
            network = self._steps.run("train", [system, self._config.network], self._train)
            self._steps.run("annotate", [network, data.description], self._annotate)
        rows = {name: self._row(name, [system, network if name == RNN else None]) for name in self._config.rows}
        report = {
            "version": __version__,
            "config": asdict(self._config),
            "toolkit": str(self._toolkit),
            "data": dict(data.description),
            "build": system,
            "network": network,
            "rows": {name: self._summary(name, row, rows.get(BASELINE)) for name, row in rows.items()},
        }
        write_atomically(self._folder / "report.json", json.dumps(report, indent=2, default=str).encode())
        return report

    # The system, the network

    def _data(self) -> DataFolder:
        section = self._config.data
        folder = self._folder / "data"
        return prepare(
            section.name,
            folder,
            section.source,
            section.target,
            versions=section.versions.split(),
            **self._data_options,
        )

    def _build(self, data: DataFolder) -> Json:
        section, is_tokenised = self._config.data, bool(data.description["tokenised"])
        text = TextSettings(
            section.source,
            section.target,
            tokenise=not is_tokenised,
            casing="keep" if is_tokenised else section.casing,
            # Tokenised text comes with Moses' escapes.
            escape=not is_tokenised,
        )
        settings = BuildSettings(
            text,
            alignment_method=self._config.build.aligner,
            order=self._config.build.order,
            longest_phrase=self._config.build.longest_phrase,
        )
        [target] = data.target_files("train")
        build_system(
            data.source_file("train"), target, self._system, settings, self._toolkit.build_tables, say=self._say
        )
        system_text = SystemText(self._system, text)
        (self._folder / "prepared").mkdir(exist_ok=True)
        for part in ("dev", "test"):
            system_text.prepare("source", data.source_file(part), self._prepared(part, "source"))
            for number, reference in enumerate(data.target_files(part)):
                system_text.prepare("target", reference, self._prepared(part, f"reference{number}"))
        built: Json = json.loads(read_bytes(self._system / "build.json"))
        return built

    def _train(self) -> Json:
        command = ["train", str(self._system / "phrase-table.gz"), "-o", str(self._folder / "rnn")]
        _run(phrasescore, [*command, *self._config.network])
        evaluations = [json.loads(line) for line in read_lines(self._folder / "rnn" / "metrics.jsonl")]
        best = min(evaluations, key=lambda one: float(one["held_out"]["per_pair"]))
        config = json.loads(read_bytes(self._folder / "rnn" / "config.json"))
        return {"config": config, "best": best, "last": evaluations[-1]}

    def _annotate(self) -> Json:
        """Score the lines that dev and test can use: a few per cent of the table."""
        report = self._folder / "annotate.json"
        texts = [str(self._prepared(part, "source")) for part in ("dev", "test")]
        command = ["annotate", str(self._system / "phrase-table.gz"), "-m", str(self._folder / "rnn")]
        command += ["-o", str(self._annotated), "--only-sources-in", *texts, "--report", str(report)]
        _run(phrasescore, command)
        annotated: Json = json.loads(read_bytes(report))
        return annotated

    @property
    def _system(self) -> Path:
        return self._folder / "system"

    @property
    def _annotated(self) -> Path:
        return self._folder / "phrase-table.rnn.gz"

    def _prepared(self, part: str, side: str) -> Path:
        return self._folder / "prepared" / f"{part}.{side}"

    # Rows

    def _row(self, name: str, depends_on: Any) -> list[Json]:
        """Return what each seed gave."""
        ini = MosesIni.read(self._system / "moses.ini")
        if name == RNN:
            ini.add_columns(ini.phrase_table().label, self._annotated, 1)
        settings = asdict(self._config.tuning)
        return [
            self._steps.run(
                f"{name}.seed{seed}",
                [depends_on, settings, seed, self._toolkit.name],
                lambda seed=seed: self._tune_and_translate(name, ini, seed),  # type: ignore[misc]
            )
            for seed in self._config.seeds
        ]

    def _tune_and_translate(self, name: str, ini: MosesIni, seed: int) -> Json:
        section = self._config.tuning
        settings = TuningSettings(section.nbest, section.iterations, restarts=section.restarts)
        work = self._folder / "rows" / f"{name}.seed{seed}"
        work.mkdir(parents=True, exist_ok=True)
        source, references = self._prepared("dev", "source"), self._references("dev")
        [tuning] = self._toolkit.tune(ini, source, references, [seed], settings, work, self._say)
        tuned = ini.copy()
        tuned.set_weights(tuning.weights)
        tuned.write(work / "moses.ini")
        tokens, plain = work / "test.tokens", self._output(name, seed)
        self._toolkit.decode(tuned, self._prepared("test", "source"), tokens, None, work)
        text = SystemText.of(MosesIni.read(self._system / "moses.ini"))
        assert text is not None, "the system was built here"
        write_atomically(plain, b"".join(line + b"\n" for line in text.detokenise(read_lines(tokens))))
        result = score(plain, self._test_references(), self._tokenise)
        return {
            "seed": seed,
            "dev_bleu": tuning.bleu,
            "test_bleu": result.bleu,
            "signature": result.signature,
            "weights": tuning.weights,
            "iterations": [asdict(iteration) for iteration in tuning.iterations],
        }

    def _references(self, part: str) -> list[Path]:
        return sorted((self._folder / "prepared").glob(f"{part}.reference*"))

    def _output(self, name: str, seed: int) -> Path:
        return self._folder / "rows" / f"{name}.seed{seed}" / "test.out"

    @property
    def _tokenise(self) -> str:
        """How sacreBLEU splits words: not at all if the data set's text is tokenised."""
        return "none" if self._data().description["tokenised"] else "13a"

    def _test_references(self) -> list[Path]:
        return self._data().target_files("test")

    # Comparison

    def _summary(self, name: str, row: list[Json], baseline: list[Json] | None) -> Json:
        summary: Json = {"seeds": row}
        for part in ("dev_bleu", "test_bleu"):
            mean, deviation = spread([one[part] for one in row])
            summary[part] = {"mean": mean, "standard_deviation": deviation}
        summary["seconds"] = sum(self._steps.seconds(f"{name}.seed{one['seed']}") for one in row)
        if baseline is not None and name != BASELINE:
            summary["p_value"] = self._steps.run(f"{name}.significance", [row, baseline], lambda: self._pooled(name))
        return summary

    def examples(self, count: int) -> str:
        """Return test sentences that the first seeds of the two systems translate differently."""
        seed, data = self._config.seeds[0], self._data()
        outputs = [self._output(name, seed) for name in (BASELINE, RNN)]
        return side_by_side(data.source_file("test"), data.target_files("test"), outputs[0], outputs[1], count)

    def _pooled(self, name: str) -> float:
        """Return the p-value over all seeds: translations are exchanged sentence by sentence within each seed.

        Clark et al., "Better hypothesis testing for statistical machine translation" (ACL 2011): optimiser runs are a
        source of chance like the choice of sentences, so all of them are part of the test.
        """
        folder = self._folder / "rows" / "pooled"
        folder.mkdir(parents=True, exist_ok=True)
        seeds = self._config.seeds
        pooled = [
            _concatenate([self._output(system, seed) for seed in seeds], folder / system) for system in (name, BASELINE)
        ]
        references = [
            _concatenate([reference] * len(seeds), folder / f"reference{number}")
            for number, reference in enumerate(self._test_references())
        ]
        return compare(pooled[0], pooled[1], references, self._tokenise).p_value


def _concatenate(paths: Sequence[Path], output: Path) -> Path:
    write_atomically(output, b"".join(read_bytes(path) for path in paths))
    return output


def _run(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> None:
    if code := command(arguments):
        raise UserError(f"`{' '.join(arguments)}` ended with exit code {code}; mend what it said and run this again")
