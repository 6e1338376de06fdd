from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.analysis.gates import Gates, encoder_gates
from phrasescore.analysis.gates_plot import as_text, draw, grouped, sorted_units
from phrasescore.errors import UserError
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.vocabulary import END
from tests.conftest import Weights
from tests.pictures import labels
from tests.reference import embed, sigma, unit_step


def gates_of(scorer: EncoderDecoderScorer, phrase: bytes) -> Gates:
    gates = encoder_gates(scorer, phrase)
    assert gates is not None
    return gates


def test_gates_equal_the_equations(scorer: EncoderDecoderScorer, weights: Weights) -> None:
    gates = gates_of(scorer, b"the black house")
    W_r, W_z, _ = np.split(weights["encoder.unit.input.weight"], 3)
    U_r, U_z = np.split(weights["encoder.unit.recurrent_gates.weight"], 2)
    h = np.zeros(scorer.model.network.config.hidden)
    ids = [*scorer.model.source_vocabulary.encode([b"the black house"]).ids.tolist(), END]
    for position, word in enumerate(ids):
        e = embed(weights, "encoder", word)
        assert gates.reset_Tn[position] == pytest.approx(sigma(W_r @ e + U_r @ h), abs=1e-5)
        assert gates.update_Tn[position] == pytest.approx(sigma(W_z @ e + U_z @ h), abs=1e-5)
        h = unit_step(weights, "encoder", e, h, None, "before")
    assert gates.symbols == [b"the", b"black", b"house", b"<eos>"]


def test_gates_of_a_network_that_reads_backwards(scorer: EncoderDecoderScorer) -> None:
    turned = gates_of(scorer, b"house black the")
    backwards = deepcopy(scorer)
    backwards.model.network.encoder.reverse = True
    gates = gates_of(backwards, b"the black house")
    assert gates.symbols == turned.symbols
    assert (gates.update_Tn == turned.update_Tn).all()


def test_other_units_have_no_gates(scorer: EncoderDecoderScorer) -> None:
    other = deepcopy(scorer)
    other.model.network.encoder.add_module("unit", torch.nn.Linear(1, 1))
    assert encoder_gates(other, b"the black house") is None


def test_units_are_sorted_by_their_mean_and_averaged() -> None:
    gate = np.array([[0.9, 0.1, 0.5], [0.7, 0.3, 0.1]], np.float32)
    assert sorted_units(gate).tolist() == [pytest.approx([0.1, 0.5, 0.9]), pytest.approx([0.3, 0.1, 0.7])]
    assert grouped(gate, 2).tolist() == [pytest.approx([0.5, 0.5]), pytest.approx([0.5, 0.1])]
    assert grouped(gate, 100).shape == (2, 3)


def test_the_plot_in_a_terminal() -> None:
    gate = np.array([[0.0, 1.0], [0.5, 0.49]], np.float32)
    plain = [line.plain for line in as_text(gate, ["le", "chien"], 2, colour=False, unicode=True)]
    assert plain == ["     le  ▁█  0.50", "  chien  ▅▄  0.50"]
    wide = [line.plain for line in as_text(gate, ["le", "한국어"], 2, colour=False, unicode=True)]
    assert wide == ["      le  ▁█  0.50", "  한국어  ▅▄  0.50"]
    digits = [line.plain for line in as_text(gate, ["le", "chien"], 2, colour=False, unicode=False)]
    assert digits == ["     le  09  0.50", "  chien  54  0.50"]
    first, _ = as_text(gate, ["le", "chien"], 2, colour=True, unicode=True)
    assert [str(span.style) for span in first.spans] == ["on #3b4cc0", "on #dd8452"]


@pytest.mark.parametrize(("suffix", "head"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_the_plot_in_a_file(scorer: EncoderDecoderScorer, tmp_path: Path, suffix: str, head: bytes) -> None:
    path = tmp_path / f"gates.{suffix}"
    draw(gates_of(scorer, b"the black house"), path)
    assert path.read_bytes().startswith(head)


def test_the_plot_shows_the_gates_of_each_word(
    scorer: EncoderDecoderScorer, tmp_path: Path, figures: list[Any]
) -> None:
    gates = gates_of(scorer, b"the black house")
    draw(gates, tmp_path / "gates.svg")
    units, words = "units, sorted by their mean over the phrase", ["the", "black", "house", "<eos>"]
    assert labels(tmp_path / "gates.svg") == [
        *(units, *words, "update gate z: near 1 the unit keeps its state"),
        *(units, *words, "reset gate r: near 0 the unit ignores its previous state"),
    ]
    [figure] = figures
    update, reset, _ = figure.axes
    for axis, gate_Tn in ((update, gates.update_Tn), (reset, gates.reset_Tn)):
        assert (axis.images[0].get_array() == sorted_units(gate_Tn)).all()
        assert axis.images[0].get_clim() == (0, 1)


def test_dollar_signs_are_escaped(scorer: EncoderDecoderScorer, tmp_path: Path) -> None:
    # The first word is invalid as a formula; the second would lose its dollar signs.
    draw(gates_of(scorer, b"$$ $a_$ \\$"), tmp_path / "gates.svg")
    assert labels(tmp_path / "gates.svg")[1:5] == ["$$", "$a_$", "\\$", "<eos>"]


def test_an_unknown_image_format(scorer: EncoderDecoderScorer, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"ends in \.png"):
        draw(gates_of(scorer, b"the black house"), tmp_path / "gates.txt")
    assert not list(tmp_path.iterdir())
