"""Where two translations of a sentence differ, word by word, and which sentences of a text to look at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from random import Random
from typing import Literal

Kind = Literal["same", "new", "gone"]


def word_differences(before: str, after: str) -> list[tuple[Kind, str]]:
    """Return the words of `after` in runs: those that `before` has too, and new ones; and between them what is gone.

    Only words that nothing takes the place of are given as gone: where others do, those are new.
    """
    old, new = before.split(" "), after.split(" ")
    runs: list[tuple[Kind, str]] = []
    for operation, old_start, old_end, new_start, new_end in SequenceMatcher(
        a=old, b=new, autojunk=False
    ).get_opcodes():
        if operation == "delete":
            runs.append(("gone", " ".join(old[old_start:old_end])))
        else:
            runs.append(("same" if operation == "equal" else "new", " ".join(new[new_start:new_end])))
    return runs


@dataclass(frozen=True)
class Choice:
    """Numbers of sentences that are shown, and why."""

    gains: list[int]
    """The largest gains, the largest first."""
    losses: list[int]
    """The largest losses, the largest first."""
    random: list[int]
    """Others, drawn at random, in the order of the text."""


def choose(changes: Sequence[float], count: int) -> Choice:
    """Choose `count` sentences of each kind by their changes of sentence BLEU, as far as there are such."""
    order = sorted(range(len(changes)), key=lambda number: changes[number])
    losses = [number for number in order[:count] if changes[number] < 0]
    gains = [number for number in order[::-1][:count] if changes[number] > 0]
    others = sorted(set(order) - set(losses) - set(gains))
    return Choice(gains, losses, sorted(Random(1).sample(others, min(count, len(others)))))
