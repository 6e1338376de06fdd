"""A joint model: trained on aligned text, added to a system, tuned and decoded with, alone and beside +CTX."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import numpy as np
import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import NbestEntry, read_nbest, segments_of
from phrasescore.cli import main as phrasescore
from phrasescore.model_folder import load_language_model
from tests.conftest import MINI
from tests.moses_integration.cli.running import sentence_of, succeed_here
from tests.moses_integration.cli.test_in_context import SMALL
from tests.moses_integration.decoder.reference import Phrase, affiliated
from tests.nn.test_neural_lm import expected

FAST = ("--processes", "1", "--toolkit", "embedded", "--prepared", "-q")
ALIGNED = ("--source", MINI / "train.en", "--alignment", MINI / "train.align")


@pytest.fixture(scope="module")
def joint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train_joint(tmp_path_factory.mktemp("joint") / "model")


def train_joint(folder: Path, *more: str) -> Path:
    sizes = [f"--set=model.{size}" for size in ("window=2", "embedding=6", "first_hidden=16", "second_hidden=12")]
    options = ("--order", "4", *sizes, "--set", "text.min_count=1", "--epochs", "2", *more)
    succeed_here(
        "phrasescore", "lm", "train", MINI / "train.fr", *ALIGNED, *options, "-o", folder, "--device", "cpu", "-q"
    )
    return folder


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("context") / "model"
    succeed_here("phrasescore", "train", *ALIGNED, "--target", MINI / "train.fr", "-o", folder, *SMALL.split())
    return folder


def log_probability(folder: Path, source: list[bytes], entry: NbestEntry, *, unnormalised: bool) -> float | None:
    """Return ln p of an entry by the equations of the network, None if a word is outside the shortlist."""
    model = load_language_model(folder)
    target, vocabulary = model.vocabulary, model.source_vocabulary
    assert vocabulary is not None
    points = [tuple(map(int, point.split(b"-"))) for point in entry.extras[1].split()]
    words, positions = list[bytes](), list[int]()
    for start, end, phrase in segments_of(entry):
        inside = range(len(words), len(words) + len(phrase))
        links = tuple((s - start, t - len(words)) for s, t in points if t in inside)
        positions += affiliated(Phrase(start, end, phrase, None, links))
        words += phrase
    if not all(word in target for word in words):
        return None
    ids = [1, 1, 1, *(target.words.index(word) for word in words), 1]
    around = [1, 1, *(vocabulary.words.index(word) if word in vocabulary else 0 for word in source), 1, 1, 1]
    contexts = [
        [*around[position : position + 5], *ids[word : word + 3]]
        for word, position in enumerate([*positions, len(source)])
    ]
    scores = expected(model.network.double(), np.array(contexts), normalised=not unnormalised)
    if unnormalised:
        scores = scores - float(model.network.mean_log_norm)
    return float(scores[np.arange(len(contexts)), ids[3:]].sum())


@pytest.mark.parametrize(("options", "in_context"), [([], False), (["--self-normalise", "0.1"], True)])
def test_the_score_of_the_search_is_that_of_the_equations(
    options: list[str], in_context: bool, context: Path, small_dev: tuple[Path, Path], tmp_path: Path
) -> None:
    """An entry's score follows from its words, segmentation and alignment; position tags change nothing."""
    joint = train_joint(tmp_path / "joint", *options)
    source, reference = small_dev
    ini, tuned, nbest = tmp_path / "moses.ini", tmp_path / "tuned.ini", tmp_path / "nbest"
    succeed_here("phrasescore-smt", "add-lm", MINI / "moses.ini", "--model", joint, "-o", ini)
    column = ("--in-context", context, "--precision", "fp32") if in_context else ()
    quick = ("--iterations", "2", "--restarts", "0", "--nbest", "5", *FAST)
    succeed_here(
        "phrasescore-smt", "tune", ini, "--source", source, "--reference", reference, "-o", tuned, *column, *quick
    )
    assert MosesIni.read(tuned).weights()["NNJM0"] != MosesIni.read(ini).weights()["NNJM0"]
    succeed_here(
        "phrasescore-smt", "decode", tuned, "--source", source, "-o", tmp_path / "out", "--nbest", nbest, "9", *FAST
    )
    sentences = [line.split() for line in source.read_bytes().splitlines()]
    found, wanted = [], []
    for entry in read_nbest(nbest):
        score = log_probability(joint, sentences[entry.sentence], entry, unnormalised=bool(options))
        if score is not None:
            wanted.append(score)
            found.append(entry.features()["NNJM0"][0])
    assert len(wanted) > 50
    assert found == pytest.approx(wanted, abs=1e-3)
    assert len({round(score, 3) for score in found}) > 20


