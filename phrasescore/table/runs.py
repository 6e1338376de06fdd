"""Detect whether the lines of a table are grouped by source, as Moses' converters require."""

from __future__ import annotations

from array import array

import numpy as np


class SourceRuns:
    """Counts runs of consecutive lines with the same source."""

    def __init__(self) -> None:
        self._last: bytes | None = None
        # Hashes, because the sources of a large table take too much memory.
        self._hashes = array("q")

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._hashes)

    def add(self, source: bytes) -> bool:
        """Add the source of the next line; return whether it starts a new run."""
        if source == self._last:
            return False
        self._last = source
        self._hashes.append(hash(source))
        return True

    def distinct(self) -> int:
        """Return the number of distinct sources; a grouped table has as many runs."""
        return len(np.unique(np.frombuffer(self._hashes, np.int64)))
