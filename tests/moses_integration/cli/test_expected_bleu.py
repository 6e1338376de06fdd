"""Train a column on n-best lists of the training text, add it, and tune with it."""

from __future__ import annotations

import json
import math
import shlex
from pathlib import Path

import numpy as np
import pytest

from moses_integration.cli import main
from moses_integration.expected_bleu.fitting import Quality, Trained
from moses_integration.ini import MosesIni
from phrasescore.cli import main as phrasescore
from phrasescore.files import read_bytes
from phrasescore.scoring.phrase_pair_model import PhrasePairModel, features_of, load_phrase_pair_model
from tests.conftest import MINI

TUNED = MINI / "moses.tuned.ini"
TEXTS = [
    f"--{name}={MINI / f'train.{end}'}" for name, end in (("source", "en"), ("target", "fr"), ("alignment", "align"))
]
QUICK = ["--sentences", "80", "--processes", "1"]


@pytest.fixture(autouse=True)
def short_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("moses_integration.expected_bleu.nbest_lists.SIZE", 20)


def test_from_a_system_to_one_with_a_tuned_column(
    system: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, table, report = tmp_path / "model", tmp_path / "table.gz", tmp_path / "report"
    work = tmp_path / "work"
    ini = str(system / "moses.ini")
    assert main(["expected-bleu", ini, "-o", str(folder), *QUICK, "--seed", "2", "--work", str(work)]) == 0
    told = capsys.readouterr().err
    assert "has untuned weights; tune it first" in told
    assert "held-out expected BLEU" in told
    assert (work / "fold1" / "moses.ini").exists()
    # The last line shows the next commands.
    advice = told.splitlines()[-1]
    assert advice.startswith(f"next: phrasescore annotate {system}/phrase-table.gz -m {folder} ")
    annotate, add_column, _ = (shlex.split(command)[1:] for command in advice.removeprefix("next: ").split("; "))
    names = {"TABLE": str(table), "INI": str(tmp_path / "wide.ini")}
    assert phrasescore([names.get(word, word) for word in [*annotate, "--report", str(report), "-q"]]) == 0
    assert main([names.get(word, word) for word in add_column]) == 0
    assert len(MosesIni.read(tmp_path / "wide.ini").weights()["TranslationModel0"]) == 5
    assert json.loads(report.read_text())["columns"] == ["expected-bleu"]
    lines = [line.split(b" ||| ") for line in read_bytes(table).splitlines()]
    values = load_phrase_pair_model(folder).values(
        features_of([line[0] for line in lines], [line[1] for line in lines])
    )
    assert [math.log(float(line[2].split()[-1])) for line in lines] == pytest.approx(values, abs=1e-6)
    assert values.std() > 0.01
    dev = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    tune = ["tune", str(tmp_path / "wide.ini"), *dev, "-o", str(tmp_path / "tuned.ini"), "--iterations", "2"]
    assert main([*tune, "--restarts", "2", "--nbest", "20", "--toolkit", "embedded", "--processes", "1", "-q"]) == 0
    assert len(MosesIni.read(tmp_path / "tuned.ini").weights()["TranslationModel0"]) == 5


def test_a_system_built_elsewhere_needs_its_text(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A system that `build` did not make needs the training text as options.

    A tuned system gives no warning, and the model folder records its data.
    """
    folder = tmp_path / "model"
    assert main(["expected-bleu", str(TUNED), "-o", str(folder), *QUICK]) == 1
    assert "is not the ini of a system that `build` made; give the prepared text" in capsys.readouterr().err
    assert not folder.exists()
    assert main(["expected-bleu", str(TUNED), "-o", str(folder), *QUICK, *TEXTS, "--seed", "3"]) == 0
    assert "tune it first" not in capsys.readouterr().err
    description = json.loads((folder / "config.json").read_text())
    assert description["kind"] == "expected-bleu"
    assert description["data"]["source"]["path"] == str(MINI / "train.en")
    training = description["training"]
    assert (training["sentences"], training["seed"]) == (80, 3)
    held_out = training["held_out"]
    assert held_out["after"]["expected"] >= held_out["before"]["expected"] > 0


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (TEXTS[:2], 2, "--alignment: is missing; give --source, --target and --alignment, or none of them"),
        ([*TEXTS, "--work", "OUTPUT"], 2, "--work: is the folder of --output, too"),
        ([*TEXTS, "-o", "FULL"], 1, "exists already; give a new or empty folder"),
        ([*TEXTS, "-o", "FULL/file"], 1, "exists already; give a new or empty folder"),
        ([*TEXTS, "-o", "FULL/file/folder"], 1, "cannot be made"),
        ([*TEXTS, "--sentences", "0"], 2, "phrasescore-smt expected-bleu: --sentences: "),
        ([*TEXTS, "--sentences", "6"], 2, "phrasescore-smt expected-bleu: --sentences: 6 is not a number from 10"),
        (["--source", "nowhere", *TEXTS[1:]], 1, "nowhere"),
        (["--source", "-", *TEXTS[1:]], 1, "standard input: can be read only once, but the training text is"),
        ([*TEXTS[:2], "--alignment", "/dev/null"], 1, "/dev/null: can be read only once, but the training text is"),
    ],
)
def test_errors_are_a_sentence(
    options: list[str], code: int, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    names = {"OUTPUT": "output", "FULL": "full", "FULL/file": "full/file", "FULL/file/folder": "full/file/folder"}
    options = [str(tmp_path / names[option]) if option in names else option for option in options]
    output = [] if "-o" in options else ["-o", str(tmp_path / "output")]
    command = ["expected-bleu", str(TUNED), *output, "-q", "--processes", "1", *options]
    if sentence.startswith("phrasescore-smt"):  # argparse itself reports an invalid value.
        with pytest.raises(SystemExit, match="2"):
            main(command)
    else:
        assert main(command) == code
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "output").exists() or not any((tmp_path / "output").iterdir())
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["file"]


def test_a_useless_model_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing = PhrasePairModel(np.zeros(0, np.uint64), np.zeros(0, np.float32))
    trained = Trained(nothing, 1.0, 1e-5, 0, Quality(50.0, 50.0), Quality(50.0, 50.0))
    monkeypatch.setattr("moses_integration.expected_bleu.fitting.train", lambda *given: trained)
    command = ["expected-bleu", str(TUNED), "-o", str(tmp_path / "model"), *TEXTS]
    assert main([*command, "--sentences", "10", "--processes", "1"]) == 0
    told = capsys.readouterr().err
    assert "written, 0 features" in told
    assert "the column will be 1 on every line and useless; more text may help" in told
