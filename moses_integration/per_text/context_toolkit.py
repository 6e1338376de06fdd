"""A toolkit for systems with a column in context: write the per-text phrase table, and delegate to another toolkit.

The ini of such a system has a weight for this column and the path of a table without it (`context_sections.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from moses_integration.ini import MosesIni, Weights
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.indexed_system import IndexedSystem, require_indexable, write_indexed_system
from moses_integration.per_text.position_tags import strip_tags
from moses_integration.toolkits.toolkit import NbestRequest, SentencesCallback, Toolkit, Translate, TuningRequest
from moses_integration.tuning.tunings import Tuning
from phrasescore.files import open_output, read_lines, write_lines
from phrasescore.text import text_lines

_CHUNK_SENTENCES = 1000
"""A decoder holds the table of a chunk in memory, about 0.7 MB for an image caption."""
_FOLDER = "indexed"
"""Name of the folder of an indexed text, or of its first chunk."""


class ContextToolkit:
    """Translates and tunes a system with a column in context."""

    def __init__(self, toolkit: Toolkit, column: ContextColumn) -> None:
        self._toolkit, self._column = toolkit, column
        self.name = toolkit.name

    def __str__(self) -> str:
        return str(self._toolkit)

    def check(self, ini: MosesIni, source: Path, folder: Path, *, tunes: bool) -> None:
        """See `Toolkit`."""
        self._toolkit.check(ini, source, folder, tunes=tunes)

    def tune(self, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        """Tune with the per-text phrase table of the dev set."""
        # Check before scoring, so that messages are early and have the paths that the user gave.
        self.check(ini, request.source, request.folder, tunes=True)
        request.progress(None, "scoring phrase pairs in context")
        indexed = self._index(ini, request.source, request.folder / _FOLDER)
        yield from self._toolkit.tune(MosesIni.read(indexed.ini), replace(request, source=indexed.text))

    @contextmanager
    def translator(self, ini: MosesIni, source: Path, folder: Path) -> Iterator[Translate]:
        """Yield a function that translates the text in chunks, each with its own table, built at the first call.

        The function removes the position tags of copied words.
        """
        self.check(ini, source, folder, tunes=False)
        chunks = list(_chunks(source, folder))

        @cache
        def index(chunk: _Chunk) -> IndexedSystem:
            return self._index(ini, chunk.source, chunk.folder)

        def translate(
            weights: Weights,
            output: Path | str,
            nbest: NbestRequest | None = None,
            progress: SentencesCallback | None = None,
        ) -> int:
            unknown = 0
            with open_output(output) as best, open_output(nbest.path if nbest else "/dev/null") as listed:
                for chunk in chunks:
                    indexed, tagged = index(chunk), chunk.folder / "output.tagged"
                    lists = nbest and replace(nbest, path=chunk.folder / "nbest.tagged")
                    with self._toolkit.translator(MosesIni.read(indexed.ini), indexed.text, chunk.folder) as run:
                        unknown += run(weights, tagged, lists, progress and chunk.shift(progress, chunks[-1].end))
                    best.writelines(strip_tags(line) + b"\n" for line in read_lines(tagged))
                    if lists:
                        listed.writelines(_renumbered(line, chunk.first) for line in read_lines(lists.path))
            return unknown

        yield translate

    def _index(self, ini: MosesIni, source: Path, folder: Path) -> IndexedSystem:
        """Write the per-text system, and log it."""
        folder.mkdir(parents=True, exist_ok=True)
        indexed = write_indexed_system(ini, source, folder, self._column)
        self._column.log(f"{indexed.lines:,} phrase pairs scored in context, at {indexed.positions:,} positions")
        return indexed


@dataclass(frozen=True)
class _Chunk:
    """A chunk of a text."""

    source: Path
    folder: Path
    first: int
    end: int
    """The range of its sentences in the text is `first` to `end`, exclusive."""

    def shift(self, progress: SentencesCallback, sentences: int) -> SentencesCallback:
        """Return a callback for the progress in this chunk, which reports that in the text of `sentences`."""
        return lambda done, _: progress(self.first + done, sentences)


def _chunks(source: Path, folder: Path) -> Iterator[_Chunk]:
    """Yield the chunks of a text; a text of one chunk is not copied."""
    lines = list(text_lines(source))
    # Check the whole text, so that messages have its file name and line numbers.
    require_indexable(lines, source)
    for number, first in enumerate(range(0, max(1, len(lines)), _CHUNK_SENTENCES)):
        chunk, end = folder / f"{_FOLDER}{number or ''}", min(first + _CHUNK_SENTENCES, len(lines))
        text = source
        if len(lines) > _CHUNK_SENTENCES:
            chunk.mkdir(parents=True, exist_ok=True)
            text = chunk / "source"
            write_lines(text, lines[first:end])
        yield _Chunk(text, chunk, first, end)


def _renumbered(entry: bytes, first: int) -> bytes:
    """Remove the tags from a line of an n-best list, and renumber its sentence from the chunk to the text."""
    number, bar, rest = strip_tags(entry).partition(b" ||| ")
    return b"%d%b%b\n" % (int(number) + first, bar, rest)
