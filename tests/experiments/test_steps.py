from __future__ import annotations

from pathlib import Path

import pytest

from experiments.steps import clear_if_changed, run_command
from phrasescore.errors import UserError


@pytest.mark.parametrize("code", [130, 143])
def test_a_command_that_a_signal_stopped_stops_the_experiment(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr("experiments.steps.phrasescore", lambda arguments: code)
    with pytest.raises(SystemExit) as stopped:
        run_command(["train"])
    assert stopped.value.code == code


def test_a_command_that_fails_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"`phrasescore check .*` ended with exit code 1; mend what it said"):
        run_command(["check", str(tmp_path / "nowhere")])


def test_a_folder_is_kept_for_the_same_settings_only(tmp_path: Path) -> None:
    """Also where the step never came to its end."""
    folder = tmp_path / "systems" / "GRU"
    clear_if_changed(folder, {"hidden": 3})
    folder.mkdir()
    clear_if_changed(folder, {"hidden": 3})
    assert folder.exists()
    clear_if_changed(folder, {"hidden": 4})
    assert not folder.exists()
    clear_if_changed(folder, {"hidden": 4})
    assert [path.name for path in folder.parent.iterdir()] == ["GRU.settings.json"]
