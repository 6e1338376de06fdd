"""What a table says of one phrase, and which other phrases it knows well; in one pass and bounded memory."""

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
"""Which of Moses' four scores, from 1, is the phrase translation probability of the output given the input."""
_Input = tuple[float, int, bytes]
"""How often an input occurs, a hash that puts equally frequent ones in an order of no meaning, the input."""


class Candidate(NamedTuple):
    """An output that the table has for an input."""

    output: bytes
    probability: float
    """The table's own probability of the output given the input."""


def look_up(
    reader: TableReader, direction: Direction, phrase: bytes, others: int
) -> tuple[list[Candidate], list[bytes]]:
    """Return the table's outputs of an input phrase, and the inputs it has most often.

    Args:
        reader: the table; of factored words, phrases have the factors that it is read with.
        direction: of the network; its inputs are the table's sources, or its targets.
        phrase: the input.
        others: how many other inputs to return; of equally frequent ones a sample that does not depend on their order.

    Raises:
        UserError: the table has too few columns.
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
    """Return Moses' phrase translation probability of the output given the input.

    Raises:
        UserError: the table has too few columns, or the score is no probability.
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
    """Return so many of the largest distinct items, the largest first."""
    heap: list[_Input] = []
    # A table is grouped by source, so as inputs targets come again and again.
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
