"""Run an ablation: build one system; tune each row with every training and seed, decode, and compare the rows."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path

from experiments.ablation.config import Config
from experiments.ablation.decoding_time import Rescoring, time_translating
from experiments.ablation.networks import Networks
from experiments.ablation.rows import BASELINE, Row, extended_by
from experiments.ablation.summary import MEASURES, over_runs, summary
from experiments.data import DataFolder, prepare, splits_of_tests
from experiments.machine import machine
from experiments.significance import p_value_over_runs
from experiments.steps import Json, Steps, run_toolkit
from experiments.toml import command_options
from moses_integration.building.preparation import SystemText
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, Weights
from moses_integration.metrics import measure
from moses_integration.nbest import NbestEntry, read_nbest
from moses_integration.rescoring.features import FeatureSpec, load_features, share_scoring
from moses_integration.rescoring.reranking import add_scores, best_of, rerank, tune_on_list
from moses_integration.toolkits.toolkit import NbestRequest, Toolkit, Translate, TuningRequest, choose_toolkit
from moses_integration.tuning.bleu import read_references
from moses_integration.tuning.candidates import from_nbest
from moses_integration.tuning.tunings import Tuning, spread
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.files import read_lines, write_json, write_lines
from phrasescore.files.documents import read_json
from phrasescore.text import text_lines


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
            UserError: the toolkit is not installed, or does not support a row or a decoder setting; or the data set has
            no such test set.
        """
        self._config, self._folder, self._data_options, self._log = config, folder, data_options, log
        self._toolkit, self._processes = choose_toolkit(config.toolkit, processes), processes
        self._tests = splits_of_tests(config.data.name, config.data.test)
        """The split of each test set, by name."""
        self._first = next(iter(self._tests.values()))
        inside = [row.name for row in config.rows if {"CSLM", "NNJM"} & row.decoded.parts]
        if inside and self._toolkit.name != "embedded":
            raise UserError(
                f"the row {inside[0]}: Moses has no neural language model in its decoder; set toolkit to embedded, or "
                "for +CSLM add +RESCORING to the row"
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
        # The system does not depend on the test sets, so that others can be added to a finished ablation.
        text = {"settings": data.description["settings"], "sha256": data.digests("train", "dev")}
        built = [text, config.data.casing, asdict(config.build), self._toolkit.name]
        system = self._steps.run("build", built, lambda: self._build(data))
        depends_on = {**system, "data": text["sha256"]}
        for split in self._tests.values():
            self._steps.run(f"text.{split}", [depends_on, data.digests(split)], partial(self._prepare, split))
        tests = {split: data.digests(split) for split in self._tests.values()}
        self._networks = Networks(
            self._folder, config, depends_on, tests, self._steps, self._first_of_baseline, self._processes
        )
        rows = {row.name: self._row(row) for row in config.rows}
        whole: Json = {
            "version": self._steps.versions,
            "machine": machine(),
            "config": {**asdict(config), "rows": list(rows)},
            "toolkit": str(self._toolkit),
            "data": dict(data.description),
            "tests": self._tests,
            "build": system,
            "networks": self._networks.described(),
            "phrase_pair_models": self._networks.phrase_pair_models,
            "commands": self._networks.commands,
            "tables": self._networks.annotated,
            "rows": {row.name: self._summary(row, rows) for row in config.rows},
        }
        whole["signatures"] = rows[config.rows[0].name][self._first][0]["signatures"]
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
            tests=section.test,
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
        # An earlier data set may have had more references.
        shutil.rmtree(self._folder / "prepared", ignore_errors=True)
        (self._folder / "prepared").mkdir()
        self._prepare("dev")
        return read_json(self._system / "build.json", "delete the system's folder")

    def _prepare(self, split: str) -> None:
        """Prepare dev or a test set for the system."""
        text = self._system_text()
        text.prepare("source", self._data.source_file(split), self._prepared(split, "source"))
        for number, reference in enumerate(self._data.target_files(split)):
            text.prepare("target", reference, self._prepared(split, f"reference{number}"))

    def _system_text(self) -> SystemText:
        text = SystemText.of(MosesIni.read(self._system / "moses.ini"))
        assert text is not None, "the system was built here"
        return text

    @property
    def _system(self) -> Path:
        return self._folder / "system"

    def _prepared(self, split: str, side: str) -> Path:
        return self._folder / "prepared" / f"{split}.{side}"

    # Rows

    def _row(self, row: Row) -> dict[str, list[Json]]:
        """Return the results of each training and seed on each test set."""
        found: dict[str, list[Json]] = {split: [] for split in self._tests.values()}
        for one in row.trainings(self._config.trainings):
            for split, seeds in (self._rescored(one) if row.listed else self._decoded(one)).items():
                found[split] += [{"training": one.training, **seed} for seed in seeds]
        return found

    def _decoded(self, row: Row) -> dict[str, list[Json]]:
        """Return the results of each seed on each test set when the decoder translates."""
        ini, depends_on = self._networks.ini_of(row)
        tunings = self._tune(row, ini, depends_on)
        found = dict[str, list[Json]]()
        for split in self._tests.values():
            with self._translator(row, ini, split) as translate:
                found[split] = [
                    self._steps.run(
                        _step(row, tuning["seed"], split),
                        [depends_on, tuning, MEASURES, self._data.digests(split)],
                        partial(self._translate, row, ini, tuning, split, translate),
                    )
                    for tuning in tunings
                ]
        return found

    def _first_of_baseline(self) -> Json:
        """Return the result of tuning the baseline with the first seed."""
        baseline = Row.parse(BASELINE)
        return self._tune(baseline, *self._networks.ini_of(baseline))[0]

    def _tune(self, row: Row, ini: MosesIni, depends_on: Json) -> list[Json]:
        """Return the tuning results of each seed."""
        section = self._config.tuning
        steps = {
            seed: (_tuning_step(row, seed), [depends_on, asdict(section), seed, self._toolkit.name])
            for seed in self._config.seeds
        }
        left = [seed for seed, step in steps.items() if not self._steps.is_done(*step)]
        source, references = self._tuning_text()
        # Tune in one call, because the seeds share the first decoding; each seed is tuned lazily in its step. The
        # decoders end with the call, before other decoders translate the test set.
        work = self._folder / "rows" / row.label
        tunings = self._toolkit_of(row).tune(ini, TuningRequest(source, references, left, section, work, self._log))
        return [self._steps.run(*step, lambda: asdict(next(tunings))) for step in steps.values()]

    def _tuning_text(self) -> tuple[Path, list[Path]]:
        """Return source and references of the tuning set: the dev set, or a part of it, which is written here."""
        texts = [self._prepared("dev", "source"), *sorted((self._folder / "prepared").glob("dev.reference*"))]
        count = self._config.tuning.sentences
        parts = [path.with_name(path.name.replace("dev", "tuning", 1)) for path in texts]
        if not count:
            # `experiments.pruning` tunes on the part if there is one.
            for part in parts:
                part.unlink(missing_ok=True)
        else:
            for path, part in zip(texts, parts, strict=True):
                lines = list(text_lines(path))
                chosen = min(count, len(lines))
                write_lines(part, [lines[number * len(lines) // chosen] for number in range(chosen)])
            texts = parts
        return texts[0], texts[1:]

    def _translator(self, row: Row, ini: MosesIni, split: str) -> AbstractContextManager[Translate]:
        """Return a translator of the dev set or a test set, for the weights of any seed."""
        return self._toolkit_of(row).translator(ini, self._source(split), self._folder / "rows" / row.label / split)

    def _source(self, split: str) -> Path:
        """Return the sentences of the tuning set or of a test set."""
        return self._tuning_text()[0] if split == "dev" else self._prepared(split, "source")

    def _toolkit_of(self, row: Row) -> Toolkit:
        if "CTX" not in row.parts:
            return self._toolkit
        column = self._networks.context_column(row, self._processes)
        return self._toolkit.with_context_column(replace(column, log=self._log))

    def _translate(self, row: Row, ini: MosesIni, found: Json, split: str, translate: Translate) -> Json:
        """Translate and score a test set with the weights of one tuning run."""
        tuning = _tuning(found)
        work = self._work(row, tuning.seed)
        tuned = ini.copy()
        tuned.set_weights(tuning.weights)
        tuned.write(work / "moses.ini")
        tokens = work / f"{split}.tokens"
        # Use the weights with the precision of the moses.ini.
        translate(tuned.weights(), tokens)
        return self._scored(row, tuning, split)

    def _rescored(self, row: Row) -> dict[str, list[Json]]:
        """Return the results of each seed on each test set when networks rerank the lists of the row without them."""
        specs = self._networks.scorers(row)
        trained = [self._networks.trained[spec.path.name] for spec in specs]
        depends_on = [trained, self._config.scoring.rescored]
        ini, _ = self._networks.ini_of(row.decoded)
        tunings = []
        before = self._decoded(row.decoded)
        with self._translator(row, ini, "dev") as translate:
            for one in before[self._first]:
                work = partial(self._tune_on_lists, row, specs, one, translate)
                tunings.append(self._steps.run(_tuning_step(row, one["seed"]), [one["weights"], *depends_on], work))
        found = dict[str, list[Json]]()
        for split, seeds in before.items():
            with self._translator(row, ini, split) as translate:
                found[split] = [
                    self._steps.run(
                        _step(row, tuning["seed"], split),
                        [one, tuning, *depends_on],
                        partial(self._rescore, row, specs, one, tuning, split, translate),
                    )
                    for one, tuning in zip(seeds, tunings, strict=True)
                ]
        return found

    def _tune_on_lists(self, row: Row, specs: Sequence[FeatureSpec], before: Json, translate: Translate) -> Json:
        """Tune the weights of a row whose networks rescore the lists of another, tuned row."""
        scored = self._lists(row, specs, before, "dev", translate)
        candidates = from_nbest(scored, read_references(self._tuning_text()[1]))
        found = tune_on_list(candidates, scored[0].features())
        return asdict(Tuning(before["seed"], found.weights, found.held_out))

    def _rescore(
        self, row: Row, specs: Sequence[FeatureSpec], before: Json, found: Json, split: str, translate: Translate
    ) -> Json:
        """Rescore and score a test set."""
        tuning = _tuning(found)
        ranked = rerank(self._lists(row, specs, before, split, translate), tuning.weights)
        sentences = len(list(text_lines(self._prepared(split, "source"))))
        write_lines(self._work(row, tuning.seed) / f"{split}.tokens", best_of(ranked, sentences))
        return self._scored(row, tuning, split)

    def _lists(
        self, row: Row, specs: Sequence[FeatureSpec], before: Json, split: str, translate: Translate
    ) -> list[NbestEntry]:
        """Return the n-best lists of a tuned row, with the scores of the networks of another."""
        work, tuned = self._work(row, before["seed"]), self._tuned(row.decoded, before["weights"])
        # Use the precision of the decoder.
        device, path = choose_device("auto", "fp32"), work / f"{split}.nbest"
        translate(tuned.weights(), work / f"{split}.before", NbestRequest(path, self._config.scoring.rescored))
        entries = list(read_nbest(path))
        with share_scoring(len(entries), device) as workers:
            scorers = load_features(specs, device, tuned.language_model(), workers)
            return add_scores(entries, list(text_lines(self._source(split))), scorers)

    def _tuned(self, row: Row, weights: Weights) -> MosesIni:
        """Return the tuned moses.ini of a row without rescoring, with paths in the current folder."""
        ini, _ = self._networks.ini_of(row)
        ini.set_weights(weights)
        return ini

    def _scored(self, row: Row, tuning: Tuning, split: str) -> Json:
        """Write the translation of a test set as plain text; return its scores."""
        tokens, plain = self._work(row, tuning.seed) / f"{split}.tokens", self._output(row, tuning.seed, split)
        write_lines(plain, self._system_text().settings.detokenise(read_lines(tokens)))
        scores = measure(plain, self._data.target_files(split), self._tokenise)
        return {
            "seed": tuning.seed,
            "dev_bleu": tuning.bleu,
            "test_bleu": scores["BLEU"].score,
            "chrf": scores["chrF"].score,
            "ter": scores["TER"].score,
            "signatures": {name.lower(): one.signature for name, one in scores.items()},
            "weights": tuning.weights,
        }

    def _work(self, row: Row, seed: int) -> Path:
        folder = self._folder / "rows" / f"{row.label}.seed{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def tuned_systems(self) -> dict[str, Path]:
        """Return the moses.ini of the first training and seed of each row that translates without rescoring."""
        seed = self._config.seeds[0]
        return {row.label: self._work(row, seed) / "moses.ini" for row in self._config.rows if not row.listed}

    def _output(self, row: Row, seed: int, split: str) -> Path:
        return self._work(row, seed) / f"{split}.out"

    @property
    def _tokenise(self) -> str:
        """Tokeniser of sacreBLEU: none if the data set is tokenised."""
        return "none" if self._data.description["tokenised"] else "13a"

    def _translating(self, row: Row, seed: Json) -> Json | None:
        """Return the decoding time of the first run.

        None if it is not to be measured, if Moses decodes, or if the rescored lists depend on a per-text phrase table.
        """
        if not self._config.timed or self._toolkit.name != "embedded" or (row.listed and "CTX" in row.parts):
            return None
        source = list(islice(text_lines(self._prepared(self._first, "source")), self._config.timed))
        decoded = self._decoded(row.decoded)[self._first][0] if row.listed else seed
        ini = self._tuned(row.decoded, decoded["weights"])
        size = self._config.scoring.rescored

        def work() -> Json:
            column = self._networks.context_column(row, processes=1) if "CTX" in row.parts else None
            rescoring = Rescoring(self._networks.scorers(row), seed["weights"], size) if row.listed else None
            return time_translating(ini, source, column, rescoring)

        # Time all rows on one machine, because they are compared.
        place = [str(choose_device("auto", "fp32")), machine()["cpu"]]
        depends_on = [seed, len(source), place, *([size] if row.listed else [])]
        found: Json = self._steps.run(f"{row.name}.translating", depends_on, work)
        return {"sentences": len(source), **found}

    # Comparison

    def _summary(self, row: Row, rows: Mapping[str, dict[str, list[Json]]]) -> Json:
        """Return the figures on the first test set, and those on the others as `tests`."""
        splits = self._tests.values()
        # A rescoring row depends on the row that produced its lists.
        systems = {system for one in row.trainings(self._config.trainings) for system in (one, one.decoded)}
        runs = [(system, seed) for system in systems for seed in self._config.seeds]
        steps = [_tuning_step(*run) for run in runs] + [_step(*run, split) for run in runs for split in splits]
        figures = {test: self._figures(row, split, rows) for test, split in self._tests.items()}
        first, *others = figures
        return {
            **figures[first],
            "seconds": sum(map(self._steps.seconds, steps)),
            "translating": self._translating(row, figures[first]["seeds"][0]),
            "tests": {test: figures[test] for test in others},
        }

    def _figures(self, row: Row, split: str, rows: Mapping[str, dict[str, list[Json]]]) -> Json:
        """Return the figures on one test set."""
        runs = rows[row.name][split]
        baseline = [other for other in self._config.rows if not other.parts]
        others = [other for other in (*baseline, *extended_by(row, self._config.rows)) if other != row]
        against = {other.name: self._compared(row, other, split, rows) for other in others}
        return {"seeds": runs, "against": against, **over_runs(runs)}

    def _compared(self, row: Row, other: Row, split: str, rows: Mapping[str, dict[str, list[Json]]]) -> Json:
        both = [rows[row.name][split], rows[other.name][split]]
        mean, before = (spread([run["test_bleu"] for run in runs])[0] for runs in both)
        # Name the method: earlier results exchanged the runs of each sentence independently.
        depends_on = [*both, "runs exchanged together"]
        name = f"{row.name}.against.{other.name}{_suffix(split)}"
        p_value = self._steps.run(name, depends_on, lambda: self._p_value(row, other, split))
        return {"difference": mean - before, "p_value": p_value}

    def _p_value(self, row: Row, other: Row, split: str) -> float:
        trainings = self._config.trainings
        runs, others = (
            [self._output(one, seed, split) for one in system.trainings(trainings) for seed in self._config.seeds]
            for system in (row, other)
        )
        return p_value_over_runs(runs, others, self._data.target_files(split), self._tokenise)


def _tuning(result: Json) -> Tuning:
    """Return the outcome of tuning that a step has stored."""
    return Tuning(result["seed"], result["weights"], result["bleu"])


def _tuning_step(row: Row, seed: int) -> str:
    return f"{row.label}.seed{seed}.tuning"


def _step(row: Row, seed: int, split: str) -> str:
    """Return the name of the step that translates a test set."""
    return f"{row.label}.seed{seed}{_suffix(split)}"


def _suffix(split: str) -> str:
    return split.removeprefix("test")
