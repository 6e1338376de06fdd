"""The settings that follow from the size of the data where they are `auto`.

The rules go through what was measured, and are straight lines over the logarithm of the number of distinct pairs; where
phrase pairs are learnt in context, of sentences.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

_MILLION = 1_000_000
_LEAST_DROPOUT, _MOST_DROPOUT = 0.1, 0.6
_DROPOUT_IN_CONTEXT = 0.4
_EVALUATIONS = 20


@dataclass(frozen=True)
class _Passes:
    """How often a training goes through what there is to learn from."""

    of_a_million: float
    """Examples. Twice as often through a quarter of them."""
    most: float


_OF_PAIRS, _OF_SENTENCES = _Passes(0.82, 5), _Passes(3, 30)


def settings_by_size(
    examples: int, batch_size: int, in_context: bool = False, max_updates: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return the values of settings that are `auto`, by their sections.

    Args:
        examples: distinct pairs, or sentences in which pairs are learnt.
        batch_size: of an update.
        in_context: whether they are sentences.
        max_updates: of the training, if its length is known.
    """
    updates = max_updates or updates_by_size(examples, batch_size, in_context)
    return {
        # How many pairs there are in context, nobody has counted; it was good for 29,000 sentences.
        "model": {"dropout": _DROPOUT_IN_CONTEXT if in_context else dropout_by_size(examples)},
        "training": {
            "max_updates": updates,
            # A short training is not to be over before it was measured.
            "evaluate_every": max(1, updates // _EVALUATIONS),
        },
    }


def dropout_by_size(examples: int) -> float:
    """Return the dropout for so many distinct pairs: 0.4 for a million, and 0.1 less for each ten times as many.

    The pairs of a small table come back often, and a network learns them by heart unless much is dropped; those of a
    large one hardly do. 0.4 was good for 0.7 and 1.2 million pairs, 0.3 for 3.6 and 21 million.
    """
    found = 0.4 - 0.1 * math.log10(examples / _MILLION)
    return round(min(_MOST_DROPOUT, max(_LEAST_DROPOUT, found)), 2)


def updates_by_size(examples: int, batch_size: int, in_context: bool = False) -> int:
    """Return the updates for so many distinct pairs: they have 820,000 pairs for a million, and twice for four.

    So a table four times as large is trained for twice as long, and each of its pairs is seen half as often. A small
    table is learnt from no more than five times its pairs: by then it is known by heart. On 1.2 million pairs four
    times as many updates made the column worth no more (docs/results.md). Where a pass takes a part of the long pairs,
    short ones come more often.

    In context, of which each visit to a sentence shows a few pairs, the rule goes through what was good for 29,000
    sentences: 18 passes. A text of 1,000 sentences was known after thirty.
    """
    rule = _OF_SENTENCES if in_context else _OF_PAIRS
    passes = min(rule.most, rule.of_a_million / math.sqrt(examples / _MILLION))
    return math.ceil(passes * examples / batch_size)
