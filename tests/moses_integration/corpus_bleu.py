"""Corpus BLEU from the statistics that tuning uses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from moses_integration.tuning.bleu import bleu, bleu_statistics


def corpus_bleu(translations: Sequence[bytes], references: Sequence[Sequence[bytes]]) -> float:
    """Return the BLEU, from 0 to 1, of one translation for each sentence."""
    rows = [bleu_statistics(refs, [text]) for text, refs in zip(translations, references, strict=True)]
    return float(bleu(np.concatenate(rows).sum(axis=0, dtype=np.int64)))
