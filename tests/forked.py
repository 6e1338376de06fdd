"""Run commands in forked children of a process that has imported everything, so that a command takes milliseconds.

The process is separate from pytest, which has threads and captured streams. It is single-threaded and receives each
command as JSON over a socket. Each child gets its own environment and standard streams, a memory limit and an alarm
signal without a handler. The alarm ends a child that hangs; set early, it simulates a kill.
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
from tempfile import TemporaryFile
from typing import IO, NoReturn, Self

MEMORY = 3 << 29
"""Memory limit of a child in bytes, beyond that of its parent."""
LARGEST_FILE = 1 << 28
"""Default limit on the size of a file that a child writes; a larger file fails as on a full disk."""
SECONDS = 60.0
"""Time limit in seconds. A command of an undamaged world takes less than one, but reading a bomb of 2 GB takes 8."""
_SECONDS_OF_A_TEST = 100.0
_LARGEST_MESSAGE = 1 << 20
_PROGRAMS = {"phrasescore": "phrasescore.cli", "phrasescore-smt": "moses_integration.cli"}
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
    """Starts commands."""

    def __init__(self) -> None:
        self._socket, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-W", "error", "-m", __name__, str(there.fileno())]
        # Threads, which PyTorch and NumPy would start at import, do not survive a fork.
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[there.fileno()], env=alone)
        there.close()

    def close(self) -> None:
        """Stop the process."""
        self._socket.close()
        self._process.wait()

    def start(
        self,
        program: str,
        arguments: Sequence[str | Path],
        streams: Sequence[int],
        environment: Mapping[str, str],
        folder: Path | None = None,
        seconds: float = SECONDS,
        largest_file: int = LARGEST_FILE,
    ) -> int:
        """Start a command in `folder` and return its process; the alarm ends it after `seconds`.

        `streams` are the descriptors of its standard input, output and error.
        """
        place = str(folder or Path.cwd())
        request = _Request(program, [*map(str, arguments)], place, dict(environment), seconds, largest_file)
        socket.send_fds(self._socket, [json.dumps(asdict(request)).encode()], streams)
        return int(self._socket.recv(_LARGEST_MESSAGE))

    def end_of(self, process: int, *, is_awaited: bool) -> _End | None:
        """Return how a process ended; None if it runs and is not awaited."""
        self._socket.sendall(json.dumps([process, is_awaited]).encode())
        end = json.loads(self._socket.recv(_LARGEST_MESSAGE))
        return end and _End(**end)

    def run(
        self,
        program: str,
        *arguments: str | Path,
        folder: Path,
        environment: Mapping[str, str],
        stdin: bytes = b"",
        seconds: float = SECONDS,
        largest_file: int = LARGEST_FILE,
    ) -> Finished:
        """Run a command in `folder` until it ends or the alarm ends it."""
        with TemporaryFile() as given, TemporaryFile() as out, TemporaryFile() as err:
            given.write(stdin)
            given.seek(0)
            started = time.monotonic()
            streams = [stream.fileno() for stream in (given, out, err)]
            process = self.start(program, arguments, streams, environment, folder, seconds, largest_file)
            end = self.end_of(process, is_awaited=True)
            taken = time.monotonic() - started
            for stream in (out, err):
                stream.seek(0)
            assert end is not None
            return Finished(end.code, out.read(), err.read(), taken, end.peak)


@dataclass(frozen=True)
class _End:
    code: int
    peak: int


class ForkedPopen:
    """A command that runs in a forked child, with a part of the interface of `subprocess.Popen`."""

    def __init__(
        self,
        command: Sequence[str | Path],
        environment: Mapping[str, str],
        stdin: int = subprocess.DEVNULL,
        stdout: int = subprocess.DEVNULL,
        stderr: int = subprocess.DEVNULL,
        seconds: float = _SECONDS_OF_A_TEST,
    ) -> None:
        """Start a command, which begins with a name of `_PROGRAMS`; each stream is a descriptor, PIPE or DEVNULL."""
        self.returncode: int | None = None
        opened = [_open(stream, is_read) for stream, is_read in ((stdin, True), (stdout, False), (stderr, False))]
        self.pid = shared_forker().start(
            str(command[0]), command[1:], [theirs for theirs, _ in opened], environment, seconds=seconds
        )
        for (theirs, _), given in zip(opened, (stdin, stdout, stderr), strict=True):
            if given in (subprocess.PIPE, subprocess.DEVNULL):
                os.close(theirs)
        self.stdin, self.stdout, self.stderr = (ours for _, ours in opened)

    def poll(self) -> int | None:
        if self.returncode is None and (end := shared_forker().end_of(self.pid, is_awaited=False)) is not None:
            self.returncode = end.code
        return self.returncode

    def wait(self, timeout: float = _SECONDS_OF_A_TEST) -> int:
        """Wait until the command ends."""
        deadline = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("a forked command", timeout)
            time.sleep(0.01)
        assert self.returncode is not None
        return self.returncode

    def communicate(self) -> tuple[bytes, bytes]:
        """Read standard output, if it is a pipe, and then standard error to their ends."""
        out, err = (stream.read() if stream is not None else b"" for stream in (self.stdout, self.stderr))
        self.wait()
        self._close()
        return out, err

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()


def _open(given: int, is_read: bool) -> tuple[int, IO[bytes] | None]:
    """Return the descriptor of a stream of a command, and the other end of a pipe."""
    if given == subprocess.DEVNULL:
        return os.open(os.devnull, os.O_RDWR), None
    if given != subprocess.PIPE:
        return given, None
    reader, writer = os.pipe()
    return (reader, os.fdopen(writer, "wb")) if is_read else (writer, os.fdopen(reader, "rb"))


def run_forked(
    program: str, *arguments: str | Path, environment: Mapping[str, str], stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a forked child, with the interface of `subprocess.run`."""
    done = shared_forker().run(
        program, *arguments, folder=Path.cwd(), environment=environment, stdin=stdin, seconds=_SECONDS_OF_A_TEST
    )
    return subprocess.CompletedProcess([program, *map(str, arguments)], done.code, done.out, done.err)


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
    seconds: float
    largest_file: int


