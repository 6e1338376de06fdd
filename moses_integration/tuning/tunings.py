"""The settings and the results of tuning."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, stdev

from moses_integration.ini import MosesIni, parse_truth
from phrasescore.configuration import option
from phrasescore.text import Log


@dataclass(frozen=True)
class TuningConfig:
    """Settings of tuning on a dev set, with repeated decoding."""

    restarts: int = option(20, "random starts of each search", minimum=0)
    nbest: int = option(100, "distinct translations of an n-best list", minimum=1)
    iterations: int = option(10, "maximum number of decodings; the first uses the weights of the moses.ini", minimum=2)


@dataclass(frozen=True)
class Iteration:
    """Summary of one iteration: a decoding, and the search for weights after it."""

    weights: dict[str, list[float]]
    """The weights of the decoding."""
    bleu: float
    """BLEU of the best translations on the dev set, 0 to 100."""
    predicted: float
    """BLEU of the next weights on the accumulated lists, 0 to 100."""
    candidates: int
    """Number of translations in the accumulated lists."""
    seconds: float


@dataclass(frozen=True)
class Tuning:
    """The result of tuning with one seed."""

    seed: int
    weights: dict[str, list[float]]
    """The weights of the decoding with the highest dev BLEU."""
    bleu: float
    """The highest dev BLEU, 0 to 100."""
    iterations: list[Iteration] = field(default_factory=list)


def spread(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard deviation (0 of a single value)."""
    return fmean(values), stdev(values) if len(values) > 1 else 0.0


def log_spread(tunings: Sequence[Tuning], log: Log) -> None:
    """Log mean and standard deviation of dev BLEU over seeds; warn if BLEU is meaningless."""
    mean, deviation = spread([tuning.bleu for tuning in tunings])
    if len(tunings) > 1:
        log(f"dev BLEU of {len(tunings)} seeds: mean {mean:.2f}, standard deviation {deviation:.2f}")
    warn_if_noise(mean, log)


def warn_if_fixed(ini: MosesIni, log: Log) -> None:
    """Log a warning about features with a fixed weight, which n-best lists lack, so that tuning does not see them."""
    for feature in ini.features():
        try:
            is_tuned = parse_truth(feature.arguments.get("tuneable", "true"))
        except ValueError:
            continue  # The toolkit reports it.
        if not is_tuned and feature.kind != "UnknownWordPenalty":
            log(
                f"{ini.at(feature.row)}: {feature.label} has tuneable=false, so n-best lists lack its scores, and "
                "weights are tuned as if it did not exist; remove tuneable=false unless its influence is small"
            )


def warn_if_noise(bleu: float, log: Log) -> None:
    """Log a warning if a dev BLEU, 0 to 100, is meaningless."""
    from moses_integration.metrics import NOISE_BLEU

    advice = "check that the dev text and its reference belong together and are prepared in the same way"
    if not bleu:
        log(f"dev BLEU is 0, since no translation shares 4 words in a row with its reference; {advice}")
    elif bleu < NOISE_BLEU:
        log(f"dev BLEU is no higher than that of random translations; {advice}")
