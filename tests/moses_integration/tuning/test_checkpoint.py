"""An interrupted tuning resumes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.checkpoint import TuningCheckpoint, TuningStep
from moses_integration.tuning.tune import Floats, Tuner
from moses_integration.tuning.tunings import Iteration, Tuning
from phrasescore.errors import UserError
from tests.moses_integration.tuning.test_tune import tuner

FINGERPRINT = {"ini": "a"}


class Killed(Exception):
    """Simulates a kill."""


def without_times(tuning: Tuning) -> Tuning:
    return replace(tuning, iterations=[replace(one, seconds=0) for one in tuning.iterations])


def test_it_resumes_after_the_step_that_it_was_killed_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with tuner() as work:
        whole = work.tune(1)
    assert len(whole.iterations) == 2

    def killed(iteration: Iteration) -> None:
        raise Killed

    with tuner() as work, pytest.raises(Killed):
        work.tune(1, killed, TuningCheckpoint(tmp_path, FINGERPRINT))
    decoded: list[int] = []
    step = Tuner._step

    def counting(self: Tuner, lists: Candidates, tried: Sequence[Floats], *others: Any) -> TuningStep:
        decoded.append(len(tried))
        return step(self, lists, tried, *others)

    monkeypatch.setattr(Tuner, "_step", counting)
    logged: list[str] = []
    checkpoint = TuningCheckpoint(tmp_path, FINGERPRINT, log=logged.append)
    assert logged == [f"{tmp_path / 'tuned'}: resuming an earlier run"]
    with tuner() as work:
        resumed = work.tune(1, checkpoint=checkpoint)
    assert decoded == [2]
    assert without_times(resumed) == without_times(whole)


def test_seeds_that_are_done_are_not_tuned_again(tmp_path: Path) -> None:
    tuned: list[int] = []

    def tune(seeds: Sequence[int]) -> Iterator[Tuning]:
        for seed in seeds:
            tuned.append(seed)
            if seed == 3:
                raise Killed
            yield Tuning(seed, {"LM0": [0.1 + seed]}, 30.0 + seed, [Iteration({"LM0": [1 / 3]}, 1.0, 2.0, 3, 4.0)])

    with pytest.raises(Killed):
        list(TuningCheckpoint(tmp_path, FINGERPRINT).tunings([2, 3], tune))
    (found,) = TuningCheckpoint(tmp_path, FINGERPRINT).tunings([2], tune)
    assert found == Tuning(2, {"LM0": [2.1]}, 32.0, [Iteration({"LM0": [1 / 3]}, 1.0, 2.0, 3, 4.0)])
    assert [one.seed for one in TuningCheckpoint(tmp_path, FINGERPRINT).tunings([1, 2], tune)] == [2, 1]
    assert tuned == [2, 3, 1]
    path = tmp_path / "tuned/seed2.tuning"
    path.write_bytes(path.read_bytes().replace(b"2.1", b"9.1"))
    with pytest.raises(Killed):
        list(TuningCheckpoint(tmp_path, FINGERPRINT).tunings([2, 3], tune))
    assert tuned == [2, 3, 1, 2, 3]


def test_nothing_is_taken_of_another_tuning_or_of_damaged_files(tmp_path: Path) -> None:
    with tuner() as work:
        checkpoint = TuningCheckpoint(tmp_path, FINGERPRINT)
        work.tune(1, checkpoint=checkpoint)
    assert checkpoint.load_step(1, 0) is not None
    path = tmp_path / "tuned/seed1.0.step"
    whole = path.read_bytes()
    for damaged in (whole[:-200], whole[:900] + bytes([whole[900] ^ 1]) + whole[901:]):
        path.write_bytes(damaged)
        assert checkpoint.load_step(1, 0) is None
    path.write_bytes(b"")
    assert checkpoint.load_step(1, 0) is None
    assert checkpoint.load_step(1, 1) is not None
    with pytest.raises(
        UserError, match=r"tuned: an earlier run had ini a \(now b\); give the same to resume it, or restart"
    ):
        TuningCheckpoint(tmp_path, {"ini": "b"})
    assert TuningCheckpoint(tmp_path, FINGERPRINT).load_step(1, 1) is not None
    logged: list[str] = []
    other = TuningCheckpoint(tmp_path, {"ini": "b"}, restart=True, log=logged.append)
    assert logged == []
    assert other.load_step(1, 1) is None


def test_the_changed_setting_is_named(tmp_path: Path) -> None:
    before = {
        "settings": {"nbest": 100, "iterations": 5},
        "models": {"LM0": {"path": {"sha256": "a"}}},
        "texts": ["1", "2"],
    }
    after = {
        "settings": {"nbest": 200, "iterations": 5, "new": 1},
        "models": {"LM0": {"path": {"sha256": "b"}}},
        "texts": ["1"],
    }
    list(TuningCheckpoint(tmp_path, before).tunings([1], lambda seeds: [Tuning(1, {}, 30.0)]))
    changed = (
        "models.LM0.path.sha256 a (now b), settings.nbest 100 (now 200), settings.new none (now 1), texts 1 2 (now 1)"
    )
    with pytest.raises(UserError, match=re.escape(f"had {changed}; give the same")):
        TuningCheckpoint(tmp_path, after)
