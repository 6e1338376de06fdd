"""The commands under test: their inputs, their outputs and the conditions that a result must meet."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, zip_longest
from pathlib import Path

import numpy as np
import sacrebleu

from tests.faults import readers
from tests.faults.world import (
    ANNOTATED,
    ARPA,
    BUILD,
    COLUMN_INI,
    DECODE,
    DECODE_LM,
    INI,
    LM_INI,
    LM_TRAIN,
    PARTS,
    REORDERING,
    RESCORE,
    SHORT,
    TABLE,
    TRAIN,
    TUNE_ON_LIST,
)

MODEL = tuple(
    f"model/{name}" for name in ("config.json", "weights.safetensors", "vocab.source.txt", "vocab.target.txt")
)
LM = tuple(f"lm/{name}" for name in ("config.json", "weights.safetensors", "vocab.txt"))
CHECKPOINT, LM_CHECKPOINT = (f"{name}/training-state/checkpoint.safetensors" for name in ("model", "lm"))
NETWORKS = {*MODEL, *LM, CHECKPOINT, LM_CHECKPOINT}
TABLES = {TABLE, ANNOTATED}
SETTINGS = {"settings.toml", "lm.toml"}
DECODING = {"decode", "decode-lm", "text-table", "tune"}
TEXTS = {"train.en", "train.fr", "dev.en", "dev.fr", "dev.out"}
_SYSTEM_TEXT = ("system/preparation.json", "system/truecase.en", "system/truecase.fr")
FOUND = {*NETWORKS, *_SYSTEM_TEXT}
"""Programs that look for an input in a folder themselves; a named pipe there is not meant to be read."""
_SYSTEM = (COLUMN_INI, ANNOTATED, REORDERING, ARPA, *_SYSTEM_TEXT)

Result = Callable[[Path, bytes], object]
Sound = Callable[[Path, bytes], Iterator[str]]
"""Functions of the working folder and standard output: the result of a command, and the faults of that result."""


@dataclass(frozen=True)
class Command:
    argv: tuple[str, ...]
    reads: tuple[str, ...]
    result: Result
    """The part of the result that must not depend on the encoding of an input."""
    sound: Sound
    writes: tuple[str, ...] = ()
    """Output files and folders; folders end in a slash."""


# Results


def _stdout(_: Path, out: bytes) -> object:
    return out


def _contents(*names: str) -> Result:
    return lambda folder, out: [readers.read(folder / name) for name in names]


def _column(folder: Path, _: bytes) -> object:
    """Return the last scores of all non-empty lines."""
    lines = readers.lines_of(readers.read(folder / "out.gz"))
    pairs = [pair for line in lines if (pair := readers.read_pair(line))]
    return [pair.scores[-1] for pair in pairs]


def _pairs(folder: Path, _: bytes) -> object:
    """Return the phrase pairs of a pruned table."""
    lines = readers.lines_of(readers.read(folder / "out.gz"))
    return [(pair.source, pair.target) for line in lines if (pair := readers.read_pair(line))]


def _weights_of_ini(folder: Path, _: bytes) -> object:
    return readers.read_sections((folder / "system/out.ini").read_text("utf-8", "surrogateescape"))["weight"]


def _weights_of_json(folder: Path, _: bytes) -> object:
    return json.loads((folder / "out.json").read_bytes())["weights"]


def _bleu(_: Path, out: bytes) -> object:
    return json.loads(out)["systems"][0]["metrics"]["BLEU"]["score"]


def _placed(folder: Path, _: bytes) -> object:
    """Return the indexed text and the content of its phrase table."""
    lines = readers.lines_of(readers.read(folder / "new/phrase-table.gz"))
    pairs = [pair for line in lines if (pair := readers.read_pair(line))]
    return readers.read(folder / "new/text"), [(pair.source, pair.target, *map(float, pair.scores)) for pair in pairs]


def _nothing(_: Path, __: bytes) -> object:
    return None


# Checks of a result


def _one_more_number(folder: Path, _: bytes) -> Iterator[str]:
    """Each line keeps its content and gains one score between 0 and 1."""
    lines = (readers.lines_of(readers.read(folder / name)) for name in (TABLE, "out.gz"))
    for old, new in zip_longest(*lines):
        if old is None or new is None:
            yield "lines: not as many as before"
            return
        try:
            before, after = readers.read_pair(old), readers.read_pair(new)
        except readers.RefusedError as error:
            yield f"accepted: a line that {error}: {old[:200]!r}"
            continue
        if before is None or after is None:
            yield f"accepted: a line without a source: {old[:200]!r}"
        elif old not in _without(new, b" " + after.scores[-1]) or before.scores != after.scores[:-1]:
            yield f"changed: {old[:200]!r} has become {new[:200]!r}"
        elif not 0 < float(after.scores[-1]) <= 1:
            yield f"column: {after.scores[-1]!r} is no probability"


def _without(line: bytes, text: bytes) -> set[bytes]:
    """Return the line with one occurrence of a text removed, for each occurrence."""
    return {line[: found.start()] + line[found.end() :] for found in re.finditer(re.escape(text), line)}


def _as_many_lines(folder: Path, _: bytes) -> Iterator[str]:
    """With --on-error keep, the number of lines is unchanged."""
    lines = (readers.lines_of(readers.read(folder / name)) for name in (TABLE, "out.gz"))
    for old, new in zip_longest(*lines):
        if old is None or new is None:
            yield "lines: not as many as before"
            return


def _some_lines(folder: Path, _: bytes) -> Iterator[str]:
    """The pruned tables have lines of the tables, in their order, and the same pairs."""
    tables = {TABLE: "out.gz", REORDERING: "out.reordering.gz"}
    pruned = [readers.lines_of(readers.read(folder / name)) for name in tables.values()]
    for name, lines in zip(tables, pruned, strict=True):
        whole = iter(readers.lines_of(readers.read(folder / name)))
        if not all(line in whole for line in lines):
            yield f"changed: a line of {name}"
    # A line may occur several times.
    pairs = ([pair for pair, _ in groupby(_pair_of(line) for line in lines)] for lines in pruned)
    if next(pairs) != next(pairs):
        yield "pairs: not those of the phrase table"


def _pair_of(line: bytes) -> list[list[bytes]]:
    return [field.split() for field in line.split(b"|||")[:2]]


def _loadable(folder: Path, _: bytes) -> Iterator[str]:
    """Moses loads every table that `check` accepts."""
    try:
        readers.read_table(readers.read(folder / TABLE))
    except readers.RefusedError as error:
        yield f"accepted: a table that {error}"


def _log_probabilities(name: str) -> Sound:
    """There is one log-probability for each line of the input."""

    def check(folder: Path, out: bytes) -> Iterator[str]:
        lines = len(readers.lines_of(readers.read(folder / name)))
        if out.count(b"\n") != lines:
            yield f"lines: not the {lines} of the input"
        yield from _impossible(out.split())

    return check


def _impossible(numbers: list[bytes]) -> Iterator[str]:
    for number in numbers:
        if not -math.inf < float(number) <= 0:
            yield f"score: {number!r} is no ln p"


def _translations(folder: Path, _: bytes) -> Iterator[str]:
    """There is one JSON object for each translation, whose scores are natural logarithms."""
    lines = readers.lines_of(readers.read(folder / "out.json"))
    if len(lines) != len(readers.lines_of(readers.read(folder / "dev.en"))):
        yield "lines: not as many as the text has"
    yield from _impossible(re.findall(rb'"score": ([^,}]+)', b" ".join(lines)))


def _decoded(folder: Path, _: bytes) -> Iterator[str]:
    """There is one translation for each sentence, and all scores are finite."""
    sentences = len(readers.lines_of(readers.read(folder / "dev.en")))
    if readers.read(folder / "out.txt").count(b"\n") != sentences:
        yield f"lines: not the {sentences} of the input"
    for line in readers.lines_of(readers.read(folder / "out.nbest")):
        _, _, scores, total = line.split(b"|||")[:4]
        for number in (*scores.split(), total.strip()):
            if not number.endswith(b"=") and not math.isfinite(float(number)):
                yield f"score: not finite: {line[:300]!r}"
                return
        for found in re.findall(rb"(?:CSLM|LM)0= (\S+)", scores):
            if float(found) > 0:
                yield f"score: a language model's above 0: {line[:300]!r}"
                return


def _consistent(name: str) -> Sound:
    return lambda folder, out: readers.inconsistencies(folder / name)


def _finite_json(folder: Path, _: bytes) -> Iterator[str]:
    weights = json.loads((folder / "out.json").read_bytes())["weights"]
    for label, values in weights.items():
        if not all(isinstance(value, float | int) and math.isfinite(value) for value in values):
            yield f"weights: of {label}: {values}"


def _network(name: str) -> Sound:
    def check(folder: Path, _: bytes) -> Iterator[str]:
        for tensor, values in readers.read_tensors(folder / name / "weights.safetensors").items():
            if not np.isfinite(values).all():
                yield f"weights: {tensor} is not finite"

    return check


def _equals_sacrebleu(folder: Path, out: bytes) -> Iterator[str]:
    """If the texts are valid, the score equals that of sacreBLEU."""
    texts = []
    for name in ("dev.out", "dev.fr"):
        content = readers.same_text(readers.read(folder / name))
        try:
            texts.append(content.decode().split("\n")[:-1])
        except UnicodeDecodeError:
            if name == "dev.fr":
                yield "accepted: a reference that is not UTF-8"
            return
    expected = sacrebleu.corpus_bleu(texts[0], [texts[1]]).score
    found = json.loads(out)["systems"][0]["metrics"]["BLEU"]["score"]
    if abs(found - expected) > 0.01:
        yield f"bleu: {found} where sacreBLEU has {expected}"


def _no_unusual_numbers(_: Path, out: bytes) -> Iterator[str]:
    if found := re.search(rb"(?<![\w'])-?(nan|inf)(?!\w)", out):
        yield f"score: {found[0]!r} is shown"


def _longer(training: Sequence[str]) -> tuple[str, ...]:
    """Return a training command with a higher --max-updates, so that it resumes."""
    place = training.index("--max-updates") + 1
    return (*training[:place], "12", *training[place + 1 :])


_PHRASESCORE, _SMT = ("phrasescore",), ("phrasescore-smt",)
_NUMBERS = ("--scorer", "N=numbers.txt")
_FP32 = ("--precision", "fp32")
COMMANDS = {
    "annotate": Command(
        (*_PHRASESCORE, "annotate", TABLE, "-m", "model", "-o", "out.gz", "--report", "out.json", *_FP32, "-q"),
        (TABLE, TABLE, TABLE, *MODEL),
        _column,
        _one_more_number,
        ("out.gz", "out.json"),
    ),
    "annotate-keep": Command(
        (*_PHRASESCORE, "annotate", TABLE, "-m", "model", "--on-error", "keep", "-o", "out.gz", *_FP32, "-q"),
        (TABLE,),
        _nothing,
        _as_many_lines,
        ("out.gz",),
    ),
    "prune": Command(
        (
            *(*_PHRASESCORE, "prune", TABLE, "-o", "out.gz", "--by", "3", "--keep", "0.3", "-q"),
            *("--reordering", REORDERING, "out.reordering.gz"),
        ),
        (TABLE, TABLE, REORDERING),
        _pairs,
        _some_lines,
        ("out.gz", "out.reordering.gz"),
    ),
    "join": Command(
        (*_PHRASESCORE, "join", *PARTS, "-o", "out.gz", "-q"),
        (*PARTS, *(f"{part}.shard.json" for part in PARTS)),
        _column,
        _one_more_number,
        ("out.gz",),
    ),
    "check": Command((*_PHRASESCORE, "check", TABLE, "-q"), (TABLE,), _nothing, _loadable),
    "score": Command(
        (*_PHRASESCORE, "score", "pairs.tsv", "-m", "model", *_FP32),
        ("pairs.tsv", *MODEL),
        _stdout,
        _log_probabilities("pairs.tsv"),
    ),
    "translate": Command(
        (*_PHRASESCORE, "translate", "dev.en", "-m", "model", "--json", "-o", "out.json", *_FP32, "-q"),
        ("dev.en", *MODEL),
        _contents("out.json"),
        _translations,
        ("out.json",),
    ),
    "inspect": Command(
        (*_PHRASESCORE, "inspect", "the", "-m", "model", "--table", TABLE, "--top", "3", *_FP32, "-q"),
        (TABLE, *MODEL),
        _stdout,
        _no_unusual_numbers,
    ),
    "train": Command(
        (*_PHRASESCORE, *TRAIN, "-o", "new"),
        (TABLE, "settings.toml"),
        _contents("new/weights.safetensors"),
        _network("new"),
        ("new/",),
    ),
    "train-sentences": Command(
        (
            *(*_PHRASESCORE, "train", "--source", "train.en", "--target", "train.fr", "--config", "settings.toml"),
            *("--preset", "plain", *SHORT, "-o", "new"),
        ),
        ("train.en", "train.fr"),
        _contents("new/weights.safetensors"),
        _network("new"),
        ("new/",),
    ),
    "train-aligned": Command(
        (
            *(*_PHRASESCORE, "train", "--source", "train.en", "--target", "train.fr", "--alignment", "train.align"),
            *("--config", "settings.toml", *SHORT, "-o", "new"),
        ),
        ("train.en", "train.fr", "train.align", "train.align"),
        _contents("new/weights.safetensors"),
        _network("new"),
        ("new/",),
    ),
    "train-on": Command(
        (*_PHRASESCORE, *_longer(TRAIN), "-o", "model"),
        (CHECKPOINT, CHECKPOINT, "model/config.json"),
        _contents("model/weights.safetensors"),
        _network("model"),
        ("model/",),
    ),
    "lm-train": Command(
        (*_PHRASESCORE, *LM_TRAIN, "-o", "new"),
        ("train.fr", "lm.toml"),
        _contents("new/weights.safetensors"),
        _network("new"),
        ("new/",),
    ),
    "lm-train-on": Command(
        (*_PHRASESCORE, *_longer(LM_TRAIN), "-o", "lm"),
        (LM_CHECKPOINT, "lm/config.json"),
        _contents("lm/weights.safetensors"),
        _network("lm"),
        ("lm/",),
    ),
    "lm-score": Command(
        (*_PHRASESCORE, "lm", "score", "dev.fr", "-m", "lm", "--backoff", ARPA, *_FP32),
        ("dev.fr", ARPA, *LM),
        _stdout,
        _log_probabilities("dev.fr"),
    ),
    "build": Command(
        (*_SMT, *BUILD, "-o", "new"),
        ("train.en", "train.fr", "train.align"),
        _contents("new/phrase-table.gz", "new/lm.fr.arpa"),
        _consistent("new/moses.ini"),
        ("new/",),
    ),
    "add-column": Command(
        (*_SMT, "add-column", INI, "--table", ANNOTATED, "-o", "system/out.ini"),
        (INI, INI, ANNOTATED),
        _nothing,
        _consistent("system/out.ini"),
        ("system/out.ini",),
    ),
    "add-lm": Command(
        (*_SMT, "add-lm", COLUMN_INI, "--model", "lm", "-o", "system/out.ini"),
        (COLUMN_INI, COLUMN_INI, *LM, ARPA),
        _nothing,
        _consistent("system/out.ini"),
        ("system/out.ini",),
    ),
    "decode": Command(
        (*_SMT, *DECODE, "--nbest", "out.nbest", "5", "-o", "out.txt"),
        ("dev.en", *_SYSTEM),
        _contents("out.txt", "out.nbest"),
        _decoded,
        ("out.txt", "out.nbest"),
    ),
    "decode-lm": Command(
        (*_SMT, *DECODE_LM, "--nbest", "out.nbest", "5", "-o", "out.txt"),
        ("dev.en", LM_INI, ANNOTATED, REORDERING, ARPA, *LM),
        _contents("out.txt", "out.nbest"),
        _decoded,
        ("out.txt", "out.nbest"),
    ),
    "tune": Command(
        (
            *(*_SMT, "tune", COLUMN_INI, "--source", "dev.en", "--reference", "dev.fr", "-o", "system/out.ini"),
            *("--iterations", "2", "--restarts", "1", "--nbest", "5", "--processes", "1", "--toolkit", "embedded"),
            *("--report", "out.json", "-q"),
        ),
        ("dev.en", "dev.fr", *_SYSTEM),
        _weights_of_ini,
        _consistent("system/out.ini"),
        ("system/out.ini", "out.json"),
    ),
    "text-table": Command(
        (*_SMT, "text-table", COLUMN_INI, "--source", "dev.en", "-o", "new", "-q"),
        ("dev.en", *_SYSTEM),
        _placed,
        _consistent("new/moses.ini"),
        ("new/",),
    ),
    "rescore-tune": Command(
        (*_SMT, *TUNE_ON_LIST, "-o", "out.json"),
        ("dev.nbest", "dev.nbest", "dev.en", "dev.fr", COLUMN_INI, "numbers.txt", ARPA, *MODEL, *LM, *_SYSTEM_TEXT),
        _weights_of_json,
        _finite_json,
        ("out.json",),
    ),
    "rescore": Command(
        (*_SMT, *RESCORE, "--weights", "weights.json", *_NUMBERS, "-o", "out.txt", "--nbest-output", "out.nbest"),
        ("dev.nbest", "dev.en", "weights.json", "weights.json", "numbers.txt", ARPA, *MODEL, *LM),
        _contents("out.txt", "out.nbest"),
        _decoded,
        ("out.txt", "out.nbest"),
    ),
    "evaluate": Command(
        (*_SMT, "evaluate", "dev.out", "--reference", "dev.fr", "--json"),
        ("dev.out", "dev.fr"),
        _bleu,
        _equals_sacrebleu,
    ),
}
