"""Scores of pairs word by word."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.log_probs import require_log_probs
from phrasescore.pairs import orient
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences


@torch.inference_mode()
def word_log_probs(scorer: EncoderDecoderScorer, source: bytes, targets: Sequence[bytes]) -> list[NDArray[np.float64]]:
    """Return ln p(y_t | y_<t, x) of the words and the end symbol of some outputs of one input.

    Raises:
        UserError: the network is damaged.
    """
    pairs = scorer.encode(Occurrences(*orient(([source] * len(targets), list(targets)), scorer.direction)))
    found = []
    for batch in scorer.batches(pairs):
        with scorer.device.products():
            found.append(scorer.model.network(batch.to(scorer.device.torch_device)).double().cpu().numpy())
        require_log_probs(found[-1], scorer.model.folder)
    # A batch holds pair after pair, each pair's words and then the end symbol.
    return np.split(np.concatenate(found), np.cumsum(pairs.targets.lengths + 1)[:-1]) if found else []
