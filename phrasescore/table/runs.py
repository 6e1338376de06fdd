"""Whether the lines of a table are grouped by source, as Moses' converters want them."""

from __future__ import annotations

from array import array

import numpy as np


class SourceRuns:
    """Counts the runs of neighbouring lines with one source."""

    def __init__(self) -> None:
        self._last: bytes | None = None
        # For the sources of a large table take too much memory.
        self._hashes = array("q")

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._hashes)

    def add(self, source: bytes) -> bool:
        """Take the source of the next line; return whether it begins a run."""
        if source == self._last:
            return False
        self._last = source
        self._hashes.append(hash(source))
        return True

    def distinct(self) -> int:
        """Return the number of different sources: as many as runs where the table is grouped."""
        return len(np.unique(np.frombuffer(self._hashes, np.int64)))
