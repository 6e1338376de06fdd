"""Commands in forked children of one process that has imported what they need: an input costs milliseconds.

The process is not the one that runs the tests, which has threads and captured streams. It is single-threaded, and is
asked over a socket, a line of JSON for each command. A child gets its own environment, standard streams, a bound on its
memory and an alarm that nothing catches: the alarm ends what hangs, and, set early, is a kill at any moment.
"""

from __future__ import annotations

import atexit
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
"""Bytes of memory of its own that a child may have."""
LARGEST_FILE = 1 << 28
"""Bytes of a file that a child may write, unless it is given another limit: writing more fails as on a full disk."""
SECONDS = 60.0
"""What takes longer hangs. A command of an undamaged world takes less than a second; but to read a bomb of 4 GB takes a
quiet core 15 s."""
_SECONDS_OF_A_TEST = 100.0
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
    """Runs commands one after the other."""

    def __init__(self) -> None:
        here, there = socket.socketpair()
        command = [sys.executable, "-W", "error", "-m", __name__, str(there.fileno())]
        # Threads, which PyTorch and NumPy would begin at once, do not outlive a fork.
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=alone)
        there.close()
        self._socket = here
        self._answers = here.makefile("rb")

    def close(self) -> None:
        """Let the process end."""
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
        """Run a command in `folder` until it ends, or the alarm ends it."""
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
    """Run a command here, as `subprocess.run` would."""
    words = tuple(map(str, arguments))
    done = shared_forker().run(
        program, *words, folder=Path.cwd(), environment=environment, stdin=stdin, seconds=_SECONDS_OF_A_TEST
    )
    return subprocess.CompletedProcess([program, *words], done.code, done.out, done.err)


@cache
def shared_forker() -> Forker:
    """The one for all tests of this process, which ends with it."""
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
        os.environ.clear()
        os.environ.update(request.environment)
        # Python remembers TMPDIR.
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
