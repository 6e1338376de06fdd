"""Exhaustive search over all translations up to a small length, scored as pairs."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import END
from tests.nn.attention import attention_weights

Words = tuple[int, ...]


def all_translations(
    network: EncoderDecoder, words: int, source: list[int], longest: int
) -> list[tuple[Words, float, NDArray[np.float32] | None]]:
    """Every target up to a maximum length with ln p and attention weights [T, L], most probable first."""
    ids = [word for word in range(words) if word != END]
    targets = [list(some) for length in range(longest + 1) for some in itertools.product(ids, repeat=length)]
    batch = PairBatch.sharing(
        Phrases.from_lists([source]), np.zeros(len(targets), np.int64), Phrases.from_lists(targets)
    )
    with torch.inference_mode():
        scores = network.pair_scores(batch).tolist()
    looks = attention_weights(network, batch).numpy() if network.config.has_attention else None
    ends = np.cumsum([len(target) + 1 for target in targets])
    found = []
    for target, score, end in zip(targets, scores, ends, strict=True):
        found.append((tuple(target), score, None if looks is None else looks[end - len(target) - 1 : end]))
    return sorted(found, key=lambda one: -one[1])
