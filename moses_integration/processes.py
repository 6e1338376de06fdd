"""Programs that start others: none outlives the program that was started."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import suppress

_SECONDS_TO_END = 5


def end_group(process: subprocess.Popen[bytes]) -> None:
    """End a program that was started with `process_group=0`, and all that it started."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)
