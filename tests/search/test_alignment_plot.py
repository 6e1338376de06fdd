"""Plots of attention weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from phrasescore.search.alignment_plot import Alignment, draw_alignments
from tests.pictures import labels


def test_alignments_are_plotted_below_each_other_with_their_words(tmp_path: Path, figures: list[Any]) -> None:
    first = np.array([[0.1, 0.7, 0.2], [0.5, 0.0, 0.5], [0.0, 0.0, 1.0], [0.3, 0.3, 0.4]], np.float32)
    second = np.array([[0.75, 0.25]], np.float32)
    alignments = [Alignment([b"$x^$", b"a"], [b"x", b"y", b"z"], first), Alignment([b"b"], [], second)]
    # The first word is invalid as a formula.
    draw_alignments(alignments, tmp_path / "a.svg")
    words = ["$x^$", "a", "<eos>", "x", "y", "z", "<eos>", "b", "<eos>", "<eos>"]
    assert labels(tmp_path / "a.svg") == [*words, "attention weight", "attention: target word by source word"]
    [figure] = figures
    *drawn, scale = figure.axes
    assert scale.get_ylim() == (0, 1)
    for axis, expected in zip(drawn, (first, second), strict=True):
        assert (axis.images[0].get_array() == expected).all()
        assert axis.images[0].get_clim() == (0, 1)
