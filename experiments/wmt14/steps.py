"""The steps of the experiment as data: commands, what they leave behind, what they are expected to cost.

`plan` prints them, `run` runs them: the same ones, with the real downloads or with a stand-in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from experiments.wmt14.config import Config
from experiments.wmt14.corpora import SOURCE, TARGET, Text
from experiments.wmt14.estimates import Cost, Estimates
from moses_integration.build.system import INI, PHRASE_TABLE, REORDERING_TABLE
from phrasescore.model_folder import WEIGHTS

OWN = "experiments.wmt14"
"""As first word of a command: a command of this package."""

ROWS = ("baseline", "+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP")
"""The paper's, and +CSLM, which it lacks."""

_SYSTEM = (PHRASE_TABLE, REORDERING_TABLE, INI)

_FIRST_NEURAL = next(row for row in ROWS if "CSLM" in row)

Command = tuple[str, ...]


@dataclass(frozen=True)
class Step:
    """Commands that belong together."""

    name: str
    """The group and what tells it from others of that group: `unpack.europarl`."""
    commands: tuple[Command, ...]
    outputs: tuple[Path, ...]
    """What must be there afterwards."""
    cost: Cost
    resumed_in: Path | None = None
    """The folder in which its command goes on where it was stopped, if it can."""

    @property
    def group(self) -> str:
        """What it is one of."""
        return self.name.partition(".")[0]


@dataclass(frozen=True)
class Group:
    """What the steps of a group are for."""

    what: str
    check: str
    """What to look at afterwards."""
    machine: str = "CPU"


GROUPS = {
    "download": Group(
        "fetch the archives", "the sizes, against those of the WMT pages; `tar -tf` for the members", "any, network"
    ),
    "unpack": Group(
        "texts out of the archives", "both sides have as many lines (`wc -l`); newstest2012+2013: 6,003, 2014: 3,003"
    ),
    "prepare": Group(
        "tokenise, escape, drop what is unfit for training",
        "what was dropped: a few per cent, most of it from giga; no line of dev and test",
    ),
    "dev": Group("dev set and test set in one file a side", "6,003 and 3,003 lines"),
    "select": Group(
        "keep the pairs most like news (Axelrod et al. 2011)",
        "kept words against `keep` in corpora.toml; ten kept and ten dropped lines read like news and unlike news",
    ),
    "train": Group("one training text", "348 million French words (`wc -w`), 11 million pairs"),
    "select-lm": Group(
        "the language models' text (Moore and Lewis 2010)",
        "418 million words; news crawls give the larger part of their lines, UN the smaller",
    ),
    "language-model": Group(
        "5-gram, interpolated modified Kneser-Ney",
        "`query` on dev: perplexity finite, unknown words below 1 %; discounts between 0 and 3, no fallback",
    ),
    "align": Group("word alignment, in parts", "a line for each pair; as many links as the shorter side has words"),
    "tables": Group(
        "phrase and reordering table",
        "`gzip -t`; `phrasescore check TABLE --num-features 4`; both tables have as many lines",
    ),
    "filter": Group("what dev and test need of them", "the decoder leaves no more words untranslated than with all"),
    "draw": Group("the pairs that the network learns from", "lines: `draw` times those of the table"),
    "network": Group(
        "the RNN encoder-decoder",
        "held-out loss still falls or has levelled; coverage of both vocabularies about 93 %, as in the paper",
        "GPU",
    ),
    "cslm": Group("the neural language model", "held-out perplexity has levelled", "GPU"),
    "perplexity": Group(
        "of both language models and their interpolation on the newer half of dev, its weight from the older one",
        "that of the interpolation is below the 5-gram's by 10 % or more",
    ),
    "annotate": Group(
        "the scores of the filtered table", "`phrasescore check`; report: few scores at the floor of exp(-99)"
    ),
    "ini": Group("a moses.ini for each row", "num-features, columns and weights agree: add-column sees to it"),
    "tune": Group(
        "tune and translate each row with each seed",
        "dev BLEU of the seeds within 0.3; the new features' weights are not 0",
    ),
    "decoder": Group(
        "the baseline's test text by Moses, where it is installed", "BLEU within 0.1 of the embedded decoder's"
    ),
    "bleu": Group("the table", "the paper's: 33.30, 33.87, -, 34.64, 34.54"),
}


