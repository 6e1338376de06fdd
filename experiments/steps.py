"""Steps that are done once: an experiment that was stopped goes on where it was.

A step's result is a JSON value in a file of its name, beside a hash of everything the step depends on, and the version
of the software that has done it. It is done again if the hash has changed, and not if the software has: that is for who
runs the experiment to decide. While it is being done, the file has the hash alone.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from moses_integration.cli import main as phrasescore_smt
from phrasescore.cli import main as phrasescore
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import make_folder, write_json
from phrasescore.versions import code_version

Json = dict[str, Any]


class Steps:
    """The steps of an experiment in a folder."""

    def __init__(self, folder: Path, say: Callable[[str], None]) -> None:
        self._folder, self._say = folder, say
        self._versions: dict[str, None] = {}
        make_folder(folder)

    def run(self, name: str, depends_on: Any, work: Callable[[], Any], folder: Path | None = None) -> Any:
        """Return the result of a step, done now or before.

        Args:
            name: of the step and its file.
            depends_on: settings and results of earlier steps, as JSON can hold them.
            work: what to do; returns what JSON can hold.
            folder: that the step goes on in where it was stopped; deleted if it was begun with other settings.
        """
        if self.is_done(name, depends_on):
            self._say(f"{name}: done before")
            return self._taken(name)
        self._say(f"{name} ...")
        key = _key(depends_on)
        if folder is not None and self._path(name).exists() and self._read(name)["key"] != key:
            shutil.rmtree(folder, ignore_errors=True)
        # What it makes takes the place of what it made before: until it has ended, no result stands for either.
        write_json(self._path(name), {"key": key})
        started = time.monotonic()
        result = work()
        seconds = round(time.monotonic() - started, 1)
        self._say(f"{name}: {seconds:.0f} s")
        write_json(
            self._path(name), {"key": key, "version": code_version("experiments"), "seconds": seconds, "result": result}
        )
        # What is returned is what a later run would read.
        return self._taken(name)

    @property
    def versions(self) -> str:
        """The versions of the software that have done the steps which were asked for, the first of them first."""
        return ", ".join(self._versions)

    def _taken(self, name: str) -> Any:
        step = self._read(name)
        self._versions[step.get("version", "unknown")] = None
        return step["result"]

    def is_done(self, name: str, depends_on: Any) -> bool:
        """Return whether `run` would do nothing."""
        found = self._read(name) if self._path(name).exists() else {}
        return "result" in found and bool(found["key"] == _key(depends_on))

    def seconds(self, name: str) -> float:
        """Return how long a step took when it was done."""
        return float(self._read(name)["seconds"])

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _read(self, name: str) -> Any:
        return read_json(self._path(name), "delete it to work that out again")


def _key(depends_on: Any) -> str:
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=str).encode()).hexdigest()


def say(text: str) -> None:
    """Print what is being done to standard error."""
    print(text, file=sys.stderr, flush=True)


def run_phrasescore(arguments: Sequence[str]) -> None:
    """Run a command of `phrasescore` in this process.

    Raises:
        UserError: it fails; what it said stands on standard error.
        SystemExit: it was stopped by a signal; the exit code says by which.
    """
    _check(phrasescore(arguments), f"phrasescore {' '.join(arguments)}")


def run_toolkit(arguments: Sequence[str]) -> None:
    """Run a command of `phrasescore-smt` in this process; see `run_phrasescore`."""
    _check(phrasescore_smt(arguments), f"phrasescore-smt {' '.join(arguments)}")


def _check(code: int, command: str) -> None:
    # A signal's number is added to it.
    if code > 128:
        raise SystemExit(code)
    if code:
        raise UserError(f"`{command}` ended with exit code {code}; mend what it said and run this again")
