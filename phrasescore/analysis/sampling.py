"""Targets drawn from the network, word by word from p(y_t | y_<t, x)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.search.decoding import Decoding
from phrasescore.search.sampling import draw_translations
from phrasescore.search.search_config import SearchConfig

LONGEST = 50
"""Words of a sample; one that has not ended after so many is left out."""


class Sample(NamedTuple):
    """A target that was drawn."""

    target: bytes
    times: int
    log_prob: float
    """ln p(target | source), end symbol included."""


def sample_targets(scorer: EncoderDecoderScorer, source: bytes, number: int, seed: int) -> list[Sample]:
    """Draw targets of a source phrase and return the distinct ones, most frequent first; the longest are left out.

    Args:
        scorer: the network.
        source: the input phrase.
        number: how many to draw.
        seed: the same seed gives the same samples.

    Raises:
        UserError: the network is damaged.
    """
    config = SearchConfig(n_best=number, max_ratio=0, max_extra=LONGEST)
    ids = scorer.model.source_vocabulary.encode([source])
    random = np.random.default_rng(seed)
    decoding = Decoding(scorer.networks, scorer.device, ids, scorer.name)
    drawn = draw_translations(decoding, config, [random], force_end=False)[0]
    words = scorer.model.target_vocabulary.words
    return [
        Sample(b" ".join(words[word] for word in one.hypothesis.words), one.times, one.hypothesis.log_prob)
        for one in drawn
    ]
