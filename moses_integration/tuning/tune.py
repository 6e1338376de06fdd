"""Tuning with the embedded decoder: iterate decoding, extension of the n-best lists, and search for better weights.

Och 2003, section 4; scripts/training/mert-moses.pl is the equivalent for an installed Moses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words
from moses_integration.decoder.pool import DecoderPool
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_sections import with_column
from moses_integration.per_text.position_tags import strip_tags
from moses_integration.tuning.bleu import References, bleu, bleu_statistics
from moses_integration.tuning.candidates import Candidates, component_names
from moses_integration.tuning.checkpoint import TuningCheckpoint, TuningStep
from moses_integration.tuning.mert import optimise
from moses_integration.tuning.tunings import Iteration, Tuning, TuningConfig
from phrasescore.errors import UserError
from phrasescore.text import ProgressCallback, no_progress

Floats = NDArray[np.float64]

UNMOVED = 1e-5
"""Tuning ends when no weight changes by more than this (mert-moses.pl)."""
FEW = 1e-3
"""Tuning ends when at most this fraction of the candidates is new. Tuning until the weights converge took three more
decodings (of eight) on Multi30k, and gained at most 0.02 dev BLEU."""
PATIENCE = 3
"""Tuning ends after this number of decodings without a new best dev BLEU; see `STRAY` for exceptions."""
STRAY = 1.0
"""A decoding this much BLEU below the best does not count for `PATIENCE`: its weights were in a region that the lists
did not cover. It adds the missing candidates and is no sign of convergence."""
_DECODING = 0.7
"""Approximate fraction of the time that decoding takes; the rest is the search for weights."""


@dataclass(frozen=True)
class _Listed:
    """The candidates of one sentence."""

    features_KF: Floats
    statistics_K9: NDArray[np.int32]
    best_9: NDArray[np.int32]


@dataclass(frozen=True)
class _Listing:
    """Task: list the candidates of a sentence with their BLEU statistics."""

    size: int
    references: References
    needs_arcs: bool = True

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> _Listed:
        """Return the candidates, with tunable features only."""
        derivations = graph.n_best(self.size, distinct=True)
        values_KF = np.array([d.values_F for d in derivations]).reshape(len(derivations), model.width)
        for feature in model.features:
            if feature.decimals is not None:
                columns = model.columns[feature.label]
                values_KF[:, columns] = values_KF[:, columns].round(feature.decimals)
        texts = [strip_tags(b" ".join(d.words)) for d in derivations]
        # A sentence that could not be translated counts as an empty translation.
        statistics = bleu_statistics(self.references[number], texts or [b""])
        return _Listed(values_KF[:, model.tuneable_F], statistics[: len(texts)], statistics[0])


def tunable_model(ini: MosesIni) -> LogLinearModel:
    """Return the model of an ini, with its column in context but without tables; it has a feature to tune."""
    model = declare_model(with_column(ini))
    if not model.tuneable_F.any():
        raise UserError(f"{ini.name}: has no feature that may be tuned; remove tuneable=false from some")
    return model


class Tuner:
    """Tunes the weights of one system on one dev set."""

    def __init__(
        self, model: LogLinearModel, pool: DecoderPool, references: References, settings: TuningConfig, processes: int
    ) -> None:
        """Take a `tunable_model`, and a pool that decodes the dev set with it; the processes search for weights."""
        self._model, self._pool, self._references = model, pool, references
        self._settings, self._processes = settings, processes
        self._names = component_names({one.label: range(one.width) for one in model.features if one.tuneable})
        start_F = model.weights_F[model.tuneable_F]
        # Scale the initial weights like all later ones, as mert-moses.pl does. Untuned weights are not scaled.
        self._start_F = start_F / (np.abs(start_F).sum() or 1.0)
        self._first: tuple[Candidates, float] | None = None

    def tune(
        self,
        seed: int,
        report: Callable[[Iteration], None] | None = None,
        checkpoint: TuningCheckpoint | None = None,
        progress: ProgressCallback = no_progress,
    ) -> Tuning:
        """Tune from the ini's weights with one seed of the random starts.

        The checkpoint saves the steps, and has the steps of an interrupted run. `report` is called after each
        iteration; the progress is relative to the maximum number of iterations.
        """
        tried = [self._start_F]
        lists = Candidates.from_lists(self._names, [], [])
        iterations: list[Iteration] = []
        best = missed = 0
        for number in range(self._settings.iterations):
            step = checkpoint.load_step(seed, number) if checkpoint else None
            if step is None:
                step = self._step(lists, tried, seed, progress)
                if checkpoint:
                    checkpoint.save_step(seed, number, step)
            known, lists = len(lists), lists.extended(step.candidates)
            weights = self._by_label(tried[-1])
            iterations.append(Iteration(weights, 100 * step.achieved, 100 * step.predicted, len(lists), step.seconds))
            if report:
                report(iterations[-1])
            if iterations[-1].bleu > iterations[best].bleu:
                best, missed = number, 0
            elif number and iterations[-1].bleu > iterations[best].bleu - STRAY:
                missed += 1
            moved = np.abs(step.next_F - tried[-1]).max()
            few = len(lists) - known <= FEW * len(lists)
            if moved < UNMOVED or few or missed >= PATIENCE:
                break
            tried.append(step.next_F)
        return Tuning(seed, iterations[best].weights, iterations[best].bleu, iterations)

    def _step(self, lists: Candidates, tried: Sequence[Floats], seed: int, progress: ProgressCallback) -> TuningStep:
        """Decode with the latest weights, and search for better weights on all lists."""
        started, number, most = time.monotonic(), len(tried) - 1, self._settings.iterations
        which = f"{number + 1} of at most {most}"

        def on_sentence(done: int) -> None:
            progress((number + _DECODING * done / len(self._references)) / most, f"decoding {which}, sentence {done:,}")

        on_sentence(0)
        if number:
            newer, achieved = self._decode(tried[-1], on_sentence)
        else:
            # All seeds share the first decoding.
            self._first = self._first or self._decode(self._start_F, on_sentence)
            newer, achieved = self._first
        progress((number + _DECODING) / most, f"searching for weights, {which}")
        # Start from all earlier weights: on the extended lists, any of them may be best.
        optimum = optimise(
            lists.extended(newer),
            np.array(tried[::-1]),
            restarts=self._settings.restarts,
            seed=seed * 1000 + number,
            processes=self._processes,
        )
        return TuningStep(newer, achieved, optimum.weights_F, optimum.bleu, time.monotonic() - started)

    def _decode(self, weights_F: Floats, on_sentence: Callable[[int], None]) -> tuple[Candidates, float]:
        """Return the candidates under these weights, and the BLEU of the 1-best translations."""
        listed = []
        for one in self._pool.run(_Listing(self._settings.nbest, self._references), self._by_label(weights_F)):
            listed.append(one)
            on_sentence(len(listed))
        candidates = Candidates.from_lists(
            self._names, [one.features_KF for one in listed], [one.statistics_K9 for one in listed]
        )
        return candidates, float(bleu(np.sum([one.best_9 for one in listed], axis=0, dtype=np.int64)))

    def _by_label(self, weights_F: Floats) -> dict[str, list[float]]:
        """Return all weights by label; untunable features keep their weights."""
        all_F = self._model.weights_F.copy()
        all_F[self._model.tuneable_F] = weights_F
        return {label: all_F[columns].tolist() for label, columns in self._model.columns.items()}
