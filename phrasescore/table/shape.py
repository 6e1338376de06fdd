"""What all lines of a phrase table share: the number of scores, and of factors of the words on either side."""

from __future__ import annotations

from typing import NamedTuple

from phrasescore.table.entry import Entry, LineFault
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.text import counted

_FIELDS = ("field 1 (source)", "field 2 (target)")


class Shape(NamedTuple):
    """As far as the lines that were read show it."""

    columns: int | None = None
    """Scores of a line; None before the first good line."""
    factors: tuple[int, int] = (0, 0)
    """Factors of a source word and of a target word; 0 before the first good line with words on that side."""

    @property
    def is_complete(self) -> bool:
        """Whether further lines show nothing new."""
        return self.columns is not None and 0 not in self.factors

    def joined(self, entry: Entry, wanted: Factors = SURFACE) -> Shape:
        """Return the shape with what the next line shows of it.

        Raises:
            LineFault: the line has another shape, or its words lack a factor that is wanted.
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
"""Before the first line."""
