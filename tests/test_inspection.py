"""What `inspect` computes: gates, vectors, scores word by word, and the look-up of a phrase in a table."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import phrasescore
from phrasescore.errors import UserError
from phrasescore.inspection import (
    Gates,
    encoder_gates,
    look_up,
    nearest,
    phrase_vectors,
    unit_length,
    word_log_probs,
)
from phrasescore.nn.encoder import RecurrentEncoder
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.table.entry import SURFACE
from phrasescore.table.reader import TableReader
from phrasescore.vocabulary import END
from tests import family_reference
from tests.family_reference import NOTHING
from tests.reference import Weights, embed, sigma

PHRASES = [b"the black house", b"black the house", b"a car", b"the black", b"nonsense car"]


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
        h, _ = family_reference.unit_step(weights, "encoder.unit", "gru-paper", e, (h, NOTHING), None)
    assert gates.symbols == [b"the", b"black", b"house", b"<eos>"]


def test_a_phrase_of_a_factored_table_is_that_of_its_first_factors(scorer: EncoderDecoderScorer) -> None:
    factored = "the|D black|A house|N"
    scorer = deepcopy(scorer)
    scorer.factors = SURFACE
    found, plain = (phrasescore.inspect(phrase, scorer).targets for phrase in (factored, "the black house"))
    assert [(one.text, one.log_prob) for one in found] == [(one.text, one.log_prob) for one in plain]
    assert gates_of(scorer, factored.encode()).symbols == [b"the", b"black", b"house", b"<eos>"]
    with pytest.raises(UserError, match=r"phrase: has a word with an empty factor: `the\|`; "):
        phrasescore.inspect("the|", scorer)


def test_gates_of_a_network_that_reads_backwards(scorer: EncoderDecoderScorer) -> None:
    turned = gates_of(scorer, b"house black the")
    backwards = deepcopy(scorer)
    encoder = backwards.model.network.encoder
    assert isinstance(encoder, RecurrentEncoder)
    encoder.reverse = True
    gates = gates_of(backwards, b"the black house")
    assert gates.symbols == turned.symbols
    assert (gates.update_Tn == turned.update_Tn).all()


def test_other_units_have_no_gates(scorer: EncoderDecoderScorer) -> None:
    other = deepcopy(scorer)
    other.model.network.encoder.add_module("unit", torch.nn.Linear(1, 1))
    assert encoder_gates(other, b"the black house") is None


def test_phrase_vectors_are_the_summaries_of_the_equations(scorer: EncoderDecoderScorer, weights: Weights) -> None:
    ids = [scorer.model.source_vocabulary.encode([phrase]).ids.tolist() for phrase in PHRASES]
    expected = [family_reference.encode(weights, scorer.model.network.config, words, END)[0] for words in ids]
    assert phrase_vectors(scorer, PHRASES) == pytest.approx(np.array(expected), abs=1e-5)


def test_nearest_by_cosine_not_by_length() -> None:
    vectors = np.array([[10, 10], [0.1, 0], [0, 1], [-1, 0]], np.float32)
    found = nearest(np.array([2, 0], np.float32), vectors, 3)
    assert [index for index, _ in found] == [1, 0, 2]
    assert [cosine for _, cosine in found] == pytest.approx([1, 0.5**0.5, 0])


def test_a_zero_vector_stays_zero() -> None:
    assert unit_length(np.array([[0, 0], [3, 4]], np.float32)).tolist() == [[0, 0], pytest.approx([0.6, 0.8])]


def test_words_add_up_to_the_pair(scorer: EncoderDecoderScorer) -> None:
    source, targets = b"a black house", [b"une maison noire", b"", b"une maison", b"xyz maison noire"]
    words = word_log_probs(scorer, Occurrences([source] * 4, targets))
    assert [len(one) for one in words] == [4, 1, 3, 4]
    whole = phrasescore.score([(source, target) for target in targets], scorer)
    assert [one.sum() for one in words] == pytest.approx(whole, abs=1e-4)
    # A score does not depend on later words.
    assert words[0][:2] == pytest.approx(words[2][:2], abs=1e-4)


def test_pairs_are_given_as_the_network_sees_them(scorer: EncoderDecoderScorer) -> None:
    turned = EncoderDecoderScorer(replace(scorer.model, direction="source-given-target"), scorer.device)
    source, targets = b"a black house", [b"une maison noire", b"une maison"]
    one, other = Occurrences(targets, [source] * 2), Occurrences([source] * 2, targets)
    assert word_log_probs(turned, one)[0] == pytest.approx(word_log_probs(scorer, other)[0])


def test_a_damaged_network_is_an_error(scorer: EncoderDecoderScorer) -> None:
    network = deepcopy(scorer.model.network)
    with torch.no_grad():
        network.encoder.embedding.words.weight.fill_(torch.nan)
    damaged = EncoderDecoderScorer(replace(scorer.model, network=network, folder=Path("damaged")), scorer.device)
    asked: list[Callable[[], object]] = [
        lambda: word_log_probs(damaged, Occurrences([b"a house"], [b"une maison"])),
        lambda: phrase_vectors(damaged, [b"a house"]),
        lambda: encoder_gates(damaged, b"a house"),
    ]
    for ask in asked:
        with pytest.raises(UserError, match=r"^damaged: (gives|computes) .*; its weights are damaged"):
            ask()


def test_a_phrase_and_the_most_frequent_others(four_pairs: Path) -> None:
    candidates, others = look_up(TableReader(four_pairs), "target-given-source", b"a b", 10)
    assert candidates == {b"x": 0.25, b"y z": 0.75}
    assert others == [b"d", b"c"]
    assert look_up(TableReader(four_pairs), "target-given-source", b"nowhere", 1) == ({}, [b"d"])


def test_a_phrase_in_the_other_direction(four_pairs: Path) -> None:
    candidates, others = look_up(TableReader(four_pairs), "source-given-target", b"x", 10)
    assert candidates == {b"a b": 0.5, b"c": 0.5}
    assert others == [b"w", b"y z"]


def test_repeated_inputs_count_once(tmp_path: Path) -> None:
    """Repeated inputs count once.

    The test uses targets as inputs, because a table is sorted by source.
    """
    lines = [f"s{i} ||| t{j} ||| 1 1 1 1 ||| 0-0 ||| {j + 1} 9 1\n" for i in range(9) for j in range(20)]
    (tmp_path / "table").write_text("".join(lines))
    _, others = look_up(TableReader(tmp_path / "table"), "source-given-target", b"nothing", 15)
    assert others == [f"t{j}".encode() for j in range(19, 4, -1)]


def test_a_table_without_counts(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 1 1 0.5 1\nb ||| y ||| 1 1 1 1\nb ||| z ||| 1 1 1 1\n")
    assert look_up(TableReader(tmp_path / "table"), "target-given-source", b"a", 5)[1] == [b"b"]


def test_counts_that_are_not_numbers_are_ignored(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(
        b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| n/a n/a 1\nb ||| y ||| 1 1 1 1 ||| 0-0 ||| 1 2 1\n"
    )
    assert look_up(TableReader(tmp_path / "table"), "target-given-source", b"c", 5)[1] == [b"b", b"a"]


@pytest.mark.parametrize("score", ["7", "0"])
def test_a_score_that_is_not_a_probability(score: str, tmp_path: Path) -> None:
    """A score above 1 is an error, as in a table whose columns are not those of Moses."""
    (tmp_path / "table").write_text(f"a ||| x ||| 1 1 {score} 1\n")
    with pytest.raises(
        UserError, match=rf"table: score 3 of `a \|\|\| x` is {score}, which is not a probability; give"
    ):
        look_up(TableReader(tmp_path / "table"), "target-given-source", b"a", 5)
