"""Run an ablation: build one system; tune each row with every seed, decode, and compare with the baseline."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from experiments.ablation.config import Config
from experiments.ablation.decoding_time import Rescoring, time_translating
from experiments.ablation.networks import Networks
from experiments.ablation.rows import BASELINE, Row, extended_by
from experiments.ablation.summary import MEASURES, over_seeds, summary
from experiments.data import DataFolder, prepare
from experiments.steps import Json, Steps, run_toolkit
from experiments.toml import command_options
from moses_integration.building.preparation import SystemText
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.metrics import measure, p_value_over_runs
from moses_integration.nbest import read_nbest
from moses_integration.per_text.context_toolkit import ContextToolkit
from moses_integration.rescoring.features import FeatureSpec, load_features, share_scoring
from moses_integration.rescoring.reranking import add_scores, best_of, rerank, starting_weights, tune_on_list
from moses_integration.toolkits.toolkit import NbestRequest, Toolkit, Translate, TuningRequest, choose_toolkit
from moses_integration.tuning.bleu import read_references
from moses_integration.tuning.candidates import from_nbest
from moses_integration.tuning.tunings import Tuning, spread
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.files import read_lines, write_json, write_lines
from phrasescore.files.documents import read_json
from phrasescore.provenance import machine
from phrasescore.text import text_lines

TIMED = 100
"""Number of test sentences for measuring decoding time."""


class Ablation:
    """An ablation in a folder. Completed steps are not repeated."""

    def __init__(
        self, config: Config, folder: Path, data_options: Json, log: Callable[[str], None], processes: int | None = None
    ) -> None:
        """Choose the toolkit.

        Args:
            config: configuration of the ablation.
            folder: folder of all outputs.
            data_options: options of `experiments.data.prepare`.
            log: callback that logs each step.
            processes: number of worker processes.

        Raises:
            UserError: the toolkit is not installed, or does not support a row or a decoder setting.
        """
        self._config, self._folder, self._data_options, self._log = config, folder, data_options, log
        self._toolkit, self._processes = choose_toolkit(config.toolkit, processes), processes
        inside = [row.name for row in config.rows if "CSLM" in row.decoded.parts]
        if inside and self._toolkit.name != "embedded":
            raise UserError(
                f"the row {inside[0]}: Moses has no neural language model in its decoder; set toolkit to embedded, or "
                "add +RESCORING to the row"
            )
        sections = config.decoder.items()
        ini = MosesIni((line for name, value in sections for line in (f"[{name}]\n", f"{value}\n")), "[decoder]")
        if self._toolkit.name == "embedded":
            # Report errors now, not when the first row is decoded.
            read_settings(ini)
        self._steps = Steps(folder / "steps", log)

    def run(self) -> Json:
        """Run the remaining steps, write report.json and summary.json, and return the report."""
        data, config = self._data, self._config
        built = [data.description, config.data.casing, asdict(self._config.build), self._toolkit.name]
        system = self._steps.run("build", built, lambda: self._build(data))
        # The report of the build does not include the dev and test sets.
        rests_on = {**system, "data": data.description["sha256"]}
        self._networks = Networks(self._folder, config, rests_on, self._steps, self._first_of_baseline, self._processes)
        rows = {row.name: self._row(row) for row in config.rows}
        whole: Json = {
            "version": self._steps.versions,
            "machine": machine(),
            "config": {**asdict(config), "rows": list(rows)},
            "toolkit": str(self._toolkit),
            "data": dict(data.description),
            "build": system,
            "networks": self._networks.described(),
            "functions": self._networks.functions,
            "commands": self._networks.commands,
            "tables": self._networks.annotated,
            "rows": {row.name: self._summary(row, rows) for row in config.rows},
        }
        whole["signatures"] = rows[config.rows[0].name][0]["signatures"]
        # Store paths relative to the folder, which is elsewhere on other machines.
        place = json.dumps(f"{self._folder}/").removesuffix('"')
        report: Json = json.loads(json.dumps(whole).replace(place, '"'))
        write_json(self._folder / "report.json", report)
        write_json(self._folder / "summary.json", summary(report))
        return report

    # The system

    @cached_property
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
        (dev, *_), [target] = data.target_files("dev"), data.target_files("train")
        command = ["build", "--source", data.source_file("train"), "--target", target, "-o", self._system]
        command += ["--validation", data.source_file("dev"), dev, "--toolkit", self._toolkit.name]
        command += command_options(asdict(self._config.build))
        # Tokenised text has Moses' escapes.
        is_tokenised = data.description["tokenised"]
        command += ["--tokenised", "--escaped"] if is_tokenised else ["--casing", self._config.data.casing]
        command += [] if self._processes is None else ["--processes", self._processes]
        run_toolkit(list(map(str, command)))
        system_text = SystemText.of(MosesIni.read(self._system / "moses.ini"))
        assert system_text is not None, "the system was built here"
        # An earlier data set may have had more references.
        shutil.rmtree(self._folder / "prepared", ignore_errors=True)
        (self._folder / "prepared").mkdir()
        for part in ("dev", "test"):
            system_text.prepare("source", data.source_file(part), self._prepared(part, "source"))
            for number, reference in enumerate(data.target_files(part)):
                system_text.prepare("target", reference, self._prepared(part, f"reference{number}"))
        return read_json(self._system / "build.json", "delete the system's folder")

    @property
    def _system(self) -> Path:
        return self._folder / "system"

    def _prepared(self, part: str, side: str) -> Path:
        return self._folder / "prepared" / f"{part}.{side}"

    # Rows

    def _row(self, row: Row) -> list[Json]:
        """Return the results of each seed."""
        if row.listed:
            return self._rescored_row(row)
        ini, rests_on = self._networks.ini_of(row)
        tunings = self._tune(row, ini, rests_on)
        with self._translator(row, ini, "test") as translate:
            return [
                self._steps.run(
                    f"{row.name}.seed{tuning['seed']}",
                    [rests_on, tuning, MEASURES],
                    partial(self._translate, row, ini, tuning, translate),
                )
                for tuning in tunings
            ]

    def _first_of_baseline(self) -> Json:
        """Return the result of tuning the baseline with the first seed."""
        baseline = Row.parse(BASELINE)
        return self._tune(baseline, *self._networks.ini_of(baseline))[0]

    def _tune(self, row: Row, ini: MosesIni, rests_on: Json) -> list[Json]:
        """Return the tuning results of each seed."""
        section = self._config.tuning
        steps = {
            seed: (_tuning_step(row, seed), [rests_on, asdict(section), seed, self._toolkit.name])
            for seed in self._config.seeds
        }
        left = [seed for seed, step in steps.items() if not self._steps.is_done(*step)]
        source, references = self._tuning_text()
        # Tune in one call, because the seeds share the first decoding; each seed is tuned lazily in its step. The
        # decoders end with the call, before other decoders translate the test set.
        work = self._folder / "rows" / row.name
        tunings = self._toolkit_of(row).tune(ini, TuningRequest(source, references, left, section, work, self._log))
        return [self._steps.run(*step, lambda: asdict(next(tunings))) for step in steps.values()]

    def _tuning_text(self) -> tuple[Path, list[Path]]:
        """Return source and references of the tuning set: the dev set, or a part of it, which is written here."""
        texts = [self._prepared("dev", "source"), *sorted((self._folder / "prepared").glob("dev.reference*"))]
        count = self._config.tuning.sentences
        if count:
            parts = [path.with_name(path.name.replace("dev", "tuning", 1)) for path in texts]
            for path, part in zip(texts, parts, strict=True):
                lines = list(text_lines(path))
                chosen = min(count, len(lines))
                write_lines(part, [lines[number * len(lines) // chosen] for number in range(chosen)])
            texts = parts
        return texts[0], texts[1:]

    def _translator(self, row: Row, ini: MosesIni, part: str) -> AbstractContextManager[Translate]:
        """Return a translator of the dev or test set, for the weights of any seed."""
        source = self._tuning_text()[0] if part == "dev" else self._prepared(part, "source")
        return self._toolkit_of(row).translator(ini, source, self._folder / "rows" / row.name / part)

    def _toolkit_of(self, row: Row) -> Toolkit:
        if "CTX" not in row.parts:
            return self._toolkit
        return ContextToolkit(self._toolkit, self._networks.context_column(self._processes), self._log)

    def _translate(self, row: Row, ini: MosesIni, found: Json, translate: Translate) -> Json:
        """Translate and score the test set with the weights of one tuning run."""
        tuning = Tuning(found["seed"], found["weights"], found["bleu"])
        work = self._work(row, tuning.seed)
        tuned = ini.copy()
        tuned.set_weights(tuning.weights)
        tuned.write(work / "moses.ini")
        tokens = work / "test.tokens"
        # Use the weights with the precision of the moses.ini.
        translate(tuned.weights(), tokens)
        return {**self._scored(row, tuning, tokens), "iterations": found["iterations"]}

    def _rescored_row(self, row: Row) -> list[Json]:
        """Return the results of each seed when networks rerank the lists of the row without them."""
        settings = asdict(self._config.tuning)
        choices = self._networks.scorers(row)
        trained = [self._networks.trained[choice.path.name] for choice in choices]
        scoring = self._config.scoring
        rests_on = [trained, settings, scoring.rescored, *(["unnormalised"] if scoring.unnormalised else [])]
        ini, _ = self._networks.ini_of(row.decoded)
        with self._translator(row, ini, "dev") as dev, self._translator(row, ini, "test") as test:
            return [
                self._steps.run(
                    f"{row.name}.seed{before['seed']}",
                    [before, *rests_on],
                    partial(self._rescore, row, choices, before, {"dev": dev, "test": test}),
                )
                for before in self._row(row.decoded)
            ]

    def _rescore(
        self, row: Row, choices: Sequence[FeatureSpec], before: Json, translators: Mapping[str, Translate]
    ) -> Json:
        """Return the results of a row whose networks rescore the lists of another, tuned row."""
        seed: int = before["seed"]
        work, tuned = self._work(row, seed), self._tuned(row.decoded, before["weights"])
        # Use the precision of the decoder.
        device = choose_device("auto", "fp32")
        lists = {}
        dev, references = self._tuning_text()
        for part, source in (("dev", dev), ("test", self._prepared("test", "source"))):
            path = work / f"{part}.nbest"
            wanted = NbestRequest(path, self._config.scoring.rescored)
            translators[part](tuned.weights(), work / f"{part}.before", wanted)
            entries = list(read_nbest(path))
            with share_scoring(len(entries), device) as workers:
                scorers = load_features(choices, device, tuned.language_model(), workers)
                lists[part] = add_scores(entries, list(text_lines(source)), scorers)
        candidates = from_nbest(lists["dev"], read_references(references))
        start = starting_weights(lists["dev"][0], tuned.weights(), list(row.listed))
        tuning = tune_on_list(candidates, start, seed, restarts=self._config.tuning.restarts)
        best = best_of(rerank(lists["test"], tuning.weights), len(list(text_lines(self._prepared("test", "source")))))
        tokens = work / "test.tokens"
        write_lines(tokens, best)
        return self._scored(row, tuning, tokens)

    def _tuned(self, row: Row, weights: Weights) -> MosesIni:
        """Return the tuned moses.ini of a row without rescoring, with paths in the current folder."""
        ini, _ = self._networks.ini_of(row)
        ini.set_weights(weights)
        return ini

    def _scored(self, row: Row, tuning: Tuning, tokens: Path) -> Json:
        """Write a translation of the test set as plain text; return its scores."""
        text = SystemText.of(MosesIni.read(self._system / "moses.ini"))
        assert text is not None, "the system was built here"
        plain = self._output(row, tuning.seed)
        write_lines(plain, text.settings.detokenise(read_lines(tokens)))
        scores = measure(plain, self._data.target_files("test"), self._tokenise)
        return {
            "seed": tuning.seed,
            "dev_bleu": tuning.bleu,
            "test_bleu": scores["BLEU"].score,
            "chrf": scores["chrF"].score,
            "ter": scores["TER"].score,
            "signatures": {name.lower(): one.signature for name, one in scores.items()},
            "weights": tuning.weights,
            "machine": machine(),
        }

    def _work(self, row: Row, seed: int) -> Path:
        folder = self._folder / "rows" / f"{row.name}.seed{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _output(self, row: Row, seed: int) -> Path:
        return self._work(row, seed) / "test.out"

    @property
    def _tokenise(self) -> str:
        """Tokeniser of sacreBLEU: none if the data set is tokenised."""
        return "none" if self._data.description["tokenised"] else "13a"

    def _translating(self, row: Row, seed: Json) -> Json | None:
        """Return the decoding time with the weights of the first seed.

        None if Moses decodes, or if the rescored lists depend on a per-text phrase table.
        """
        if self._toolkit.name != "embedded" or (row.listed and "CTX" in row.parts):
            return None
        source = list(islice(text_lines(self._prepared("test", "source")), TIMED))
        decoded = self._row(row.decoded)[0] if row.listed else seed
        ini = self._tuned(row.decoded, decoded["weights"])
        size = self._config.scoring.rescored

        def work() -> Json:
            column = self._networks.context_column(processes=1) if "CTX" in row.parts else None
            rescoring = Rescoring(self._networks.scorers(row), seed["weights"], size) if row.listed else None
            return time_translating(ini, source, column, rescoring)

        # Time all rows on one machine, because they are compared.
        place = [str(choose_device("auto", "fp32")), machine()["cpu"]]
        rests_on = [seed, len(source), place, *([size] if row.listed else [])]
        found: Json = self._steps.run(f"{row.name}.translating", rests_on, work)
        return {"sentences": len(source), **found}

    # Comparison

    def _summary(self, row: Row, rows: dict[str, list[Json]]) -> Json:
        seeds = rows[row.name]
        found: Json = {"seeds": seeds, "against": {}, **over_seeds(seeds)}
        # A rescoring row depends on the row that produced its lists.
        steps = [f"{name}.seed{one['seed']}" for name in {row.name, row.decoded.name} for one in seeds]
        steps += [_tuning_step(row.decoded, one["seed"]) for one in seeds]
        found["seconds"] = sum(map(self._steps.seconds, steps))
        found["translating"] = self._translating(row, seeds[0])
        baseline = [other for other in self._config.rows if not other.parts]
        for other in (*baseline, *extended_by(row, self._config.rows)):
            if other != row:
                found["against"][other.name] = self._compared(row, other, rows)
        return found

    def _compared(self, row: Row, other: Row, rows: dict[str, list[Json]]) -> Json:
        both = [rows[row.name], rows[other.name]]
        mean, before = (spread([one["test_bleu"] for one in seeds])[0] for seeds in both)
        # Name the method: earlier results exchanged the runs of each sentence independently.
        rests_on = [*both, "runs exchanged together"]
        p_value = self._steps.run(f"{row.name}.against.{other.name}", rests_on, lambda: self._p_value(row, other))
        return {"difference": mean - before, "p_value": p_value}

    def _p_value(self, row: Row, other: Row) -> float:
        runs, others = ([self._output(system, seed) for seed in self._config.seeds] for system in (row, other))
        return p_value_over_runs(runs, others, self._data.target_files("test"), self._tokenise)


def _tuning_step(row: Row, seed: int) -> str:
    return f"{row.name}.seed{seed}.tuning"
