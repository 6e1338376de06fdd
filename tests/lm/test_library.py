"""The Python interface of language models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.cli import main
from tests.conftest import MINI

ARPA = MINI / "lm.fr.arpa"
CPU: dict[str, Any] = {"device": "cpu", "precision": "fp32"}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("lm") / "model"
    lines: list[str] = []
    sizes: dict[str, Any] = {
        "order": 3,
        "embedding": 8,
        "first_hidden": 16,
        "second_hidden": 12,
        "vocabulary": 60,
        "epochs": 1,
    }
    phrasescore.lm_train(MINI / "train.fr", folder, **CPU, **sizes, log=lines.append)
    assert any(line.startswith("done after update") for line in lines)
    return folder


def test_wrong_settings(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=r"lm_train\(\) has no option `ordr`; did you mean `order`\?"):
        phrasescore.lm_train(MINI / "train.fr", tmp_path / "lm", ordr=3)
    with pytest.raises(TypeError, match=r"lm_train\(\) has no option `long_pairs`"):
        phrasescore.lm_train(MINI / "train.fr", tmp_path / "lm", long_pairs=0.5)


@pytest.mark.parametrize("interpolated", [{}, {"interpolate": 0.25}, {"weight_text": MINI / "dev.fr"}])
def test_scores_are_those_of_the_command(
    model: Path, interpolated: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    sentences = (MINI / "test.fr").read_text().splitlines()[:40]
    log_probs_S, found = phrasescore.lm_score(sentences, model, backoff=ARPA, **interpolated, **CPU)
    text = model.parent / "text"
    text.write_text("\n".join(sentences) + "\n")
    options = [f"--{name.replace('_', '-')}={value}" for name, value in interpolated.items()]
    command = ["lm", "score", str(text), "-m", str(model), "--backoff", str(ARPA), *options, "--device", "cpu"]
    assert main([*command, "--precision", "fp32"]) == 0
    assert log_probs_S == pytest.approx([float(line) for line in capsys.readouterr().out.splitlines()], abs=1e-6)
    assert found.sentences == 40
    assert (found.perplexity["interpolation"] is None) == (not interpolated)
    assert found.unknown_to_backoff is not None


@pytest.mark.parametrize(
    ("sentences", "options", "kind", "message"),
    [
        ("le chien", {}, TypeError, "sentence: is one text; give a list"),
        ([3], {}, TypeError, "sentence 1: is of type int; give str or bytes"),
        ([], {}, phrasescore.UserError, "sentences: is empty"),
        (["a\nb"], {}, phrasescore.UserError, "sentence 1: has a line end"),
        (
            ["a"],
            {"interpolate": 0.5},
            phrasescore.UserError,
            "interpolate: needs an n-gram model",
        ),
        (["a"], {"backoff": ARPA, "interpolate": 2.0}, phrasescore.UserError, "interpolate: is 2.0; give a number"),
        (
            ["a"],
            {"backoff": ARPA, "interpolate": 0.5, "weight_text": MINI / "dev.fr"},
            phrasescore.UserError,
            "interpolate: is the weight that weight_text determines",
        ),
        (
            ["a", "b"],
            {"source": ["a"], "alignment": ["0-0", "0-0"]},
            phrasescore.UserError,
            "sentences, source, alignment: only some have item 2",
        ),
    ],
)
def test_wrong_values(
    model: Path, sentences: Any, options: dict[str, Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as error:
        phrasescore.lm_score(sentences, model, **options, **CPU)
    assert str(error.value).startswith(message)
