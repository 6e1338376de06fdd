"""Messages, progress and results of a command. Progress is a bar on a terminal, and otherwise occasional lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column

from phrasescore.text import Log, ProgressCallback

_SECONDS_BETWEEN_LINES = 30.0
_LONGEST_LINE = 900
"""Approximate limit, in characters."""


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
    """Prints messages and progress on standard error, or sends them to the Python program that called the command."""

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

    def show(self, result: str) -> None:
        """Print a result on standard output."""
        if self.listener is not None:
            self.listener.log(result)
        else:
            print(result)

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
