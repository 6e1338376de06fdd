from __future__ import annotations

from pathlib import Path

import pytest

from experiments.steps import Steps, run_phrasescore
from phrasescore.errors import UserError
from phrasescore.text import no_log


@pytest.mark.parametrize("code", [129, 130, 143])
def test_a_command_that_a_signal_stopped_stops_the_experiment(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr("experiments.steps.phrasescore", lambda arguments: code)
    with pytest.raises(SystemExit) as stopped:
        run_phrasescore(["train"])
    assert stopped.value.code == code


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`phrasescore check .*` ended with exit code 1; fix what it reported"):
        run_phrasescore(["check", str(tmp_path / "nowhere")])


def test_a_step_is_done_until_what_it_depends_on_changes(tmp_path: Path) -> None:
    said: list[str] = []
    steps = Steps(tmp_path, said.append)
    assert not steps.is_done("add", [1, 2])
    assert steps.run("add", [1, 2], lambda: 3) == 3
    assert steps.is_done("add", [1, 2])
    assert steps.run("add", [1, 2], lambda: 0) == 3
    assert not steps.is_done("add", [1, 3])
    assert steps.run("add", [1, 3], lambda: 4) == 4
    assert said == ["add ...", "add: 0 s", "add: done before", "add ...", "add: 0 s"]


def test_a_step_is_done_once_for_the_same_settings(tmp_path: Path) -> None:
    done: list[int] = []

    def work() -> dict[str, int]:
        done.append(1)
        return {"value": len(done)}

    assert Steps(tmp_path, no_log).run("a", {"x": 1}, work) == {"value": 1}
    assert Steps(tmp_path, no_log).run("a", {"x": 1}, work) == {"value": 1}
    assert Steps(tmp_path, no_log).run("a", {"x": 2}, work) == {"value": 2}
    assert Steps(tmp_path, no_log).seconds("a") >= 0


def test_a_step_that_failed_is_done_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise UserError("no")

    with pytest.raises(UserError):
        Steps(tmp_path, no_log).run("a", 1, fail)
    assert Steps(tmp_path, no_log).run("a", 1, lambda: 5) == 5


def test_steps_say_which_software_has_done_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps record the software version; finished steps of an older version stay valid and are listed."""
    monkeypatch.setattr("experiments.steps.code_version", lambda *packages: "0.1 (code a)")
    Steps(tmp_path, print).run("old", 1, lambda: 1)
    monkeypatch.setattr("experiments.steps.code_version", lambda *packages: "0.1 (code b)")
    steps = Steps(tmp_path, print)
    assert [steps.run(name, 1, lambda: 2) for name in ("old", "new")] == [1, 2]
    assert steps.versions == "0.1 (code a), 0.1 (code b)"


def test_a_step_that_was_stopped_is_done_with_no_settings(tmp_path: Path) -> None:
    """An interrupted step is not finished for any settings, because it overwrote part of its old output."""
    steps = Steps(tmp_path, no_log)

    def stop() -> None:
        raise KeyboardInterrupt

    steps.run("train", {"hidden": 3}, lambda: "a network")
    with pytest.raises(KeyboardInterrupt):
        steps.run("train", {"hidden": 4}, stop)
    assert not steps.is_done("train", {"hidden": 3})
    assert steps.run("train", {"hidden": 3}, lambda: "the network once more") == "the network once more"


def test_a_folder_is_kept_for_the_same_settings_only(tmp_path: Path) -> None:
    """A folder may be reused with the same settings only, even if its step did not finish."""
    steps, folder = Steps(tmp_path / "steps", no_log), tmp_path / "GRU"

    def stop() -> None:
        assert not folder.exists()
        folder.mkdir()
        raise KeyboardInterrupt

    for hidden in (3, 4):
        with pytest.raises(KeyboardInterrupt):
            steps.run("train", {"hidden": hidden}, stop, folder)
    assert steps.run("train", {"hidden": 4}, folder.exists, folder)
