"""What tells a network that reads a sentence where in it the phrase begins and ends.

A state of a recurrent network does not know how many of the words behind it belong to the phrase. Each annotation gets
two learnt vectors, for how far its symbol is from the phrase's first and from what follows the phrase, and each last
state one for how many words the phrase has. Beyond `FARTHEST` all distances are one.

Legend: S source phrases, L symbols of the longest one with what follows it, d annotation size, s state size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from phrasescore.nn.sources import FARTHEST, SourceBatch
from phrasescore.transfer import on_device

_ROWS = FARTHEST + 2
"""Vectors of a kind. The last one was for longer phrases, from which it never learnt; nothing reads it, but folders
have it."""


class SpanMarks(nn.Module):
    """The learnt vectors."""

    def __init__(self, annotation: int, states: Sequence[Sequence[int]]) -> None:
        """Build with weights yet to be initialised.

        Args:
            annotation: d, or 0 if there are no annotations.
            states: s of each layer and in it of each direction.
        """
        super().__init__()
        self.first = nn.Embedding(_ROWS, annotation) if annotation else None
        self.following = nn.Embedding(_ROWS, annotation) if annotation else None
        self.length = nn.ModuleList(nn.ModuleList(nn.Embedding(_ROWS, state) for state in layer) for layer in states)

    def mark_annotations(self, annotations_SLd: Tensor, sources: SourceBatch) -> Tensor:
        """Return annotations that know where they are in their phrase."""
        assert self.first is not None
        assert self.following is not None
        distances = on_device(sources.distances(), annotations_SLd.device)
        marked_SLd: Tensor = annotations_SLd + self.first(distances.first_SL) + self.following(distances.following_SL)
        return marked_SLd

    def mark_state(self, h_Ss: Tensor, layer: int, way: int, sources: SourceBatch) -> Tensor:
        """Return the last states of a layer in a direction, which know how long their phrases are."""
        distances = on_device(sources.distances(), h_Ss.device)
        marked_Ss: Tensor = h_Ss + self.length[layer][way](distances.length_S)  # type: ignore[index]
        return marked_Ss
