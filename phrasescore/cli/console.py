"""Run commands: error messages, exit codes, and progress.

Progress is a bar on a terminal, and otherwise occasional lines.
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
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from phrasescore.errors import UsageError, options_spelled_as_flags, sentence_of
from phrasescore.files import STDOUT, complete_standard_streams, full_disk_as_error, require_open
from phrasescore.signals import interrupt_on_signals
from phrasescore.text import Log, ProgressCallback

_SECONDS_BETWEEN_LINES = 30.0
_LONGEST_LINE = 900
"""Approximate limit, in characters."""


def run_command(name: str, run: Callable[[], int], *, quiet: bool = False) -> int:
    """Run a command; print an error as one line that begins with `name`; return the exit code.

    Log messages of the library are printed unless `quiet`. SIGTERM and SIGHUP interrupt the command as Ctrl-C does, so
    that no incomplete file and no child process remains.
    """
    complete_standard_streams()
    try:
        # Output files requested by users are named by their own error messages.
        with (
            options_spelled_as_flags(),
            interrupt_on_signals(),
            _log_printed(quiet),
            full_disk_as_error("standard output or a temporary file"),
            _closed_stdout_as_error(),
        ):
            if isinstance(sys.stdout, io.TextIOWrapper):
                # Escape characters that the encoding of the terminal does not have.
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run()
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the pipe has closed it.
        _flush_or_discard(sys.stdout)
        return 1
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        _flush_or_discard(sys.stdout)
        _print_error(f"{name}: {sentence}")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _print_error(f"{name}: stopped")
        return 128 + signal.SIGINT


def parse_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line. If output such as --help cannot be written completely, an error is printed.

    Raises:
        SystemExit: the command line is invalid or requests only --help or the version.
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
        _flush_or_discard(sys.stderr)
        raise SystemExit(end.code or run_command(parser.prog, show)) from None


@contextmanager
def _closed_stdout_as_error() -> Iterator[None]:
    """Convert the error of writing to a closed standard output.

    Raises:
        UserError: standard output is closed.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBADF:
            require_open(STDOUT)
        raise


def _print_error(text: str) -> None:
    """Print a line on standard error, and ignore failures."""
    with suppress(OSError):
        print(as_line(text), file=sys.stderr)
    _flush_or_discard(sys.stderr)


def as_line(text: str) -> str:
    """Return a message as one printable line, because it may quote input of any kind and length.

    Unprintable characters are escaped. A long message is shortened in the middle, because its end says what to do.
    """
    half = _LONGEST_LINE // 2
    if len(text) > _LONGEST_LINE:
        text = f"{text[:half]} ... {text[-half:]}"
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def _flush_or_discard(stream: TextIO) -> None:
    """Flush a standard stream; if that fails, redirect it to the null device, so that Python exits silently."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _log_printed(quiet: bool) -> Iterator[None]:
    """Print log messages of the library. A nested command overrides `quiet` of the outer one."""
    log, handler = logging.getLogger("phrasescore"), logging.Handler(logging.WARNING)
    handler.emit = lambda record: Reporter(quiet=quiet).log(record.getMessage())  # type: ignore[method-assign]
    outer, log.handlers = log.handlers, [handler]
    try:
        yield
    finally:
        log.handlers = outer


def duration(seconds: float) -> str:
    """Format a duration: `40 seconds`, `18 minutes`, `2.5 hours`."""
    if seconds < 90:
        return f"{max(2, seconds):.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


@dataclass(frozen=True)
class _Listener:
    """Callbacks of a Python program that called a command."""

    log: Log
    progress: ProgressCallback


_LISTENER: ContextVar[_Listener | None] = ContextVar("listener", default=None)


@contextmanager
def listening(log: Log, progress: ProgressCallback) -> Iterator[None]:
    """Send messages and progress of a command to callbacks instead of printing them."""
    token = _LISTENER.set(_Listener(log, progress))
    try:
        yield
    finally:
        _LISTENER.reset(token)


def is_called() -> bool:
    """Return whether a Python program called the command."""
    return _LISTENER.get() is not None


class Reporter:
    """Messages and progress on standard error."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet
        self.listener = _LISTENER.get()
        self.console = Console(stderr=True, highlight=False, soft_wrap=True, emoji=False)

    def log(self, text: str) -> None:
        """Print a message."""
        if self.listener is not None:
            self.listener.log(text)
        elif not self.quiet:
            self.console.print(as_line(text), markup=False)

    def task(self, title: str, *, at_most: bool = False) -> ProgressBar:
        """Start a progress bar; `at_most` means that the task may end before the fraction reaches 1."""
        return ProgressBar(self, title, at_most=at_most)


class ProgressBar:
    """Progress of a task; a context manager."""

    def __init__(self, reporter: Reporter, title: str, *, at_most: bool) -> None:
        self._reporter, self._title, self._bound = reporter, title, "at most " if at_most else ""
        self._last_line = time.monotonic()
        self._first: tuple[float, float] | None = None
        """Time and fraction of the first update: a resumed training run does not begin at zero."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),
            TimeElapsedColumn(),
            # The text begins with the remaining time, because the terminal may truncate it.
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
        """Show the completed fraction (None if unknown) and a status text."""
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
            self._reporter.log(f"{self._title}: {self._done(now, share)}{text}")

    def count(self, done: int, sentences: int) -> None:
        """Show the number of completed sentences."""
        self.update(done / sentences, f"{done:,} of {sentences:,} sentences")

    def _done(self, now: float, share: float | None) -> str:
        """Return the completed fraction and the estimated remaining time, as far as they are known."""
        if not share or self._first is None:
            return ""
        started, before = self._first
        if share <= before or share >= 1:
            return f"{share:.0%}, "
        return f"{share:.0%}, {self._bound}{duration((now - started) * (1 - share) / (share - before))} left, "
