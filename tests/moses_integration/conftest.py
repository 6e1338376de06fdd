from __future__ import annotations

import random
from pathlib import Path

import pytest

from moses_integration.building.language_model import estimate_embedded
from tests.conftest import MINI
from tests.moses_integration.decoder.small_system import TARGET_WORDS


@pytest.fixture
def no_moses(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Hide any installed Moses."""
    monkeypatch.delenv("MOSES_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty-bin"))


@pytest.fixture
def small_dev(tmp_path: Path) -> tuple[Path, Path]:
    """Twelve dev sentences and their translations."""
    return write_small_dev(tmp_path)


def write_small_dev(folder: Path) -> tuple[Path, Path]:
    """Write twelve dev sentences and their translations."""
    texts = folder / "small-dev.en", folder / "small-dev.fr"
    for text in texts:
        lines = (MINI / f"dev{text.suffix}").read_bytes().splitlines(keepends=True)
        text.write_bytes(b"".join(lines[:12]))
    return texts


@pytest.fixture(scope="session")
def language_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Language models of orders 2 and 3 over the small systems' target words."""
    folder = tmp_path_factory.mktemp("language-models")
    draw = random.Random(1)
    lines = [b" ".join(draw.choices(TARGET_WORDS, (8, 4, 2, 1), k=draw.randint(1, 8))) + b"\n" for _ in range(100)]
    (folder / "text").write_bytes(b"".join(lines))
    models = [folder / f"{order}.arpa" for order in (2, 3)]
    for order, path in zip((2, 3), models, strict=True):
        estimate_embedded(folder / "text", path, order)
    return models
