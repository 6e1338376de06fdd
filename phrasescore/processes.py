"""Spawned processes of this machine that run tasks; the task of a killed process is retried in another process.

Library pools do not survive a process that the system kills for lack of memory. A process killed while it sends a
result hangs `concurrent.futures.ProcessPoolExecutor` forever, because its processes share one pipe; any other kill
fails all its tasks. Here each process has its own pipe, which closes with the process. Messages use the plain pickle,
because the pickle of `multiprocessing` sends PyTorch tensors by file descriptors.
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
"""Names of processes spawned by multiprocessing."""
_UNGUARDED = (
    "sharing work: no process could begin, for each imports the script that started it; let that be a file, with what "
    'it does under `if __name__ == "__main__":`, or take one process'
)


class Processes:
    """Processes that receive one task at a time; the calling thread collects results while it waits for one.

    They end with their parent and ignore Ctrl-C, which the parent handles by ending them. They are spawned, not forked,
    because a forked child may inherit a locked lock from a library's thread.
    """

    def __init__(self, killed: str, number: int, threads: int, tries: int) -> None:
        """Prepare the processes without starting them; see `start_workers` for the arguments."""
        self.number = number
        self._killed, self._threads, self._tries = killed, threads, tries
        self._queue = deque[_Answer]()
        self._processes = list[_Process]()
        self._have_begun = self._ended = False
        # At exit multiprocessing waits for processes before it closes the generators that hold them.
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
        """Assign tasks to idle processes and collect results; wait for at most `seconds`, forever if None."""
        idle = [process for process in self._processes if process.answer is None]
        while self._queue and (idle or len(self._processes) < self.number):
            process = idle.pop() if idle else self._start()
            process.answer = self._queue.popleft()
            if process.has_begun:
                self._exchange(process, receives=False)
        busy = {process.pipe: process for process in self._processes if process.answer is not None}
        # If sending the last task failed, there is nothing to wait for.
        for pipe in wait(list(busy), seconds) if busy else []:
            self._exchange(busy[pipe], receives=True)  # type: ignore[index]

    def _start(self) -> _Process:
        process = _Process()
        # Append before starting, so that `end` finds the process after an interrupt.
        self._processes.append(process)
        process.start(self._threads)
        return process

    def _exchange(self, process: _Process, *, receives: bool) -> None:
        """Receive a result or the start message, or send the task."""
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
            # The process may be alive if this process has too little memory for the result.
            code = process.end(at_once=isinstance(error, MemoryError))
            answer.tries -= 1
            if not self._have_begun and code is not None and code >= 0:
                # The process exited while it imported the calling script. A script without the guard would spawn
                # processes there, which Python forbids.
                answer.outcome = None, UserError(_UNGUARDED)
            elif answer.tries:
                self._queue.appendleft(answer)
            else:
                answer.outcome = None, WorkersLostError(self._killed)

    def forget(self, answer: _Answer) -> None:
        """Remove a queued task whose result is not needed."""
        with suppress(ValueError):
            self._queue.remove(answer)

    def end(self) -> None:
        """Kill the processes without waiting for tasks, which may take minutes."""
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
    """The future result of a task."""

    def __init__(self, processes: Processes, tries: int) -> None:
        self._processes = processes
        self.tries = tries
        self.message = b""
        """The pickled task and its item."""
        self.outcome: tuple[Any, BaseException | None] | None = None

    def settle(self, message: bytes) -> None:
        """Store the outcome that a process has sent."""
        self.message = b""
        try:
            self.outcome = pickle.loads(message)
        except Exception as error:
            self.outcome = None, error

    def done(self) -> bool:
        """Return whether the result is available."""
        if self.outcome is None:
            self._processes.work(0)
        return self.outcome is not None

    def result(self) -> Any:
        """Wait for the result.

        Raises:
            BaseException: the task failed, or killed every process that ran it.
        """
        while self.outcome is None:
            self._processes.work(None)
        value, error = self.outcome
        if error is not None:
            raise error
        return value

    def cancel(self) -> None:
        """Cancel the task if it has not started."""
        self._processes.forget(self)


class _Process:
    """A process, its pipe, and its current task."""

    def __init__(self) -> None:
        self.pipe, self._theirs = get_context("spawn").Pipe()
        self._process: Any = None
        self.has_begun = False
        self.answer: _Answer | None = None

    def start(self, threads: int) -> None:
        """Start the process with a number of threads; it inherits the blocked signals."""
        self._process = get_context("spawn").Process(target=_answer_all, args=(self._theirs, threads))
        with _blocked({signal.SIGINT, *_ENDINGS}):
            self._process.start()
        self._theirs.close()

    def kill(self) -> None:
        """Kill the process, even during a task."""
        if self._process is not None and self._process.pid is not None:
            self._process.kill()

    def end(self, *, at_once: bool = False) -> int | None:
        """Let the process exit when idle, or kill it; return its exit code."""
        if at_once:
            self.kill()
        self.pipe.close()
        if self._process is None or self._process.pid is None:
            return None
        self._process.join()
        return self._process.exitcode  # type: ignore[no-any-return]


@contextmanager
def _blocked(signals: set[signal.Signals]) -> Iterator[None]:
    """Block signals in this thread."""
    # The resource tracker unblocks signals when it starts.
    resource_tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# In the worker processes


def process_number() -> int | None:
    """Return the index of this worker process on this machine, None in the main process.

    Processes that start one after the other have consecutive indices; a replacement has a new index.
    """
    found = _NAME.fullmatch(current_process().name)
    return int(found[1]) - 1 if found else None


def _answer_all(pipe: Connection, threads: int) -> None:
    """Report the start, and process messages until the pipe is closed; Ctrl-C stays blocked."""
    # Libraries read this when they are imported, which happens when a task needs them.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        pipe.send_bytes(b"")
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(message: bytes) -> bytes:
    """Return the pickled outcome of a task: (result, None) or (None, error)."""
    try:
        task, item = pickle.loads(message)
        return pickle.dumps((task(item), None), pickle.HIGHEST_PROTOCOL)
    except BaseException as error:
        return pickle.dumps((None, _sendable(error)))


def _sendable(error: BaseException) -> BaseException:
    """Return an error that pickle can transfer, with its traceback as a note, which pickle would drop."""
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
    """Wait for the parent to exit, and then exit even during a task."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
