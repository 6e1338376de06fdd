"""Descriptions of files and models, and the versions of programs."""

from __future__ import annotations

import hashlib
import re
import shutil
from pathlib import Path

import pytest

from phrasescore import model_files
from phrasescore.model_files import described
from phrasescore.model_folder import load_model
from tests.conftest import DATA, MINI


def test_the_version_tells_programs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version distinguishes development states, which share one release number."""
    told = model_files.code_version("experiments")
    assert re.fullmatch(r"[\d.]+ \(code [0-9a-f]{12}\)", told)
    assert told != model_files.code_version()
    root = Path(model_files.__file__).parents[1]
    for name in ("phrasescore", "moses_integration"):
        shutil.copytree(root / name, tmp_path / name)
    monkeypatch.setattr(model_files, "__file__", str(tmp_path / "phrasescore/model_files.py"))
    version_of_copy = model_files.code_version.__wrapped__
    assert version_of_copy() == model_files.versions()["phrasescore"]
    found = {model_files.versions()["phrasescore"]}
    for name in ("moses_integration/decoder/search.py", "phrasescore/training/presets/small.toml"):
        with (tmp_path / name).open("a") as changed:
            changed.write("# Another program.\n")
        found.add(version_of_copy())
    assert len(found) == 3


def test_a_file_is_described_by_its_bytes_and_a_network_by_its_weights() -> None:
    text = MINI / "dev.en"
    assert described(text) == {"path": str(text), "sha256": hashlib.sha256(text.read_bytes()).hexdigest()}
    model = load_model(DATA / "stored-model")
    assert described(model.folder) == {"path": str(model.folder), "sha256": model.weights_digest}


def test_a_path_without_a_file_has_no_hash(tmp_path: Path) -> None:
    for path in ("-", tmp_path / "prefix.of.several"):
        assert described(path) == {"path": str(path), "sha256": None}
