from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MINI


@pytest.fixture(scope="session")
def multi30k_of_mini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The mini corpus under Multi30k's file names."""
    folder = tmp_path_factory.mktemp("origin")
    texts = {
        "train": ("train", slice(250)),
        "val": ("dev", slice(15)),
        "test_2016_flickr": ("test", slice(15)),
        "test_2017_flickr": ("test", slice(30, 38)),
    }
    for language in ("en", "fr"):
        for name, (part, some) in texts.items():
            lines = (MINI / f"{part}.{language}").read_bytes().splitlines(keepends=True)[some]
            (folder / f"{name}.lc.norm.tok.{language}").write_bytes(b"".join(lines))
    return folder
