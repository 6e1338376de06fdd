"""Commands in forked children of one process that has imported what they need: an input costs milliseconds.

The process is not the one that runs the tests, which has threads and captured streams. It is single-threaded, and is
asked over a socket, a line of JSON for each command. A child gets its own standard streams, a bound on its memory and
an alarm that nothing catches: the alarm ends what hangs, and, set early, is a kill at any moment.
"""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import NoReturn

from tests.moses_integration.cli.running import environment

MEMORY = 3 << 30
"""Bytes of memory of its own that a child may have."""
LARGEST_FILE = 1 << 28
SECONDS = 20.0
"""What takes longer hangs: a command of an undamaged world takes less than a second."""
_PROGRAMS = {
    "phrasescore": "phrasescore.cli",
    "phrasescore-smt": "moses_integration.cli",
    "phrasescore-decoder": "moses_integration.cli.decoder",
}
_LIBRARIES = ("torch._dynamo", "kenlm", "sacrebleu", "sacremoses", "safetensors.torch")
"""What commands import where they use it."""


@dataclass(frozen=True)
class Finished:
    """What became of a command."""

    code: int
    """The exit code, or minus the signal that ended it."""
    out: bytes
    err: bytes
    seconds: float
    peak: int
    """Most bytes of memory at a time."""

    @property
    def was_stopped(self) -> bool:
        """Whether the alarm ended it."""
        return self.code == -signal.SIGALRM


class Forker:
    """Runs commands one after the other. A context manager."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        # Warnings are printed, and so found.
        command = [sys.executable, "-W", "default", "-m", __name__, str(there.fileno())]
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=environment({"COLUMNS": "200"})
        )
        there.close()
        self._socket = here
        self._answers = here.makefile("rb")

    def __enter__(self) -> Forker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._answers.close()
        self._socket.close()
        self._process.wait()

    def run(self, program: str, *arguments: str, folder: Path, streams: Path, seconds: float = SECONDS) -> Finished:
        """Run a command in `folder` until it ends, or the alarm ends it; its output goes to files in `streams`."""
        request = {
            "program": program,
            "arguments": arguments,
            "folder": str(folder),
            "streams": str(streams),
            "seconds": seconds,
        }
        self._socket.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        out, err = ((streams / name).read_bytes() for name in ("stdout", "stderr"))
        return Finished(out=out, err=err, **answer)


@dataclass(frozen=True)
class _Request:
    program: str
    arguments: list[str]
    folder: str
    streams: str
    seconds: float


def _serve(descriptor: int) -> None:
    """Answer requests until nobody asks any more."""
    _import_all()
    with socket.socket(fileno=descriptor) as asked, asked.makefile("rb") as requests:
        for line in requests:
            request, started = _Request(**json.loads(line)), time.monotonic()
            if not (child := os.fork()):
                _be_child(request)
            _, status, usage = os.wait4(child, 0)
            answer = {
                "code": os.waitstatus_to_exitcode(status),
                "seconds": time.monotonic() - started,
                "peak": usage.ru_maxrss << 10,
            }
            asked.sendall(json.dumps(answer).encode() + b"\n")


def _import_all() -> None:
    """Import what any command may need."""
    for package in ("phrasescore", "moses_integration"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)


def _be_child(request: _Request) -> NoReturn:
    """Run a command and exit as Python would."""
    code = 1
    try:
        os.chdir(request.folder)
        for number, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(Path(request.streams, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
        signal.setitimer(signal.ITIMER_REAL, request.seconds)
        main = importlib.import_module(_PROGRAMS[request.program]).main
        code = main(request.arguments)
        sys.stdout.flush()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
