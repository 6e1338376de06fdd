"""Minimum Bayes risk: rank translations by their expected BLEU instead of their totals.

    gain(E) = Σ over the n-best list of p(E') BLEU(E, E'),    p = softmax of scale times total

BLEU(E, E') is the smoothed BLEU of E with E' as its reference. Kumar and Byrne, "Minimum Bayes-Risk Decoding for
Statistical Machine Translation" (NAACL 2004).

Shapes: E entries of a sentence, T distinct translations, S scales.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from moses_integration.nbest import NbestEntry, format_number
from moses_integration.tuning.bleu import (
    STATISTICS,
    References,
    bleu,
    bleu_statistics,
    pairwise_statistics,
    smoothed_bleu,
)

_SCALES = tuple(2.0**exponent for exponent in range(-3, 9))


def rank_by_gain(entries: Sequence[NbestEntry], scale: float) -> list[NbestEntry]:
    """Return a list with gains as totals, sorted by sentence and descending gain; the sort is stable."""
    ranked = []
    for _, group in groupby(entries, key=lambda entry: entry.sentence):
        listed = list(group)
        [gain_E] = _gains(listed, [scale])
        order = np.argsort(-gain_E, kind="stable").tolist()
        ranked += [replace(listed[index], total=format_number(gain_E[index])) for index in order]
    return ranked


def tune_scale(entries: Sequence[NbestEntry], references: References) -> tuple[float, float]:
    """Return the scale of the highest BLEU of a dev set, and this BLEU, from 0 to 100."""
    statistics_S9 = np.zeros((len(_SCALES), STATISTICS), np.int64)
    for sentence, group in groupby(entries, key=lambda entry: entry.sentence):
        listed = list(group)
        chosen_S = _gains(listed, _SCALES).argmax(axis=1).tolist()
        statistics_S9 += bleu_statistics(references[sentence], [listed[index].words for index in chosen_S])
    bleu_S = 100 * bleu(statistics_S9)
    best = int(bleu_S.argmax())
    return _SCALES[best], float(bleu_S[best])


def _gains(entries: Sequence[NbestEntry], scales: Sequence[float]) -> NDArray[np.float64]:
    """Return the gains of the translations of one sentence under each scale, [S, E]."""
    numbers: dict[bytes, int] = {}
    number_E = [numbers.setdefault(entry.words, len(numbers)) for entry in entries]
    total_E = np.array([float(entry.total) for entry in entries])
    weight_ES = np.exp(np.outer(total_E - total_E.max(), scales))
    weight_TS = np.zeros((len(numbers), len(scales)))
    np.add.at(weight_TS, number_E, weight_ES)
    bleu_TT = smoothed_bleu(pairwise_statistics(list(numbers)))
    gain_TS: NDArray[np.float64] = bleu_TT @ weight_TS / weight_ES.sum(axis=0)
    return gain_TS[number_E].T
