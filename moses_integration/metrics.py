"""BLEU, chrF and TER by sacreBLEU, and paired approximate randomisation (Riezler and Maxwell 2005).

Shape suffixes: S sentences, T trials, 10 BLEU statistics: both lengths, matches and totals of 1-grams to 4-grams.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.text_form import form_of
from moses_integration.per_text.position_tags import strip_tags
from phrasescore.configuration import suggestion
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name
from phrasescore.text import Log, no_log, text_lines, utf8_lines, warn_one_sided

Statistics = NDArray[np.int64]

TOKENISERS = ("13a", "intl", "none", "char")
NOISE_BLEU = 2.0
"""Unrelated translations and references rarely have a higher BLEU."""

TRIALS, SEED = 10_000, 1
"""Of the p-values."""
_TRIALS_AT_ONCE = 128
"""A matrix of all trials and sentences would take gigabytes. A multiple of 32, because the generator draws 32 bits at a
time and discards unused bits at the end of a call; so the draws do not depend on this number."""


@dataclass(frozen=True)
class Measured:
    """The value of one metric for one system, with its confidence interval."""

    score: float
    """From 0 to 100, higher is better; TER: edits per 100 reference words, lower is better."""
    half_interval: float
    """Half of the 95 % confidence interval, by sacreBLEU's bootstrap over sentences; the environment variable
    SACREBLEU_SEED sets its seed. NaN without intervals."""
    signature: str


@dataclass(frozen=True)
class Evaluated:
    """The metrics of one system."""

    translations: str
    metrics: dict[str, Measured]
    """By name: BLEU, chrF (Popovic 2015), TER (Snover et al. 2006)."""
    p_value: float | None
    """p-value of the difference in BLEU from the baseline, None without a baseline."""


def evaluate(
    systems: Sequence[Path],
    references: Sequence[Path],
    baseline: Path | None = None,
    tokenise: str = "13a",
    lowercase: bool = False,
    resamples: int = 1000,
    log: Log = no_log,
) -> list[Evaluated]:
    """Return the metrics of some systems.

    The random trials of the p-values are identical to sacreBLEU's. Unlike sacreBLEU, and as in the paper, trials with
    an equal difference count, so that files that differ in one sentence have p = 1 instead of p = 0.0001.

    The baseline is the first result. `lowercase` ignores case, as TER always does. `resamples` is the number of
    bootstrap samples, 1 for no intervals. `log` receives warnings about the texts and about meaningless BLEU.
    """
    if tokenise not in TOKENISERS:
        raise UsageError(f"{arg_name('tokenise')}: is {tokenise!r}; {suggestion(tokenise, TOKENISERS)}")
    if not systems or not references:
        raise UsageError("evaluate needs at least one file of translations and one of references; give their names")
    metrics = _metrics(tokenise, lowercase)
    paths = systems if baseline is None else (baseline, *systems)
    outputs, texts = read_parallel(paths, references, log)
    if tokenise != "none" and form_of(texts[0]).is_tokenised:
        log(f"{display_name(references[0])}: looks tokenised; if all files are, give {arg_name('tokenise', 'none')}")
    counted = [statistics_of(lines, texts, tokenise, lowercase) for lines in outputs] if baseline is not None else []
    evaluated = []
    for number, (path, lines) in enumerate(zip(paths, outputs, strict=True)):
        found = {name: metric.corpus_score(lines, texts, n_bootstrap=resamples) for name, metric in metrics.items()}
        p_value = p_value_of(counted[0], counted[number]) if baseline is not None and number else None
        measured = {
            name: Measured(
                one.score,
                float(one._ci) if resamples > 1 else math.nan,
                str(metrics[name].get_signature()),
            )
            for name, one in found.items()
        }
        evaluated.append(Evaluated(display_name(path), measured, p_value))
        if not found["BLEU"].totals[-1]:
            log(f"{display_name(path)}: has no line of four words or more, so BLEU has no 4-grams; compare chrF")
        elif measured["BLEU"].score < NOISE_BLEU:
            log(
                f"{display_name(path)}: has the BLEU of unrelated text; check that its lines correspond to those of "
                f"{display_name(references[0])}"
            )
    return evaluated


def measure(translations: Path, references: Sequence[Path], tokenise: str = "13a") -> dict[str, Measured]:
    """Return BLEU, chrF and TER of a file by name, without confidence intervals; see `evaluate`."""
    return evaluate([translations], references, tokenise=tokenise, resamples=1)[0].metrics


def _metrics(tokenise: str, lowercase: bool) -> dict[str, Any]:
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    return {
        # `force` suppresses a warning about tokenised text, because `evaluate` has its own.
        "BLEU": BLEU(lowercase=lowercase, tokenize=tokenise, force=True),
        "chrF": _in_python_numbers(CHRF(lowercase=lowercase)),
        "TER": _in_python_numbers(TER()),
    }


def _in_python_numbers(metric: Any) -> Any:
    """Convert statistics to Python's floats, because sacreBLEU cannot average a mixture of Python's and NumPy's."""
    score = metric._compute_score_from_stats
    metric._compute_score_from_stats = lambda statistics: score([float(number) for number in statistics])
    return metric


