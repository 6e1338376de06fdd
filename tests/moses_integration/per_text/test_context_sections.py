"""The sections of an ini that record the networks in context of its tuning."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_sections import (
    keep_option_weights,
    name_networks,
    option_weights,
    require_tuned_for,
)
from phrasescore.errors import UserError
from phrasescore.scoring.scorer import fingerprint_of


def parse(text: str) -> MosesIni:
    return MosesIni(text.splitlines(keepends=True), "moses.ini")


def scorer_of(*digests: str) -> Mock:
    scorer = Mock(fingerprint=fingerprint_of(digests))
    scorer.name = "rnn"
    return scorer


def test_the_order_of_the_networks_does_not_matter() -> None:
    """The order of the networks does not matter, because their scores are averaged."""
    ini = parse("[feature]\nPhraseDictionaryMemory name=T\n[weight]\nT= 0.5\n")
    add_column_in_context(ini)
    name_networks(ini, ["b", "a"], fingerprint_of(["22", "11"]))
    require_tuned_for(ini, scorer_of("11", "22"))
    for others in (scorer_of("11"), scorer_of("11", "11"), scorer_of("11", "33")):
        with pytest.raises(UserError, match=r"rnn: is not the network that moses\.ini was tuned with"):
            require_tuned_for(ini, others)


def test_options_stay_chosen_by_the_weights_that_tuning_began_with() -> None:
    """Options are still chosen by tuning's initial weights, unless a feature's number of components changed."""
    ini = parse("[feature]\nDistortion\nLM name=LM0 num-features=2\n[weight]\nDistortion0= 0.5\nLM0= 1 2\n")
    keep_option_weights(ini)
    ini.set_weights({"Distortion0": [0.1], "LM0": [3, 4, 5]})
    ini.set_argument("LM0", "num-features", "3")
    keep_option_weights(ini)
    assert option_weights(ini) == {"Distortion0": [0.5], "LM0": [3, 4, 5]}
