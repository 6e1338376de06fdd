"""How a command begins and ends, and what it tells while it works.

Progress is a bar on a terminal, a line now and then elsewhere.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import NoReturn, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.table import Column
from rich.text import Text

from phrasescore.errors import UsageError, sentence_of
from phrasescore.files import STDOUT, complete_standard_streams, full_disk_told, require_open
from phrasescore.text import Say, Show

_SECONDS_BETWEEN_LINES = 30.0
_LONGEST_LINE = 900
"""Characters of a message, about."""


def run_command(name: str, run: Callable[[], int], *, quiet: bool = False) -> int:
    """Run a command; print what went wrong as one sentence behind its name; return the exit code.

    What the library notes meanwhile is said, unless `quiet`.
    SIGTERM and SIGHUP unwind it as Ctrl-C does, so that no half-written file and no program stays, and exit.
    """
    complete_standard_streams()
    try:
        # What users ask for names its file itself.
        with (
            interrupt_on_signals(),
            _notes_said(quiet),
            full_disk_told("standard output or a temporary file"),
            _closed_stdout_told(),
        ):
            if isinstance(sys.stdout, io.TextIOWrapper):
                # A character that a terminal cannot show does not stop the rest.
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run()
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # Whoever read our output has had enough.
        _give_up(sys.stdout)
        return 1
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        _give_up(sys.stdout)
        _tell(f"{name}: {sentence}")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _tell(f"{name}: stopped")
        return 128 + signal.SIGINT


def parse_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line; what is printed instead, as for --help, is printed whole or fails with a sentence.

    Raises:
        SystemExit: it is wrong, or asks for nothing else.
    """
    complete_standard_streams()
    printed = io.StringIO()

    def show() -> int:
        sys.stdout.write(printed.getvalue())
        return 0

    try:
        with redirect_stdout(printed):
            return parser.parse_args(arguments)
    except SystemExit as end:
        _give_up(sys.stderr)
        raise SystemExit(end.code or run_command(parser.prog, show)) from None


@contextmanager
def _closed_stdout_told() -> Iterator[None]:
    """Turn the error of printing on a standard output that is closed into a sentence.

    Raises:
        UserError: it is closed.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBADF:
            require_open(STDOUT)
        raise


def _tell(text: str) -> None:
    """Print a line on standard error, if anybody can be told anything there."""
    with suppress(OSError):
        print(as_line(text), file=sys.stderr)
    _give_up(sys.stderr)


def as_line(text: str) -> str:
    """Return a message as one line that any terminal can show: it may quote what was read, of any length.

    What is not printable is escaped; of a long message the middle is left out, for it ends with what to do.
    """
    half = _LONGEST_LINE // 2
    if len(text) > _LONGEST_LINE:
        text = f"{text[:half]} ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _give_up(stream: TextIO) -> None:
    """Write what is left for a standard stream; where that fails, point it elsewhere, so that exiting is silent."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _notes_said(quiet: bool) -> Iterator[None]:
    """Say what the library notes in its log; a command within a command decides for itself."""
    log, handler = logging.getLogger("phrasescore"), logging.Handler(logging.WARNING)
    handler.emit = lambda record: Reporter(quiet=quiet).say(record.getMessage())  # type: ignore[method-assign]
    outer, log.handlers = log.handlers, [handler]
    try:
        yield
    finally:
        log.handlers = outer


def duration(seconds: float) -> str:
    """Return a time in words: `40 seconds`, `18 minutes`, `2.5 hours`."""
    if seconds < 90:
        return f"{max(2, seconds):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


@dataclass(frozen=True)
class _Listener:
    """Functions of a Python program that called a command."""

    say: Say
    progress: Show


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(say: Say, progress: Show) -> Iterator[None]:
    """Give messages and progress of a command to functions; print nothing."""
    token = _LISTENER.set(_Listener(say, progress))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def is_called() -> bool:
    """Whether a Python program, not a command line, runs the command."""
    return _LISTENER.get() is not None


