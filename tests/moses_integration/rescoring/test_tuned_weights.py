"""The weights file of `rescore --reference`, valid and modified."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from moses_integration.rescoring.features import FeatureSpec
from moses_integration.rescoring.rescorer import SCHEMA, TunedWeights
from phrasescore.errors import UserError


def write(path: Path, weight: Any) -> Path:
    weights = {"LM0": [0.5, weight]}
    path.write_text(
        json.dumps({"schema": SCHEMA, "ini": {"path": "i"}, "backoff": None, "scorers": [], "weights": weights})
    )
    return path


@pytest.mark.parametrize("backoff", [None, "lm.arpa"])
def test_written_files_are_read_again(tmp_path: Path, backoff: str | None) -> None:
    weights = TunedWeights(
        tmp_path / "weights",
        tmp_path / "moses.ini" if backoff else None,
        tmp_path / backoff if backoff else None,
        "12ab" if backoff else None,
        [FeatureSpec("A", tmp_path / "a", "per-word"), FeatureSpec("N", tmp_path / "numbers")],
        {"A": "34cd", "N": None},
        {"LM0": [0.5], "A": [1.0], "N": [0.25, -2.0]},
    )
    weights.write({"entries": 3})
    assert TunedWeights.read(weights.path) == weights
    assert json.loads(weights.path.read_text())["entries"] == 3


@pytest.mark.parametrize("weight", [0, -1.5, 3e38, -7])
def test_numbers_of_32_bit_are_weights(tmp_path: Path, weight: float) -> None:
    assert TunedWeights.read(write(tmp_path / "weights", weight)).weights == {"LM0": [0.5, weight]}


@pytest.mark.parametrize("weight", [True, None, "0.5", [0.5], 1e308, -3.5e38, 10**40, float("inf"), float("nan")])
def test_nothing_else_is(tmp_path: Path, weight: Any) -> None:
    with pytest.raises(UserError, match=r"weights: (is not|has a (whole )?number) .*; tune (first|again)$"):
        TunedWeights.read(write(tmp_path / "weights", weight))
