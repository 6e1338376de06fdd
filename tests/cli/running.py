"""The command line, run as a user runs it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.conftest import DATA
from tests.forked import run_forked

MODEL = str(DATA / "stored-model")

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | {"OMP_NUM_THREADS": "1"}


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    """Run `phrasescore` in a process of its own."""
    return run_forked("phrasescore", *arguments, stdin=stdin, environment=ENVIRONMENT)
