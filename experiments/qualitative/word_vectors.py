"""Input and output word vectors of a network.

Legend: P phrases, m embedding size, I words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from phrasescore.inspection import Vectors
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer


@torch.inference_mode()
def bag_of_embeddings(scorer: EncoderDecoderScorer, phrases: Sequence[bytes]) -> Vectors:
    """Return the sum of the encoder's word vectors of each phrase, which ignores word order, [P, m]."""
    ids = scorer.model.source_vocabulary.encode(phrases)
    words_Im = scorer.model.network.encoder.embedding(torch.from_numpy(ids.ids).long().to(scorer.device.torch_device))
    sums_Pm = np.zeros((len(ids), words_Im.shape[1]), np.float32)
    np.add.at(sums_Pm, np.repeat(np.arange(len(ids)), ids.lengths), words_Im.float().cpu().numpy())
    return sums_Pm


@torch.inference_mode()
def output_word_vectors(scorer: EncoderDecoderScorer, number: int) -> tuple[list[bytes], Vectors]:
    """Return the most frequent output words, without special symbols, and their vectors in the decoder.

    Both are empty for a decoder that does not condition on the previous word.
    """
    embedding = scorer.model.network.decoder.embedding
    if embedding is None:
        return [], np.zeros((0, 1), np.float32)
    vocabulary = scorer.model.target_vocabulary
    words = vocabulary.known_words[:number]
    ids_I = torch.from_numpy(vocabulary.encode(words).ids).long().to(scorer.device.torch_device)
    return list(words), embedding(ids_I).float().cpu().numpy()
