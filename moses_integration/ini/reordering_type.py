"""The `type=` of a lexicalised reordering model: which orientations it tells apart, and from which sides.

Koehn et al. 2005; moses/FF/LexicalReordering/LexicalReordering.cpp and LRModel.h.
"""

from __future__ import annotations

from dataclasses import dataclass

_CLASSES = {
    # The class of each relation: monotone, swap, left, right (LR/LRModel.h).
    "msd": (0, 1, 2, 2),
    "mslr": (0, 1, 2, 3),
    "monotonicity": (0, 1, 1, 1),
    "leftright": (0, 1, 1, 0),
}


@dataclass(frozen=True)
class ReorderingType:
    """What `wbe-msd-bidirectional-fe` says."""

    classes: tuple[int, int, int, int]
    """The class of each relation."""
    backward: bool
    """Whether it has scores of a phrase pair towards the one before it."""
    forward: bool
    """Whether it has scores towards the one after it; they stand behind the others."""
    has_target: bool
    """Whether it asks for target phrases."""

    @classmethod
    def parse(cls, text: str) -> ReorderingType:
        """Read it.

        Raises:
            ValueError: it is one that the embedded decoder does not have.
        """
        parts = set(text.split("-"))
        classes = parts & _CLASSES.keys()
        conditions = parts & {"f", "fe"}
        directions = parts & {"backward", "unidirectional", "forward", "bidirectional"}
        unknown = parts - classes - conditions - directions - {"wbe", "phrase", "allff"}
        # Of several Moses takes the last, and without a condition what stands in its memory; backward is its default.
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
        """How many classes there are."""
        return max(self.classes) + 1

    @property
    def width(self) -> int:
        """How many scores a phrase pair has."""
        return self.count * (self.backward + self.forward)
