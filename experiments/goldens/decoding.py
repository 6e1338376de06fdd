"""Moses' Multi30k system in the embedded decoder: scores of Moses' derivations, search, BLEU, speed, memory.

Shapes: N derivations, F components of the features that n-best lists show, and the total behind them.
"""

from __future__ import annotations

import gzip
import resource
import shutil
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.goldens.finding import Finding
from experiments.machine import peak_memory_mb
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.derivations import score_derivations
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.output import translation_line
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import Decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.evaluation import score
from moses_integration.ini import MosesIni
from moses_integration.nbest import NbestEntry, read_nbest
from moses_integration.segmentation import segments_of
from phrasescore.files import read_lines, write_lines

SYSTEM = Path("golden/multi30k-en-fr")
TEXT = Path("data/multi30k/test_2016_flickr.lc.norm.tok")
"""Without the language's suffix and `.gz`."""
_STATUS = Path("/proc/self/status")
FIRST = 100
"""Sentences of the text of which Moses' n-best lists are there."""

ABSOLUTE, RELATIVE = 1e-3, 1e-5
"""How far a number may be from one that was printed with six digits."""
WORSE_SCORE = 0.01
"""How far our mean model score may stay behind Moses'."""
WORSE_BLEU = 0.2
POP_LIMITS = (300, 500, 1000)
SLOWEST = 20.0
"""Sentences a second and core, at the decoder's own pop limit."""
LARGEST_MEMORY_MB = 2000.0

Floats = NDArray[np.float64]


class Difference(NamedTuple):
    """How far numbers are from each other."""

    largest: float
    holds: bool
    """Whether each pair of numbers is within the tolerance."""


def difference(ours: Floats, theirs: Floats) -> Difference:
    """Compare arrays with a tolerance for Moses' six digits."""
    distance = np.abs(ours - theirs)
    return Difference(float(distance.max(initial=0.0)), bool((distance <= ABSOLUTE + RELATIVE * np.abs(theirs)).all()))


@contextmanager
def moses_system(goldens: Path, ini: str = "moses.tuned.ini") -> Iterator[MosesIni]:
    """Yield the system in a folder of its own, with its language model decompressed."""
    with TemporaryDirectory() as folder:
        for path in (goldens / SYSTEM).glob("*-table*"):
            (Path(folder) / path.name).symlink_to(path.resolve())
        with gzip.open(goldens / SYSTEM / "lm.fr.arpa.gz") as packed, (Path(folder) / "lm.fr.arpa").open("wb") as arpa:
            shutil.copyfileobj(packed, arpa)
        # An ini's paths are taken from where the file itself is, not a link to it.
        yield MosesIni.read(Path(shutil.copy(goldens / SYSTEM / ini, folder)))


def source_sentences(goldens: Path) -> list[Words]:
    """Return the sentences of the test set."""
    return [words_of(line) for line in read_lines(goldens / f"{TEXT}.en.gz")]


def moses_lists(goldens: Path) -> Iterator[tuple[int, list[NbestEntry]]]:
    """Yield Moses' n-best list of each of the first sentences."""
    entries = read_nbest(goldens / SYSTEM / "decode/first100.tuned.nbest.gz")
    return ((number, list(group)) for number, group in groupby(entries, key=lambda entry: entry.sentence))


def check_rescoring(goldens: Path) -> list[Finding]:
    """Score every derivation of Moses' lists."""
    ours_NF, theirs_NF = [], []
    with moses_system(goldens) as ini:
        sentences = source_sentences(goldens)[:FIRST]
        model = load_model(ini, sentences, read_settings(ini).search.longest_phrase)
        for number, entries in moses_lists(goldens):
            derivations = score_derivations(model, sentences[number], [segments_of(entry) for entry in entries])
            for entry, derivation in zip(entries, derivations, strict=True):
                features = entry.features()
                theirs_NF.append([*(value for values in features.values() for value in values), float(entry.total)])
                values = [derivation.values_F[model.columns[label]] for label in features]
                ours_NF.append([*np.concatenate(values), derivation.score])
    ours, theirs = np.array(ours_NF), np.array(theirs_NF)
    target = f"within {ABSOLUTE:g}, of large numbers {RELATIVE:g} of them"
    findings = []
    for what, columns in (("feature value", slice(0, -1)), ("total", slice(-1, None))):
        largest, holds = difference(ours[:, columns], theirs[:, columns])
        text = f"largest difference of a {what} in {len(ours):,} derivations of Moses"
        findings.append(Finding(text, f"{largest:.1e}", target, holds))
    return findings


