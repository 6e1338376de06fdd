"""A toolkit for systems whose phrase table gets a column for each text: it writes the table, and lets another work.

In the ini of such a system the phrase table has the width and the weights that it will have, and the path of the table
that it is made from, which is narrower; a comment names the network. So neither Moses nor the embedded decoder takes it
for a system that is complete.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path

from moses_integration.build.corpus import Corpus
from moses_integration.ini import MosesIni, Weights
from moses_integration.placed.names import without_names
from moses_integration.placed.places import PlaceColumns
from moses_integration.placed.system import PlacedSystem, place_text
from moses_integration.toolkits.toolkit import NbestRequest, Progress, Toolkit, Translate
from moses_integration.tuning.memory import TuningMemory
from moses_integration.tuning.tune import Tuning, TuningSettings
from phrasescore.files import open_output, read_lines
from phrasescore.text import Say, Show, unseen

OPTIONS_TO_TUNE_WITH = 50
"""Options of a phrase that are scored for tuning. Moses takes the best 20, and the weights that are sought decide which
they are."""


def narrow(ini: MosesIni, columns: int) -> MosesIni:
    """Return the system that the table is made from, without the columns that a text gives it."""
    narrowed = ini.copy()
    narrowed.narrow(ini.phrase_table().label, columns)
    return narrowed


class PlacingToolkit:
    """Translates and tunes a system in whose phrase table some columns depend on the text."""

    def __init__(self, toolkit: Toolkit, columns: PlaceColumns, say: Say) -> None:
        self._toolkit, self._columns, self._say = toolkit, columns, say
        self.name = toolkit.name

    def __str__(self) -> str:
        return str(self._toolkit)

    def check_folder(self, folder: Path) -> None:
        """See `Toolkit`."""
        self._toolkit.check_folder(folder)

    def build_tables(self, corpus: Corpus, folder: Path, longest_phrase: int, show: Show = unseen) -> object:
        """See `Toolkit`."""
        return self._toolkit.build_tables(corpus, folder, longest_phrase, show)

    def ignored_sections(self, ini: MosesIni) -> list[str]:
        """See `Toolkit`."""
        return self._toolkit.ignored_sections(ini)

    def tune(
        self,
        ini: MosesIni,
        source: Path,
        references: Sequence[Path],
        seeds: Sequence[int],
        settings: TuningSettings,
        folder: Path,
        say: Say,
        memory: TuningMemory | None = None,
        show: Show = unseen,
    ) -> Iterator[Tuning]:
        """Tune with the table of the dev text."""
        show(None, "scoring phrase pairs where they stand")
        placed = self._place(ini, source, folder, OPTIONS_TO_TUNE_WITH)
        found = MosesIni.read(placed.ini)
        yield from self._toolkit.tune(found, placed.text, references, seeds, settings, folder, say, memory, show)

    @contextmanager
    def translator(self, ini: MosesIni, source: Path, folder: Path) -> Iterator[Translate]:
        """Yield what translates a text with its table, which is made the first time it is wanted.

        Names of copied words are taken off again.
        """
        with ExitStack() as stack:

            @cache
            def begun() -> Translate:
                placed = self._place(ini, source, folder, None)
                return stack.enter_context(self._toolkit.translator(MosesIni.read(placed.ini), placed.text, folder))

            def translate(
                weights: Weights,
                output: Path | str,
                nbest: NbestRequest | None = None,
                progress: Progress | None = None,
            ) -> None:
                translate_names = begun()
                named = folder / "output.names"
                lists = None if nbest is None else replace(nbest, path=folder / "nbest.names")
                translate_names(weights, named, lists, progress)
                _without_names(named, output)
                if nbest is not None and lists is not None:
                    _without_names(lists.path, nbest.path)

            yield translate

    def _place(self, ini: MosesIni, source: Path, folder: Path, table_limit: int | None) -> PlacedSystem:
        folder = folder / "placed"
        folder.mkdir(parents=True, exist_ok=True)
        placed = place_text(
            narrow(ini, self._columns.width),
            source,
            folder,
            self._columns,
            ini.weights_of_features(),
            ini.name,
            table_limit,
        )
        self._say(f"{placed.lines:,} phrase pairs scored where they stand, at {placed.places:,} places")
        return placed


def _without_names(named: Path, output: Path | str) -> None:
    with open_output(output) as stream:
        stream.writelines(without_names(line) + b"\n" for line in read_lines(named))
