"""How much better features choose with more columns than without: nats a choice on sources that were not fitted on.

Shapes: S sources, O options, I instances, F features.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.instances import Instances
from phrasescore.choice.logit import ConditionalLogit, Floats
from phrasescore.choice.options import Options
from phrasescore.errors import UserError

Features = Mapping[str, Floats]
"""Each a number an option [O], by name."""


@dataclass(frozen=True)
class HeldOut:
    """What choosing by some features costs."""

    losses_I: Floats
    """-ln p of each instance by weights of the half of the sources that its own is not in."""
    weights: dict[str, float]
    """Of each feature, the mean of both halves', in nats for each unit of the feature, as weights in a moses.ini."""


@dataclass(frozen=True)
class Difference:
    """What further features change."""

    nats: float
    """Nats a choice with them minus without them: below 0 where they help."""
    standard_error: float
    """Of this difference, between instances of one source or of one sentence none being independent."""


@dataclass(frozen=True)
class Row:
    """The result for the base with some further features, or none."""

    name: str
    nats: float
    """Mean loss, nats a choice."""
    weights: dict[str, float]
    """See `HeldOut`."""
    difference: Difference | None
    """To the base; None of the base itself."""


def source_hash(source: bytes) -> bytes:
    """Return well-mixed bytes that depend on the words of a source alone. The last bit tells its half."""
    return hashlib.sha256(source).digest()


def source_halves(options: Options) -> NDArray[np.bool_]:
    """Return of each source [S] which half it is in. It depends on its words alone."""
    return np.array([source_hash(source)[-1] & 1 for source in options.sources], np.bool_)


def hold_out(features: Features, options: Options, instances: Instances) -> HeldOut:
    """Fit on each half of the sources and test on the other one.

    Raises:
        UserError: a half has no instances that count.
    """
    half_I = source_halves(options)[instances.source_I]
    if not all(np.bincount(half_I, instances.weight_I, minlength=2)):
        raise UserError(
            f"there are choices among the options of {len(np.unique(instances.source_I))} sources, too few to fit on "
            "some and test on the others; give a longer text, prepared as the table is"
        )
    logit = ConditionalLogit(np.stack(list(features.values()), axis=1), options, instances)
    losses_I, weights_F = np.zeros(len(instances)), np.zeros(len(features))
    for half in (False, True):
        fitted_F = logit.fit(instances.weight_I * (half_I != half))
        losses_I = np.where(half_I == half, logit.losses(fitted_F), losses_I)
        weights_F += fitted_F / 2
    return HeldOut(losses_I, dict(zip(features, weights_F.tolist(), strict=True)))


def compare(base: Features, further: Features, options: Options, instances: Instances) -> list[Row]:
    """Return the row of the base, of the base with each further feature, and with all of them, if there are several.

    Raises:
        UserError: there are too few instances.
    """
    of_base = hold_out(base, options, instances)
    rows = [Row("base", mean_loss(of_base.losses_I, instances), of_base.weights, None)]
    sets = {name: {name: values} for name, values in further.items()}
    if len(further) > 1:
        sets["all"] = dict(further)
    for name, some in sets.items():
        held_out = hold_out({**base, **some}, options, instances)
        change = difference(held_out.losses_I - of_base.losses_I, instances)
        rows.append(Row(name, mean_loss(held_out.losses_I, instances), held_out.weights, change))
    return rows


def mean_loss(losses_I: Floats, instances: Instances) -> float:
    """Return nats a choice."""
    return float(np.average(losses_I, weights=instances.weight_I))


def difference(change_I: Floats, instances: Instances) -> Difference:
    """Return the mean change of a loss with its standard error; there are two sources or more.

    Instances of one source go up and down together, and so do those of one sentence. So the error is that of means of
    clusters (Liang and Zeger, 1986), which are either; the larger of the two. One sentence tells nothing of others.
    """
    mean = mean_loss(change_I, instances)
    clusters = [
        some for some in (instances.source_I, instances.sentence_I) if some is not None and len(np.unique(some)) > 1
    ]
    return Difference(mean, max(_clustered_error(change_I - mean, instances.weight_I, some) for some in clusters))


def _clustered_error(deviation_I: Floats, weight_I: Floats, cluster_I: NDArray[np.int64]) -> float:
    """Return the standard error of a weighted mean, from what deviates from it, with clusters as what is drawn."""
    _, cluster_I = np.unique(cluster_I, return_inverse=True)
    sums = np.bincount(cluster_I, weight_I * deviation_I)
    return float(np.sqrt(len(sums) / (len(sums) - 1) * sums @ sums) / weight_I.sum())
