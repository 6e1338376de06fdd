"""The networks of an ablation and the moses.ini of each row. Networks are trained on demand."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stdout
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.ablation.config import Config
from experiments.ablation.rows import CHANNEL, CONTEXT, CSLM, NNJM, PHRASE_PAIR_MODEL, REVERSE, S2S, Column, Row
from experiments.steps import Json, Steps, run_phrasescore, run_toolkit
from experiments.training import train
from moses_integration.building.system import VALIDATION
from moses_integration.building.translation_tables import PHRASE_TABLE
from moses_integration.ini import NEW_WEIGHT, MosesIni, add_column_in_context, add_columns, add_feature
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.context_sections import name_networks
from moses_integration.rescoring.features import FeatureSpec
from phrasescore.files import sha256_of
from phrasescore.files.documents import read_json
from phrasescore.model_files import CONFIG, WEIGHTS
from phrasescore.scoring.scorer import load_scorer

_FIRST_SEED = 1
"""The default seed of the commands that train."""


class Networks:
    """Trains networks for one system, and adds them to it."""

    def __init__(
        self,
        folder: Path,
        config: Config,
        system: Json,
        tests: Mapping[str, Json],
        steps: Steps,
        baseline: Callable[[], Json],
        processes: int | None = None,
    ) -> None:
        """Train no network yet.

        Args:
            folder: folder of the ablation, with the subfolders `system/` and `prepared/`.
            config: configuration with the options of the networks.
            system: dependencies of the system, for the steps.
            tests: splits with test sets, and the SHA-256 of their files.
            steps: the steps of the ablation.
            baseline: tunes the baseline with the first seed if necessary, and returns the result.
            processes: number of worker processes.
        """
        self._folder, self._config, self._system, self._steps = folder, config, system, steps
        self._tests, self._baseline, self._processes = tests, baseline, processes
        self.trained: dict[str, Json] = {}
        """Training description of each requested network."""
        self.annotated: dict[str, Json] = {}
        """Report of `phrasescore annotate` for each requested table."""
        self.phrase_pair_models: dict[str, Json] = {}
        """Training description of each requested phrase-pair model."""
        self.commands: dict[str, str] = {}
        """Training command of each network and model."""

    def ini_of(self, row: Row) -> tuple[MosesIni, Json]:
        """Return the untuned moses.ini of a row without rescoring networks, and its dependencies."""
        ini = self._ini()
        depends_on: Json = {"system": self._system, "networks": {}, "decoder": self._config.decoder}
        table, name = self._folder / "system" / PHRASE_TABLE, PHRASE_TABLE.removesuffix(".gz")
        for column in row.columns():
            depends_on["networks"] |= {network: self._train(network) for network in column.networks}
            name = f"{name}.{column.name}"
            table = self._annotate(table, name, depends_on, column)
            weight = depends_on["networks"][column.networks[0]]["config"]["training"].get("weight", NEW_WEIGHT)
            add_columns(ini, ini.phrase_table().label, table, len(column.scores), weight)
        for part in (CSLM, NNJM):
            if part.upper() not in row.parts:
                continue
            [network] = row.networks(part)
            depends_on["networks"][network] = self._train(network)
            arguments: dict[str, str | Path] = {"path": self._folder / network, "backoff": ini.language_model()}
            add_feature(ini, "CSLM", f"{part.upper()}0", arguments, [NEW_WEIGHT])
        if "CTX" in row.parts:
            # Last, because the weights of all features select translation options.
            networks = row.networks(CONTEXT)
            depends_on["networks"] |= {network: self._train(network) for network in networks}
            add_column_in_context(ini)
            name_networks(ini, [self._folder / network for network in networks])
        return ini, depends_on

    def _ini(self) -> MosesIni:
        """Return the moses.ini of the baseline with the configured decoder settings."""
        ini = MosesIni.read(self._folder / "system" / "moses.ini")
        for section, value in self._config.decoder.items():
            ini.set_values(section, [str(value)])
        return ini

    def scorers(self, row: Row) -> list[FeatureSpec]:
        """Return the features that rescore n-best lists of a row; train them if necessary."""
        specs = []
        for label in row.listed:
            [network] = row.networks(label.lower())
            self._train(network)
            specs.append(FeatureSpec(label, self._folder / network))
        return specs

    def context_column(self, row: Row, processes: int | None = None) -> ContextColumn:
        """Return the +CTX column of a row for per-text phrase tables; train its networks if necessary."""
        networks = row.networks(CONTEXT)
        for network in networks:
            self._train(network)
        return ContextColumn(
            load_scorer(*(self._folder / network for network in networks), precision="fp32"), processes
        )

    def described(self) -> dict[str, Json]:
        """Describe each network in use: its training, and the perplexities of language models."""
        described = {name: dict(trained) for name, trained in self.trained.items()}
        for name in described:
            if name.partition("-")[0] == CSLM:
                described[name]["perplexities"] = [self._perplexities(name)]
        return described

    def _perplexities(self, network: str) -> Json:
        """Return the report of `phrasescore lm score` on the first test set, with the n-gram model weighted by dev."""
        test = next(iter(self._tests))
        backoff = MosesIni.read(self._folder / "system" / "moses.ini").language_model()
        command = ["lm", "score", self._text(test, "target"), "-m", str(self._folder / network)]
        command += ["--backoff", str(backoff), "--weight-text", self._text("dev", "target")]

        def work() -> Json:
            with TemporaryDirectory() as folder, redirect_stdout(sys.stderr):
                path = Path(folder) / "report.json"
                run_phrasescore([*command, "--precision", "fp32", "--summary", "--report", str(path)])
                return read_json(path, "run this again")

        depends_on = [self._system, self.trained[network], self._inside(command), self._tests[test]]
        found: Json = self._steps.run(f"perplexity.{network}", depends_on, work)
        return found

    def _text(self, split: str, side: str) -> str:
        """Return the path of a prepared text, for instance of dev."""
        if split == "train":
            language = self._config.data.source if side == "source" else self._config.data.target
            return str(self._folder / "system" / "corpus" / f"train.{language}")
        return str(self._folder / "prepared" / f"{split}.{'source' if side == 'source' else 'reference0'}")

    def _train(self, name: str) -> Json:
        """Train a network or a phrase-pair model if necessary; return its description."""
        if name.partition("-")[0] == PHRASE_PAIR_MODEL:
            return self._phrase_pair_model(name)
        command = self._command(name)
        self.commands[name] = f"phrasescore {shlex.join(self._inside(command))} -o {name}"
        depends_on = [self._system, self._inside(command)]
        if name not in self.trained:
            self.trained[name] = train(self._steps, self._folder / name, command, depends_on)
        return self.trained[name]

    def _command(self, name: str) -> list[str]:
        """Return the command that trains a network, without the output."""
        config, system = self._config, self._folder / "system"
        kind, _, number = name.partition("-")
        training = int(number or 1)
        if kind == CSLM:
            texts = [self._text("train", "target"), "--validation", self._text("dev", "target")]
            return ["lm", "train", *texts, *_seeded(config.language_model, training)]
        if kind == NNJM:
            options = self._aligned()
            texts = [options.pop("--target"), "--validation", options.pop("--validation-target")]
            return ["lm", "train", *texts, *chain(*options.items()), *_seeded(config.language_model, training)]
        command = ["train"]
        if kind in (S2S, CHANNEL):
            for side in ("source", "target"):
                command += [f"--{side}", self._text("train", side), f"--validation-{side}", self._text("dev", side)]
            command += _seeded(config.sentence_network, training)
            return [*command, "--direction", "source-given-target"] if kind == CHANNEL else command
        if kind == CONTEXT:
            return [*command, *chain(*self._aligned().items()), *_seeded(config.context_network, training)]
        command += [str(system / PHRASE_TABLE), "--validation", str(system / VALIDATION / PHRASE_TABLE)]
        command += _seeded(config.network, training)
        return [*command, "--direction", "source-given-target"] if kind == REVERSE else command

    def _aligned(self) -> dict[str, str]:
        """Return the options of word-aligned parallel text, to train and to validate."""
        sides = {"source": self._config.data.source, "target": self._config.data.target, "alignment": "align"}
        return {
            f"--{prefix}{side}": str(self._folder / "system" / "corpus" / f"{split}.{end}")
            for prefix, split in (("", "train"), ("validation-", "validation"))
            for side, end in sides.items()
        }

    def _phrase_pair_model(self, name: str) -> Json:
        """Train a phrase-pair model with the weights of the baseline if necessary; return its description."""
        found, folder = self._baseline(), self._folder / name
        command = ["expected-bleu", str(self._folder / f"{name}.ini"), "-o", str(folder)]
        command += _seeded(self._config.expected_bleu, int(name.partition("-")[2] or 1))

        def work() -> Json:
            shutil.rmtree(folder, ignore_errors=True)
            ini = self._ini()
            ini.set_weights(found["weights"])
            ini.write(self._folder / f"{name}.ini")
            processes = [] if self._processes is None else ["--processes", str(self._processes)]
            run_toolkit([*command, *processes])
            return {"config": read_json(folder / CONFIG, "train again"), "weights_sha256": sha256_of(folder / WEIGHTS)}

        self.commands[name] = f"phrasescore-smt {shlex.join(self._inside(command))}"
        depends_on = [self._system, self._config.decoder, found["weights"], self._inside(command)]
        known: Json = self._steps.run(f"train.{name}", depends_on, work)
        self.phrase_pair_models[name] = known
        return known

    def _inside(self, words: Sequence[str]) -> list[str]:
        """Return a command with paths relative to the folder, so that the folder can be moved."""
        return [word.removeprefix(f"{self._folder}/") for word in words]

    def _annotate(self, table: Path, name: str, depends_on: Json, column: Column) -> Path:
        """Score only lines that match the texts: a few per cent of the table.

        An additional test set repeats this step, but none that depends on its table: the other scores do not change.
        """
        annotated = self._folder / "tables" / f"{name}.gz"
        annotated.parent.mkdir(exist_ok=True)
        models = [word for network in column.networks for word in ("-m", str(self._folder / network))]
        report = annotated.with_suffix(".json")
        texts = [self._text(split, "source") for split in ("dev", *self._tests)]

        def work() -> Json:
            command = ["annotate", str(table), *models, "-o", str(annotated), *column.options]
            run_phrasescore([*command, "--only-sources-in", *texts, "--report", str(report)])
            return read_json(report, "run this again")

        inputs = [depends_on, list(column.options), self._inside(texts), self._tests]
        self.annotated[name] = self._steps.run(f"annotate.{name}", inputs, work)
        return annotated


def _seeded(options: Sequence[str], training: int) -> list[str]:
    """Return the options of a command for one of several trainings, which differ in their seeds."""
    words, seed = [*options], _FIRST_SEED
    if training == 1:
        return words
    if "--seed" in words:
        at = words.index("--seed")
        seed = int(words[at + 1])
        del words[at : at + 2]
    return [*words, "--seed", str(seed + training - 1)]
