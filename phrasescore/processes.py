"""Spawned processes of this machine that do tasks; what a lost one was doing is done again by another.

Each process has a pipe to itself, and on this side a thread waits for what comes through it. The processes of
`concurrent.futures.ProcessPoolExecutor` send their results through one pipe, which this side holds open, too: if one is
killed in the middle of a result, the rest is waited for without end. A pipe to itself ends with its process.
"""

from __future__ import annotations

import os
import re
import signal
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from multiprocessing import current_process, get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from multiprocessing.util import Finalize
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

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


class Answer(Generic[Result]):
    """What comes of a task, once it is done.

    An interrupt may come while it is waited for. In a `Future` that can leave a lock that is released twice.
    """

    def __init__(self) -> None:
        self._outcome = SimpleQueue[tuple[Result, BaseException | None]]()

    def put(self, result: Any, error: BaseException | None) -> None:
        """Set the result, or what the task failed with."""
        self._outcome.put((result, error))

    def done(self) -> bool:
        """Whether it is there."""
        return not self._outcome.empty()

    def result(self) -> Result:
        """Wait for the result, and return it once.

        Raises:
            BaseException: what the task failed with.
        """
        result, error = self._outcome.get()
        if error is not None:
            raise error
        return result


class Processes:
    """Some processes, each with a thread that waits for it.

    They end with their parent and do not hear Ctrl-C: that is for the parent, which ends them. They are spawned, not
    forked: a forked child may inherit a locked lock from a library's thread.
    """

    def __init__(self, killed: str, number: int, threads: int, tries: int) -> None:
        """Begin none yet; the arguments are those of `share_work`."""
        self.number = number
        self._killed, self._threads, self._tries = killed, threads, tries
        self._asked = SimpleQueue[tuple[Callable[[Any], Any], Any, Answer[Any]] | None]()
        self._waiters = list[threading.Thread]()
        self._lock = threading.Lock()
        self._begun = list[_Process]()
        self._ended = False
        # At exit multiprocessing waits for processes before generators that hold them are closed.
        self._at_exit = Finalize(None, self.end, kwargs={"at_once": True}, exitpriority=0)

    def begin(self) -> None:
        """Begin to wait for tasks; a process begins with its first one."""
        # It unblocks signals when it starts.
        resource_tracker.ensure_running()
        # A thread inherits which signals are blocked, and a process from the thread that starts it.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [])
        try:
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *_ENDINGS})
            for _ in range(self.number):
                waiter = threading.Thread(target=self._wait, daemon=True)
                waiter.start()
                self._waiters.append(waiter)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def submit(self, task: Callable[[Item], Result], item: Item) -> Answer[Result]:
        """Let a process do a task for an item.

        The answer fails with what the task fails with, with a WorkersLostError if no process survives it, and with a
        UserError if none has ever begun and one cannot.

        Raises:
            RuntimeError: they have been let go.
        """
        if self._ended:
            raise RuntimeError("sharing work: has ended")
        answer = Answer[Result]()
        self._asked.put((task, item, answer))
        return answer

    def _wait(self) -> None:
        """Let a process do tasks until there are no more."""
        process: _Process | None = None
        while (asked := self._asked.get()) is not None:
            task, item, answer = asked
            if self._ended:
                answer.put(None, CancelledError())
            else:
                process = self._do(task, item, answer, process)
            # What is large is not to be kept while nothing is asked.
            del asked, task, item, answer
        if process is not None:
            process.let_go()

    def _do(
        self, task: Callable[[Any], Any], item: Any, answer: Answer[Any], process: _Process | None
    ) -> _Process | None:
        """Let a process do a task, another one if it is lost; return the one that is left."""
        try:
            message = _pickled((task, item))
            for _ in range(self._tries):
                try:
                    process = process or self._start()
                    found = process.ask(message)
                except _ProcessLostError as error:
                    process = None
                    if error.could_not_begin and not self._have_begun():
                        raise UserError(_UNGUARDED) from None
                else:
                    answer.put(*ForkingPickler.loads(found))
                    return process
            answer.put(None, WorkersLostError(self._killed))
        except BaseException as error:
            answer.put(None, error)
        return process

    def _start(self) -> _Process:
        process = _Process(self._threads)
        with self._lock:
            if not self._ended:
                self._begun.append(process)
                return process
        process.kill()
        process.let_go()
        raise _ProcessLostError

    def _have_begun(self) -> bool:
        """Whether any process ever did: then the script can be imported, and what is wanting is most likely memory."""
        with self._lock:
            return any(process.has_begun for process in self._begun)

    def end(self, *, at_once: bool = False) -> None:
        """Let the processes go; at once, in the middle of their work, which may take minutes."""
        with self._lock:
            self._ended = True
            if at_once:
                for process in self._begun:
                    process.kill()
        for _ in self._waiters:
            self._asked.put(None)
        for waiter in self._waiters:
            waiter.join()
        self._at_exit.cancel()


class _ProcessLostError(Exception):
    """A process ended while it was waited for."""

    could_not_begin = False
    """Whether it ended by itself, not by a signal, before it could begin. It first imports the script that started it;
    one that has no guard shares its work there, which Python forbids."""


class _Process:
    """A process, started and asked by one thread."""

    def __init__(self, threads: int) -> None:
        self._pipe, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_answer_all, args=(theirs, threads))
        self._process.start()
        theirs.close()
        self.has_begun = False

    def ask(self, message: bytes) -> bytes:
        """Return the answer to a message.

        Raises:
            _ProcessLostError: the process ended, or there is no memory for its answer.
        """
        try:
            if not self.has_begun:
                self._pipe.recv()
                self.has_begun = True
            self._pipe.send_bytes(message)
            return self._pipe.recv_bytes()
        except MemoryError as error:
            self.kill()
            self.let_go()
            raise _ProcessLostError from error
        except (EOFError, OSError) as error:
            self.let_go()
            code = self._process.exitcode
            lost = _ProcessLostError()
            lost.could_not_begin = not self.has_begun and code is not None and code >= 0
            raise lost from error

    def kill(self) -> None:
        """End it in the middle of its work."""
        self._process.kill()

    def let_go(self) -> None:
        """Let it end when it has nothing to do, and wait for that."""
        self._pipe.close()
        self._process.join()


def _pickled(message: Any) -> bytes:
    """Pickle what is sent through a pipe.

    `ForkingPickler` gives a view of a `BytesIO`. If garbage collection finds both in one cycle, as in the traceback of
    an error, Python 3.13 prints a `BufferError` when it closes the file first.
    """
    with ForkingPickler.dumps(message) as view:
        return bytes(view)


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
        pipe.send(None)
        while True:
            pipe.send_bytes(_answer(pipe.recv_bytes()))


def _answer(message: bytes) -> bytes:
    """Return the result of a task and None, or None and what it fails with, pickled."""
    try:
        task, item = ForkingPickler.loads(message)
        return _pickled((task(item), None))
    except BaseException as error:
        return _pickled((None, _that_can_be_sent(error)))


def _that_can_be_sent(error: BaseException) -> BaseException:
    """Return an error with a note of where it was raised, which gets lost on the way; another if it gets lost, too."""
    where = "".join(traceback.format_exception(error))
    is_for_user = isinstance(error, UserError)
    try:
        is_whole = str(ForkingPickler.loads(_pickled(error))) == str(error)
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
