"""`annotate` with a phrase-pair model."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from phrasescore.cli import main
from phrasescore.errors import UserError
from phrasescore.scoring.phrase_pair_model import PhrasePairModel, features_of, save_phrase_pair_model
from phrasescore.scoring.scorer import load_scorer
from phrasescore.vocabulary import WordCounts
from tests.conftest import DATA
from tests.scoring.annotating import annotate

NETWORK = DATA / "stored-model"


def make(folder: Path, pairs: tuple[list[bytes], list[bytes]], size: float = 0.3, seed: int = 1) -> PhrasePairModel:
    """Save a model with weights for every second feature of some pairs."""
    keys_F = np.unique(features_of(*pairs).keys_K)[::2]
    weights_F = np.random.default_rng(seed).normal(0, size, len(keys_F)).astype(np.float32)
    folder.mkdir()
    save_phrase_pair_model(folder, PhrasePairModel(keys_F, weights_F), {})
    return PhrasePairModel(keys_F, weights_F)


def pairs_of(table: Path) -> tuple[list[bytes], list[bytes]]:
    lines = [line.split(b" ||| ") for line in table.read_bytes().splitlines()]
    return [line[0] for line in lines], [line[1] for line in lines]


def column_of(table: Path) -> list[float]:
    return [float(line.split(b" ||| ")[2].split()[-1]) for line in table.read_bytes().splitlines()]


@pytest.fixture
def table(small_table: Path, tmp_path: Path) -> Path:
    """An uncompressed table."""
    plain = tmp_path / "table"
    plain.write_bytes(gzip.decompress(small_table.read_bytes()))
    return plain


@pytest.mark.parametrize("processes", [1, 2])
def test_the_column_is_exp_f(table: Path, tmp_path: Path, processes: int) -> None:
    function = make(tmp_path / "f", pairs_of(table))
    counts = annotate(table, load_scorer(tmp_path / "f"), tmp_path / "out", processes=processes, chunk_lines=50)
    values = function.values(features_of(*pairs_of(table)))
    assert max(values) > 0.5
    assert np.log(column_of(tmp_path / "out")) == pytest.approx(values, abs=1e-7)
    assert (counts.lines_written, counts.columns_before, counts.columns_after) == (600, 4, 5)
    assert counts.words == WordCounts()


def test_values_beyond_a_float_are_clipped(table: Path, tmp_path: Path) -> None:
    function = make(tmp_path / "f", pairs_of(table), size=80)
    counts = annotate(table, load_scorer(tmp_path / "f"), tmp_path / "out", processes=1)
    values = function.values(features_of(*pairs_of(table)))
    assert np.log(column_of(tmp_path / "out")) == pytest.approx(np.clip(values, -99, 88), abs=1e-7)
    assert counts.pairs_clipped == ((values > 88) | (values < -99)).sum() > 0
    assert np.isfinite(np.array(column_of(tmp_path / "out"), np.float32)).all()


def test_several_models_give_the_mean(table: Path, tmp_path: Path) -> None:
    one, other = (make(tmp_path / name, pairs_of(table), seed=seed) for name, seed in (("f", 1), ("g", 2)))
    scorer = load_scorer(tmp_path / "f", tmp_path / "g")
    annotate(table, scorer, tmp_path / "out", processes=1)
    bags = features_of(*pairs_of(table))
    assert np.log(column_of(tmp_path / "out")) == pytest.approx((one.values(bags) + other.values(bags)) / 2, abs=1e-7)


def test_annotate_accepts_both_kinds_of_model(table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make(tmp_path / "f", pairs_of(table))
    out, report = tmp_path / "out", tmp_path / "report"
    source = tmp_path / "text"
    source.write_bytes(pairs_of(table)[0][0] + b"\n")
    command = ["annotate", str(table), "-m", str(tmp_path / "f"), "-o", str(out), "--processes", "1"]
    assert main([*command, "--report", str(report), "--only-sources-in", str(source)]) == 0
    said = json.loads(report.read_text())
    assert said["columns"] == ["expected-bleu"]
    assert said["scorer"]["folders"] == [str(tmp_path / "f")]
    assert 0 < said["counts"]["lines_written"] < 600
    assert "unknown to" not in capsys.readouterr().err
    assert main([*command, "--dry-run"]) == 0
    assert capsys.readouterr().out.startswith("600 lines; ")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--columns", "per-word"], "has no column `per-word`; choose among expected-bleu"),
        (["--columns", "expected-bleu", "unknown-target"], "has no column `unknown-target`"),
        (["-m", str(NETWORK)], "of one kind"),
    ],
)
def test_options_without_effect_are_errors(
    table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    make(tmp_path / "f", pairs_of(table))
    out = tmp_path / "out"
    assert main(["annotate", str(table), "-m", str(tmp_path / "f"), "-o", str(out), "-q", *options]) == 1
    assert sentence in capsys.readouterr().err
    assert not out.exists()


def test_a_network_does_not_give_the_column(table: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no column `expected-bleu`; choose among score, per-word"):
        annotate(table, load_scorer(NETWORK), tmp_path / "out", columns=["expected-bleu"], processes=1)


def test_a_model_that_changes_during_the_run_is_an_error(table: Path, tmp_path: Path) -> None:
    make(tmp_path / "f", pairs_of(table))
    loading = load_scorer(tmp_path / "f").recipe
    assert loading is not None
    save_phrase_pair_model(tmp_path / "f", PhrasePairModel(np.array([1], np.uint64), np.ones(1, np.float32)), {})
    with pytest.raises(UserError, match="f: has changed while it was used"):
        loading()
