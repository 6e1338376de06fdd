"""Tuning with the embedded decoder: decode, add to the n-best lists, find better weights, again.

Och 2003, section 4; scripts/training/mert-moses.pl does the same around an installed Moses.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import DecoderPool
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from moses_integration.placed.names import without_names
from moses_integration.tuning.bleu import bleu, bleu_statistics
from moses_integration.tuning.candidates import Candidates, component_names
from moses_integration.tuning.checkpoint import TuningCheckpoint
from moses_integration.tuning.mert import optimise
from moses_integration.tuning.tuning_config import TuningConfig
from moses_integration.tuning.tunings import Iteration, Step, Tuning
from phrasescore.errors import UserError
from phrasescore.text import Show, unseen
from phrasescore.workers import available_cores

Floats = NDArray[np.float64]
References = Sequence[tuple[bytes, ...]]

UNMOVED = 1e-5
"""Tuning ends when no weight moves by more (mert-moses.pl)."""
FEW = 1e-3
"""Tuning ends when the lists have grown by no larger share: what the weights bring up is known. Going on, until weights
stay, took three more decodings of eight on Multi30k and gained 0.02 dev BLEU at most."""

PATIENCE = 3
"""Tuning ends after so many decodings without a new best dev BLEU; those that have strayed do not count."""

STRAY = 1.0
"""A decoding that falls so much BLEU behind the best one went where the lists knew nothing: it says what they lacked,
and not that tuning has come to its end.
"""

_DECODING = 0.7
"""The share of the time that decoding takes, about; the rest is searching for weights."""

_NEURAL_DIGITS = 4
"""Decimals that lists have of a neural language model. What it says of a sentence changes by 1e-6 with the company that
it is computed in: all digits would make a new candidate of each translation that another process finds again."""


@dataclass(frozen=True)
class _Listed:
    """Candidates of one sentence."""

    features_KF: Floats
    statistics_K9: NDArray[np.int32]
    best_9: NDArray[np.int32]


@dataclass(frozen=True)
class _Listing:
    """The task of listing a sentence's candidates with what BLEU counts of each."""

    size: int
    references: References
    needs_arcs: bool = True

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> _Listed:
        """Return the candidates; features that cannot be tuned are left out."""
        derivations = graph.n_best(self.size, distinct=True)
        values_KF = np.array([d.values_F for d in derivations]).reshape(len(derivations), model.width)
        for feature in model.context_features:
            if isinstance(feature, NeuralLanguageModelFeature):
                columns = model.columns[feature.label]
                values_KF[:, columns] = values_KF[:, columns].round(_NEURAL_DIGITS)
        texts = [without_names(b" ".join(d.words)) for d in derivations]
        # A sentence that could not be translated counts as an empty translation.
        statistics = bleu_statistics(self.references[number], texts or [b""])
        return _Listed(values_KF[:, model.tuneable_F], statistics[: len(texts)], statistics[0])


