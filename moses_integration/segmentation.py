"""The phrases of a derivation, as an n-best list has them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from moses_integration.decoder.phrases import Words, words_of
from moses_integration.nbest import ListFault, NbestEntry

_UNSIGNED = 1 << 64
"""How many numbers Moses can count places with."""


class Segment(NamedTuple):
    """A phrase of a derivation: source words `start` to `end`, inclusive, and what they became."""

    start: int
    end: int
    words: Words


def segments_of(entry: NbestEntry) -> list[Segment]:
    """Return the phrases of an n-best entry, in target order, from its words and its segmentation.

    Raises:
        ListFault: the entry has no segmentation, or that of other words.
    """
    try:
        sides = [field.split(b"=") for field in words_of(entry.extras[0])]
        sources, ranges = ([[int(place) for place in side[i].split(b"-")] for side in sides] for i in (0, 1))
    except (IndexError, ValueError) as error:
        raise ListFault(
            f"an entry of sentence {entry.sentence} has no segmentation after its total; decode with "
            "-include-segmentation-in-n-best"
        ) from error
    words = words_of(entry.words)
    # A phrase ends where the next one begins: an empty phrase has the range of one word, that where it stands. At the
    # start of a sentence Moses ends it one before 0, which is the greatest number that it knows.
    bounds = [*pairwise([*(places[0] for places in ranges), len(words)])]
    fits = all(
        end - start in ({1, 0} if len(places) == 1 else {(places[-1] - start + 1) % _UNSIGNED})
        for places, (start, end) in zip(ranges, bounds, strict=True)
    )
    if not fits or (ranges[0][0] if ranges else len(words)):
        raise ListFault(f"an entry of sentence {entry.sentence} has the segmentation of other words than it has")
    targets = [words[start:end] for start, end in bounds]
    return [Segment(source[0], source[-1], target) for source, target in zip(sources, targets, strict=True)]


def cover_once(segments: Sequence[Segment], length: int) -> bool:
    """Whether the phrases cover each of the `length` words of a sentence once."""
    # First, for a damaged list may ask for more positions than memory holds.
    if not all(0 <= segment.start <= segment.end < length for segment in segments):
        return False
    covered = [position for segment in segments for position in range(segment.start, segment.end + 1)]
    return sorted(covered) == list(range(length))
