"""Run commands in forked children of a process that has imported everything, so that a command takes milliseconds.

The process is separate from pytest, which has threads and captured streams. It is single-threaded and receives each
command as a line of JSON over a socket. Each child gets its own environment and standard streams, a memory limit and an
alarm signal without a handler. The alarm ends a child that hangs; set early, it simulates a kill.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import NoReturn

MEMORY = 3 << 30
"""Memory limit of a child in bytes, beyond that of its parent."""
LARGEST_FILE = 1 << 28
"""Default limit on the size of a file that a child writes; a larger file fails as on a full disk."""
SECONDS = 60.0
"""Time limit in seconds. A command of an undamaged world takes less than one, but reading a bomb of 4 GB takes 15."""
_SECONDS_OF_A_TEST = 100.0
_PROGRAMS = {
    "phrasescore": "phrasescore.cli",
    "phrasescore-smt": "moses_integration.cli",
    "phrasescore-decoder": "moses_integration.cli.decoder",
}
_LIBRARIES = ("torch._dynamo", "kenlm", "sacrebleu", "sacremoses", "safetensors.torch")
"""Modules that commands import where they use them."""


@dataclass(frozen=True)
class Finished:
    """The outcome of a command."""

    code: int
    """The exit code, or minus the signal that ended the command."""
    out: bytes
    err: bytes
    seconds: float
    peak: int
    """Peak memory in bytes."""

    @property
    def was_stopped(self) -> bool:
        """Whether the alarm ended the command."""
        return self.code == -signal.SIGALRM


class Forker:
    """Runs commands in sequence."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        command = [sys.executable, "-W", "error", "-m", __name__, str(there.fileno())]
        # Threads, which PyTorch and NumPy would start at import, do not survive a fork.
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=alone)
        there.close()
        self._socket = here
        self._answers = here.makefile("rb")

    def close(self) -> None:
        """Stop the process."""
        self._answers.close()
        self._socket.close()
        self._process.wait()

    def run(
        self,
        program: str,
        *arguments: str,
        folder: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
        seconds: float = SECONDS,
        largest_file: int = LARGEST_FILE,
    ) -> Finished:
        """Run a command in `folder` until it ends or the alarm ends it."""
        with tempfile.TemporaryDirectory() as streams:
            Path(streams, "stdin").write_bytes(stdin)
            request = _Request(program, arguments, str(folder), dict(environment), streams, seconds, largest_file)
            self._socket.sendall(json.dumps(asdict(request)).encode() + b"\n")
            answer = json.loads(self._answers.readline())
            out, err = (Path(streams, name).read_bytes() for name in ("stdout", "stderr"))
        return Finished(out=out, err=err, **answer)


def run_forked(
    program: str, *arguments: str | Path, environment: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a forked child, with the interface of `subprocess.run`."""
    words = tuple(map(str, arguments))
    done = shared_forker().run(
        program, *words, folder=Path.cwd(), environment=environment, stdin=stdin, seconds=_SECONDS_OF_A_TEST
    )
    return subprocess.CompletedProcess([program, *words], done.code, done.out, done.err)


@cache
def shared_forker() -> Forker:
    """Return the forker shared by all tests of the process, which stops with it."""
    forker = Forker()
    atexit.register(forker.close)
    return forker


@dataclass(frozen=True)
class _Request:
    program: str
    arguments: Sequence[str]
    folder: str
    environment: dict[str, str]
    streams: str
    """The folder of stdin, stdout and stderr."""
    seconds: float
    largest_file: int


def _serve(descriptor: int) -> None:
    """Answer requests until the socket is closed."""
    _import_all()
    # Garbage collection in a child would touch, and so copy, the memory of all modules.
    gc.freeze()
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
    """Import the modules of all commands."""
    for package in ("phrasescore", "moses_integration"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)


def _be_child(request: _Request) -> NoReturn:
    """Run a command and exit as Python does."""
    code = 1
    try:
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        # `tempfile` caches TMPDIR.
        tempfile.tempdir = None
        for number, name in enumerate(("stdin", "stdout", "stderr")):
            os.dup2(os.open(Path(request.streams, name), os.O_RDWR | os.O_CREAT), number)
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_FSIZE, (request.largest_file, request.largest_file))
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
