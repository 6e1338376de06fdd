"""The plots of the report: a scatter plot of scores, and two-dimensional maps of vectors.

Legend: P points, d size of a vector.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import textalloc
from numpy.typing import NDArray
from sklearn.decomposition import PCA
from sklearn.manifold import TSNE

from experiments.drawing import COLOURS, INK, blank, svg
from phrasescore.files import write_atomically
from phrasescore.inspection import Vectors, unit_length
from phrasescore.pictures import as_label

Points = NDArray[np.float64]
_COMPONENTS = 50
_PERPLEXITY = 30
FEWEST = 40
"""Minimum number of points of a map."""
_LABELS = 300
"""Maximum number of labels of a map."""


def scatter(sample: pd.DataFrame, path: Path) -> None:
    """Draw a scatter plot of the table's score against the network's, with the density of points (Figure 3)."""
    low = float(np.floor(sample["network"].quantile(0.002)))
    line = max(low, float(sample["table"].min()))
    with blank(7.2, 5.6, "constrained") as figure:
        axis = figure.subplots()
        dots = axis.scatter(
            sample["table"],
            sample["network"].clip(low, 0),
            s=9,
            c=sample["target_words"].clip(upper=7),
            cmap="viridis_r",
            linewidths=0,
            rasterized=True,
        )
        axis.plot([line, 0], [line, 0], color=INK, linewidth=0.8, linestyle="--", label="equal scores")
        axis.set_ylim(low - 0.5, 0.7)
        axis.set_xlabel("table: ln of the phrase translation probability")
        axis.set_ylabel("network: ln p(target | source), the lowest at the edge")
        axis.legend(loc="lower left", frameon=False)
        figure.colorbar(dots, label="target words (7: seven or more)")
        axis.set_title(f"{len(sample):,} random pairs of the table")
        write_atomically(path, svg(figure))


def draw_map(texts: Sequence[bytes], vectors_Pd: Vectors, what: str, seed: int, path: Path) -> None:
    """Draw a map of vectors (Figures 4 and 5), large enough to zoom in; the first vectors have labels."""
    points_P2 = barnes_hut(vectors_Pd, seed)
    with blank(18, 18, "constrained") as figure:
        axis = figure.subplots(subplot_kw={"xticks": [], "yticks": []})
        axis.scatter(points_P2[:, 0], points_P2[:, 1], s=4, color=COLOURS[1], linewidths=0)
        axis.set_title(f"{len(texts):,} {what}", fontsize=13)
        # Decode Moses' escapes for display.
        shown = [html.unescape(text.decode("utf-8", "replace")) for text in texts[:_LABELS]]
        place_labels(axis, points_P2[: len(shown)], shown)
        write_atomically(path, svg(figure))


def barnes_hut(vectors_Pd: Vectors, seed: int) -> Points:
    """Return the points of a Barnes-Hut t-SNE (van der Maaten 2013) of the vectors' directions, [P, 2].

    The vectors are first reduced to their 50 principal components, as is usual. Both axes, which have no meaning, are
    scaled to the same standard deviation.
    """
    unit_Pd = unit_length(vectors_Pd)
    components = min(_COMPONENTS, *unit_Pd.shape)
    reduced = PCA(components, random_state=seed).fit_transform(unit_Pd)
    perplexity = min(_PERPLEXITY, (len(unit_Pd) - 1) / 3)
    tsne = TSNE(method="barnes_hut", init="pca", perplexity=perplexity, random_state=seed, n_jobs=1)
    found = tsne.fit_transform(reduced)
    points: Points = found / found.std(axis=0)
    return points


def place_labels(axis: Any, points_P2: Points, texts: Sequence[str]) -> None:
    """Place labels near points without overlap; omit labels that do not fit."""
    textalloc.allocate(
        axis,
        x=points_P2[:, 0],
        y=points_P2[:, 1],
        text_list=list(map(as_label, texts)),
        x_scatter=points_P2[:, 0],
        y_scatter=points_P2[:, 1],
        textsize=9.5,
        textcolor=INK,
        linecolor=INK,
        linewidth=0.5,
        max_distance=0.05,
        draw_all=False,
        avoid_label_lines_overlap=True,
    )
