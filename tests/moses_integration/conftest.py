"""Fixtures of the tests of moses_integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MINI


@pytest.fixture
def no_moses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An environment in which no Moses can be found."""
    monkeypatch.delenv("MOSES_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty-bin"))


@pytest.fixture
def small_dev(tmp_path: Path) -> tuple[Path, Path]:
    """Twelve dev sentences and their translations."""
    texts = tmp_path / "small-dev.en", tmp_path / "small-dev.fr"
    for text in texts:
        lines = (MINI / f"dev{text.suffix}").read_bytes().splitlines(keepends=True)
        text.write_bytes(b"".join(lines[:12]))
    return texts
