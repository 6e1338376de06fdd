"""Valid input files that the programs make from a few sentences of the mini corpus."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.conftest import MINI
from tests.forked import LARGEST_FILE, SECONDS, Finished, Forker
from tests.moses_integration.cli.running import environment

TABLE, ANNOTATED = "system/phrase-table.gz", "system/phrase-table.rnn.gz"
REORDERING = "system/reordering-table.wbe-msd-bidirectional-fe.gz"
INI, COLUMN_INI, LM_INI = "system/moses.ini", "system/moses.rnn.ini", "system/moses.cslm.ini"
ARPA = "system/lm.fr.arpa"
PARTS = ("part.1.gz", "part.2.gz")
PLUGIN, PLUGIN_MODEL, CONTEXT_MODEL = "parts.py", "plugin-model", "context-model"
"""A plugin, a network that needs it, and a network that conditions on the sentence."""

_SETTINGS = """\
[model]
hidden = 6
embedding = 5
output_rank = 3
[data]
held_out = 0.1
[training]
batch_size = 32
evaluate_every = 4
learning_rate = 0.005
"""
_LM_SETTINGS = """\
[model]
order = 3
embedding = 4
first_hidden = 5
second_hidden = 4
[text]
vocabulary = 40
[training]
evaluate_every = 4
"""

_PLUGIN_CODE = """\
from functools import partial

from phrasescore.nn.units import GatedUnit, register_unit

register_unit("own")(partial(GatedUnit, form="gru"))
"""

PREPARE = ("--tokenised", "--casing", "true")
SHORT = ("--max-updates", "8", "--precision", "fp32", "-q")
TRAIN = ("train", TABLE, "--config", "settings.toml", *SHORT)
LM_TRAIN = ("lm", "train", "train.fr", "--config", "lm.toml", *SHORT)
BUILD = (
    *("build", "--source", "train.en", "--target", "train.fr", "--alignment", "train.align", *PREPARE),
    *("--order", "3", "--longest-phrase", "3", "--toolkit", "embedded", "-q"),
)
DECODE = ("decode", COLUMN_INI, "--source", "dev.en", "--toolkit", "embedded", "--processes", "1", "-q")
DECODE_LM = ("decode", LM_INI, *DECODE[2:])
RESCORE = ("rescore", "--nbest", "dev.nbest", "--source", "dev.en", "--precision", "fp32", "-q")
TUNE_ON_LIST = (
    *(*RESCORE, "--reference", "dev.fr", "--ini", COLUMN_INI, "--scorer", "S=model", "--scorer", "L=lm"),
    *("--scorer", "N=numbers.txt", "--processes", "1"),
)
_FP32 = ("--precision", "fp32", "-q")
_MAKING = (
    ("phrasescore-smt", *BUILD, "-o", "system"),
    ("phrasescore", *TRAIN, "-o", "model"),
    ("phrasescore", *TRAIN, "--plugin", PLUGIN, "--set", "model.encoder_unit=own", "-o", PLUGIN_MODEL),
    (
        *("phrasescore", "train", "--source", "train.en", "--target", "train.fr", "--alignment", "train.align"),
        *("--config", "settings.toml", *SHORT, "-o", CONTEXT_MODEL),
    ),
    ("phrasescore", *LM_TRAIN, "-o", "lm"),
    ("phrasescore", "annotate", TABLE, "-m", "model", "-o", ANNOTATED, *_FP32),
    *(
        (*("phrasescore", "annotate", TABLE, "-m", "model", "--shard", f"{number}/2", "-o", part), *_FP32)
        for number, part in enumerate(PARTS, 1)
    ),
    ("phrasescore-smt", "add-column", INI, "--table", ANNOTATED, "-o", COLUMN_INI),
    ("phrasescore-smt", "add-lm", COLUMN_INI, "--model", "lm", "-o", LM_INI),
    ("phrasescore-smt", *DECODE_LM),
    ("phrasescore-smt", *DECODE, "--nbest", "dev.nbest", "5", "-o", "dev.out"),
)


class World:
    """Runs commands in copies of the world, all at the same path."""

    def __init__(self, root: Path, forker: Forker) -> None:
        self.folder = root / "world"
        """The path of each copy."""
        self._pristine = root / "pristine"
        self._forker, self._environment = forker, environment({"COLUMNS": "200"})
        self.folder.mkdir()
        for name in ("train.en", "train.fr", "train.align"):
            self._copy_lines(name, 40)
        for name in ("dev.en", "dev.fr"):
            self._copy_lines(name, 4)
        (self.folder / "settings.toml").write_text(_SETTINGS)
        (self.folder / "lm.toml").write_text(_LM_SETTINGS)
        (self.folder / PLUGIN).write_text(_PLUGIN_CODE)
        (self.folder / "pairs.tsv").write_text("the men\tles hommes\nthe small horse\tle petit cheval\n.\t.\nthe\t\n")
        for command in _MAKING:
            self._make(command)
        entries = (self.folder / "dev.nbest").read_bytes().count(b"\n")
        (self.folder / "numbers.txt").write_text("".join(f"{-0.5 * number}\n" for number in range(entries)))
        self._make(("phrasescore-smt", *TUNE_ON_LIST, "-o", "weights.json"))
        self.folder.rename(self._pristine)

    def _copy_lines(self, name: str, count: int) -> None:
        lines = (MINI / name).read_bytes().splitlines(keepends=True)
        (self.folder / name).write_bytes(b"".join(lines[:count]))

    def _make(self, command: tuple[str, ...]) -> None:
        done = self.run(command)
        assert done.code == 0, (command, done.err.decode())

    def renew(self) -> None:
        """Replace the copy with an undamaged one."""
        if self.folder.exists():
            shutil.rmtree(self.folder)
        shutil.copytree(self._pristine, self.folder)

    def run(self, command: tuple[str, ...], seconds: float = SECONDS, largest_file: int = LARGEST_FILE) -> Finished:
        """Run a program in the copy, with limits on time and file size."""
        program, *arguments = command
        return self._forker.run(
            program,
            *arguments,
            folder=self.folder,
            environment=self._environment,
            seconds=seconds,
            largest_file=largest_file,
        )
