"""Terminate external programs together with their child processes."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

_SECONDS_TO_END = 5


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program that was started with `process_group=0`, and its descendants."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
