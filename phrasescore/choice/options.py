"""What a table offers for the sources of a text: the options that a decoder would choose among.

Shapes: S sources, O options of all of them, C columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.phrases import Offsets, offsets_of, ranges
from phrasescore.table.entry import LOWEST_LOG, parse_scores
from phrasescore.table.reader import TableReader

MOST_OPTIONS = 50
"""Options of a source; those that are more hardly ever win."""
_DIRECT = 2
"""The column of p(target given source) in Moses' order, by which the first options are told."""

_Option = tuple[bytes, list[float]]


@dataclass(frozen=True)
class Options:
    """The options of some sources, those of one source side by side: `offsets[s]` to `offsets[s + 1]`."""

    sources: list[bytes]
    """[S], in the order of their bytes."""
    offsets: Offsets
    """[S + 1]"""
    targets: list[bytes]
    """[O]"""
    columns_OC: NDArray[np.float64]
    """ln of the scores, floored as Moses does."""

    @property
    def source_O(self) -> NDArray[np.int64]:
        """The source of each option."""
        return np.repeat(np.arange(len(self.sources)), np.diff(self.offsets))

    def numbers(self, sources: NDArray[np.integer]) -> NDArray[np.int64]:
        """Return the numbers of all options of some sources, source by source."""
        return ranges(self.offsets[sources], np.diff(self.offsets)[sources])

    def take(self, sources: NDArray[np.integer]) -> Options:
        """Return the options of some sources, in their order."""
        numbers = self.numbers(sources)
        return Options(
            [self.sources[source] for source in sources],
            offsets_of(np.diff(self.offsets)[sources]),
            [self.targets[option] for option in numbers],
            self.columns_OC[numbers],
        )


def read_options(
    table: str | Path,
    wanted: Collection[bytes],
    base_columns: int | None = None,
    progress: Callable[[int, float | None], None] = lambda lines, share: None,
) -> Options:
    """Return the options of those wanted sources that have two or more, at most `MOST_OPTIONS` of each.

    These are the most probable ones by the third column, or by the last of the base if it has fewer. The order of the
    table's lines does not matter.

    Args:
        table: the phrase table.
        wanted: source phrases, words with one blank between them.
        base_columns: how many columns the base has, all of the table's if it is None.
        progress: called with the lines and the share of the file read so far.

    Raises:
        UserError: the table cannot be read, is faulty, or has too few columns.
    """
    found: defaultdict[bytes, list[_Option]] = defaultdict(list)
    reader = TableReader(table)
    lines, direct = 0, 0
    for chunk in reader:
        columns = reader.columns or 0
        direct = min(_DIRECT, (base_columns or columns) - 1)
        if chunk.entries and base_columns is not None and columns < base_columns:
            raise UserError(
                f"{display_name(table)}: has fewer score columns ({columns}) than --base-columns asks for "
                f"({base_columns}); give fewer"
            )
        for entry in chunk.entries:
            if entry.source in wanted:
                options = found[entry.source]
                options.append((entry.target, parse_scores(entry.scores)))
                if len(options) > 2 * MOST_OPTIONS:
                    options[:] = _first(options, direct)
        lines += chunk.lines_read
        progress(lines, chunk.share_read)
    several = {source: _first(found[source], direct) for source in sorted(found) if len(found[source]) > 1}
    scores = [scores for options in several.values() for _, scores in options]
    with np.errstate(divide="ignore"):
        columns_OC = np.maximum(np.log(np.array(scores).reshape(len(scores), reader.columns or 0)), LOWEST_LOG)
    return Options(
        list(several),
        offsets_of(np.array([len(options) for options in several.values()], np.int64)),
        [target for options in several.values() for target, _ in options],
        columns_OC,
    )


def _first(options: list[_Option], column: int) -> list[_Option]:
    """Return the most probable options by a column, equally probable ones in the order of their bytes."""
    return sorted(options, key=lambda option: (-option[1][column], option[0], option[1]))[:MOST_OPTIONS]