class Reporter:
    """Messages and progress on standard error."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.listener = _LISTENER.get()
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    def say(self, text: str) -> None:
        """Print a line."""
        if self.listener is not None:
            self.listener.say(text)
        elif not self.quiet:
            self.console.print(as_line(text), markup=False)

    def task(self, title: str, *, at_most: bool = False) -> ProgressBar:
        """Start showing the progress of a piece of work; `at_most` if it may end before its share is 1."""
        return ProgressBar(self, title, at_most=at_most)


class _ElapsedIfAllThatIsKnown(TimeElapsedColumn):
    """Shows the time that has gone by where nothing is known of what is left."""

    def render(self, task: Task) -> Text:
        """Return it."""
        return super().render(task) if task.total is None else Text()


class ProgressBar:
    """One piece of work with its progress; use it in a `with`."""

    def __init__(self, reporter: Reporter, title: str, *, at_most: bool) -> None:
        self._reporter, self._title, self._bound = reporter, title, "at most " if at_most else ""
        self._last_line = time.monotonic()
        self._first: tuple[float, float] | None = None
        """When the share was known first, and what it was: a training that is resumed does not begin at zero."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            _ElapsedIfAllThatIsKnown(),
            # What is left is told by the text, which ends where the terminal ends: the time stands first in it.
            TextColumn("{task.fields[text]}", table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")),
        )
        visible = not reporter.quiet and reporter.console.is_terminal and reporter.listener is None
        self._bar = Progress(*columns, console=reporter.console, transient=True, disable=not visible, expand=True)
        self._id = self._bar.add_task(title, total=None, text="")

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def update(self, share: float | None, text: str) -> None:
        """Show the share that is done (None if unknown) and a few words."""
        if self._reporter.listener is not None:
            self._reporter.listener.progress(share, text)
            return
        now = time.monotonic()
        if share is not None and self._first is None:
            self._first = now, share
        shown = as_line(self._done(now, share) + text)
        self._bar.update(self._id, total=None if share is None else 1.0, completed=share or 0.0, text=shown)
        if self._bar.disable and now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            self._reporter.say(f"{self._title}: {self._done(now, share)}{text}")

    def count(self, done: int, sentences: int) -> None:
        """Show how many of some sentences are done."""
        self.update(done / sentences, f"{done:,} of {sentences:,} sentences")

    def _done(self, now: float, share: float | None) -> str:
        """Return the share that is done and the time that the rest takes, as far as they are known."""
        if not share or self._first is None:
            return ""
        started, before = self._first
        if share <= before or share >= 1:
            return f"{share:.0%}, "
        return f"{share:.0%}, {self._bound}{duration((now - started) * (1 - share) / (share - before))} left, "


class StopRequest:
    """Set by the first SIGINT or SIGTERM; the second one, if it means more, ends the process at once."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_urgent = False
        """Whether a signal unwinds the work instead of waiting to be asked for."""

    @contextmanager
    def urgently(self) -> Iterator[None]:
        """Let a signal unwind what is done within: reading, which may wait for its input as long as it likes."""
        self.is_urgent = True
        try:
            yield
        finally:
            self.is_urgent = False

    def __call__(self) -> bool:
        """Whether a signal has come."""
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal; SIGTERM where another process of the same work has got it."""
        return 128 + (self.signal or signal.SIGTERM)


@contextmanager
def stop_on_signals(*, may_repeat: bool = False) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a request that the work asks for between its steps.

    Args:
        may_repeat: whether a second one says no more than the first: `torchrun` passes on what its processes, on a
            cluster, get as well, and kills those that do not end.
    """
    request = StopRequest()

    def on_signal(number: int, frame: FrameType | None) -> None:
        if request.is_urgent:
            _unwind(number)
        request.signal = number
        if not may_repeat:
            signal.signal(number, signal.SIG_DFL)

    with _handled((signal.SIGINT, *_endings()), on_signal):
        yield request


@contextmanager
def interrupt_on_signals() -> Iterator[None]:
    """Let SIGTERM and SIGHUP unwind the work as Ctrl-C does."""
    with _handled(_endings(), lambda number, frame: _unwind(number)):
        yield


def _endings() -> tuple[signal.Signals, ...]:
    """Return the signals by which others end a process: also a terminal that is closed, unless `nohup` has its way."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


def _unwind(number: int) -> NoReturn:
    if number == signal.SIGINT:
        raise KeyboardInterrupt
    sys.exit(128 + number)
