"""Position embeddings that mark the phrase in a sentence.

Each annotation gets two learnt vectors, for the distances to the first word of the phrase and to the symbol after the
phrase; each last state gets one for the length of the phrase. Distances are clipped to `FARTHEST`.

Legend: S source phrases, L symbols of the longest phrase and the symbol after it, d annotation size, s state size.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from phrasescore.nn.sources import FARTHEST, SourceBatch
from phrasescore.transfer import on_device

_ROWS = FARTHEST + 2
"""Vectors per table. The last is unused, but stored in model folders."""


class SpanMarks(nn.Module):
    """The learnt vectors."""

    def __init__(self, annotation: int, states: Sequence[Sequence[int]]) -> None:
        """Build with weights yet to be initialised.

        Args:
            annotation: d, or 0 without annotations.
            states: s of each layer and direction.
        """
        super().__init__()
        self.first = nn.Embedding(_ROWS, annotation) if annotation else None
        self.following = nn.Embedding(_ROWS, annotation) if annotation else None
        self.length = nn.ModuleList(nn.ModuleList(nn.Embedding(_ROWS, state) for state in layer) for layer in states)

    def mark_annotations(self, annotations_SLd: Tensor, sources: SourceBatch) -> Tensor:
        """Add the vectors of both distances to the annotations."""
        assert self.first is not None
        assert self.following is not None
        distances = on_device(sources.distances(), annotations_SLd.device)
        marked_SLd: Tensor = annotations_SLd + self.first(distances.first_SL) + self.following(distances.following_SL)
        return marked_SLd

    def mark_state(self, h_Ss: Tensor, layer: int, way: int, sources: SourceBatch) -> Tensor:
        """Add the vectors of the phrase lengths to the last states of a layer and direction (`way`)."""
        distances = on_device(sources.distances(), h_Ss.device)
        marked_Ss: Tensor = h_Ss + self.length[layer][way](distances.length_S)  # type: ignore[index]
        return marked_Ss
