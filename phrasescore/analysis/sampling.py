"""Targets sampled from a network."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.search.decoding import Decoding
from phrasescore.search.sampling import draw_translations
from phrasescore.search.search_config import SearchConfig

LONGEST = 50
"""Maximum words of a sample; longer samples are dropped."""


class Sample(NamedTuple):
    """A distinct target."""

    target: bytes
    times: int
    """Number of samples."""
    log_prob: float
    """ln p(target | source), end symbol included."""


def sample_targets(scorer: EncoderDecoderScorer, source: bytes, number: int, seed: int) -> list[Sample]:
    """Draw `number` targets of a source phrase; return the distinct ones of at most `LONGEST` words, by frequency."""
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
