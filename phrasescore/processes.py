"""Spawned processes of this machine that run tasks; the task of a process that is killed runs again in another one.

They are our own because no library survives a process that the system kills for want of memory: one that is killed in
the middle of a result hangs `concurrent.futures.ProcessPoolExecutor` for ever, since all its processes send results
through one pipe, and any other kill fails all its tasks. Here each process has a pipe to itself, which ends with it.
Pickle is the plain one: that of `multiprocessing` sends tensors of PyTorch by file descriptors.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from multiprocessing import current_process, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.util import Finalize
from typing import Any

from phrasescore.errors import UserError, WorkersLostError

_ENDINGS = {signal.SIGTERM, signal.SIGHUP}
_NAME = re.compile(r"SpawnProcess-(?:\d+:)*(\d+)")
"""How multiprocessing names the processes that it spawns."""
_UNGUARDED = (
    "sharing work: no process could begin, for each imports the script that started it; let that be a file, with what "
    'it does under `if __name__ == "__main__":`, or take one process'
)


class Processes:
    """Processes that this thread gives one task at a time, and whose results it collects while it waits for one.

    They end with their parent and do not hear Ctrl-C: that is for the parent, which ends them. They are spawned, not
    forked: a forked child may inherit a locked lock from a library's thread.
    """

    def __init__(self, killed: str, number: int, threads: int, tries: int) -> None:
        """Start none yet; the arguments are those of `start_workers`."""
        self.number = number
        self._killed, self._threads, self._tries = killed, threads, tries
        self._queue = deque[_Answer]()
        self._processes = list[_Process]()
        self._have_begun = self._ended = False
        # At exit multiprocessing waits for processes before generators that hold them are closed.
        self._at_exit = Finalize(None, self.end, exitpriority=0)

    def submit(self, task: Callable[[Any], Any], item: Any) -> _Answer:
        """Queue a task for an item.

        Raises:
            RuntimeError: the processes have ended.
        """
        if self._ended:
            raise RuntimeError("sharing work: has ended")
        answer = _Answer(self, self._tries)
        try:
            answer.message = pickle.dumps((task, item), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            answer.outcome = None, error
        else:
            self._queue.append(answer)
        return answer

    def work(self, seconds: float | None) -> None:
        """Give tasks to idle processes and collect results; wait so long for the next one, without end if None."""
        idle = [process for process in self._processes if process.answer is None]
        while self._queue and (idle or len(self._processes) < self.number):
            process = idle.pop() if idle else self._start()
            process.answer = self._queue.popleft()
            if process.has_begun:
                self._exchange(process, receives=False)
        busy = {process.pipe: process for process in self._processes if process.answer is not None}
        # Where the last task was lost as it was sent, there is nothing to wait for.
        for pipe in wait(list(busy), seconds) if busy else []:
            self._exchange(busy[pipe], receives=True)  # type: ignore[index]

    def _start(self) -> _Process:
        process = _Process()
        # Before it runs: an interrupt may come now, and `end` is to find it.
        self._processes.append(process)
        process.start(self._threads)
        return process

    def _exchange(self, process: _Process, *, receives: bool) -> None:
        """Receive a result, or that the process has begun, or send its task."""
        answer = process.answer
        assert answer is not None
        try:
            if receives and process.has_begun:
                answer.settle(process.pipe.recv_bytes())
                process.answer = None
                return
            if receives:
                process.pipe.recv_bytes()
                process.has_begun = self._have_begun = True
            process.pipe.send_bytes(answer.message)
        except (EOFError, OSError, MemoryError) as error:
            self._processes.remove(process)
            # It may be alive where it is this process that has no memory for the result.
            code = process.end(at_once=isinstance(error, MemoryError))
            answer.tries -= 1
            if not self._have_begun and code is not None and code >= 0:
                # It ended by itself while it imported the script that started it: one that has no guard would start
                # processes there, which Python forbids.
                answer.outcome = None, UserError(_UNGUARDED)
            elif answer.tries:
                self._queue.appendleft(answer)
            else:
                answer.outcome = None, WorkersLostError(self._killed)

    def forget(self, answer: _Answer) -> None:
        """Do not begin a task whose result nobody wants."""
        with suppress(ValueError):
            self._queue.remove(answer)

    def end(self) -> None:
        """End the processes, in the middle of their work, which may take minutes."""
        self._ended = True
        for process in self._processes:
            if process.answer is not None:
                self._queue.append(process.answer)
                process.kill()
        for answer in self._queue:
            answer.outcome = None, CancelledError()
        for process in self._processes:
            process.end()
        self._at_exit.cancel()


class _Answer:
    """The result of a task, once it is there."""

    def __init__(self, processes: Processes, tries: int) -> None:
        self._processes = processes
        self.tries = tries
        self.message = b""
        """The task and its item."""
        self.outcome: tuple[Any, BaseException | None] | None = None

    def settle(self, message: bytes) -> None:
        """Take the outcome that a process has sent."""
        self.message = b""
        try:
            self.outcome = pickle.loads(message)
        except Exception as error:
            self.outcome = None, error

    def done(self) -> bool:
        """Whether it is there."""
        if self.outcome is None:
            self._processes.work(0)
        return self.outcome is not None

    def result(self) -> Any:
        """Wait for it.

        Raises:
            BaseException: what the task failed with, or that no process survives it.
        """
        while self.outcome is None:
            self._processes.work(None)
        value, error = self.outcome
        if error is not None:
            raise error
        return value

    def cancel(self) -> None:
        """Say that nobody wants it."""
        self._processes.forget(self)


class _Process:
    """A process, the pipe to it, and what it is at work on."""

    def __init__(self) -> None:
        self.pipe, self._theirs = get_context("spawn").Pipe()
        self._process: Any = None
        self.has_begun = False
        self.answer: _Answer | None = None

    def start(self, threads: int) -> None:
        """Start it, to compute with so many threads. It inherits which signals are blocked."""
        self._process = get_context("spawn").Process(target=_answer_all, args=(self._theirs, threads))
        with _blocked({signal.SIGINT, *_ENDINGS}):
            self._process.start()
        self._theirs.close()

    def kill(self) -> None:
        """End it in the middle of its work."""
        if self._process is not None and self._process.pid is not None:
            self._process.kill()

    def end(self, *, at_once: bool = False) -> int | None:
        """Let it end when it has nothing to do, or at once; return its exit code."""
        if at_once:
            self.kill()
        self.pipe.close()
        if self._process is None or self._process.pid is None:
            return None
        self._process.join()
        return self._process.exitcode  # type: ignore[no-any-return]


@contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Block some signals in this thread."""
    # It unblocks signals when it starts.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the processes


