"""Spawned processes of this machine that do tasks; what a lost one was doing is done again by another.

Each process has a pipe to itself, and on this side a thread waits for what comes through it. The processes of
`concurrent.futures.ProcessPoolExecutor` send their results through one pipe, which this side holds open, too: if one is
killed in the middle of a result, the rest is waited for without end. A pipe to itself ends with its process.
"""

from __future__ import annotations

import os
import pickle
import re
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import current_process, get_context, parent_process
from multiprocessing.connection import Connection, wait
from typing import TypeVar

from phrasescore.errors import UserError, WorkersLostError

Item = TypeVar("Item")
Result = TypeVar("Result")

_ENDINGS = {signal.SIGTERM, signal.SIGHUP}
_NAME = re.compile(r"SpawnProcess-(?:\d+:)*(\d+)")
"""How multiprocessing names the processes that it spawns."""
_UNGUARDED = (
    "sharing work: no process could begin, for each imports the script that started it; let that be a file, with what "
    'it does under `if __name__ == "__main__":`, or take one process'
)


class Processes:
    """Some processes, each begun when there is a task that no other is free for.

    They end with their parent and do not hear Ctrl-C: that is for the parent, which ends them. They are spawned, not
    forked: a forked child may inherit a locked lock from a library's thread.
    """

    def __init__(self, killed: str, number: int, threads: int, tries: int) -> None:
        """Begin none yet; the arguments are those of `share_work`."""
        self.number = number
        self._killed, self._threads, self._tries = killed, threads, tries
        self._waiters = ThreadPoolExecutor(number, initializer=_hear_no_signals)
        self._lock = threading.Lock()
        self._living = set[_Process]()
        self._idle = list[_Process]()
        self._ended = False

    def submit(self, task: Callable[[Item], Result], item: Item) -> Future[Result]:
        """Let a process do a task for an item.

        The future fails with what the task fails with, with a WorkersLostError if no process survives it, and with a
        UserError if none can begin.
        """
        return self._waiters.submit(self._do, task, item)

    def _do(self, task: Callable[[Item], Result], item: Item) -> Result:
        message = pickle.dumps((task, item))
        for _ in range(self._tries):
            process = self._take()
            try:
                answer = process.ask(message)
            except _ProcessLostError:
                with self._lock:
                    self._living.discard(process)
                continue
            self._idle.append(process)
            result, error = pickle.loads(answer)
            if error is not None:
                raise error
            return result  # type: ignore[no-any-return]
        raise WorkersLostError(self._killed)

    def _take(self) -> _Process:
        """Return a process that has nothing to do."""
        with self._lock:
            if self._ended:
                raise CancelledError
            if self._idle:
                return self._idle.pop()
            process = _Process(self._threads)
            self._living.add(process)
            return process

    def end(self, *, at_once: bool = False) -> None:
        """Let the processes go; at once, in the middle of their work, which may take minutes."""
        self._waiters.shutdown(wait=not at_once, cancel_futures=True)
        with self._lock:
            self._ended = True
            if at_once:
                for process in self._living:
                    process.kill()
        self._waiters.shutdown()
        for process in self._living:
            process.let_go()


class _ProcessLostError(Exception):
    """A process ended while it was waited for."""


class _Process:
    """A process, asked by one thread at a time."""

    def __init__(self, threads: int) -> None:
        self._pipe, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_answer_all, args=(theirs, threads))
        self._process.start()
        theirs.close()
        self._has_begun = False

    def ask(self, message: bytes) -> bytes:
        """Return the answer to a message.

        Raises:
            UserError: the process ended before it could begin, by itself, not by a signal. It first imports the script
                that started it; one that has no guard shares its work there, which Python forbids.
            _ProcessLostError: it ended otherwise.
        """
        try:
            if not self._has_begun:
                self._pipe.recv_bytes()
                self._has_begun = True
            self._pipe.send_bytes(message)
            return self._pipe.recv_bytes()
        except (EOFError, OSError) as error:
            self.let_go()
            code = self._process.exitcode
            if not self._has_begun and code is not None and code >= 0:
                raise UserError(_UNGUARDED) from None
            raise _ProcessLostError from error

    def kill(self) -> None:
        """End it in the middle of its work."""
        self._process.kill()

    def let_go(self) -> None:
        """Let it end when it has nothing to do, and wait for that."""
        self._pipe.close()
        self._process.join()


def _hear_no_signals() -> None:
    """Leave signals to the main thread. A process inherits which are blocked, and from its first moment."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDINGS})


# In the processes


def process_number() -> int | None:
    """Return the number of this process among those that share work on this machine, None for who shares it out.

    Processes that are begun one after the other have numbers that follow one another; one that takes the place of a
    lost one has a new number.
    """
    found = _NAME.fullmatch(current_process().name)
    return int(found[1]) - 1 if found else None


def _answer_all(pipe: Connection, threads: int) -> None:
    """Say that this process has begun, and answer what comes until the pipe is closed. Ctrl-C stays blocked."""
    # Libraries read it when they are imported, which they are when a task needs them.
    os.environ["OMP_NUM_THREADS"] = str(threads)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDINGS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with suppress(EOFError, ConnectionError):
        pipe.send_bytes(b"")
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(message: bytes) -> bytes:
    """Return the pickled result of a task and None, or None and what it fails with."""
    try:
        task, item = pickle.loads(message)
        return pickle.dumps((task(item), None))
    except BaseException as error:
        return pickle.dumps((None, _that_can_be_sent(error)))


def _that_can_be_sent(error: BaseException) -> BaseException:
    """Return an error with a note of where it was raised, which gets lost on the way; another if it gets lost, too."""
    if isinstance(error, UserError):
        return error
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError("".join(traceback.format_exception(error)))
    return error


def _end_with_parent() -> None:
    """Wait for the parent's end, and end this process in the middle of its work."""
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
