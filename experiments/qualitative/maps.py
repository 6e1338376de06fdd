"""Vectors as points in the plane (Figures 4 and 5), and the regions that are worth a closer look.

Legend: P points, d size of a vector.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.analysis.vectors import Vectors, unit_length

Points = NDArray[np.float64]
_COMPONENTS = 50
_PERPLEXITY = 30
_REGION_POINTS = 15
FEWEST = 40
"""Points of a map at least."""


@dataclass(frozen=True)
class Region:
    """A square of a map."""

    x: float
    y: float
    half: float
    """Half the length of a side."""

    def holds(self, points_P2: Points) -> NDArray[np.int64]:
        """Return the points inside."""
        inside = (abs(points_P2[:, 0] - self.x) <= self.half) & (abs(points_P2[:, 1] - self.y) <= self.half)
        return np.flatnonzero(inside)

    def is_near(self, other: Region) -> bool:
        """Whether the gap between two squares is smaller than they are."""
        reach = 2 * (self.half + other.half)
        return abs(self.x - other.x) < reach and abs(self.y - other.y) < reach


def barnes_hut(vectors_Pd: Vectors, seed: int) -> Points:
    """Return the points of a Barnes-Hut t-SNE (van der Maaten 2013) of the vectors' directions, [P, 2].

    The vectors are first reduced to their 50 principal components, as is usual. Both axes of the result, which mean
    nothing, are brought to the same spread.
    """
    from sklearn.decomposition import PCA
    from sklearn.manifold import TSNE

    unit_Pd = unit_length(vectors_Pd)
    components = min(_COMPONENTS, *unit_Pd.shape)
    reduced = PCA(components, random_state=seed).fit_transform(unit_Pd)
    perplexity = min(_PERPLEXITY, (len(unit_Pd) - 1) / 3)
    found = TSNE(method="barnes_hut", init="pca", perplexity=perplexity, random_state=seed, n_jobs=1).fit_transform(
        reduced
    )
    points: Points = found / found.std(axis=0)
    return points


def dense_regions(points_P2: Points, number: int) -> list[Region]:
    """Return squares around the densest places, each of 15 points or a few more, none near another."""
    from sklearn.neighbors import NearestNeighbors

    points = min(_REGION_POINTS, len(points_P2))
    distance, _ = NearestNeighbors(n_neighbors=points).fit(points_P2).kneighbors(points_P2)
    radius_P = distance[:, -1]
    regions: list[Region] = []
    for index in np.argsort(radius_P, kind="stable").tolist():
        x, y = points_P2[index].tolist()
        region = Region(x, y, float(radius_P[index]))
        if not any(region.is_near(other) for other in regions):
            regions.append(region)
        if len(regions) == number:
            break
    return regions