def make_steps(
    config: Config, texts: Sequence[Text], folder: Path, estimates: Estimates, stand_in: Path | None, has_moses: bool
) -> list[Step]:
    """Return the steps in their order.

    Args:
        config: how.
        texts: of what.
        folder: for everything.
        estimates: of the costs.
        stand_in: a data folder in the place of the downloads; None for the downloads.
        has_moses: whether the decoder can be compared with Moses'.
    """
    make = _Maker(config, texts, folder, estimates)
    return [*make.text_steps(stand_in), *make.system_steps(), *make.network_steps(), *make.row_steps(has_moses)]


@dataclass(frozen=True)
class _Maker:
    """Makes steps."""

    config: Config
    texts: Sequence[Text]
    folder: Path
    estimates: Estimates

    def parallel(self) -> list[Text]:
        """Return the parallel texts to train on."""
        return [text for text in self.texts if text.role == "parallel"]

    def raw(self, text: Text) -> list[Path]:
        """Return the sides of a text as they came."""
        if text.source is None:
            return [self.folder / "downloads" / text.file]
        return [self.folder / "raw" / f"{text.name}.{language}.gz" for language in (SOURCE, TARGET)]

    def prepared(self, text: Text) -> list[Path]:
        """Return the sides of a text tokenised."""
        languages = (TARGET,) if text.source is None else (SOURCE, TARGET)
        return [self.folder / "text" / f"{text.name}.{language}.gz" for language in languages]

    def kept(self, text: Text) -> list[Path]:
        """Return the sides of what data selection left of a text."""
        if text.share == 1:
            return self.prepared(text)
        return [self.folder / "selected" / f"{text.name}.{language}.gz" for language in (SOURCE, TARGET)]

    def corpus(self, name: str) -> list[Path]:
        """Return the sides of a text that Moses' programs read too."""
        return [self.folder / "corpus" / f"{name}.{language}" for language in (SOURCE, TARGET)]

    @property
    def language_model(self) -> Path:
        """Of order n."""
        return self.folder / "lm" / f"lm.{TARGET}"

    @property
    def cache(self) -> Path:
        """The scores of the neural language model, for all rows that ask it."""
        return self.folder / "cslm-scores"

    @property
    def test(self) -> list[Path]:
        """Return the sides of the test set as plain text."""
        [text] = [text for text in self.texts if text.role == "test"]
        return self.raw(text)

    # Text

    def text_steps(self, stand_in: Path | None) -> Iterator[Step]:
        """Yield the steps from the downloads to one training text."""
        estimates, folder = self.estimates, self.folder / "downloads"
        files = tuple(folder / text.file for text in self.texts)
        fetch = ("curl", "--fail", "--location", "--create-dirs", "--continue-at", "-", "--output")
        downloads: tuple[Command, ...] = tuple((*fetch, str(folder / text.file), text.url) for text in self.texts)
        if stand_in is not None:
            downloads = ((OWN, "stand-in", str(stand_in), "-o", str(folder)),)
        yield Step("download", downloads, files, estimates.download())
        for text in self.texts:
            if text.source and text.target:
                raw = self.raw(text)
                command: Command = (OWN, "unpack", str(folder / text.file), "--member", text.source, text.target)
                command += ("-o", *map(str, raw))
                if text.md5 and stand_in is None:
                    command += ("--md5", text.md5)
                yield Step(f"unpack.{text.name}", (command,), tuple(raw), estimates.unpack(text))
        for text in self.texts:
            command = (OWN, "prepare", *map(str, self.raw(text)), "-o", *map(str, self.prepared(text)))
            if text.role in ("dev", "test"):
                command += ("--keep-lines",)
            yield Step(f"prepare.{text.name}", (command,), tuple(self.prepared(text)), estimates.prepare(text))
        for role in ("dev", "test"):
            yield self._join(f"dev.{role}", role, [self.prepared(text) for text in self.texts if text.role == role])
        for text in self.parallel():
            if text.share < 1:
                yield self._select(text)
        yield self._join("train", "train", [self.kept(text) for text in self.parallel()])
        yield self._select_lm()

    def _join(self, step: str, name: str, parts: Sequence[Sequence[Path]]) -> Step:
        outputs = self.corpus(name)
        commands = tuple(
            (OWN, "join", *(str(part[side]) for part in parts), "-o", str(output))
            for side, output in enumerate(outputs)
        )
        return Step(step, commands, tuple(outputs), self.estimates.join(name))

    def _select(self, text: Text) -> Step:
        outputs = self.kept(text)
        command: Command = (OWN, "select", "--in-domain", *map(str, self.corpus("dev")))
        command += ("--corpus", *map(str, self.prepared(text)), "--share", f"{text.share:.4f}")
        command += ("--order", str(self.config.selection.order), "-o", *map(str, outputs))
        command += ("--report", f"{outputs[0].with_suffix('')}.json")
        return Step(f"select.{text.name}", (command,), tuple(outputs), self.estimates.select(text))

    def _select_lm(self) -> Step:
        output = self.folder / "corpus" / f"lm.{TARGET}"
        command: Command = (OWN, "select", "--in-domain", str(self.corpus("dev")[1]))
        for text in self.texts:
            if text.role in ("parallel", "monolingual"):
                command += ("--corpus", str(self.prepared(text)[-1]))
        share = self.config.selection.lm_words / self.estimates.target_words
        command += ("--share", f"{share:.4f}", "--order", str(self.config.selection.order), "-o", str(output))
        command += ("--report", f"{output}.json")
        return Step("select-lm", (command,), (output,), self.estimates.select_lm())

    # The system

    def system_steps(self) -> Iterator[Step]:
        """Yield the steps from the training text to tables that fit dev and test."""
        config, estimates = self.config, self.estimates
        source, target = self.corpus("train")
        links, system, filtered = source.with_suffix(".align"), self.folder / "system", self.folder / "filtered"
        order = ("--order", str(config.language_model.order))
        model: Command = (OWN, "language-model", str(self.corpus("lm")[1]), "-o", str(self.language_model), *order)
        model += ("--memory", config.language_model.memory)
        yield Step("language-model", (model,), (self.language_model,), estimates.language_model())
        align: Command = (OWN, "align", str(source), str(target), "-o", str(links), "--method", config.alignment.method)
        align += ("--part", str(config.alignment.part))
        if config.alignment.given:
            align = (OWN, "join", config.alignment.given, "-o", str(links))
        yield Step("align", (align,), (links,), estimates.align(config.alignment.part))
        tables: Command = (OWN, "tables", str(source), str(target), str(links), "-o", str(system))
        tables += ("--lm", str(self.language_model), *order, "--longest-phrase", str(config.tables.longest_phrase))
        tables += ("--toolkit", config.tables.toolkit)
        yield Step("tables", (tables,), tuple(system / name for name in _SYSTEM), estimates.tables())
        keep: Command = (OWN, "filter", str(system), "--texts", str(self.corpus("dev")[0]), str(self.corpus("test")[0]))
        keep += ("--limit", str(config.tables.limit), "-o", str(filtered))
        yield Step("filter", (keep,), tuple(filtered / name for name in _SYSTEM), estimates.filter())

    # The networks

    def network_steps(self) -> Iterator[Step]:
        """Yield the steps from table and text to trained networks."""
        config, estimates, table = self.config, self.estimates, self.folder / "rnn-table.gz"
        source, target = self.corpus("train")
        draw: Command = (OWN, "draw", str(self.folder / "system" / PHRASE_TABLE), "-o", str(table))
        draw += ("--share", str(config.tables.draw))
        yield Step("draw", (draw,), (table,), estimates.draw())
        rnn, cslm = self.folder / "rnn", self.folder / "cslm"
        train: Command = ("phrasescore", "train", str(table), "-o", str(rnn), *config.network)
        train += ("--source-corpus", str(source), "--target-corpus", str(target))
        yield Step("network", (train,), (rnn / WEIGHTS,), estimates.network(), rnn)
        learn: Command = ("phrasescore", "lm", "train", str(self.corpus("lm")[1]), "-o", str(cslm), *config.cslm)
        yield Step("cslm", (learn,), (cslm / WEIGHTS,), estimates.cslm(), cslm)
        older, newer = (str(self.prepared(text)[-1]) for text in self.texts if text.role == "dev")
        report = self.folder / "perplexity.json"
        judge: Command = ("phrasescore", "lm", "score", newer, "-m", str(cslm))
        judge += ("--backoff", str(self.language_model), "--interpolate", "auto", "--weight-text", older, "--summary")
        yield Step("perplexity", ((*judge, "--report", str(report)),), (report,), estimates.perplexity())

    # The rows

    def row_steps(self, has_moses: bool) -> Iterator[Step]:
        """Yield the steps from a system and networks to BLEU."""
        estimates, filtered = self.estimates, self.folder / "filtered"
        unknown = ("--unknown-words", "target")
        for name, options in (("rnn", ()), ("rnn-wp", unknown)):
            table = filtered / f"phrase-table.{name}.gz"
            command: Command = ("phrasescore", "annotate", str(filtered / PHRASE_TABLE), "-m", str(self.folder / "rnn"))
            command += ("-o", str(table), *options, "--report", f"{table.with_suffix('')}.json")
            yield Step(f"annotate.{name}", (command,), (table,), estimates.annotate())
        for row in ROWS[1:]:
            files = (self._ini(row), *([self.cache] if "CSLM" in row else []))
            cost = estimates.cache() if row == _FIRST_NEURAL else Cost()
            yield Step(f"ini.{row}", tuple(self._ini_commands(row)), files, cost)
        for row in ROWS:
            for seed in self.config.seeds:
                yield self._tune(row, seed)
        reference = str(self.test[1])
        if has_moses:
            seed, output = self.config.seeds[0], self.folder / "out" / "baseline.moses"
            decode: Command = (
                "phrasescore-smt",
                "decode",
                str(self._tuned("baseline", seed)),
                "--source",
                str(self.test[0]),
            )
            decode += ("-o", str(output), "--toolkit", "moses")
            evaluate: Command = ("phrasescore-smt", "evaluate", str(output), "--reference", reference)
            evaluate += ("--baseline", str(self._output("baseline", seed)))
            yield Step("decoder", (decode, evaluate), (output,), estimates.decode())
        seeds = tuple(map(str, self.config.seeds))
        bleu: Command = (OWN, "bleu", str(self.folder / "out"), "--rows", *ROWS, "--seeds", *seeds)
        bleu += ("--reference", reference, "-o", str(self.folder / "bleu.json"))
        yield Step("bleu", (bleu,), (self.folder / "bleu.json",), Cost())

    def _ini(self, row: str) -> Path:
        return self.folder / "filtered" / (INI if row == ROWS[0] else f"{row}.ini")

    def _tuned(self, row: str, seed: int) -> Path:
        return self.folder / "tuned" / f"{row}.{seed}.ini"

    def _output(self, row: str, seed: int) -> Path:
        return self.folder / "out" / f"{row}.{seed}"

    def _ini_commands(self, row: str) -> Iterator[Command]:
        ini, output = self._ini(ROWS[0]), str(self._ini(row))
        if "RNN" in row:
            name, columns = ("rnn-wp", "2") if "WP" in row else ("rnn", "1")
            table = str(ini.with_name(f"phrase-table.{name}.gz"))
            yield "phrasescore-smt", "add-column", str(ini), "--table", table, "--columns", columns, "-o", output
            ini = Path(output)
        if "CSLM" in row:
            add: Command = ("phrasescore-smt", "add-lm", str(ini), "--model", str(self.folder / "cslm"), "-o", output)
            add += ("--cache", str(self.cache), "--cache-size", str(self.config.tuning.cache))
            yield (*add, "--unnormalised") if self.config.unnormalised else add

    def _tune(self, row: str, seed: int) -> Step:
        section, tuned, output = self.config.tuning, self._tuned(row, seed), self._output(row, seed)
        source, reference = map(str, self.corpus("dev"))
        toolkit = ("--toolkit", section.toolkit, "--processes", str(section.processes))
        tune: Command = ("phrasescore-smt", "tune", str(self._ini(row)), "--source", source, "--reference", reference)
        tune += ("--prepared", "-o", str(tuned), "--seeds", str(seed), "--nbest", str(section.nbest))
        tune += ("--iterations", str(section.iterations), "--restarts", str(section.restarts))
        tune += ("--report", f"{tuned.with_suffix('')}.json", *toolkit)
        decode: Command = (
            "phrasescore-smt",
            "decode",
            str(tuned),
            "--source",
            str(self.test[0]),
            "-o",
            str(output),
            *toolkit,
        )
        first = (row, seed) == (_FIRST_NEURAL, self.config.seeds[0])
        cost = self.estimates.tune("CSLM" in row, first)
        return Step(f"tune.{row}.{seed}", (tune, decode), (tuned, output), cost)
