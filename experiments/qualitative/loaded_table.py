"""A phrase table in memory, for a network of target given source: each input (source) with its outputs (targets).

Legend: S distinct inputs, P pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.inspection import table_probability
from phrasescore.phrases import offsets_of
from phrasescore.table.reader import TableReader


@dataclass(frozen=True)
class LoadedTable:
    """The pairs of a table, grouped by input. The outputs of input s are offsets[s]:offsets[s + 1]."""

    inputs: list[bytes]
    offsets: NDArray[np.int64]
    outputs: list[bytes]
    probability_P: NDArray[np.float64]
    """The table's own probability of the output given the input."""
    count_P: NDArray[np.float64]
    """Extraction count of each pair; 1 if the table has no counts."""

    @property
    def input_of_pair_P(self) -> NDArray[np.int64]:
        """The input of each pair."""
        return np.repeat(np.arange(len(self.inputs)), np.diff(self.offsets))

    @property
    def input_count_S(self) -> NDArray[np.float64]:
        """Extraction count of each input."""
        counts_S: NDArray[np.float64] = np.add.reduceat(self.count_P, self.offsets[:-1])
        return counts_S

    def best_pair_S(self) -> NDArray[np.int64]:
        """Return the pair with the most frequent output of each input. Ties: the more probable pair, then the first."""
        order = np.lexsort((-self.probability_P, -self.count_P, self.input_of_pair_P))
        best_S: NDArray[np.int64] = order[self.offsets[:-1]]
        return best_S

    def pairs_of(self, input_: int) -> NDArray[np.int64]:
        """Return the pairs of an input."""
        return np.arange(self.offsets[input_], self.offsets[input_ + 1])


def load_table(reader: TableReader) -> LoadedTable:
    """Read a table.

    Raises:
        UserError: the table is malformed or empty, or has no probability column.
    """
    pairs: dict[bytes, list[tuple[bytes, float, float]]] = {}
    for chunk in reader:
        for entry in chunk.entries:
            probability = table_probability(entry, "target-given-source", reader)
            count = entry.occurrences("pair")
            pairs.setdefault(entry.source, []).append((entry.target, probability, 1.0 if count is None else count))
    if not pairs:
        raise UserError(f"{display_name(reader.path)}: has no lines; give a table with phrase pairs")
    together = [pair for outputs in pairs.values() for pair in outputs]
    return LoadedTable(
        inputs=list(pairs),
        offsets=offsets_of(np.array([len(outputs) for outputs in pairs.values()])),
        outputs=[output for output, _, _ in together],
        probability_P=np.array([probability for _, probability, _ in together]),
        count_P=np.array([count for _, _, count in together]),
    )
