"""Creation of the environment by `make`."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_names_the_package_that_debian_lacks(tmp_path: Path) -> None:
    (tmp_path / "ensurepip.py").write_text("raise ImportError\n")
    venv = tmp_path / "venv"
    python = f"env PYTHONPATH={tmp_path} {sys.executable}"
    command = ["make", "--silent", f"VENV={venv}", f"PYTHON={python}", f"{venv}/.ready"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    told = "cannot create virtual environments; on Debian or Ubuntu type: apt install python3-venv"
    assert done.stderr.splitlines()[0] == f"{python} {told}"
    assert done.returncode == 2
    assert not venv.exists()
