"""The command line, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.conftest import DATA

MODEL = str(DATA / "stored-model")

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | {"OMP_NUM_THREADS": "1"}


def run(*arguments: str | Path, stdin: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-W", "error", "-m", "phrasescore", *map(str, arguments)]
    return subprocess.run(command, input=stdin, capture_output=True, env=ENVIRONMENT, timeout=100, check=False)
