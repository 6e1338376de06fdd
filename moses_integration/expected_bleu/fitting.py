"""Train a phrase-pair model for the expected BLEU of n-best lists.

The score of a translation E with base features h, weights w and phrase pairs (s, t) is

    z(E) = w . h(E) + sum over its pairs of f(s, t)         f(s, t) = sum over the features of the pair of their v
    p(E) = exp z(E) / sum over the translations E' of the list of exp z(E')

Training maximises over w and v

    mean over the lists of sum over E of p(E) BLEU(E)  -  l2 |v|^2

with smoothed sentence BLEU. The gradient with respect to z(E) is p(E) (BLEU(E) - expected BLEU of the list) / lists.
The objective is that of He and Deng, "Maximum Expected BLEU Training of Phrase and Lexicon Translation Models" (ACL
2012), with the sparse features of Gao and He, "Training MRF-Based Phrase Translation Models using Gradient Ascent"
(NAACL 2013).

Shape suffixes: L n-best lists, H hypotheses, F components of the log-linear model, P pairs, K features of pairs,
V = F + K.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_array

from moses_integration.expected_bleu.nbest_lists import Groups, NbestLists, Pair
from moses_integration.tuning.bleu import bleu, smoothed_bleu
from phrasescore.errors import UserError, arg_name
from phrasescore.phrases import offsets_of
from phrasescore.scoring.phrase_pair_model import Keys, PhrasePairModel, features_of
from phrasescore.text import Log, chunks, no_log

Floats = NDArray[np.float64]

L2_VALUES = (1e-5, 3e-6, 1e-6, 3e-7, 1e-7, 3e-8)
HELD_OUT = 0.1
"""Share of the lists for choosing l2 and for early stopping."""
FEWEST = 10
"""Lists that suffice for training."""
LENGTH = 5.0
"""Initial norm of w, because tuning leaves the sharpness of p open. From 50 on, p is too sharp to learn from."""
_PULL = 1e-6
"""Penalty on the distance of w from its start."""
_ITERATIONS, _CHECK_EVERY, _PATIENCE = 100, 5, 3
"""Maximum of steps; steps between evaluations on held-out lists; evaluations without a new best before stopping."""
_HISTORY = 8
"""Corrections that L-BFGS stores."""
_PAIRS_AT_ONCE = 1 << 15


@dataclass(frozen=True)
class Quality:
    """Quality of the translations of some lists, from 0 to 100."""

    expected: float
    """Mean expected smoothed sentence BLEU."""
    best: float
    """Corpus BLEU of the translations with the highest scores."""


@dataclass(frozen=True)
class Trained:
    """The result of training."""

    model: PhrasePairModel
    weight: float
    """Weight of f relative to the weights of decoding, which have another norm than w."""
    l2: float
    iterations: int
    before: Quality
    """On the held-out lists, with fitted w alone."""
    after: Quality

    def description(self) -> dict[str, Any]:
        held_out = {"before": asdict(self.before), "after": asdict(self.after)}
        return {"l2": self.l2, "iterations": self.iterations, "weight": self.weight, "held_out": held_out}


class Objective:
    """Expected BLEU of n-best lists as a function of the parameters: w and v, concatenated."""

    def __init__(
        self, lists: NbestLists, features_PK: csr_array, start_F: Floats, dtype: DTypeLike = np.float32
    ) -> None:
        self._lists, self._start_F, self._dtype = lists, start_F, dtype
        self._first_L, self._sizes_L = lists.offsets[:-1], np.diff(lists.offsets)
        self._features_HF = lists.features_HF.astype(dtype)
        self._uses_HP = lists.uses_HP.astype(dtype)
        self._features_PK = features_PK.astype(dtype)
        # Transpose once, because products with a matrix that is not stored by rows are slow.
        self._uses_PH, self._features_KP = self._uses_HP.T.tocsr(), self._features_PK.T.tocsr()
        self.bleu_H = smoothed_bleu(lists.statistics_H9)

    @property
    def start_V(self) -> Floats:
        """Initial parameters, with f = 0."""
        return np.concatenate((self._start_F, np.zeros(self._features_PK.shape[1])))

    def loss(self, parameters_V: Floats, l2: float) -> tuple[float, Floats]:
        """Return the negative mean expected BLEU, 0 to 1, plus the penalties; and the gradient, [V]."""
        weights_F, v_K = self._split(parameters_V)
        p_H, expected_L = self._expected(self._scores(parameters_V))
        by_z_H = (p_H * (self.bleu_H - np.repeat(expected_L, self._sizes_L)) / len(expected_L)).astype(self._dtype)
        moved_F = weights_F - self._start_F
        loss = -expected_L.mean() + l2 * (v_K @ v_K) + _PULL * (moved_F @ moved_F)
        by_weights_F = 2 * _PULL * moved_F - self._features_HF.T @ by_z_H
        by_v_K = 2 * l2 * v_K - self._features_KP @ (self._uses_PH @ by_z_H)
        return float(loss), np.concatenate((by_weights_F, by_v_K))

    def quality(self, parameters_V: Floats) -> Quality:
        z_H = self._scores(parameters_V)
        bounds = zip(self._lists.offsets[:-1].tolist(), self._lists.offsets[1:].tolist(), strict=True)
        best_L = [first + int(z_H[first:end].argmax()) for first, end in bounds]
        counted_9 = self._lists.statistics_H9[best_L].sum(axis=0, dtype=np.int64)
        return Quality(100 * float(self._expected(z_H)[1].mean()), 100 * float(bleu(counted_9)))

    def expected(self, parameters_V: Floats) -> Floats:
        return self._expected(self._scores(parameters_V))[1]

    def _split(self, parameters_V: Floats) -> tuple[Floats, Floats]:
        base = len(self._start_F)
        return parameters_V[:base], parameters_V[base:]

    def _scores(self, parameters_V: Floats) -> Floats:
        weights_F, v_K = self._split(parameters_V.astype(self._dtype))
        z_H = self._features_HF @ weights_F + self._uses_HP @ (self._features_PK @ v_K)
        return np.asarray(z_H, np.float64)

    def _expected(self, z_H: Floats) -> tuple[Floats, Floats]:
        """Return the probability of each hypothesis, [H], and the expected BLEU of each list, [L]."""
        e_H = np.exp(z_H - np.repeat(np.maximum.reduceat(z_H, self._first_L), self._sizes_L))
        p_H = e_H / np.repeat(np.add.reduceat(e_H, self._first_L), self._sizes_L)
        return p_H, np.add.reduceat(p_H * self.bleu_H, self._first_L)


@dataclass(frozen=True)
class Fit:
    """The parameters with the highest expected BLEU of the held-out lists."""

    parameters_V: Floats
    iterations: int
    quality: Quality


def fit(objective: Objective, held_out: Objective, l2: float) -> Fit:
    """Maximise expected BLEU by L-BFGS with early stopping on held-out lists."""
    start_V = objective.start_V
    best, done = Fit(start_V, 0, held_out.quality(start_V)), 0

    def evaluate(parameters_V: Floats) -> None:
        nonlocal best
        quality = held_out.quality(parameters_V)
        if quality.expected > best.quality.expected:
            best = Fit(parameters_V.copy(), done, quality)

    def callback(parameters_V: Floats) -> None:
        nonlocal done
        done += 1
        if done % _CHECK_EVERY == 0:
            evaluate(parameters_V)
            if done - best.iterations >= _CHECK_EVERY * _PATIENCE:
                raise StopIteration

    options = {"maxiter": _ITERATIONS, "maxcor": _HISTORY}
    optimum = minimize(objective.loss, start_V, (l2,), "L-BFGS-B", jac=True, callback=callback, options=options)
    # L-BFGS may converge between two evaluations.
    evaluate(optimum.x)
    return best


def train(lists: NbestLists, weights_F: Floats, seed: int = 1, log: Log = no_log) -> Trained:
    """Train a phrase-pair model on lists that were decoded with these weights, choosing l2 on held-out lists."""
    if len(lists) < FEWEST or not np.ptp(lists.group_L):
        raise UserError(
            f"{len(lists)} sentences were translated, too few to train on; give more text or {arg_name('sentences')}"
        )
    if not lists.pairs:
        raise UserError("no phrase pair was used in any translation, so there is nothing to learn; give more text")
    is_held_L = sample_held_out(lists.group_L, seed)
    lists, deviation_F = standardised(lists)
    training, held_out = lists.where(~is_held_L), lists.where(is_held_L)
    none_PK = csr_array((len(lists.pairs), 0), dtype=np.float32)
    tuned_F = weights_F * deviation_F
    length = float(np.linalg.norm(tuned_F)) or 1.0
    start_F = tuned_F * (LENGTH / length)
    base = fit(Objective(training, none_PK, start_F), Objective(held_out, none_PK, start_F), 0.0)
    log(f"held out: expected BLEU {base.quality.expected:.2f}, of the best translations {base.quality.best:.2f}")
    keys_K, features_PK = index_features(lists.pairs)
    start_F = base.parameters_V
    both = Objective(training, features_PK, start_F), Objective(held_out, features_PK, start_F)
    fits = {}
    for l2 in L2_VALUES:
        fits[l2] = fit(*both, l2)
        quality = fits[l2].quality
        log(
            f"held out, l2 {l2:g}: expected BLEU {quality.expected:.2f}, of the best translations {quality.best:.2f} "
            f"({fits[l2].iterations} iterations)"
        )
    l2 = max(fits, key=lambda value: fits[value].quality.expected)
    found_F, v_K = np.split(fits[l2].parameters_V, [len(weights_F)])
    is_known_K = v_K.astype(np.float32) != 0
    return Trained(
        PhrasePairModel(keys_K[is_known_K], v_K[is_known_K].astype(np.float32)),
        length / (float(np.linalg.norm(found_F)) or length),
        l2,
        fits[l2].iterations,
        base.quality,
        fits[l2].quality,
    )


def sample_held_out(group_L: Groups, seed: int) -> NDArray[np.bool_]:
    """Return a mask of held-out lists, [L]: random whole groups with about a tenth of the lists."""
    groups, of_L, sizes = np.unique(group_L, return_inverse=True, return_counts=True)
    left, held = max(1, int(HELD_OUT * len(group_L))), []
    for group in np.random.default_rng(seed).permutation(len(groups)).tolist():
        if sizes[group] <= left:
            held.append(group)
            left -= sizes[group]
    # Each group may have more than a tenth.
    return np.isin(of_L, held or [int(sizes.argmin())])


def standardised(lists: NbestLists) -> tuple[NbestLists, Floats]:
    """Standardise features to mean 0 in each list and deviation 1, for L-BFGS; also return the deviations, [F].

    A feature that is constant within each list becomes 0 with deviation 0.
    """
    sizes_L = np.diff(lists.offsets)
    means_LF = np.add.reduceat(lists.features_HF, lists.offsets[:-1], dtype=np.float64) / sizes_L[:, None]
    centred_HF = lists.features_HF - np.repeat(means_LF.astype(np.float32), sizes_L, axis=0)
    deviation_F = centred_HF.std(axis=0, dtype=np.float64)
    # Rounding errors of a constant are not a deviation.
    deviation_F[deviation_F < 1e-6 * np.abs(lists.features_HF).max(axis=0)] = 0
    factor_F = np.divide(1, deviation_F, out=np.zeros(len(deviation_F)), where=deviation_F > 0)
    return replace(lists, features_HF=centred_HF * factor_F.astype(np.float32)), deviation_F


def index_features(pairs: Sequence[Pair]) -> tuple[Keys, csr_array]:
    """Return the sorted features of phrase pairs [K], and their counts in each pair [P, K]."""
    bags = [
        features_of([source for source, _ in some], [target for _, target in some])
        for some in chunks(pairs, _PAIRS_AT_ONCE)
    ]
    keys_K, columns = np.unique(np.concatenate([bag.keys_K for bag in bags]), return_inverse=True)
    rows = offsets_of(np.concatenate([np.diff(bag.offsets) for bag in bags]))
    ones = np.ones(len(columns), np.float32)
    return keys_K, csr_array((ones, columns.astype(np.int32), rows), shape=(len(pairs), len(keys_K)))
