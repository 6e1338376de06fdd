"""The lexicalised reordering table of the model `wbe-msd-bidirectional-fe`.

For each phrase pair the probability of monotone, swap and discontinuous orientation to the phrase before it and to the
one after it: (count + 0.5) / (sum of counts + 3 * 0.5) (phrase-extract/lexical-reordering/reordering_classes.cpp).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from moses_integration.building.phrase_pairs import CountedPairs

REORDERING_TYPE = "wbe-msd-bidirectional-fe"
REORDERING_TABLE = f"reordering-table.{REORDERING_TYPE}.gz"
_SMOOTHING = 0.5


def reordering_table_lines(pairs: CountedPairs, spellings: list[bytes]) -> Iterator[bytes]:
    """Yield the pairs' lines, `source ||| target ||| probabilities`: previous M S D, following M S D."""
    counts_K33 = pairs.orientation_count_K9.reshape(-1, 3, 3)
    previous, following = counts_K33.sum(axis=2).tolist(), counts_K33.sum(axis=1).tolist()
    for spelling, before, after in zip(spellings, previous, following, strict=True):
        yield b"%b ||| %b %b\n" % (spelling, _print_distribution(*before), _print_distribution(*after))


@lru_cache(maxsize=1 << 16)
def _print_distribution(monotone: int, swap: int, discontinuous: int) -> bytes:
    """Return the smoothed probabilities of the three orientations."""
    smoothed = [count + _SMOOTHING for count in (monotone, swap, discontinuous)]
    return b"%g %g %g" % tuple(count / sum(smoothed) for count in smoothed)
