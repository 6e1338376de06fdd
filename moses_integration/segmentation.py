"""The phrases of a derivation in an n-best list."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from moses_integration.decoder.phrases import Words, words_of
from moses_integration.nbest import ListFault, NbestEntry

_UNSIGNED = 1 << 64
"""Moses computes positions with unsigned 64-bit integers, modulo this number."""


class Segment(NamedTuple):
    """A phrase of a derivation: source words `start` to `end`, inclusive, and their translation."""

    start: int
    end: int
    words: Words


def segments_of(entry: NbestEntry) -> list[Segment]:
    """Return the phrases of an n-best entry, in target order.

    Raises:
        ListFault: the segmentation is missing, or does not match the words.
    """
    try:
        sides = [field.split(b"=") for field in words_of(entry.extras[0])]
        sources, ranges = ([[int(position) for position in side[i].split(b"-")] for side in sides] for i in (0, 1))
    except (IndexError, ValueError) as error:
        raise ListFault(
            f"an entry of sentence {entry.sentence} has no segmentation after its total; decode with "
            "-include-segmentation-in-n-best"
        ) from error
    words = words_of(entry.words)
    # A phrase ends where the next one begins. An empty phrase has a range of one word, its position. At the start of a
    # sentence, Moses computes its end as 0 - 1, which wraps around.
    bounds = [*pairwise([*(positions[0] for positions in ranges), len(words)])]
    fits = all(
        end - start in ({1, 0} if len(positions) == 1 else {(positions[-1] - start + 1) % _UNSIGNED})
        for positions, (start, end) in zip(ranges, bounds, strict=True)
    )
    if not fits or (ranges[0][0] if ranges else len(words)):
        raise ListFault(f"an entry of sentence {entry.sentence} has a segmentation that does not fit its words")
    targets = [words[start:end] for start, end in bounds]
    return [Segment(source[0], source[-1], target) for source, target in zip(sources, targets, strict=True)]


def cover_once(segments: Sequence[Segment], length: int) -> bool:
    """Whether the phrases cover each of the `length` source words exactly once."""
    # Check bounds first: the positions of a damaged list may exceed memory.
    if not all(0 <= segment.start <= segment.end < length for segment in segments):
        return False
    covered = [position for segment in segments for position in range(segment.start, segment.end + 1)]
    return sorted(covered) == list(range(length))
