"""Values of `auto` settings, which depend on the size of the data.

The rules interpolate measured optima linearly in the logarithm of the number of distinct pairs. For training in
context, they use the number of sentences.
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
    """Rule for the number of epochs."""

    of_a_million: float
    """Epochs for a million examples; a quarter of the examples gets twice as many."""
    most: float


_OF_PAIRS, _OF_SENTENCES = _Passes(0.82, 5), _Passes(3, 30)


def settings_by_size(
    examples: int, batch_size: int, in_context: bool = False, max_updates: int | None = None
) -> dict[str, dict[str, Any]]:
    """Return the values of `auto` settings by section.

    Args:
        examples: number of distinct pairs, or of sentences if `in_context`.
        batch_size: examples per update.
        in_context: whether phrase pairs are learnt in context.
        max_updates: limit of the training run, if known.
    """
    updates = max_updates or updates_by_size(examples, batch_size, in_context)
    return {
        # The number of pairs in context is unknown; this value was tuned on 29,000 sentences.
        "model": {"dropout": _DROPOUT_IN_CONTEXT if in_context else dropout_by_size(examples)},
        "training": {
            "max_updates": updates,
            # Evaluate before a short training run ends.
            "evaluate_every": max(1, updates // _EVALUATIONS),
        },
    }


def dropout_by_size(examples: int) -> float:
    """Return the dropout rate for a number of distinct pairs: 0.4 for a million, 0.1 less for ten times as many.

    The network overfits a small table, whose pairs recur often. The best measured rates were 0.4 for 0.7 and
    1.2 million pairs, and 0.3 for 3.6 and 21 million.
    """
    found = 0.4 - 0.1 * math.log10(examples / _MILLION)
    return round(min(_MOST_DROPOUT, max(_LEAST_DROPOUT, found)), 2)


def updates_by_size(examples: int, batch_size: int, in_context: bool = False) -> int:
    """Return the number of updates for a number of distinct pairs.

    A million pairs get 820,000 training examples, and four million twice as many: the number of examples grows with the
    square root of the number of pairs. Training takes at most five epochs, because the network memorises a small table
    by then. On 1.2 million pairs, four times as many updates did not improve BLEU (docs/results.md). If epochs sample
    the long pairs, short pairs occur more often.

    In context, each visit to a sentence uses a few of its pairs. The rule is then anchored at 18 epochs for 29,000
    sentences. A text of 1,000 sentences was memorised after thirty.
    """
    rule = _OF_SENTENCES if in_context else _OF_PAIRS
    passes = min(rule.most, rule.of_a_million / math.sqrt(examples / _MILLION))
    return math.ceil(passes * examples / batch_size)
