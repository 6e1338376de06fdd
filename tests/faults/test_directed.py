"""Regression tests for single faults, each with its expected answer."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from tests.faults import mutations, readers
from tests.faults.commands import CHECKPOINT, COMMANDS
from tests.faults.oracle import Oracle
from tests.faults.world import ANNOTATED, ARPA, COLUMN_INI, INI, PARTS, TABLE, World

_MOST_MEMORY = 1 << 30
"""PyTorch and the other libraries take a quarter of this memory."""

Change = Callable[[Path], None]


@dataclass(frozen=True)
class Directed:
    """The damage to an input, the command that reads it, and the expected result."""

    name: str
    path: str
    change: Change
    code: int | None = 1
    """None: an error and a success are both accepted, but on success an independent reader must agree."""
    says: str = ""
    """Text that the message contains."""

    def damage(self, folder: Path) -> str:
        """Damage the input; return a description of the damage."""
        self.change(folder / self.path)
        return self.change.__name__


def judge(world: World, case: Directed) -> None:
    """Run a case and compare the result with the expected one."""
    verdict = Oracle(world).judge(case)
    assert not verdict.faults, str(verdict)
    assert case.code in (None, verdict.finished.code), str(verdict)
    assert case.says in verdict.finished.err.decode(errors="replace"), str(verdict)
    assert verdict.finished.peak < _MOST_MEMORY, str(verdict)


def name_of(case: Directed) -> str:
    return f"{case.name}-{Path(case.path).name}-{case.change.__name__}"


# Damage to a file


def content(new: Callable[[bytes], bytes], label: str = "") -> Change:
    """Change the decompressed content of a file."""

    def change(path: Path) -> None:
        path.write_bytes(readers.compress_like(path, new(readers.read(path))))

    change.__name__ = label or getattr(new, "__name__", "content")
    return change


def replaced(old: str, new: str, count: int = 1) -> Change:
    """Replace all matches of a regular expression."""

    def replace(before: bytes) -> bytes:
        after, times = re.subn(old.encode(), lambda _: new.encode("utf-8", "surrogateescape"), before, count=count)
        assert times
        return after

    return content(replace, f"{old[:12]}->{new[:20]}")


def mutated(mutate: mutations.FileMutation) -> Change:
    """Replace the file with something of another type."""

    def change(path: Path) -> None:
        mutate(Random(1), path)

    change.__name__ = mutate.__name__
    return change


def exponent_flipped(path: Path) -> None:
    """Flip an exponent bit of the last weight."""
    before = bytearray(path.read_bytes())
    before[-1] ^= 0x04
    path.write_bytes(before)


def not_finite(path: Path) -> None:
    """Replace the last weight with NaN."""
    path.write_bytes(path.read_bytes()[:-4] + b"\0\0\xc0\x7f")


def looping_link_to_write(path: Path) -> None:
    """Replace an output with a symbolic link to itself."""
    path.symlink_to(path.name)


# Untrusted files

NESTED_JSON, NESTED_TOML = '{"a":' * 100_000 + "1" + "}" * 100_000, "a = " + "[" * 100_000 + "]" * 100_000
DIGITS = "9" * 400

UNTRUSTED = [
    *(Directed(name, "model/config.json", mutated(mutations.pipe)) for name in ("annotate", "inspect", "translate")),
    *(Directed(name, "model/config.json", mutated(mutations.bomb)) for name in ("annotate", "inspect")),
    *(Directed(name, "lm/config.json", mutated(mutations.pipe)) for name in ("lm-score", "decode-lm", "lm-train-on")),
    Directed("decode-lm", "lm/weights.safetensors", mutated(mutations.pipe)),
    Directed("decode", "system/preparation.json", mutated(mutations.bomb)),
    Directed("train-on", CHECKPOINT, mutated(mutations.pipe)),
    Directed("score", "model/vocab.source.txt", mutated(mutations.device)),
    Directed("annotate", "model/config.json", replaced('"encoder_layers": 1', '"encoder_layers": 1000000')),
    Directed("annotate", "model/config.json", replaced('"hidden": 6', '"hidden": 1000000000')),
    Directed("annotate", "model/config.json", replaced('"hidden": 6', f'"hidden": {DIGITS}')),
    Directed("annotate", "model/config.json", content(lambda _: NESTED_JSON.encode(), "nested")),
    Directed("lm-score", "lm/config.json", content(lambda _: NESTED_JSON.encode(), "nested")),
    Directed("rescore", "weights.json", content(lambda _: NESTED_JSON.encode(), "nested")),
    Directed("decode", "system/preparation.json", content(lambda _: NESTED_JSON.encode(), "nested")),
    Directed("train", "settings.toml", content(lambda _: NESTED_TOML.encode(), "nested")),
    Directed("train", "settings.toml", replaced("hidden = 6", f"hidden = {DIGITS}")),
    Directed("add-column", INI, replaced("num-features=4", "num-features=1000000000")),
    Directed("decode", COLUMN_INI, replaced("num-features=5", "num-features=1000000000")),
    Directed("decode", COLUMN_INI, replaced("num-features=5", f"num-features={DIGITS}")),
]


@pytest.mark.parametrize("case", UNTRUSTED, ids=name_of)
def test_untrusted_files(world: World, case: Directed) -> None:
    judge(world, case)


def test_a_file_that_a_folder_names_is_not_read(world: World) -> None:
    world.renew()
    secret, config = world.folder / "secret", world.folder / "model/config.json"
    secret.write_text("the ||| hushed ||| 0.5\n")
    description = json.loads(config.read_bytes())
    description["training"]["table"] = str(secret)
    config.write_text(json.dumps(description))
    told = world.run(("phrasescore", "inspect", "the", "-m", "model", "-q"))
    assert not told.was_stopped
    assert b"hushed" not in told.out + told.err


# Wrong numbers

NUMBERS = [
    *(
        Directed(name, "model/weights.safetensors", change, says="weights.safetensors")
        for name in ("annotate", "score", "translate", "inspect")
        for change in (exponent_flipped, not_finite)
    ),
    *(
        Directed(name, "lm/weights.safetensors", change, says="weights.safetensors")
        for name in ("lm-score", "decode-lm")
        for change in (exponent_flipped, not_finite)
    ),
    *(Directed("rescore", f"{name}/weights.safetensors", exponent_flipped) for name in ("model", "lm")),
    *(Directed("train-on", CHECKPOINT, change) for change in (exponent_flipped, not_finite)),
    *(Directed(name, ARPA, replaced(r"-[0-9.]+\tla\t", "-inf\tla\t"), None) for name in ("decode", "lm-score")),
    *(Directed(name, ARPA, replaced(r"-[0-9.]+\tla\t", "nan\tla\t"), None) for name in ("decode", "lm-score")),
    *(
        Directed("rescore", "weights.json", replaced(r'"LM0": \[\s*[-\d.e]+', f'"LM0": [{value}', count=0))
        for value in ("true", '"0.5"', "1e308", "NaN", "1e999", DIGITS, "null")
    ),
]


@pytest.mark.parametrize("case", NUMBERS, ids=name_of)
def test_no_wrong_number_is_passed_on(world: World, case: Directed) -> None:
    judge(world, case)


def test_a_damaged_state_leaves_the_network_usable(world: World) -> None:
    world.renew()
    weights = (world.folder / "model/weights.safetensors").read_bytes()
    not_finite(world.folder / CHECKPOINT)
    assert world.run(COMMANDS["train-on"].argv).code == 1
    assert (world.folder / "model/weights.safetensors").read_bytes() == weights
    assert world.run(COMMANDS["annotate"].argv).code == 0


# Tables

# The first line of the table is the full stop, which occurs in every sentence.
SCORES = ("nan", "NaN", "inf", "-inf", "-0.1", "1_0", "0x1p3", "1,5", "\u0661", "1e39", "abc")
SEPARATORS = (
    (r" \|\|\| ", "|||"),
    (r" \|\|\| ", "\t|||\t"),
    (r"(?<=[0-9]) (?=[0-9])", "\t"),
    (r"(?<=\|\|\| )la \|\|\|", "|||"),
    (r" \|\|\| ", " |||"),
    (r"(?<=[0-9]) (?=[0-9])", "  "),
    (r"(?<=the) (?=[a-z])", "\t"),
)
TABLES = [
    *(
        Directed(name, path, replaced(r"(?<=\|\|\| )[0-9][0-9.e-]* ", f"{score} "))
        for name, path, scores in (
            ("check", TABLE, SCORES),
            ("annotate", TABLE, ("nan", "1_0")),
            ("decode", ANNOTATED, ("nan", "1_0")),
        )
        for score in scores
    ),
    *(
        Directed(name, path, replaced(old, new), 0)
        for name, path, separators in (
            ("annotate", TABLE, SEPARATORS),
            ("decode", ANNOTATED, SEPARATORS),
            ("train", TABLE, SEPARATORS[:4]),
            ("inspect", TABLE, SEPARATORS[:4]),
        )
        for old, new in separators
    ),
]


@pytest.mark.parametrize("case", TABLES, ids=name_of)
def test_tables_are_read_as_moses_reads_them(world: World, case: Directed) -> None:
    judge(world, case)


def long_lines(path: Path) -> None:
    """Write a table of 500 MB with lines of 100 kB."""
    line = b"the ||| " + b"x" * 100_000 + b" ||| 0.1 0.1 0.1 0.1 ||| 0-0 ||| 1 1 1 ||| |||\n"
    path.write_bytes(gzip.compress(line * 100, 1) * 50)


LONG = [
    *(Directed(name, TABLE, long_lines, None) for name in ("check", "annotate", "train")),
    *(
        Directed(name, TABLE, replaced(r" \|\|\| \. \|\|\|", " |||" + " x" * 8000 + " |||"), None)
        for name in ("check", "annotate")
    ),
]


@pytest.mark.parametrize("case", LONG, ids=name_of)
def test_memory_is_bounded_by_bytes(world: World, case: Directed) -> None:
    judge(world, case)


# Text


def latin1(before: bytes) -> bytes:
    """Encode a text with accents in ISO 8859-1."""
    return before.decode().replace("e", "é").encode("latin-1")


READ_AS_TEXT = [
    *(("build", "train.en"), ("train-sentences", "train.en"), ("lm-train", "train.fr"), ("evaluate", "dev.out")),
    *(("evaluate", "dev.fr"), ("decode", "dev.en"), ("tune", "dev.en"), ("tune", "dev.fr"), ("translate", "dev.en")),
    *(("lm-score", "dev.fr"), ("rescore", "dev.en"), ("decode-lm", "dev.en")),
]
TEXTS = [
    *(
        Directed(name, path, content(lambda before: before.decode().encode("utf-16-le"), "utf-16-le"), says="has a NUL")
        for name, path in READ_AS_TEXT
    ),
    *(Directed(name, path, content(lambda before: b"\xef\xbb\xbf" + before, "bom"), 0) for name, path in READ_AS_TEXT),
    *(Directed(name, "dev.fr", content(latin1), says="is not UTF-8") for name in ("evaluate", "tune", "rescore-tune")),
]


def blank_lines(before: bytes) -> bytes:
    """Empty every second line."""
    return b"".join(b"\n" if number % 2 else line for number, line in enumerate(before.splitlines(keepends=True)))


def marked_lines(before: bytes) -> bytes:
    """Add sentence markers to each line."""
    return b"".join(b"<s> %b </s>\n" % line for line in before.splitlines())


TEXTS += [
    *(
        Directed("evaluate", name, content(blank_lines, "blank"), 0, "2 lines are empty on one side only")
        for name in ("dev.out", "dev.fr")
    ),
    Directed("lm-score", "dev.fr", content(marked_lines, "marked"), 0, "4 of 4 lines have a sentence mark"),
    Directed("evaluate", "dev.out", content(marked_lines, "marked"), 0, "4 of 4 lines have a sentence mark"),
]


@pytest.mark.parametrize("case", TEXTS, ids=name_of)
def test_text_in_another_form_is_named_or_read(world: World, case: Directed) -> None:
    judge(world, case)


# moses.ini

OTHER = "PhraseDictionaryGroup name=G0 members=TranslationModel0,TranslationModel1 num-features=4"
STRINGS = [
    *(
        Directed("rescore", "weights.json", replaced(old, r'"path": "\ud800"'), says="weights.json")
        for old in (r'"path": "[^"]*moses[^"]*"', r'"path": "[^"]*model"', r'"path": "[^"]*arpa"')
    ),
    Directed("rescore", "dev.nbest", replaced(r"PhrasePenalty0= \S+", "PhrasePenalty0=0"), 0),
    Directed("join", f"{PARTS[0]}.shard.json", replaced(r'"sha256": "[^"]*"', r'"sha256": "\ud800"')),
    Directed("train-on", "model/config.json", replaced(r'"table": "[^"]*"', r'"table": "\ud800"')),
    Directed("annotate", "model/config.json", replaced(r'"table": "[^"]*"', r'"table": "\ud800"')),
    Directed("decode", "system/preparation.json", replaced(r'": "[^"]*"', r'": "\ud800"')),
    Directed("train", "settings.toml", replaced(r"hidden = 6", r'hidden = "\u0000"')),
]


@pytest.mark.parametrize("case", STRINGS, ids=name_of)
def test_strings_that_are_no_names_of_files(world: World, case: Directed) -> None:
    judge(world, case)


INIS = [
    Directed("add-column", INI, replaced("\nDistortion\n", f"\n{OTHER}\nDistortion\n"), says="TranslationModel0"),
    Directed("add-column", INI, replaced("path=phrase-table.gz", "path=system/phrase-table.gz"), None),
    Directed("add-lm", COLUMN_INI, replaced("path=phrase-table", "path=system/phrase-table"), None),
    Directed("add-lm", COLUMN_INI, replaced("name=TranslationModel0 num-features", "name=Tra"), says="have no feature"),
    Directed("decode", COLUMN_INI, replaced("0 T 0", "T 0"), 0),
    Directed("rescore-tune", "dev.nbest", replaced(r" \|\|\| Lex", " ||| TranslationModel0_rnn= 1 Lex"), says="sparse"),
]


@pytest.mark.parametrize("case", INIS, ids=name_of)
def test_an_ini_that_is_edited_fits_its_files(world: World, case: Directed) -> None:
    judge(world, case)


def test_a_compressed_language_model(world: World) -> None:
    world.renew()
    expected = world.run(COMMANDS["decode"].argv), (world.folder / "out.txt").read_bytes()
    world.renew()
    arpa, ini = world.folder / ARPA, world.folder / COLUMN_INI
    arpa.with_name("lm.fr.arpa.gz").write_bytes(gzip.compress(arpa.read_bytes()))
    arpa.unlink()
    ini.write_text(ini.read_text().replace("lm.fr.arpa", "lm.fr.arpa.gz"))
    done = world.run(COMMANDS["decode"].argv)
    assert done.code == expected[0].code == 0, done.err.decode()
    assert (world.folder / "out.txt").read_bytes() == expected[1]


# Outputs


@pytest.mark.parametrize("name", ["annotate", "decode", "add-lm"])
def test_an_output_that_is_a_looping_link(world: World, name: str) -> None:
    judge(world, Directed(name, COMMANDS[name].writes[0], looping_link_to_write, says="link"))
