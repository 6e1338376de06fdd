"""Scores of pairs, word by word."""

from __future__ import annotations

from itertools import repeat

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.log_probs import require_log_probs
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences


@torch.inference_mode()
def word_log_probs(scorer: EncoderDecoderScorer, occurrences: Occurrences) -> list[NDArray[np.float64]]:
    """Return ln p(y_t | y_<t, x) of the words and the end symbol that each pair predicts; of several networks the mean.

    Raises:
        UserError: a network is damaged.
    """
    pairs = scorer.encode(occurrences)
    found = [np.zeros(0)]
    for batch in scorer.batches(pairs):
        placed = batch.to(scorer.device.torch_device)
        with scorer.device.products():
            words_MI = torch.stack([network(placed) for network in scorer.networks]).double().cpu().numpy()
        for model, words_I in zip(scorer.models, words_MI, strict=True):
            require_log_probs(words_I, model.folder)
        found.append(words_MI.mean(axis=0))
    # `PairBatch.symbol_I` is ordered pair by pair.
    by_pair = np.split(np.concatenate(found), np.cumsum(pairs.targets.lengths + 1)[:-1]) if len(pairs) else []
    if pairs.order is None:
        return by_pair
    restored = [*repeat(np.zeros(0), len(by_pair))]
    for place, words_t in zip(pairs.order, by_pair, strict=True):
        restored[place] = words_t
    return restored
