"""Estimate the BLEU gain of a feature from n-best lists of a dev set, without tuning.

The lists are decoded without the feature, whose weight is 0. The base weights w of

    p(E) = exp(w . h(E)) / sum over the translations E' of the list of exp(w . h(E'))

are fitted for expected BLEU (see `fitting`) on one fold of the sentences, with and without the feature, and evaluated
on the other fold; then the folds change roles. So the gain is an improvement on sentences that the weights were not
fitted on. It predicts gains in BLEU after tuning (docs/results.md, "What predicts BLEU").

Shape suffixes: L n-best lists, H hypotheses, F components of the log-linear model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from moses_integration.expected_bleu.fitting import LENGTH, Floats, Objective, standardised
from moses_integration.expected_bleu.nbest_lists import NbestLists
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest
from moses_integration.prepared_text import DevSet
from moses_integration.rescoring.reranking import check_dense
from moses_integration.toolkits.toolkit import NbestRequest, SentencesCallback, Toolkit
from moses_integration.tuning.candidates import Candidates, from_nbest
from phrasescore.errors import UserError
from phrasescore.phrases import offsets_of

_FEWEST = 20
"""Lists that suffice for a standard error."""


@dataclass(frozen=True)
class EstimatedGain:
    """Expected smoothed BLEU of a sentence, from 0 to 100."""

    sentences: int
    """Number of non-empty n-best lists."""
    without: float
    """With the features that have weights."""
    with_all: float
    """With all features."""
    standard_error: float
    """Of the difference, over sentences."""

    @property
    def gain(self) -> float:
        return self.with_all - self.without

    @property
    def is_certain(self) -> bool:
        return self.gain > 2 * self.standard_error


def estimate_gain(candidates: Candidates, weights: Sequence[float]) -> EstimatedGain:
    """Return the estimated BLEU gain of the features of weight 0 on n-best lists, decoded with these weights."""
    lists, weights_F = _lists_of(candidates), np.array(weights)
    if len(lists) < _FEWEST:
        raise UserError(f"only {len(lists)} sentences have translations; give a dev set of some hundreds")
    with_all_L = _expected_bleu(lists, weights_F, np.full(len(weights_F), True))
    without_L = _expected_bleu(lists, weights_F, weights_F != 0)
    gain_L = with_all_L - without_L
    return EstimatedGain(
        len(lists),
        float(without_L.mean()),
        float(with_all_L.mean()),
        float(gain_L.std(ddof=1) / np.sqrt(len(lists))),
    )


def decode_candidates(
    ini: MosesIni, dev: DevSet, toolkit: Toolkit, folder: Path, size: int, progress: SentencesCallback
) -> Candidates:
    """Return the n-best lists of the dev set, decoded with the weights of the ini."""
    lists = folder / "dev.nbest"
    with toolkit.translator(ini, dev.source, folder) as translate:
        translate(ini.weights(), folder / "dev.tokens", NbestRequest(lists, size), progress)
    entries = list(read_nbest(lists))
    check_dense(entries, [feature.label for feature in ini.features()])
    return from_nbest(entries, dev.translations)


def _lists_of(candidates: Candidates) -> NbestLists:
    """Return the non-empty lists, without phrase pairs."""
    sizes_L = np.diff(candidates.offsets)
    return NbestLists(
        candidates.features_CF.astype(np.float32),
        candidates.statistics_C9,
        offsets_of(sizes_L[sizes_L > 0]),
        csr_array((len(candidates), 0)),
        (),
        np.arange(np.count_nonzero(sizes_L)),
    )


def _expected_bleu(lists: NbestLists, weights_F: Floats, is_kept_F: NDArray[np.bool_]) -> Floats:
    """Return the expected BLEU of each list under weights fitted on the other fold, [L], 0 to 100."""
    kept = replace(lists, features_HF=lists.features_HF[:, is_kept_F])
    kept, deviation_F = standardised(kept)
    start_F = weights_F[is_kept_F] * deviation_F
    start_F *= LENGTH / (float(np.linalg.norm(start_F)) or LENGTH)
    # Alternate, because neighbouring sentences are often from one document.
    is_even_L = np.arange(len(lists)) % 2 == 0
    found_L = np.empty(len(lists))
    for is_fitted_L in (is_even_L, ~is_even_L):
        fitted, measured = (
            Objective(kept.where(taken_L), csr_array((0, 0)), start_F, np.float64)
            for taken_L in (is_fitted_L, ~is_fitted_L)
        )
        optimum = minimize(fitted.loss, fitted.start_V, (0.0,), "L-BFGS-B", jac=True)
        found_L[~is_fitted_L] = 100 * measured.expected(optimum.x)
    return found_L