def check_search(goldens: Path) -> list[Finding]:
    """Search for better derivations than Moses', with our own settings."""
    with moses_system(goldens) as ini:
        ours = np.array(decode(ini, source_sentences(goldens)[:FIRST]).scores)
    theirs = np.array([float(entries[0].total) for _, entries in moses_lists(goldens)])
    behind = float((theirs - ours).mean())
    better, worse = np.count_nonzero(ours > theirs + 1e-4), np.count_nonzero(ours < theirs - 1e-4)
    return [
        Finding(
            f"mean model score of the best translations of {len(ours)} sentences, ours less Moses'",
            f"{-behind:+.5f}: higher for {better} sentences, lower for {worse}",
            f"at least -{WORSE_SCORE:g}",
            behind <= WORSE_SCORE,
        )
    ]


def check_bleu(goldens: Path) -> list[Finding]:
    """Translate the test set with our own settings."""
    with moses_system(goldens) as ini:
        ours = _bleu(decode(ini, source_sentences(goldens)).translations, goldens)
    golden = goldens / SYSTEM / "decode/test_2016_flickr.tuned.out"
    theirs = score(golden, [goldens / f"{TEXT}.fr.gz"], tokenise="none").bleu
    target = f"at least {theirs - WORSE_BLEU:.2f} (Moses has {theirs:.2f})"
    return [Finding("BLEU of test_2016_flickr, tok:none", f"{ours:.2f}", target, ours >= theirs - WORSE_BLEU)]


def check_speed(goldens: Path) -> list[Finding]:
    """Translate the test set with several pop limits, each in a new process; the decoder's own one is judged."""
    findings = []
    with moses_system(goldens) as ini:
        sentences, own = source_sentences(goldens), read_settings(ini).search.pop_limit
        for pop_limit in POP_LIMITS:
            with ProcessPoolExecutor(1, get_context("spawn")) as executor:
                run = executor.submit(decode, ini, sentences, pop_limit).result()
            speed = len(sentences) / run.cpu_seconds
            figure = (
                f"{speed:.1f} sentences/s and core (CPU time, without {run.load_seconds:.1f} s "
                f"of loading), peak memory {run.peak_memory_mb:,.0f} MB, mean model score {np.mean(run.scores):.5f}, "
                f"BLEU {_bleu(run.translations, goldens):.2f}"
            )
            finding = Finding(f"pop limit {pop_limit}, one process", figure)
            if pop_limit == own:
                target = f"at least {SLOWEST:g} sentences/s, below {LARGEST_MEMORY_MB:,.0f} MB"
                holds = speed >= SLOWEST and run.peak_memory_mb < LARGEST_MEMORY_MB
                finding = replace(finding, target=target, holds=holds)
            findings.append(finding)
    return findings


@dataclass(frozen=True)
class Decoded:
    """A text that was translated in one process."""

    translations: list[bytes]
    scores: list[float]
    load_seconds: float
    """CPU time of loading the model."""
    cpu_seconds: float
    """CPU time of everything else."""
    peak_memory_mb: float
    """Of the process so far."""


@dataclass(frozen=True)
class _Best:
    """The task of keeping the best translation and its score."""

    needs_arcs: bool = False

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> tuple[bytes, float]:
        """Return them."""
        best = graph.best()
        return translation_line(best), best.score if best else -np.inf


def decode(ini: MosesIni, sentences: Sequence[Words], pop_limit: int | None = None) -> Decoded:
    """Translate sentences, without a pop limit with the one of our own settings."""
    settings = read_settings(ini)
    if pop_limit is not None:
        settings = replace(settings, search=replace(settings.search, pop_limit=pop_limit))
    started = time.process_time()
    decoder = Decoder(ini, settings, sentences)
    loaded = time.process_time()
    pairs = [decoder.run(_Best(), number) for number in range(len(sentences))]
    done = time.process_time()
    translations, scores = zip(*pairs, strict=True)
    return Decoded(list(translations), list(scores), loaded - started, done - loaded, _peak_memory_mb())


def _peak_memory_mb() -> float:
    if not _STATUS.exists():
        return peak_memory_mb(resource.getrusage(resource.RUSAGE_SELF))
    # On Linux getrusage would count what the process that started this one had in memory.
    status = _STATUS.read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM:"))


def _bleu(translations: Sequence[bytes], goldens: Path) -> float:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "translations"
        write_lines(path, translations)
        return score(path, [goldens / f"{TEXT}.fr.gz"], tokenise="none").bleu
