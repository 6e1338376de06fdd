"""A comparison of networks as scorers of phrases: trained for equal time on the table of an ablation."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

from experiments.ablation.config import Config as AblationConfig
from experiments.ablation.rows import BASELINE, Row
from experiments.ablation.run import Ablation
from experiments.machine import machine, timed, used_time
from experiments.seq2seq.beside import each, progress_options
from experiments.seq2seq.config import Config, PhrasesSection, System
from experiments.seq2seq.report import write_report
from experiments.speed.scoring import blocks_of_lines
from experiments.steps import Steps, clear_if_changed
from experiments.training import Json, seconds_per_update, train
from moses_integration.build.system import PHRASE_TABLE, VALIDATION
from phrasescore import __version__
from phrasescore.cli import make_parser
from phrasescore.cli.train import settings_of
from phrasescore.device import choose_device
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import sha256_of
from phrasescore.model_folder import load_model
from phrasescore.scoring.engine import Scorer

_EVALUATIONS = 8


class PhraseComparison:
    """A comparison in a folder; what is there already is not done again."""

    def __init__(
        self,
        config: Config,
        folder: Path,
        ablation: tuple[AblationConfig, Path],
        data_options: Json,
        device: str,
        say: Callable[[str], None],
        processes: int = 1,
    ) -> None:
        """Nothing is done yet.

        Args:
            config: what to compare.
            folder: for everything that is made.
            ablation: a configuration and the folder of its results, which are made, but for rows other than the
                baseline, if there are none.
            data_options: where the ablation's data set comes from, as `experiments.data.prepare` wants it.
            device: auto, cpu or cuda[:N].
            say: told of each step.
            processes: systems that are trained at once; on a GPU each is alone, for its time is the clock's.
        """
        self._config, self._folder, self._say = config, folder, say
        self._section = config.phrases or PhrasesSection()
        self._ablation_config, self._ablation = ablation
        self._data_options, self._device_name, self._device = data_options, device, choose_device(device, "auto")
        self._processes = processes if self._device.torch_device.type == "cpu" else 1
        self._steps = Steps(folder / "steps", say)
        baseline = replace(self._ablation_config, rows=(Row.parse(BASELINE),))
        self._shared = Ablation(baseline, self._ablation, data_options, say)
        """What the systems' own ablations have in common."""

    def run(self) -> Json:
        """Do what is not done yet and return the report; report.json and report.md are written after each system."""
        if not (self._ablation / "report.json").exists():
            self._shared.run()
        self._check_ablation()
        tables = {str(path): sha256_of(path) for path in (self._table, self._validation)}
        report: Json = {
            "version": __version__,
            "config": asdict(self._config),
            "ablation": _as_json(self._ablation_config),
            "tables": tables,
            "processes": self._processes,
            "systems": {},
        }
        systems = self._config.systems
        measured = each(partial(self._measured, list(tables.values())), systems, self._processes)
        for system, found in zip(systems, measured, strict=True):
            report["systems"][system.name] = found
            write_report(report, self._folder)
        for system in self._best(report):
            report["systems"][system.name]["bleu"] = self._bleu(system, report["systems"][system.name])
            write_report(report, self._folder)
        return report

    def _check_ablation(self) -> None:
        """Check that the table to learn from is that of our configuration, which the rows with a column rest on.

        Raises:
            UserError: it is not, or the folder holds no ablation.
        """
        said = read_json(self._ablation / "report.json", "make the report again").get("config", {})
        ours = _as_json(self._ablation_config)
        for section in ("data", "build", "toolkit"):
            if said.get(section) != ours[section]:
                raise UserError(
                    f"{self._ablation}: is an ablation with {section} = {said.get(section)} where the comparison needs "
                    f"{ours[section]}; give another folder"
                )

    @property
    def _table(self) -> Path:
        return self._ablation / "system" / PHRASE_TABLE

    @property
    def _validation(self) -> Path:
        return self._ablation / "system" / VALIDATION / PHRASE_TABLE

    def _model(self, system: System) -> Path:
        return self._folder / "systems" / system.name

    def _measured(self, tables: list[str], system: System) -> Json:
        section, name = self._section, system.name
        # Times of two machines do not compare.
        place = [str(self._device), machine()["cpu"]]
        probe = self._steps.run(
            f"probe.{name}", [tables, system.command, section.probed_updates, place], lambda: self._probe(system)
        )
        updates = max(1, int(60 * section.cpu_minutes / probe["seconds_per_update"]))
        budget = [
            "--max-updates",
            str(updates),
            "--evaluate-every",
            str(max(1, updates // _EVALUATIONS)),
            "--patience",
            "0",
        ]
        command = ["train", str(self._table), "--validation", str(self._validation), "--device", self._device_name]
        command += progress_options(self._processes)
        options = [*system.command, *budget]
        depends_on = [tables, options]
        trained = self._steps.run(
            f"train.{name}", depends_on, lambda: train(self._model(system), [*command, *options], depends_on)
        )
        scoring = self._steps.run(f"score.{name}", [trained, section.lines, place], lambda: self._score(system))
        return {**trained, "probe": probe, "updates": updates, "options": options, "scoring": scoring}

    def _probe(self, system: System) -> Json:
        """Return the time that an update takes."""
        args = make_parser().parse_args(["train", str(self._table), "-o", "unused", *system.command])
        settings, updates = settings_of(args), self._section.probed_updates
        seconds = seconds_per_update(self._table, settings, self._device, updates, lambda: used_time(self._device))
        return {"seconds_per_update": seconds, "device": str(self._device), "machine": machine()}

    def _score(self, system: System) -> Json:
        """Return how fast pairs of the table are scored; reading them is left out."""
        scorer = Scorer(load_model(self._model(system)), self._device)
        blocks = blocks_of_lines(self._table, self._section.lines)
        encoded = [scorer.encode([one.source for one in block], [one.target for one in block]) for block in blocks]
        scorer.score_encoded(encoded[0])
        with timed() as timing:
            for pairs in encoded:
                scorer.score_encoded(pairs)
        return {"pairs": sum(map(len, encoded)), **asdict(timing), "device": str(self._device), "machine": machine()}

    def _best(self, report: Json) -> list[System]:
        """Return the systems that do best on phrases of other sentences."""

        def loss(system: System) -> float:
            return float(report["systems"][system.name]["best"]["validation"]["per_pair"])

        return sorted(self._config.systems, key=loss)[: self._section.best]

    def _bleu(self, system: System, measured: Json) -> Json:
        """Return the ablation's rows with the column of a system: an ablation of its own, on a copy of the other."""
        rows = (Row.parse(BASELINE), Row.parse("+RNN"))
        config = replace(self._ablation_config, rows=rows, network=tuple(measured["options"]))
        rests_on = [measured["weights_sha256"], _as_json(config)]
        # A moses.ini cannot name files with blanks.
        folder = self._folder / "ablations" / system.name.replace(" ", "-")

        def work() -> Json:
            clear_if_changed(folder, rests_on)
            self._shared.copy_baseline(folder)
            shutil.copytree(self._model(system), folder / "rnn", dirs_exist_ok=True)
            report = Ablation(config, folder, self._data_options, self._say).run()
            return {
                name: {key: row[key] for key in ("test_bleu", "against")}
                | {"seeds": [one["seed"] for one in row["seeds"]]}
                for name, row in report["rows"].items()
            }

        # Its training is found done; its tuning is not, unless it was.
        found: Json = self._steps.run(f"bleu.{system.name}", rests_on, work)
        return found


def _as_json(config: AblationConfig) -> Json:
    return {**asdict(config), "rows": [row.name for row in config.rows]}
