from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from experiments.machine import machine
from phrasescore import __version__
from phrasescore.model_files import described, versions
from phrasescore.model_folder import load_model
from tests.conftest import DATA, MINI


def test_a_file_is_described_by_its_bytes_and_a_network_by_its_weights() -> None:
    text = MINI / "dev.en"
    assert described(text) == {"path": str(text), "sha256": hashlib.sha256(text.read_bytes()).hexdigest()}
    model = load_model(DATA / "stored-model")
    assert described(model.folder) == {"path": str(model.folder), "sha256": model.weights_digest}


def test_a_path_without_a_file_has_no_hash(tmp_path: Path) -> None:
    for path in ("-", tmp_path / "prefix.of.several"):
        assert described(path) == {"path": str(path), "sha256": None}


def test_a_machine_has_its_versions() -> None:
    assert machine().keys() == {"cpu", "cores", "system", "versions"}
    assert machine()["versions"] == versions()
    assert versions()["phrasescore"].startswith(__version__)
    # The metadata may omit the build variant, as in 2.13.0+cpu.
    assert torch.__version__.startswith(versions()["torch"].partition("+")[0])
