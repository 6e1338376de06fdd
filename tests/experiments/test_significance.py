"""Significance tests over several runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.significance import p_value_over_runs
from moses_integration import metrics
from tests.conftest import MINI
from tests.moses_integration.test_metrics import compare, write_without_words

REFERENCE = MINI / "dev.fr"


def test_a_run_that_is_copied_is_no_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TRIALS", 100)
    systems, bases = ([write_without_words(tmp_path / str(seed), seed) for seed in seeds] for seeds in ((1, 3), (2, 4)))
    alone = p_value_over_runs(systems[:1], bases[:1], [REFERENCE], "none")
    assert alone == p_value_over_runs(systems[:1] * 3, bases[:1] * 3, [REFERENCE], "none")
    assert alone == p_value_over_runs(systems[:1] * 3, bases[:1] * 2, [REFERENCE], "none")
    assert alone == compare(systems[0], bases[0], "none").p_value
    assert alone != p_value_over_runs(systems, bases, [REFERENCE], "none")