class Tuner:
    """Tunes the weights of one system on one dev set; a context manager, for it keeps decoders in other processes."""

    def __init__(
        self,
        ini: MosesIni,
        sentences: Sequence[bytes],
        references: References,
        settings: TuningConfig,
        processes: int | None = None,
        scheduler: str | None = None,
        folder: Path | None = None,
    ) -> None:
        """Prepare tuning; the dev set is one that `check_dev_set` lets pass.

        `processes`, `scheduler` and `folder` are those of `DecoderPool`. The search for weights stays on this machine.

        Raises:
            UserError: the model cannot be used, or has nothing to tune.
        """
        self._settings, self._references, self._processes = settings, references, processes or available_cores()
        self._model = declare_model(ini)
        if not self._model.tuneable_F.any():
            raise UserError(f"{ini.name}: has no feature that may be tuned; remove tuneable=false from some")
        start_F = self._model.weights_F[self._model.tuneable_F]
        # mert-moses.pl scales the first weights like all later ones, too. Weights that are not tuned keep their size.
        self._start_F = start_F / (np.abs(start_F).sum() or 1.0)
        self._first: tuple[Candidates, float] | None = None
        self._pool = DecoderPool(
            ini, read_settings(ini), [words_of(line) for line in sentences], processes, scheduler, folder
        )

    def __enter__(self) -> Tuner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.__exit__(kind, error, trace)

    def tune(
        self,
        seed: int,
        report: Callable[[Iteration], None] | None = None,
        checkpoint: TuningCheckpoint | None = None,
        show: Show = unseen,
    ) -> Tuning:
        """Run tuning from the ini's weights with a seed.

        Args:
            seed: of the random starts.
            report: told of each iteration.
            checkpoint: where the steps are kept, and those of an interrupted run are.
            show: shown what runs, with the share that is done if tuning takes as many decodings as it may.

        Raises:
            UserError: decoding fails, or a feature has no finite value.
        """
        tried = [self._start_F]
        lists: Candidates | None = None
        iterations: list[Iteration] = []
        best = missed = 0
        for number in range(self._settings.iterations):
            step = checkpoint.load_step(seed, number) if checkpoint else None
            if step is None:
                step = self._step(lists, tried, seed, show)
                if checkpoint:
                    checkpoint.save_step(seed, number, step)
            known = 0 if lists is None else len(lists)
            lists = _together(lists, step.candidates)
            iterations.append(
                Iteration(
                    self._by_label(tried[-1]), 100 * step.achieved, 100 * step.predicted, len(lists), step.seconds
                )
            )
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

    def _step(self, lists: Candidates | None, tried: Sequence[Floats], seed: int, show: Show) -> Step:
        """Decode with the last weights that were tried, and search for better ones on all lists."""
        started, number, most = time.monotonic(), len(tried) - 1, self._settings.iterations
        which = f"{number + 1} of at most {most}"

        def on_sentence(done: int) -> None:
            show((number + _DECODING * done / len(self._references)) / most, f"decoding {which}, sentence {done:,}")

        on_sentence(0)
        if number:
            newer, achieved = self._decode(tried[-1], on_sentence)
        else:
            # All seeds share it.
            self._first = self._first or self._decode(self._start_F, on_sentence)
            newer, achieved = self._first
        show((number + _DECODING) / most, f"searching for weights, {which}")
        # Every point tried so far is a start: the lists have grown since.
        optimum = optimise(
            _together(lists, newer),
            np.array(tried[::-1]),
            restarts=self._settings.restarts,
            seed=seed * 1000 + number,
            processes=self._processes,
        )
        return Step(newer, achieved, optimum.weights_F, optimum.bleu, time.monotonic() - started)

    def _decode(self, weights_F: Floats, on_sentence: Callable[[int], None]) -> tuple[Candidates, float]:
        """Return the candidates under these weights, and the BLEU of the best of each sentence."""
        listed = []
        for one in self._pool.run(_Listing(self._settings.nbest, self._references), self._by_label(weights_F)):
            listed.append(one)
            on_sentence(len(listed))
        names = component_names({one.label: range(one.width) for one in self._model.features if one.tuneable})
        candidates = Candidates.from_lists(
            names, [one.features_KF for one in listed], [one.statistics_K9 for one in listed]
        )
        return candidates, float(bleu(np.sum([one.best_9 for one in listed], axis=0, dtype=np.int64)))

    def _by_label(self, weights_F: Floats) -> dict[str, list[float]]:
        """Return tuned weights by label, those that cannot be tuned as they are."""
        all_F = self._model.weights_F.copy()
        all_F[self._model.tuneable_F] = weights_F
        return {label: all_F[columns].tolist() for label, columns in self._model.columns.items()}


def _together(lists: Candidates | None, newer: Candidates) -> Candidates:
    return newer if lists is None else lists.extended(newer)


def check_dev_set(sentences: Sequence[bytes], references: References, names: tuple[object, object]) -> None:
    """Check that there are sentences, and references for each; `names` are those of the files, for messages.

    Raises:
        UserError: there are none, or not equally many.
    """
    source, reference = names
    if len(sentences) != len(references):
        raise UserError(
            f"{reference}: has {len(references)} lines where {source} has {len(sentences)}; give a translation for "
            "each dev sentence"
        )
    if not sentences:
        raise UserError(f"{source}: is empty; give some hundred dev sentences and their translations")
