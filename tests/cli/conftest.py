"""Fixtures shared by the tests of the commands."""

from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.cli import main
from tests.copying import OPTIONS, write_sentences


@pytest.fixture(scope="session")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model folder of a network with attention that copies sentences of letters and unknown names."""
    folder = tmp_path_factory.mktemp("copier")
    source, target = write_sentences(folder, "train", 1600, seed=1)
    other_source, other_target = write_sentences(folder, "valid", 100, seed=2)
    arguments = ["train", "--source", source, "--target", target, "-o", folder / "model", *OPTIONS.split()]
    arguments += ["--validation-source", other_source, "--validation-target", other_target]
    assert main([str(argument) for argument in arguments]) == 0
    return folder / "model"
