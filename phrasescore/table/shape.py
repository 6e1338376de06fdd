"""The common shape of all lines of a phrase table: the number of scores and of factors on either side."""

from __future__ import annotations

from typing import NamedTuple

from phrasescore.table.entry import Entry, LineFault
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.text import counted

_FIELDS = ("field 1 (source)", "field 2 (target)")


class Shape(NamedTuple):
    """The shape, as far as the lines read so far determine it."""

    columns: int | None = None
    """Number of scores of a line; None before the first valid line."""
    factors: tuple[int, int] = (0, 0)
    """Number of factors of a source and a target word; 0 before the first valid line with words on that side."""

    @property
    def is_complete(self) -> bool:
        """Return whether all values are known."""
        return self.columns is not None and 0 not in self.factors

    def joined(self, entry: Entry, wanted: Factors = SURFACE) -> Shape:
        """Update the shape with the next line.

        Raises:
            LineFault: the line has another shape, or its words lack a selected factor.
        """
        columns, factors = entry.score_count(), entry.factors()
        if columns == self.columns and factors == self.factors and max(wanted.positions) == 0:
            return self
        if self.columns not in (None, columns):
            raise LineFault(
                "field 3 (scores)",
                f"has {counted(columns, 'score')} where the lines before have {self.columns}",
                "the table was cut or mixed with another; rebuild it",
            )
        for field, number, before in zip(_FIELDS, factors, self.factors, strict=True):
            if number and before and number != before:
                raise LineFault(
                    field,
                    f"has words of {counted(number, 'factor')} where the lines before have {before}",
                    "rebuild the table, and escape a literal `|` as `&#124;`",
                )
            wanted.require_in(number, field)
        source, target = (number or before for number, before in zip(factors, self.factors, strict=True))
        return Shape(columns, (source, target))


UNKNOWN_SHAPE = Shape()
"""The shape before the first line."""