def statistics_of(
    lines: Sequence[str], references: Sequence[Sequence[str]], tokenise: str, lowercase: bool
) -> Statistics:
    """Return the BLEU statistics of each sentence, [S, 10]."""
    from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenise, effective_order=True)
    rows = []
    for line, *sentence_references in zip(lines, *references, strict=True):
        counted = metric.sentence_score(line, sentence_references)
        rows.append([counted.sys_len, counted.ref_len, *counted.counts, *counted.totals])
    return np.array(rows, np.int64)


def p_value_of(base_S10: Statistics, system_S10: Statistics) -> float:
    """Return the fraction of random exchanges with a difference at least as large."""
    both_10 = base_S10.sum(axis=0) + system_S10.sum(axis=0)
    observed = _difference(base_S10.sum(axis=0), system_S10.sum(axis=0))
    generator = np.random.default_rng(SEED)
    as_large = 0
    for first in range(0, TRIALS, _TRIALS_AT_ONCE):
        shape = min(_TRIALS_AT_ONCE, TRIALS - first), len(base_S10)
        exchanged_TS = generator.integers(2, size=shape, dtype=bool)
        totals_T10 = exchanged_TS @ base_S10 + ~exchanged_TS @ system_S10
        as_large += sum(_difference(totals_10, both_10 - totals_10) >= observed for totals_10 in totals_T10)
    return (as_large + 1) / (TRIALS + 1)


def _difference(first_10: Statistics, second_10: Statistics) -> float:
    return abs(_bleu(first_10) - _bleu(second_10))


def _bleu(statistics_10: Statistics) -> float:
    """Return BLEU, from 0 to 100, of summed statistics, with the smoothing of `evaluate`."""
    from sacrebleu.metrics.bleu import BLEU

    sys_len, ref_len, *counts = statistics_10.tolist()
    bleu: float = BLEU.compute_bleu(counts[:4], counts[4:], sys_len, ref_len, smooth_method="exp").score
    return bleu


def read_parallel(
    outputs: Sequence[Path], references: Sequence[Path], log: Log = no_log
) -> tuple[list[list[str]], list[list[str]]]:
    """Return the lines of translations, without position tags, and of references; warn if they do not match."""
    paths = (*outputs, *references)
    readers = [text_lines] * len(outputs) + [utf8_lines] * len(references)
    texts = [
        [strip_tags(line).decode("utf-8", "replace") for line in lines(path, log)]
        for lines, path in zip(readers, paths, strict=True)
    ]
    for text, path in zip(texts, paths, strict=True):
        if len(text) != len(texts[-1]):
            raise UserError(
                f"{display_name(path)}: has {len(text)} lines but {display_name(paths[-1])} has {len(texts[-1])}; "
                "give files of the same sentences"
            )
    if not texts[-1]:
        raise UserError(f"{display_name(paths[-1])}: is empty; give the reference translations")
    expected = form_of(texts[-1])
    for text, path in zip(texts, paths, strict=True):
        if difference := expected.difference(form_of(text)):
            log(
                f"{display_name(path)}: differs in form from {display_name(paths[-1])} ({difference}), which lowers "
                "BLEU; give texts with the same preparation"
            )
        warn_one_sided(zip(text, texts[-1], strict=True), (path, paths[-1]), log)
    return texts[: len(outputs)], texts[len(outputs) :]
