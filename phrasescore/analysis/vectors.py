"""Phrase vectors and their nearest neighbours.

Legend: P phrases, S phrases of a batch, k size of the summary, d size of any vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.log_probs import require_finite
from phrasescore.nn.batch import PairBatch
from phrasescore.phrases import Phrases
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer

Vectors = NDArray[np.float32]
_AT_ONCE = 4096


@torch.inference_mode()
def phrase_vectors(scorer: EncoderDecoderScorer, phrases: Sequence[bytes]) -> Vectors:
    """Return c, the summary of each input phrase (appendix A.1.1 of Cho et al. 2014), [P, k]."""
    found = []
    for start in range(0, len(phrases), _AT_ONCE):
        sources = scorer.model.source_vocabulary.encode(phrases[start : start + _AT_ONCE])
        nothing = Phrases(np.empty(0, np.int32), np.zeros(len(sources) + 1, np.int64))
        batch = PairBatch.sharing(sources, np.arange(len(sources)), nothing).to(scorer.device.torch_device)
        with scorer.device.products():
            c_Sk = scorer.model.network.encoder(batch).summary_Sk
        # `PairBatch.sharing` pads the batch with copies of the last phrase.
        found.append(c_Sk[: len(sources)].float().cpu().numpy())
    vectors_Pk = np.concatenate(found)
    require_finite(vectors_Pk, scorer.model.folder)
    return vectors_Pk


def unit_length(vectors_Pd: Vectors) -> Vectors:
    """Normalise vectors to length 1; a zero vector stays zero."""
    lengths_P1 = np.linalg.norm(vectors_Pd, axis=1, keepdims=True)
    scaled: Vectors = vectors_Pd / np.maximum(lengths_P1, np.finfo(np.float32).tiny)
    return scaled


def nearest(query_d: Vectors, vectors_Pd: Vectors, number: int) -> list[tuple[int, float]]:
    """Return index and cosine of the vectors nearest to a query, nearest first."""
    cosine_P = unit_length(vectors_Pd) @ unit_length(query_d[None])[0]
    best = np.argsort(-cosine_P, kind="stable")[:number]
    return [(int(index), float(cosine_P[index])) for index in best]
