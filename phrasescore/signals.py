"""Signals: a stop request that a long task polls, and the interruption of a command."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class StopRequest:
    """Stop request set by the first signal. A second signal ends the process at once, unless signals may repeat."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self.is_urgent = False

    @contextmanager
    def urgently(self) -> Iterator[None]:
        """Let signals raise an exception within the block, for instance while it waits for input."""
        self.is_urgent = True
        try:
            yield
        finally:
            self.is_urgent = False

    def __call__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """128 + the signal number; that of SIGTERM if only another rank received a signal."""
        return 128 + (self.signal or signal.SIGTERM)


@contextmanager
def stop_on_signals(*, may_repeat: bool = False) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP into a stop request that the command polls between its steps.

    With `may_repeat`, repeated signals are ignored: `torchrun` forwards signals that a cluster also sends to its
    processes, and kills processes that do not end.
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
    """Let SIGTERM and SIGHUP interrupt the command as Ctrl-C does."""
    with _handled(_endings(), lambda number, frame: _unwind(number)):
        yield


def _endings() -> tuple[signal.Signals, ...]:
    """Return the termination signals; SIGHUP is included unless it is ignored, as under `nohup`."""
    ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return (signal.SIGTERM,) if ignored else (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def _handled(numbers: Sequence[signal.Signals], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread only.
        return
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
