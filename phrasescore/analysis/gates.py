"""Reset and update gates of the encoder while it reads a phrase.

Legend: T symbols of the phrase, n hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.log_probs import require_finite
from phrasescore.nn.units import GatedUnit
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.vocabulary import END
from phrasescore.words import split_words

Activations = NDArray[np.float32]


@dataclass(frozen=True)
class Gates:
    """The gates at each symbol, the end symbol included, from 0 to 1."""

    symbols: list[bytes]
    """In reading order."""
    reset_Tn: Activations
    """Near 0 where a unit ignores its previous state (Eq. 5)."""
    update_Tn: Activations
    """Near 1 where a unit keeps its state and ignores the symbol (Eq. 6 and 7)."""


@torch.inference_mode()
def encoder_gates(scorer: EncoderDecoderScorer, phrase: bytes) -> Gates | None:
    """Return the gates of the encoder's lowest forward layer, or None if its units are not `GatedUnit`."""
    vocabulary, encoder = scorer.model.source_vocabulary, scorer.model.network.encoder
    unit = encoder.unit
    if not isinstance(unit, GatedUnit):
        return None
    words = split_words(phrase)
    if encoder.reverse:
        words.reverse()
    ids = [*vocabulary.encode([b" ".join(words)]).ids.tolist(), END]
    words_T = torch.tensor(ids, device=scorer.device.torch_device)
    h_1n = torch.zeros(1, unit.hidden, device=words_T.device)
    resets, updates = [], []
    x_T3n = unit.project(encoder.embedding(words_T))
    for position in range(len(x_T3n)):
        x_13n = x_T3n[position : position + 1]
        r_1n, z_1n = unit.gates(x_13n, h_1n)
        resets.append(r_1n)
        updates.append(z_1n)
        h_1n = unit.step(x_13n, h_1n)
    reset_Tn, update_Tn = (torch.cat(gates).cpu().numpy() for gates in (resets, updates))
    for gate_Tn in (reset_Tn, update_Tn):
        require_finite(gate_Tn, scorer.model.folder)
    return Gates([*words, vocabulary.words[END]], reset_Tn, update_Tn)
