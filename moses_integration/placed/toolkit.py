"""A toolkit for systems whose phrase table gets a column for each text: it writes the table, and lets another work.

The ini of such a system has the weights of these columns, the path of the table that lacks them, and the argument
`in-context=`, which no decoder knows; sections of its own name the networks (`in_context.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from moses_integration.ini import MosesIni, Weights
from moses_integration.placed.columns import ScorerColumns
from moses_integration.placed.names import without_names
from moses_integration.placed.system import PlacedSystem, place_text, require_placeable
from moses_integration.toolkits.toolkit import NbestRequest, Progress, Toolkit, Translate, TuningRequest
from moses_integration.tuning.tunings import Tuning
from phrasescore.files import open_output, read_lines, write_lines
from phrasescore.text import Say, text_lines

_PART = 1000
"""Sentences that are translated together: a decoder has their table in memory, 0.7 MB a caption."""
_PLACED = "placed"
"""Name of the folder of a placed text, or of its first part."""


class PlacingToolkit:
    """Translates and tunes a system in whose phrase table some columns depend on the text."""

    def __init__(self, toolkit: Toolkit, columns: ScorerColumns, say: Say) -> None:
        self._toolkit, self._columns, self._say = toolkit, columns, say
        self.name = toolkit.name

    def __str__(self) -> str:
        return str(self._toolkit)

    def check(self, ini: MosesIni, folder: Path, *, tunes: bool) -> None:
        """See `Toolkit`."""
        self._toolkit.check(ini, folder, tunes=tunes)

    def check_text(self, ini: MosesIni, source: Path) -> None:
        """See `Toolkit`."""
        self._toolkit.check_text(ini, source)

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Tune with the table of the dev text."""
        # Before anything is scored, and with the names that the user knows.
        self.check(ini, request.folder, tunes=True)
        self.check_text(ini, request.source)
        request.show(None, "scoring phrase pairs where they stand")
        placed = self._place(ini, request.source, request.folder / _PLACED)
        yield from self._toolkit.tune(MosesIni.read(placed.ini), replace(request, source=placed.text))

    @contextmanager
    def translator(self, ini: MosesIni, source: Path, folder: Path) -> Iterator[Translate]:
        """Yield what translates a text part by part, each with its table, which is made the first time it is wanted.

        Names of copied words are taken off again.
        """
        self.check(ini, folder, tunes=False)
        self.check_text(ini, source)
        parts = list(_parts(source, folder))

        @cache
        def place(part: _Part) -> PlacedSystem:
            return self._place(ini, part.source, part.folder)

        def translate(
            weights: Weights,
            output: Path | str,
            nbest: NbestRequest | None = None,
            progress: Progress | None = None,
        ) -> int:
            unknown = 0
            with ExitStack() as stack:
                best = stack.enter_context(open_output(output))
                listed = nbest and stack.enter_context(open_output(nbest.path))
                for part in parts:
                    placed, named = place(part), part.folder / "output.names"
                    lists = nbest and replace(nbest, path=part.folder / "nbest.names")
                    with self._toolkit.translator(MosesIni.read(placed.ini), placed.text, part.folder) as run:
                        unknown += run(
                            weights, named, lists, progress and partial(_show_part, progress, part, parts[-1].end)
                        )
                    best.writelines(without_names(line) + b"\n" for line in read_lines(named))
                    if listed and lists:
                        listed.writelines(_renumbered(line, part.first) for line in read_lines(lists.path))
            return unknown

        yield translate

    def _place(self, ini: MosesIni, source: Path, folder: Path) -> PlacedSystem:
        """Write the system of a text, and say so."""
        folder.mkdir(parents=True, exist_ok=True)
        placed = place_text(ini, source, folder, self._columns)
        self._say(f"{placed.lines:,} phrase pairs scored where they stand, at {placed.places:,} places")
        return placed


@dataclass(frozen=True)
class _Part:
    """Sentences of a text that are translated together."""

    source: Path
    folder: Path
    first: int
    end: int
    """Numbers, in the text, of its first sentence and of the one behind its last."""


def _parts(source: Path, folder: Path) -> Iterator[_Part]:
    """Yield the parts of a text; one that is no longer than a part is taken as it lies.

    Raises:
        UserError: the text cannot be placed.
    """
    lines = list(text_lines(source))
    # Here, with the file and the lines that the user knows.
    require_placeable(lines, source)
    for number, first in enumerate(range(0, max(1, len(lines)), _PART)):
        part, end = folder / f"{_PLACED}{number or ''}", min(first + _PART, len(lines))
        text = source
        if len(lines) > _PART:
            part.mkdir(parents=True, exist_ok=True)
            text = part / "source"
            write_lines(text, lines[first:end])
        yield _Part(text, part, first, end)


def _show_part(progress: Progress, part: _Part, sentences: int, done: int, _: int) -> None:
    progress(part.first + done, sentences)


def _renumbered(entry: bytes, first: int) -> bytes:
    """Return a line of an n-best list without names, with the number that its sentence has in the text."""
    number, bar, rest = without_names(entry).partition(b" ||| ")
    return b"%d%b%b\n" % (int(number) + first, bar, rest)
