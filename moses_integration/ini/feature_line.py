"""The lines of the section [feature], and the `type=` of a lexicalised reordering model.

The type, for instance `wbe-msd-bidirectional-fe`, is that of Koehn et al. 2005; see
moses/FF/LexicalReordering/LexicalReordering.cpp and LRModel.h.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

IN_CONTEXT = "in-context"
"""Argument of a phrase table: the number of columns that each per-text table has in addition to the named file.

Moses and moses2 stop at the unknown argument, so no decoder takes the ini for a complete system.
"""

_CLASSES = {
    # The class of each relation: monotone, swap, left, right (LR/LRModel.h).
    "msd": (0, 1, 2, 2),
    "mslr": (0, 1, 2, 3),
    "monotonicity": (0, 1, 1, 1),
    "leftright": (0, 1, 1, 0),
}


@dataclass(frozen=True)
class ReorderingType:
    """The orientation classes of a reordering model and what they are conditioned on."""

    classes: tuple[int, int, int, int]
    """The class of each relation."""
    backward: bool
    """Whether it scores the orientation towards the previous phrase."""
    forward: bool
    """Whether it scores the orientation towards the next phrase; these scores follow the backward ones."""
    has_target: bool
    """Whether it conditions on target phrases."""

    @classmethod
    def parse(cls, text: str) -> ReorderingType:
        """Parse the value of `type=`.

        Raises:
            ValueError: the embedded decoder does not support the type.
        """
        parts = set(text.split("-"))
        classes = parts & _CLASSES.keys()
        conditions = parts & {"f", "fe"}
        directions = parts & {"backward", "unidirectional", "forward", "bidirectional"}
        unknown = parts - classes - conditions - directions - {"wbe", "phrase", "allff"}
        # Moses takes the last of several, and reads uninitialised memory if there is no condition. The default
        # direction is backward.
        if unknown or len(classes) != 1 or len(conditions) != 1 or len(directions) > 1:
            raise ValueError(
                f"the reordering type `{text}` is not supported; use one of {', '.join(_CLASSES)}, word-based (wbe), "
                "one of backward, forward and bidirectional, and f or fe, without hier and collapseff"
            )
        return cls(
            classes=_CLASSES[classes.pop()],
            backward="forward" not in parts,
            forward=bool(parts & {"forward", "bidirectional"}),
            has_target="fe" in conditions,
        )

    @property
    def count(self) -> int:
        """Number of classes."""
        return max(self.classes) + 1

    @property
    def width(self) -> int:
        """Number of scores of a phrase pair."""
        return self.count * (self.backward + self.forward)


@dataclass(frozen=True)
class FeatureLine:
    """One line of the section `[feature]`: `Class key=value key=value ...`."""

    kind: str
    """The class name that Moses registers."""
    label: str
    """The value of `name=`, or the class and a running number, for instance Distortion0."""
    arguments: Mapping[str, str]
    row: int
    """Index of the line in the file, from 0."""

    @property
    def width(self) -> int:
        """Number of scores by `num-features=` or the `type=` of a reordering model; 1 by default."""
        given = self.arguments.get("num-features")
        if given is not None:
            return int(given)
        if self.kind == "LexicalReordering":
            with suppress(ValueError):
                return ReorderingType.parse(self.arguments.get("type", "")).width
        return 1

    @property
    def weight_count(self) -> int:
        """Number of weights: one for each score and each column in context."""
        return self.width + int(self.arguments.get(IN_CONTEXT, "0"))

    @property
    def is_phrase_table(self) -> bool:
        """Whether it is a phrase table, text or binary."""
        return self.kind.startswith("PhraseDictionary") or self.kind == "ProbingPT"