def process_number() -> int | None:
    """Return the number of this process among those that share work on this machine, None for who shares it out.

    Processes that are begun one after the other have numbers that follow one another; one that takes the place of a
    lost one has a new number.
    """
    found = _NAME.fullmatch(current_process().name)
    return int(found[1]) - 1 if found else None


def _answer_all(pipe: Connection, threads: int) -> None:
    """Report that this process has begun, and answer what comes until the pipe is closed. Ctrl-C stays blocked."""
    # Libraries read it when they are imported, which they are when a task needs them.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        pipe.send_bytes(b"")
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(message: bytes) -> bytes:
    """Return the result of a task and None, or None and the error that it raises, pickled."""
    try:
        task, item = pickle.loads(message)
        return pickle.dumps((task(item), None), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return pickle.dumps((None, _sendable(error)))


def _sendable(error: BaseException) -> BaseException:
    """Return an error with its traceback as a note, which pickle would drop; another error if pickle cannot keep it."""
    where = "".join(traceback.format_exception(error))
    is_for_user = isinstance(error, UserError)
    try:
        is_whole = str(pickle.loads(pickle.dumps(error))) == str(error)
    except Exception:
        is_whole = False
    if not is_whole:
        return UserError(str(error)) if is_for_user else RuntimeError(where)
    if not is_for_user:
        error.add_note(where)
    return error


def _end_with_parent() -> None:
    """Wait for the parent's end, and end this process in the middle of its work."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