def _serve(descriptor: int) -> None:
    """Answer requests until the socket is closed."""
    _import_all()
    # Garbage collection in a child would touch, and so copy, the memory of all modules.
    gc.freeze()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            message, streams, *_ = socket.recv_fds(asked, _LARGEST_MESSAGE, 3)
            if not message:
                return
            request = json.loads(message)
            asked.sendall(json.dumps(_start(_Request(**request), streams) if streams else _end_of(*request)).encode())


def _start(request: _Request, streams: Sequence[int]) -> int:
    """Start a command and return its process."""
    if not (child := os.fork()):
        _be_child(request, streams)
    for stream in streams:
        os.close(stream)
    return child


def _end_of(process: int, is_awaited: bool) -> dict[str, int] | None:
    """Return how a process ended."""
    ended, status, usage = os.wait4(process, 0 if is_awaited else os.WNOHANG)
    return {"code": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss << 10} if ended else None


def _import_all() -> None:
    """Import the modules of all commands."""
    for package in ("phrasescore", "moses_integration"):
        for module in pkgutil.walk_packages(importlib.import_module(package).__path__, package + "."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    for name in _LIBRARIES:
        importlib.import_module(name)


def _be_child(request: _Request, streams: Sequence[int]) -> NoReturn:
    """Run a command and exit as Python does."""
    code = 1
    try:
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        # `tempfile` caches TMPDIR.
        tempfile.tempdir = None
        _set_standard_streams(streams)
        # If a shell starts the tests in the background, child processes ignore SIGINT.
        signal.signal(signal.SIGINT, signal.default_int_handler)
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


def _set_standard_streams(streams: Sequence[int]) -> None:
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # Python's own objects have cached properties of the streams that they were opened for.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", buffering=1 if os.isatty(1) else -1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False, errors="backslashreplace")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
