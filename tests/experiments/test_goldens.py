"""The comparisons that the goldens experiment rests on."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.goldens import building, decoding, tuning
from experiments.goldens.building import compare_arpa, count_different
from experiments.goldens.decoding import SYSTEM, difference
from experiments.goldens.finding import Finding, as_table
from tests.conftest import MINI

ARPA = [b"\\data\\", b"ngram 1=2", b"", b"\\1-grams:", b"-1.5\ta\t-0.5", b"-2\tb", b"", b"\\end\\"]


@pytest.mark.parametrize(
    ("ours", "largest", "holds"),
    [
        ([1.0, -2.0], 0.0, True),
        ([1.0009, -2.0], 0.0009, True),
        ([1.002, -2.0], 0.002, False),
        ([1.0, -1.0], 1.0, False),
    ],
)
def test_differences_of_printed_numbers(ours: list[float], largest: float, holds: bool) -> None:
    found = difference(np.array(ours), np.array([1.0, -2.0]))
    assert found.largest == pytest.approx(largest)
    assert found.holds is holds


def test_large_numbers_may_differ_by_more() -> None:
    assert difference(np.array([12345.6]), np.array([12345.7])).holds
    assert not difference(np.array([12345.6]), np.array([12346.0])).holds
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, True)


def test_arpa_files() -> None:
    assert compare_arpa(ARPA, ARPA) == (2, 0, 0.0)
    near = [line.replace(b"-0.5", b"-0.500001") for line in ARPA]
    assert compare_arpa(near, ARPA).largest == pytest.approx(1e-6)
    assert compare_arpa(near, ARPA).other_lines == 0
    for other in (
        [line.replace(b"\tb", b"\tc") for line in ARPA],
        [line.replace(b"\tb", b"\tb\t0") for line in ARPA],
        [line.replace(b"1=2", b"1=3") for line in ARPA],
        [*ARPA, b"more"],
        ARPA[:-1],
    ):
        assert compare_arpa(other, ARPA).other_lines == 1


def test_lines_that_differ() -> None:
    assert count_different([b"a", b"b"], [b"a", b"b"]) == (0, 2)
    assert count_different([b"a", b"c"], [b"a", b"b", b"d"]) == (2, 3)
    assert count_different([b""], []) == (1, 1)


def test_the_table_says_what_holds() -> None:
    findings = [Finding("a", "1", "2", False), Finding("b", "3", "3", True), Finding("c", "4")]
    assert as_table(findings).splitlines()[2:] == ["| a | 1 | 2 | NO |", "| b | 3 | 3 | yes |", "| c | 4 |  |  |"]


# The parts, on the mini corpus in the place of Multi30k; the files go by their content, not by the suffix.


@pytest.fixture
def goldens(tmp_path: Path) -> Path:
    """A folder laid out as the one of the goldens."""
    system, data = tmp_path / SYSTEM, tmp_path / "data/multi30k"
    system.mkdir(parents=True)
    data.mkdir(parents=True)
    for path in (*MINI.glob("*-table.*gz"), *MINI.glob("moses*.ini")):
        (system / path.name).symlink_to(path)
    (system / "lm.fr.arpa.gz").write_bytes(gzip.compress((MINI / "lm.fr.arpa").read_bytes(), 1))
    for part, name in (("train", "train"), ("dev", "val.lc.norm.tok"), ("test", "test_2016_flickr.lc.norm.tok")):
        for language in ("en", "fr"):
            lines = (MINI / f"{part}.{language}").read_bytes().splitlines(keepends=True)
            (data / f"{name}.{language}.gz").write_bytes(b"".join(lines[: 200 if part == "train" else 12]))
    return tmp_path


def test_a_build_is_held_against_its_time(goldens: Path) -> None:
    [finding] = building.check_build(goldens)
    assert "200 sentence pairs" in finding.what
    assert "alignment" in finding.figure
    assert finding.holds
    assert finding.target == "below 240 s"


def test_tuning_is_held_against_its_bleu_and_its_time(goldens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, holds in ((tuning.TUNING_SECONDS, True), (0.0, False)):
        monkeypatch.setattr(tuning, "TUNING_SECONDS", limit)
        [finding] = tuning.check_tuning(goldens)
        assert finding.holds is holds
    assert "decodings" in finding.figure


def test_the_decoder_s_own_pop_limit_is_judged(goldens: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decoding, "POP_LIMITS", (20, 500))
    for slowest, holds in ((0.0, True), (1e9, False)):
        monkeypatch.setattr(decoding, "SLOWEST", slowest)
        narrow, own = decoding.check_speed(goldens)
        assert (narrow.target, narrow.holds) == ("", None)
        assert own.target == f"at least {slowest:g} sentences/s, below 2,000 MB"
        assert own.holds is holds
