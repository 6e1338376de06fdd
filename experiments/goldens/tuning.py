"""Weights for the n-best lists that Moses' `mert` had, and for the whole development set, found by our own MERT."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from experiments.goldens.decoding import moses_system
from experiments.goldens.extractor import read_candidates
from experiments.goldens.finding import Finding
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.mert import evaluate, optimise
from moses_integration.tuning.tune import TuningSettings
from phrasescore.workers import available_cores

REPORTED = (0.970357, 0.970357, 0.971214)
"""BLEU that `mert` reported for the lists up to each run."""
WORSE = 0.0005
SEEDS = 5

DEV = Path("data/multi30k/val.lc.norm.tok")
"""Without the language's suffix and `.gz`."""
DEV_BLEU = 56.6
TUNING_SECONDS = 14 * 60.0
"""What `mert-moses.pl` took on two cores."""


def check_mert(mini: Path) -> list[Finding]:
    """Find weights for the lists up to each run, from where Moses started, with as many restarts.

    Where such searches end is luck, Moses' too, so several seeds are tried.
    """
    findings = []
    lists: Candidates | None = None
    for run, reported in enumerate(REPORTED, 1):
        newer = read_candidates(mini / f"mert/run{run}.features.dat.gz", mini / f"mert/run{run}.scores.dat.gz")
        lists = newer if lists is None else lists.extended(newer)
        theirs = evaluate(lists, _weights(mini / f"mert/run{run}.weights.txt"))
        findings.append(
            Finding(
                f"run {run}: BLEU of Moses' weights on the lists so far, counted here",
                f"{theirs:.6f}",
                f"{reported} as Moses reported",
                abs(theirs - reported) < 5e-7,
            )
        )
        starts_NF = _weights(mini / f"mert/run{run}.init.opt")[np.newaxis]
        for directions in (0, len(lists.names)):
            seeds = range(run * 1000, run * 1000 + SEEDS)
            found = [
                optimise(
                    lists, starts_NF, restarts=20, seed=seed, directions=directions, processes=available_cores()
                ).bleu
                for seed in seeds
            ]
            middle = median(found)
            findings.append(
                Finding(
                    f"run {run}: BLEU of our weights, {directions} random directions besides the axes, {SEEDS} seeds",
                    f"median {middle:.6f} ({min(found):.6f} to {max(found):.6f})",
                    f"median at least {reported - WORSE:.4f}",
                    middle >= reported - WORSE,
                )
            )
    return findings


def check_tuning(goldens: Path) -> list[Finding]:
    """Tune Moses' system from where Moses started, with one seed and our own settings."""
    source, reference = (goldens / f"{DEV}.{language}.gz" for language in ("en", "fr"))
    with moses_system(goldens, "moses.ini") as ini, TemporaryDirectory() as folder:
        started = time.monotonic()
        [tuning] = EmbeddedToolkit().tune(
            ini, source, [reference], [1], TuningSettings(), Path(folder), lambda text: None
        )
        seconds = time.monotonic() - started
    return [
        Finding(
            "tuning on val, one seed",
            f"dev BLEU {tuning.bleu:.2f}, {len(tuning.iterations)} decodings, {seconds:.0f} s",
            f"at least {DEV_BLEU}, below {TUNING_SECONDS:.0f} s",
            tuning.bleu >= DEV_BLEU and seconds < TUNING_SECONDS,
        )
    ]


def _weights(path: Path) -> NDArray[np.float64]:
    """Return the first line of a file of weights."""
    return np.array(path.read_text().split("\n")[0].split(), np.float64)
