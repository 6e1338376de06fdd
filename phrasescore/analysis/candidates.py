"""Look-up of a phrase and of the most frequent other phrases in a table, in one pass and bounded memory."""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.pairs import Direction, orient
from phrasescore.table.entry import Counted, Entry
from phrasescore.table.reader import TableReader
from phrasescore.words import quote

PROBABILITY: dict[Direction, tuple[int, str]] = {
    "target-given-source": (3, "p(target | source)"),
    "source-given-target": (1, "p(source | target)"),
}
"""The index, from 1, of p(output | input) among Moses' four scores, and its name."""
_Input = tuple[float, int, bytes]
"""Count, hash to break ties, and text of an input."""


class Candidate(NamedTuple):
    """An output of an input in the table."""

    output: bytes
    probability: float
    """The table's own p(output | input)."""


def look_up(
    reader: TableReader, direction: Direction, phrase: bytes, others: int
) -> tuple[list[Candidate], list[bytes]]:
    """Return the table's outputs of an input phrase, and its most frequent other inputs.

    Args:
        reader: the table; phrases have the factors that it is read with.
        direction: that of the network, whose inputs are the sources or the targets of the table.
        phrase: the input.
        others: the number of other inputs; ties are broken by a hash, independently of their order.
    """
    candidates: list[Candidate] = []
    side: Counted = "source" if direction == "target-given-source" else "target"

    def inputs() -> Iterator[_Input]:
        previous = None
        for chunk in reader:
            for entry in chunk.entries:
                sides = reader.factors.network_words(entry.source), reader.factors.network_words(entry.target)
                input_, output = orient(sides, direction)
                if input_ == phrase:
                    candidates.append(Candidate(output, table_probability(entry, direction, reader)))
                elif input_ != previous:
                    yield entry.occurrences(side, 0.0), zlib.crc32(input_), input_
                previous = input_

    return candidates, [phrase for _, _, phrase in _largest(others, inputs())]


def table_probability(entry: Entry, direction: Direction, reader: TableReader) -> float:
    """Return Moses' p(output | input).

    Raises:
        UserError: the table has too few score columns, or the score is not a probability.
    """
    number, name = PROBABILITY[direction]
    scores = entry.scores.split(b" ")
    if len(scores) < number:
        raise UserError(
            f"{display_name(reader.path)}: has {len(scores)} score columns, but {name} is score {number} of Moses' "
            "tables; give a table with Moses' four scores"
        )
    probability = float(scores[number - 1])
    if not 0 < probability <= 1:
        raise UserError(
            f"{display_name(reader.path)}: score {number} of `{quote(entry.source)} ||| {quote(entry.target)}` is "
            f"{probability:g}, which is no probability; give a table with Moses' four scores, where it is {name}"
        )
    return probability


def _largest(number: int, items: Iterable[_Input]) -> list[_Input]:
    """Return the largest distinct items, the largest first."""
    heap: list[_Input] = []
    # A table is sorted by source, so targets as inputs occur repeatedly.
    inside: set[_Input] = set()
    for item in items:
        if item in inside:
            continue
        if len(heap) < number:
            heapq.heappush(heap, item)
            inside.add(item)
        elif item > heap[0]:
            inside.remove(heapq.heapreplace(heap, item))
            inside.add(item)
    return sorted(heap, reverse=True)
