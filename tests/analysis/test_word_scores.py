from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import phrasescore
from phrasescore.analysis.gates import encoder_gates
from phrasescore.analysis.sampling import sample_targets
from phrasescore.analysis.vectors import phrase_vectors
from phrasescore.analysis.word_scores import word_log_probs
from phrasescore.errors import UserError
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences


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


def test_a_damaged_network_is_refused_whatever_it_is_asked_for(scorer: EncoderDecoderScorer) -> None:
    network = deepcopy(scorer.model.network)
    with torch.no_grad():
        network.encoder.embedding.words.weight.fill_(torch.nan)
    damaged = EncoderDecoderScorer(replace(scorer.model, network=network, folder=Path("damaged")), scorer.device)
    asked: list[Callable[[], object]] = [
        lambda: word_log_probs(damaged, Occurrences([b"a house"], [b"une maison"])),
        lambda: sample_targets(damaged, b"a house", 3, seed=1),
        lambda: phrase_vectors(damaged, [b"a house"]),
        lambda: encoder_gates(damaged, b"a house"),
    ]
    for ask in asked:
        with pytest.raises(UserError, match=r"^damaged: (gives|computes) .*; its weights are damaged"):
            ask()
