"""Cached steps, which let an interrupted experiment resume.

The file of a step has its result as a JSON value, a hash of all its dependencies, and the version of the software. A
step runs again if the hash has changed, but not if the software has changed: that decision is left to the user. While
a step runs, its file has only the hash.
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
from phrasescore.errors import UserError
from phrasescore.files import make_folder, write_json
from phrasescore.files.documents import read_json
from phrasescore.model_files import code_version

Json = dict[str, Any]


class Steps:
    """The steps of an experiment in a folder."""

    def __init__(self, folder: Path, log: Callable[[str], None]) -> None:
        self._folder, self._log = folder, log
        self._versions: dict[str, None] = {}
        make_folder(folder)

    def run(self, name: str, depends_on: Any, work: Callable[[], Any], folder: Path | None = None) -> Any:
        """Return the result of a step; run it if necessary.

        Args:
            name: name of the step and its file.
            depends_on: settings and results of earlier steps, as JSON values.
            work: runs the step; returns a JSON value.
            folder: working folder in which the step resumes; deleted if the dependencies have changed.
        """
        if self.is_done(name, depends_on):
            self._log(f"{name}: done before")
            return self._taken(name)
        self._log(f"{name} ...")
        key = _key(depends_on)
        if folder is not None and self._path(name).exists() and self._read(name)["key"] != key:
            shutil.rmtree(folder, ignore_errors=True)
        # The step overwrites its earlier outputs, so the earlier result is invalid from now on.
        write_json(self._path(name), {"key": key})
        started = time.monotonic()
        result = work()
        seconds = round(time.monotonic() - started, 1)
        self._log(f"{name}: {seconds:.0f} s")
        write_json(
            self._path(name), {"key": key, "version": code_version("experiments"), "seconds": seconds, "result": result}
        )
        # Return the value that a later run would read.
        return self._taken(name)

    @property
    def versions(self) -> str:
        """Software versions of all requested steps, in order of first use."""
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
        """Return the duration of a completed step."""
        return float(self._read(name)["seconds"])

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"

    def _read(self, name: str) -> Any:
        return read_json(self._path(name), "delete it to work that out again")


def _key(depends_on: Any) -> str:
    return hashlib.sha256(json.dumps(depends_on, sort_keys=True, default=str).encode()).hexdigest()


def log(text: str) -> None:
    """Log a line on standard error."""
    print(text, file=sys.stderr, flush=True)


def run_phrasescore(arguments: Sequence[str]) -> None:
    """Run a command of `phrasescore` in this process.

    Raises:
        UserError: the command fails; its messages are on standard error.
        SystemExit: the command was stopped by a signal, which the exit code shows.
    """
    _check(phrasescore(arguments), f"phrasescore {' '.join(arguments)}")


def run_toolkit(arguments: Sequence[str]) -> None:
    """Run a command of `phrasescore-smt` in this process; see `run_phrasescore`."""
    _check(phrasescore_smt(arguments), f"phrasescore-smt {' '.join(arguments)}")


def _check(code: int, command: str) -> None:
    # The exit code is 128 + the signal number.
    if code > 128:
        raise SystemExit(code)
    if code:
        raise UserError(f"`{command}` ended with exit code {code}; fix what it reported and run this again")
