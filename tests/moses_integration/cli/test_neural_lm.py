"""Neural language models in the search and in rescoring."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest
from phrasescore.model_folder import save_lm_description, save_weights
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel
from phrasescore.vocabulary import Vocabulary, count_words
from tests.conftest import MINI
from tests.moses_integration.cli.running import sentence_of, succeed_here, write_without_language_model

succeed = partial(succeed_here, "phrasescore-smt")
FAST = ("--processes", "1", "--toolkit", "embedded", "-q")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("cslm"))


def make_model(folder: Path, self_normalise: float = 0.0) -> Path:
    """Write a model with random weights."""
    torch.manual_seed(1)
    vocabulary = Vocabulary.most_frequent(count_words(MINI / "train.fr"), 40)
    config = NeuralLmConfig(order=4, embedding=6, first_hidden=8, second_hidden=8, self_normalise=self_normalise)
    network = NeuralLanguageModel(config, len(vocabulary))
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    save_lm_description(folder, config, vocabulary, {})
    save_weights(folder, network)
    return folder


@pytest.mark.parametrize(("self_normalise", "column"), [(0.0, ""), (0.1, "unnormalised:")])
def test_the_column_of_the_search_is_that_of_rescoring(
    self_normalise: float, column: str, small_dev: tuple[Path, Path], tmp_path: Path
) -> None:
    model, (source, reference) = make_model(tmp_path, self_normalise), small_dev
    ini, tuned = tmp_path / "moses.ini", tmp_path / "tuned.ini"
    succeed("add-lm", MINI / "moses.ini", "--model", model, "-o", ini)
    quick = ("--iterations", "2", "--restarts", "0", "--nbest", "5", *FAST)
    succeed("tune", ini, "--source", source, "--reference", reference, "--prepared", "-o", tuned, *quick)
    assert MosesIni.read(tuned).weights()["CSLM0"] != [0.2]

    nbest, out, added = tmp_path / "nbest", tmp_path / "out", tmp_path / "added"
    succeed("decode", tuned, "--source", source, "--prepared", "-o", out, "--nbest", nbest, "5", *FAST)
    common = ("--nbest", nbest, "--source", source, "--prepared", "-q")
    tuning = ("--reference", reference, "--ini", tuned, "--processes", "1")
    weights = tmp_path / "weights.json"
    succeed("rescore", *common, *tuning, "--scorer", f"X={column}{model}", "--nbest-output", added, "-o", weights)
    features = [entry.features() for entry in read_nbest(added)]
    assert len(features) > 30
    in_search, rescored = ([one[label][0] for one in features] for label in ("CSLM0", "X"))
    assert rescored == pytest.approx(in_search, abs=1e-3)
    assert len(set(in_search)) > 20

    # The weights record the n-gram model of the ini, and no other model is accepted.
    assert json.loads(weights.read_text())["backoff"]["path"] == str((MINI / "lm.fr.arpa").resolve())
    succeed("rescore", *common, "--weights", weights, "-o", out)
    assert len(out.read_bytes().splitlines()) == 12


def test_the_n_gram_model_is_the_one_of_tuning(
    model: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = small_dev
    nbest, weights, out = tmp_path / "nbest", tmp_path / "weights.json", tmp_path / "out"
    without = tmp_path / "without.ini"
    write_without_language_model(without)
    succeed("decode", without, "--source", source, "--prepared", "-o", out, "--nbest", nbest, "3", *FAST)
    out.unlink()
    common: list[str | Path] = ["rescore", "--nbest", nbest, "--source", source]
    common += ["--prepared", "--precision", "fp32", "-q"]
    tuning: list[str | Path] = [*common, "--reference", reference, "--ini", without]
    tuning += ["--processes", "1", "--scorer", f"X={model}", "-o", weights]
    code = main(list(map(str, tuning)))
    assert "without.ini: has no KENLM feature" in sentence_of(code, capsys.readouterr().err.encode())
    # The n-gram model of the second factor is none of words.
    tags = f"[feature]\nKENLM factor=1 order=3 path={MINI}/lm.fr.arpa\n"
    without.write_text(without.read_text().replace("[feature]\n", tags))
    assert main(list(map(str, tuning))) == 1
    assert "without.ini: has no KENLM feature" in capsys.readouterr().err
    moved = tmp_path / "moved.arpa"
    shutil.copy(MINI / "lm.fr.arpa", moved)
    succeed(*tuning, "--backoff", moved)
    moved.rename(tmp_path / "again.arpa")
    applying: list[str | Path] = [*common, "--weights", weights, "-o", out]
    code = main(list(map(str, applying)))
    assert "moved.arpa: does not exist" in sentence_of(code, capsys.readouterr().err.encode())
    succeed(*applying, "--backoff", tmp_path / "again.arpa")
    out.unlink()
    other = tmp_path / "other.arpa"
    other.write_text((MINI / "lm.fr.arpa").read_text().replace("\\data\\", "\n\\data\\", 1))
    code = main([*map(str, applying), "--backoff", str(other)])
    assert "other.arpa: is not the n-gram model that " in sentence_of(code, capsys.readouterr().err.encode())
    assert not out.exists()
