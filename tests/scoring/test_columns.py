from __future__ import annotations

import gzip
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore import plugins
from phrasescore.cli import main
from phrasescore.scoring.columns import FLOOR, SCORE, UNKNOWN_TARGET, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores
from tests.scoring.annotating import annotate


def as_moses_reads(text: bytes) -> float:
    """Return the feature value that Moses loads: the natural logarithm as a 32-bit float, at least -100."""
    return max(float(np.log(np.float64(np.float32(text)))), -100.0)


@given(st.lists(st.floats(-1000, 1e-6), min_size=1))
def test_every_number_is_a_probability(scores: list[float]) -> None:
    texts, clipped = SCORE.texts(np.array(scores))
    assert all(0 < float(text) <= 1 for text in texts)
    assert clipped == sum(score < FLOOR for score in scores)


@given(st.floats(-87.0, 0.0))
def test_moses_sees_the_score(score: float) -> None:
    assert abs(as_moses_reads(SCORE.texts(np.array([score]))[0][0]) - score) < 1e-5


@pytest.mark.parametrize("score", [-90.0, -95.0, -98.9, -99.0, -150.0])
def test_moses_sees_small_scores_less_precisely(score: float) -> None:
    assert abs(as_moses_reads(SCORE.texts(np.array([score]))[0][0]) - max(score, FLOOR)) < 5e-3


def test_nine_digits_and_a_floor() -> None:
    """Scores have nine significant digits; log-probabilities below -99 are written as exp(-99)."""
    assert SCORE.texts(np.array([math.log(1 / 3), -150.0])) == ([b"0.333333333", b"1.01122149e-43"], 1)


def test_nan_is_rejected() -> None:
    with pytest.raises(ValueError, match="not a number"):
        SCORE.texts(np.array([-1.0, math.nan]))


def test_a_positive_log_probability_is_rejected() -> None:
    with pytest.raises(ValueError, match="column score has the value 3, which is no log-probability; declare it as"):
        SCORE.texts(np.array([-1.0, 3.0]))


class Zero(PhraseScorer):
    """Gives every pair the probability 0."""

    fingerprint = "zero"

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        return Scores(np.full((len(occurrences.targets), 1), -np.inf))


def test_a_probability_of_0_is_written_as_the_floor(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5\n")
    counts = annotate(tmp_path / "table", Zero(), tmp_path / "out", processes=1)
    assert (tmp_path / "out").read_bytes() == b"a ||| b ||| 0.5 1.01122149e-43\n"
    assert counts.pairs_clipped == 1


@given(st.lists(st.integers(0, 200), min_size=1))
def test_moses_sees_the_count(counts: list[int]) -> None:
    for count, text in zip(counts, UNKNOWN_TARGET.texts(np.array(counts, np.float64))[0], strict=True):
        assert abs(as_moses_reads(text) - min(count, 88)) < 1e-5


class Symbols(PhraseScorer):
    """A plugin scorer that counts the symbols that a network would predict."""

    columns = (Column("symbols", "count"), Column("half", "log-linear"))
    fingerprint = "symbols"

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        symbols_N = np.array([len(target.split()) + 1 for target in occurrences.targets], np.float64)
        values = {"symbols": symbols_N, "half": np.full(len(symbols_N), 0.5)}
        return Scores(np.stack([values[column.name] for column in columns or self.columns[:1]], axis=1))


PLUGIN = """
from tests.scoring.test_columns import Symbols
from phrasescore.scoring.scorer import register_scorer

register_scorer("symbols")(lambda folders, device, precision: Symbols(folders))
"""


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_new_scorer_needs_its_class_and_its_registration_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: str
) -> None:
    # Unregister the plugin: plugins stay loaded for the whole process, and other tests expect none.
    monkeypatch.setattr(plugins, "_loaded", {})
    plugin, model = tmp_path / "plugin.py", tmp_path / "model"
    plugin.write_text(PLUGIN.replace("symbols", f"symbols-{processes}"))
    model.mkdir()
    (model / "config.json").write_text(f'{{"kind": "symbols-{processes}"}}')
    table, output = tmp_path / "table", tmp_path / "out.gz"
    pairs = [(b"the dog", b"le chien"), (b"dog", b"chien"), (b"the", b"")]
    lines = [b"%b ||| %b ||| 0.5\n" % pair for pair in pairs] * 25_000
    table.write_bytes(b"".join(lines) + b"the ||| le ||| none\n")
    command = ["annotate", str(table), "-m", str(model), "-o", str(output), "--plugin", str(plugin)]
    command += ["--columns", "symbols", "half", "--on-error", "keep", "--processes", processes]
    assert main(command) == 0
    *kept, faulty = gzip.decompress(output.read_bytes()).splitlines()
    expected = [b"20.0855369 1.64872127", b"7.3890561 1.64872127", b"2.71828183 1.64872127"] * 25_000
    assert [line.split(b" ||| ")[2] for line in kept] == [b"0.5 " + text for text in expected]
    assert faulty == b"the ||| le ||| none 1 1"
