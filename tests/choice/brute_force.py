"""Choices by the words of their definition: loops over instances, each with its own list of options."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.instances import Instances
from phrasescore.choice.options import Options
from phrasescore.phrases import offsets_of


class Choice(NamedTuple):
    """One instance."""

    features: list[list[float]]
    """Of each option."""
    right: set[int]
    """Some of these options, by their places among them."""
    times: float


def loss_of(choice: Choice, weights: Sequence[float]) -> float:
    values = [
        math.exp(sum(w * x for w, x in zip(weights, option, strict=True))) for option in choice.features
    ]  # fmt: skip
    return -math.log(sum(values[option] for option in choice.right) / sum(values))


def mean_loss_of(choices: Sequence[Choice], weights: Sequence[float]) -> float:
    total = sum(choice.times * loss_of(choice, weights) for choice in choices)
    return total / sum(choice.times for choice in choices)


def random_problem(
    sources: int, instances: int, features: int, seed: int = 1
) -> tuple[NDArray[np.float64], Options, Instances, list[Choice]]:
    """The same choices as arrays and as a list."""
    random = np.random.default_rng(seed)
    sizes = random.integers(2, 6, sources)
    offsets = offsets_of(sizes)
    features_OF = random.normal(size=(offsets[-1], features))
    names = [b"s%d" % number for number in range(sources)]
    targets = [b"t%d" % number for number in range(offsets[-1])]
    options = Options(names, offsets, targets, np.zeros((offsets[-1], 0)))
    source_I = random.integers(0, sources, instances)
    right = [
        sorted(random.choice(sizes[source], random.integers(1, sizes[source] + 1), replace=False).tolist())
        for source in source_I
    ]
    weight_I = random.integers(1, 4, instances).astype(np.float64)
    arrays = Instances(
        source_I,
        offsets_of(np.array([len(some) for some in right])),
        np.array([offsets[source] + one for source, some in zip(source_I, right, strict=True) for one in some]),
        weight_I,
        random.integers(0, instances // 3, instances),
    )
    choices = [
        Choice(features_OF[offsets[source] : offsets[source + 1]].tolist(), set(some), float(weight))
        for source, some, weight in zip(source_I, right, weight_I, strict=True)
    ]
    return features_OF, options, arrays, choices
