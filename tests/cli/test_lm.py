"""End-to-end tests of `phrasescore lm`."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
from pathlib import Path

import pytest

from phrasescore.cli import main
from phrasescore.lm.lm_settings import LM_PRESETS, TextConfig
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.training.settings import read_preset
from phrasescore.training.training_config import BUDGET
from tests.cli.running import run
from tests.conftest import DATA, MINI

ARPA = str(MINI / "lm.fr.arpa")
OPTIONS = "--set model.embedding=8 --set model.first_hidden=16 --set model.second_hidden=12"
OPTIONS += " --vocabulary 60 --batch-size 256 --learning-rate 1e-2"
TEXT = (MINI / "test.fr").read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained model."""
    path = tmp_path_factory.mktemp("lm") / "model"
    options = [*OPTIONS.split(), "--epochs", "2", "--self-normalise", "0.1", "--device", "cpu"]
    done = run("lm", "train", MINI / "train.fr", "-o", path, "--validation", MINI / "dev.fr", *options)
    assert done.returncode == 0, done.stderr
    for part in (b"1,000 lines, 9,183 words", b"validation loss ", b"(perplexity ", b"words/s", b"done after update"):
        assert part in done.stderr
    assert b"the training loss includes 0.1 (ln Z)^2" in done.stderr
    return path


def values(text: str) -> dict[str, float]:
    """Return the numbers of a summary."""
    rows = (line.rsplit(maxsplit=1) for line in text.splitlines() if not line.startswith(" "))
    return {name.strip(): float(value.replace(",", "")) for name, value in rows}


