"""Figures of gates and attention weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.inspection import Gates
from phrasescore.pictures import (
    Alignment,
    draw_alignments,
    draw_gates,
    load_pyplot,
    sorted_units,
    write_figure,
)
from tests.pictures import labels

GATES = Gates([b"the", b"black", b"<eos>"], *np.random.default_rng(1).random((2, 3, 32), np.float32))


def test_only_the_suffix_decides_the_format(tmp_path: Path) -> None:
    plt = load_pyplot("gates")
    figure = plt.figure()
    with pytest.raises(UserError, match=r"a\.txt: is not an image format .* ends in \.png"):
        write_figure(figure, tmp_path / "a.txt")
    figure = plt.figure()
    figure.suptitle("$$")
    with pytest.raises(ValueError, match="Expected end of text"):
        write_figure(figure, tmp_path / "a.svg")
    assert not plt.get_fignums()
    assert not list(tmp_path.iterdir())


def test_units_are_sorted_by_their_mean() -> None:
    gate = np.array([[0.9, 0.1, 0.5], [0.7, 0.3, 0.1]], np.float32)
    assert sorted_units(gate).tolist() == [pytest.approx([0.1, 0.5, 0.9]), pytest.approx([0.3, 0.1, 0.7])]


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_suffix_is_the_format(tmp_path: Path, suffix: str, head: bytes) -> None:
    draw_gates(GATES, tmp_path / f"gates.{suffix}")
    assert (tmp_path / f"gates.{suffix}").read_bytes().startswith(head)


def test_the_figure_shows_the_gates_of_each_word(tmp_path: Path, figures: list[Any]) -> None:
    draw_gates(GATES, tmp_path / "gates.svg")
    units, words = "units, sorted by their mean over the phrase", ["the", "black", "<eos>"]
    assert labels(tmp_path / "gates.svg") == [
        *(units, *words, "update gate z: near 1 the unit keeps its state"),
        *(units, *words, "reset gate r: near 0 the unit ignores its previous state"),
    ]
    [figure] = figures
    update, reset, _ = figure.axes
    for axis, gate_Tn in ((update, GATES.update_Tn), (reset, GATES.reset_Tn)):
        assert (axis.images[0].get_array() == sorted_units(gate_Tn)).all()
        assert axis.images[0].get_clim() == (0, 1)


def test_dollar_signs_are_escaped(tmp_path: Path) -> None:
    # The first word is invalid as a formula; the second would lose its dollar signs.
    draw_gates(Gates([b"$$", b"$a_$", b"\\$"], GATES.reset_Tn, GATES.update_Tn), tmp_path / "gates.svg")
    assert labels(tmp_path / "gates.svg")[1:4] == ["$$", "$a_$", "\\$"]


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
