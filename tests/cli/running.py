"""Run the command line in a separate process."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tests.conftest import DATA
from tests.forked import run_forked

MODEL = str(DATA / "stored-model")

ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"} | {"OMP_NUM_THREADS": "1"}


def run(*arguments: str | Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_forked("phrasescore", *arguments, stdin=stdin, environment=ENVIRONMENT)


def last_of_each(arguments: Iterable[str]) -> list[str]:
    """Drop all but the last value of repeated options, so that a test can override an option."""
    found = list(arguments)
    for option in ("-o", "--nbest", "--source", "--ini", "--source-language", "--target-language"):
        if found.count(option) > 1:
            del found[found.index(option) : found.index(option) + 2]
    return found