def score(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> str:
    assert main(["lm", "score", *map(str, arguments), "--precision", "fp32", "--device", "cpu"]) == 0
    return capsys.readouterr().out


def test_scores_and_their_summary(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (MINI / "test.fr", "-m", folder, "--backoff", ARPA)
    scores = [float(line) for line in score(capsys, *arguments).splitlines()]
    summary = values(score(capsys, *arguments, "--summary"))
    words = len(TEXT.split()) + TEXT.count(b"\n")
    assert len(scores) == summary["sentences"] == TEXT.count(b"\n")
    assert summary["words and ends of sentences"] == words
    assert summary["words outside the shortlist"] > 0
    assert math.exp(-sum(scores) / words) == pytest.approx(summary["perplexity of the neural language model"], abs=1e-3)


def test_a_text_may_be_scored_in_parts(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = (MINI / "test.fr", "-m", folder, "--backoff", ARPA, "--weight-text")
    found = []
    for size in (10_000, 7):
        monkeypatch.setattr("phrasescore.lm.text_scores._SENTENCES_AT_ONCE", size)
        scores = score(capsys, *arguments, MINI / "dev.fr", "--report", tmp_path / "report.json").split()
        report = json.loads((tmp_path / "report.json").read_bytes())
        found.append(([float(text) for text in scores], report["perplexity"], report["text"]))
    (whole, perplexities, text), (parts, others, same) = found
    assert parts == pytest.approx(whole, abs=1e-4)
    assert others == pytest.approx(perplexities, rel=1e-5)
    assert same == text


def test_interpolation(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The interpolation weight tuned on one text is close to the optimum on another text of the same domain."""
    arguments = (MINI / "test.fr", "-m", folder, "--backoff", ARPA, "--summary")
    found = values(score(capsys, *arguments, "--weight-text", MINI / "dev.fr"))
    name = "perplexity of the interpolation"
    parts = [found["perplexity of the neural language model"], found["perplexity of the back-off model"]]
    assert found[name] <= min(parts) + 0.05
    fixed = [values(score(capsys, *arguments, "--interpolate", weight))[name] for weight in ("0", "0.5", "1")]
    assert [fixed[2], fixed[0]] == parts
    assert found[name] <= min(fixed) + 0.1


def test_the_report_has_the_inputs_of_the_perplexities(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--backoff", ARPA, "--weight-text", MINI / "dev.fr", "--summary")
    shown = values(score(capsys, MINI / "test.fr", "-m", folder, *options, "--report", tmp_path / "report.json"))
    report = json.loads((tmp_path / "report.json").read_bytes())
    names = {"network": "neural language model", "backoff": "back-off model", "interpolation": "interpolation"}
    for key, name in names.items():
        assert report["perplexity"][key] == pytest.approx(shown[f"perplexity of the {name}"], abs=1e-3)
    assert report["weight"] == pytest.approx(shown["weight of the neural language model"], abs=1e-4)
    assert report["text"]["words"] == shown["words and ends of sentences"]
    assert report["text"]["unknown_to_backoff"] == shown["words unknown to the back-off model"]
    files = {"text": MINI / "test.fr", "weight_text": MINI / "dev.fr", "backoff": Path(ARPA)}
    for key, path in files.items():
        assert report[key]["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    weights = (folder / "weights.safetensors").read_bytes()
    assert report["model"]["weights_sha256"] == hashlib.sha256(weights).hexdigest()


def test_a_report_without_a_backoff_model(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "test.fr.gz"
    text.write_bytes(gzip.compress(TEXT))
    scores = score(capsys, text, "-m", folder, "--report", tmp_path / "report.json").splitlines()
    report = json.loads((tmp_path / "report.json").read_bytes())
    assert report["text"]["sha256"] == hashlib.sha256(text.read_bytes()).hexdigest()
    assert len(scores) == report["text"]["sentences"]
    assert report["backoff"] is report["weight"] is None
    assert report["perplexity"]["backoff"] is report["perplexity"]["interpolation"] is None


def test_without_a_backoff_model_the_scores_are_flagged(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no distribution over words" in score(capsys, MINI / "test.fr", "-m", folder, "--summary")


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--interpolate", "0.5"], "--interpolate: needs an n-gram model", 2),
        (["--interpolate", "2", "--backoff", ARPA], "is 2.0; give a number between 0 and 1", 2),
        (["--backoff", ARPA, "--report", "-"], "standard output: is given for two outputs", 2),
        (
            ["--weight-text", MINI / "dev.fr", "--backoff", ARPA, "--interpolate", "1"],
            "--interpolate: is the weight that --weight-text determines",
            2,
        ),
        (["--backoff", ARPA, "--weight-text", MINI / "test.fr"], "is the text to be scor", 2),
        (["--backoff", MINI / "none"], "does not exist", 1),
        (["--report", "/nowhere/r.json", "--backoff", MINI / "none"], "/nowhere is no folder", 1),
    ],
)
def test_errors_are_one_sentence(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str | Path], message: str, code: int
) -> None:
    assert main(["lm", "score", str(MINI / "test.fr"), "-m", str(folder), *map(str, options)]) == code
    error = capsys.readouterr().err
    assert error.startswith("phrasescore lm score: ")
    assert message in error
    assert error.count("\n") == 1


def test_texts_in_another_encoding(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Text in another encoding gives a warning when scored and an error in training; a byte order mark is ignored."""
    text, latin = tmp_path / "text", tmp_path / "latin"
    text.write_text("la lettre", "utf-8-sig")
    latin.write_bytes("la lettre\n\xe9t\xe9".encode("latin-1"))
    scores = {}
    for path in (text, latin):
        assert main(["lm", "score", str(path), "-m", str(folder), "--device", "cpu", "--precision", "fp32"]) == 0
        scores[path], told = capfd.readouterr()
    # Batching may change the last digit of a score.
    assert float(scores[latin].splitlines()[0]) == pytest.approx(float(scores[text].splitlines()[0]), abs=1e-5)
    assert told.startswith(f"{latin}: lines that are not UTF-8: 1, the first is line 2; ")
    learning = ["--backoff", ARPA, "--weight-text", str(latin)]
    assert main(["lm", "score", str(text), "-m", str(folder), *learning]) == 1
    assert f"{latin}: line 2: is not UTF-8" in capfd.readouterr().err
    validating = ["--validation", str(latin), "-o", str(tmp_path / "model"), "--device", "cpu"]
    assert main(["lm", "train", str(MINI / "test.fr"), *OPTIONS.split(), *validating]) == 1
    assert f"{latin}: line 2: is not UTF-8" in capfd.readouterr().err


def test_a_model_of_another_kind(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["lm", "score", str(MINI / "test.fr"), "-m", str(DATA / "stored-model")]) == 1
    assert "a network of the kind encoder-decoder" in capsys.readouterr().err


def test_training_without_a_budget_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Training needs a budget if no sentences can be held out: a thousandth of 999 sentences rounds to none."""
    (tmp_path / "text").write_bytes(b"".join((MINI / "train.fr").read_bytes().splitlines(keepends=True)[:999]))
    command = ["lm", "train", str(tmp_path / "text"), "-o", str(tmp_path / "lm"), "--preset", "cho2014"]
    assert main(command) == 2
    assert "--epochs, --max-minutes, --max-updates: one must be given; without a budget" in capsys.readouterr().err
    assert not (tmp_path / "lm").exists()
    assert main([*command, *OPTIONS.split(), "--max-updates", "1"]) == 0


def test_the_paper_s_sizes() -> None:
    """The preset has the sizes of Cho et al. 2014, section 4.1.2."""
    values = read_preset(LM_PRESETS, "cho2014")
    model, text, training = NeuralLmConfig(**values.get("model", {})), TextConfig(**values["text"]), values["training"]
    assert (model.order, model.embedding, model.first_hidden, model.second_hidden) == (7, 512, 1536, 1024)
    assert (model.initialisation, model.dropout, model.self_normalise) == ("uniform", 0, 0)
    assert (text.vocabulary, text.held_out) == (15_000, 0.001)
    assert (training["patience"], training["evaluate_every"]) == (10, 0)
    assert (training["optimiser"], training["learning_rate"]) == ("adadelta", 1.0)
    assert not BUDGET & training.keys()


def test_settings_of_other_networks_are_not_offered(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["lm", "train", "--help-all"])
    said = capsys.readouterr().out
    for name in ("teacher_forcing", "long_pairs", "pairs_a_sentence"):
        assert name not in said
        option = f"--set training.{name}"
        assert main(["lm", "train", str(MINI / "train.fr"), "-o", str(tmp_path / "lm"), *f"{option}=1".split()]) == 2
        assert f"{option}=1: unknown key `{name}`" in capsys.readouterr().err


def test_a_language_model_is_no_encoder_decoder(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["score", "-m", str(folder), str(MINI / "test.fr")]) == 1
    assert f"{folder}: there is no kind of scorer `neural-language-model`; known are" in capsys.readouterr().err


def test_a_report_takes_the_place_of_no_text(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "weights.fr"
    text.write_text("la lettre\n")
    learning = ["--backoff", ARPA, "--weight-text", str(text), "--report", str(text)]
    assert main(["lm", "score", str(MINI / "dev.fr"), "-m", str(folder), *learning]) == 2
    assert f"{text}: is an input, which would be lost" in capsys.readouterr().err
    assert text.read_text() == "la lettre\n"
    vocabulary = folder / "vocab.txt"
    assert main(["lm", "score", str(text), "-m", str(folder), "--backoff", ARPA, "--report", str(vocabulary)]) == 2
    assert f"{vocabulary}: is an input, which would be lost" in capsys.readouterr().err
