from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MINI


@pytest.fixture(scope="session")
def multi30k_of_mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus under Multi30k's file names."""
    folder = tmp_path_factory.mktemp("origin")
    for language in ("en", "fr"):
        for part, name in (("train", "train"), ("dev", "val"), ("test", "test_2016_flickr")):
            lines = (MINI / f"{part}.{language}").read_bytes().splitlines(keepends=True)
            (folder / f"{name}.lc.norm.tok.{language}").write_bytes(b"".join(lines[: 400 if part == "train" else 30]))
    return folder
