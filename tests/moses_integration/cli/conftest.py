"""Systems that several test modules share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import MINI
from tests.moses_integration.cli.running import succeed


@pytest.fixture(scope="session")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A system built from the tokenised mini corpus."""
    folder = tmp_path_factory.mktemp("cli") / "system"
    texts = ("--source", MINI / "train.en", "--target", MINI / "train.fr", "--tokenised", "--escaped")
    succeed("build", *texts, "--alignment", MINI / "train.align", "--order", "3", "-o", folder, "-q")
    return folder


@pytest.fixture(scope="session")
def plain_texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with untokenised, cased text: train.en, train.fr, dev.en, dev.fr."""
    folder = tmp_path_factory.mktemp("plain")
    for name, count in (("train", 300), ("dev", 12)):
        for side in ("en", "fr"):
            lines = (MINI / f"{name}.{side}").read_text().splitlines()[:count]
            plain = (line.capitalize().replace(" .", ".").replace("' ", "'") for line in lines)
            (folder / f"{name}.{side}").write_text("\n".join(plain) + "\n")
    return folder


@pytest.fixture(scope="session")
def plain_system(plain_texts: Path) -> Path:
    """A system built from untokenised text with the built-in word aligner."""
    folder = plain_texts / "system"
    texts = ("--source", plain_texts / "train.en", "--target", plain_texts / "train.fr")
    succeed("build", *texts, "--aligner", "ibm1", "--order", "3", "-o", folder, "-q")
    return folder