def test_without_weight_it_changes_no_translation(joint: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    ini, outputs = tmp_path / "moses.ini", (tmp_path / "with", tmp_path / "without")
    succeed_here("phrasescore-smt", "add-lm", MINI / "moses.tuned.ini", "--model", joint, "--weight", "0", "-o", ini)
    for system, output in zip((ini, MINI / "moses.tuned.ini"), outputs, strict=True):
        succeed_here("phrasescore-smt", "decode", system, "--source", small_dev[0], "-o", output, *FAST)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_what_lacks_the_alignment_is_an_error(
    joint: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ini, table, nbest = tmp_path / "moses.ini", tmp_path / "table", tmp_path / "nbest"
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines()
    table.write_bytes(b"".join(b" ||| ".join(line.split(b" ||| ")[:3]) + b"\n" for line in lines))
    unaligned = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    unaligned.set_argument("TranslationModel0", "path", str(table))
    unaligned.write(tmp_path / "unaligned.ini")
    succeed_here("phrasescore-smt", "add-lm", tmp_path / "unaligned.ini", "--model", joint, "-o", ini)
    capsys.readouterr()
    code = main(["decode", str(ini), "--source", str(small_dev[0]), "-o", str(tmp_path / "out"), *FAST])
    message = sentence_of(code, capsys.readouterr().err.encode())
    assert "is a joint model, but the phrase table has no word alignment of `" in message
    table.write_bytes(b"\n".join(re.sub(rb"(\d+)-(\d+)", rb"\2-\1", line) for line in lines) + b"\n")
    code = main(["decode", str(ini), "--source", str(small_dev[0]), "-o", str(tmp_path / "out"), *FAST])
    message = sentence_of(code, capsys.readouterr().err.encode())
    assert "is a joint model, but the phrase table aligns words outside of `" in message

    decode = ("decode", MINI / "moses.ini", "--source", small_dev[0], "-o", tmp_path / "out", "--nbest", nbest, "3")
    succeed_here("phrasescore-smt", *decode, *FAST)
    capsys.readouterr()
    tuning = ["rescore", "--nbest", nbest, "--source", small_dev[0], "--reference", small_dev[1], "--prepared", "-q"]
    tuning += ["--ini", MINI / "moses.ini", "--scorer", f"X={joint}", "-o", tmp_path / "weights.json"]
    message = sentence_of(main(list(map(str, tuning))), capsys.readouterr().err.encode())
    assert "is a joint model, which only the decoder uses; add it by `add-lm`" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source", MINI / "train.en"], "--source: needs --alignment, too; give both or neither"),
        ([*ALIGNED, "--validation", MINI / "dev.fr"], "a joint model reads the source of both texts"),
        (["--validation-source", MINI / "dev.en"], "--validation-source: needs --validation-alignment, too"),
        (["--set", "model.window=3"], "`window`: has no effect without a source text; leave it out"),
        (["--source", MINI / "dev.en", "--alignment", MINI / "train.align"], "is outside its sentences of"),
    ],
)
def test_options_that_do_not_fit(
    options: list[str | Path], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["lm", "train", MINI / "train.fr", *options, "-o", tmp_path / "model", "--device", "cpu", "-q"]
    assert phrasescore(list(map(str, command))) in (1, 2)
    assert message in capsys.readouterr().err
