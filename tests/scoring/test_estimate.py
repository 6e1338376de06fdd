from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.scoring import estimate as estimate_module
from phrasescore.scoring.annotate import annotate
from phrasescore.scoring.annotate_config import AnnotateConfig
from phrasescore.scoring.estimate import estimate
from phrasescore.scoring.scorer import load_scorer
from tests.conftest import DATA

SCORER = load_scorer(DATA / "stored-model", device="cpu", precision="fp32")


def test_no_more_processes_are_counted_than_there_are_blocks(
    small_table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate counts no more processes than chunks, and their memory.

    A table of a few chunks is scored in the current process. Each additional process starts with a copy of its memory.
    """
    monkeypatch.setattr(estimate_module, "CHUNK_LINES", 100)
    part = estimate(small_table, SCORER, AnnotateConfig(shard="1/3", processes=32))
    assert (part.lines, part.is_exact, part.processes) == (200, False, 1)
    some = estimate(small_table, SCORER, AnnotateConfig(limit=450, processes=4))
    assert (some.lines, some.is_exact, some.processes) == (450, True, 4)
    whole = estimate(small_table, SCORER, AnnotateConfig(processes=32))
    assert (whole.lines, whole.is_exact, whole.processes) == (600, True, 6)
    assert whole.memory >= 7 * part.memory


def test_more_processes_than_cores_are_no_faster(small_table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(estimate_module, "CHUNK_LINES", 100)
    monkeypatch.setattr(estimate_module, "_measure", lambda *args: (100, 1.0, 1))
    monkeypatch.setattr(estimate_module, "available_cores", lambda: 2)
    configs = [AnnotateConfig(processes=number) for number in (1, 2, 6)]
    assert [estimate(small_table, SCORER, config).seconds for config in configs] == [6, 3, 3]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_the_size_of_the_output_is_measured(small_table: Path, suffix: str, tmp_path: Path) -> None:
    output = tmp_path / f"out{suffix}"
    for config in (AnnotateConfig(), AnnotateConfig(columns=("score", "per-word"), limit=200)):
        expected = estimate(small_table, SCORER, config, output).size
        annotate(small_table, SCORER, output, config)
        assert expected == pytest.approx(output.stat().st_size, rel=0.03)


def test_lines_that_were_not_counted_are_no_more_than_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(estimate_module, "_SECONDS_OF_READING", 0)
    monkeypatch.setattr(estimate_module, "_SECONDS_OF_SCORING", 0)
    monkeypatch.setattr(estimate_module, "_SAMPLED_LINES", 100)
    table = tmp_path / "table"
    table.write_bytes(b"the ||| le ||| 0.5 ||| %b\na ||| un ||| 0.5 ||| \n" % (b"0-0 " * 500) * 2000)
    found = estimate(table, SCORER, AnnotateConfig(limit=300, processes=1))
    assert (found.lines, found.is_exact) == (300, False)
    assert 300 < estimate(table, SCORER, AnnotateConfig(processes=1)).lines < 4000
    # The output of the sample is scaled to the whole table, whose lines get a short column.
    monkeypatch.setattr(estimate_module, "_SECONDS_OF_READING", 60)
    assert estimate(table, SCORER, AnnotateConfig(processes=1)).size == pytest.approx(table.stat().st_size, rel=0.1)
