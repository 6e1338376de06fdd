from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from phrasescore import model_files as versions


def test_the_version_tells_programs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The version distinguishes development states, which share one release number."""
    told = versions.code_version("experiments")
    assert re.fullmatch(r"[\d.]+ \(code [0-9a-f]{12}\)", told)
    assert told != versions.code_version()
    root = Path(versions.__file__).parents[1]
    for name in ("phrasescore", "moses_integration"):
        shutil.copytree(root / name, tmp_path / name)
    monkeypatch.setattr(versions, "__file__", str(tmp_path / "phrasescore/versions.py"))
    version_of_copy = versions.code_version.__wrapped__
    assert version_of_copy() == versions.versions()["phrasescore"]
    found = {versions.versions()["phrasescore"]}
    for name in ("moses_integration/decoder/search.py", "phrasescore/training/presets/small.toml"):
        with (tmp_path / name).open("a") as changed:
            changed.write("# Another program.\n")
        found.add(version_of_copy())
    assert len(found) == 3
