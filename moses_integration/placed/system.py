"""The system of a text: a moses.ini with the table of that text, and the text with the names that it needs."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moses_integration.decoder.declaration import declare_model, load_model
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Floats, Words, require_words, words_of
from moses_integration.decoder.reordering import LexicalReordering
from moses_integration.decoder.settings import DecoderSettings, UnsupportedError, read_settings
from moses_integration.ini import IN_CONTEXT, MosesIni, Weights, add_columns_in_context
from moses_integration.placed.columns import ScorerColumns
from moses_integration.placed.in_context import option_weights, with_columns, without_columns
from moses_integration.placed.names import require_unmarked
from moses_integration.placed.places import Place, copies, find_places, named_text
from moses_integration.placed.tables import phrase_lines, reordering_lines
from moses_integration.placed.text_digest import DIGEST, write_digest
from phrasescore.errors import UserError
from phrasescore.files import open_output, require_writable, write_atomically, write_lines
from phrasescore.text import text_lines

INI, TEXT = "moses.ini", "text"
"""Names of the files in the folder; those of the tables are in the ini."""
_UNFINISHED = ".unfinished"
"""Name of a folder in it where all is made before anything takes the place of what an earlier run has made."""
_SCRATCH = "scores"
"""Of the columns, until all is written."""


@dataclass(frozen=True)
class PlacedSystem:
    """What was written."""

    ini: Path
    text: Path
    """With names: what to translate with this ini, which translates nothing else."""
    sentences: int
    places: int
    lines: int
    """Of the phrase table."""


def place_text(
    ini: MosesIni,
    text: Path,
    folder: Path,
    columns: ScorerColumns | None = None,
    weights: Weights | None = None,
    origin: str = "weights",
    table_limit: int | None = None,
    chosen_by: Weights | None = None,
) -> PlacedSystem:
    """Write the system of a text, which any toolkit translates as it would the text with the system given.

    But for words without a translation of their own that end a phrase of the table: if no other word tells where that
    stands, they get a name (see `named_text`), and copied they are unknown to the language model.

    If a run was interrupted while it scored phrase pairs, the same call resumes it.

    Args:
        ini: the system; it may have the weights of the new columns already (`add_columns_in_context`).
        text: prepared sentences.
        folder: for ini, text and tables; the ini is written last.
        columns: what the phrase table gets more for each place.
        weights: those of the system with the new columns; None for the ini's, and some to start from for new columns.
        origin: where those come from, in messages.
        table_limit: how many options of a phrase are kept, the best by the weights of all features but the new columns;
            0 for all, None for as many as the ini lets a decoder use.
        chosen_by: other weights to choose them by; None for those that tuning began with, or else of the system.

    Raises:
        UserError: the text has bars or names already, the weights do not fit, or the embedded decoder does not know the
            system: a feature may look at source words, and a binary table cannot be read.
    """
    lines = list(text_lines(text))
    require_placeable(lines, text)
    sentences = [words_of(line) for line in lines]
    tables = _tables(ini, folder)
    if columns and IN_CONTEXT not in ini.phrase_table().arguments:
        ini = ini.copy()
        add_columns_in_context(ini, len(columns.columns))
    system = without_columns(ini)
    try:
        placed = _declare(with_columns(ini), tables, weights, origin)
        settings = read_settings(system)
    except UnsupportedError as error:
        raise UserError(error.for_any_toolkit) from error
    model = _load(system, sentences, settings, chosen_by or option_weights(ini) or weights)
    if table_limit is not None:
        model.table_limit = table_limit
    places = list(find_places(model, sentences, settings.search.longest_phrase))
    with _unfinished(folder, [*(path.name for path in tables.values()), TEXT, DIGEST, INI]) as unfinished:
        values_OK = _values(columns, sentences, places, unfinished / _SCRATCH)
        named = named_text(sentences, places)
        copied = copies(model, sentences, places, named)
        _write(
            unfinished / tables[ini.phrase_table().label].name,
            phrase_lines(places, named, columns.columns if columns else (), values_OK),
        )
        for feature in model.features:
            if isinstance(feature, LexicalReordering):
                table = unfinished / tables[feature.label].name
                _write(table, reordering_lines(feature.table, places, named, copied))
        write_lines(unfinished / TEXT, (b" ".join(sentence) for sentence in named))
        write_digest(unfinished, unfinished / TEXT)
        # Its paths are absolute, and nothing is there yet.
        write_atomically(unfinished / INI, placed.to_bytes())
    return PlacedSystem(folder / INI, folder / TEXT, len(sentences), len(places), len(values_OK))


@contextmanager
def _unfinished(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a folder to write files into, which are moved when all of them are there, the last one last.

    After a fault in the work nothing is moved, and nothing left but what a run may go on with.

    Raises:
        UserError: one cannot be written.
    """
    require_writable(*(folder / name for name in names))
    unfinished = folder / _UNFINISHED
    unfinished.mkdir(exist_ok=True)
    try:
        yield unfinished
        # That of an earlier run would not fit the new tables.
        (folder / names[-1]).unlink(missing_ok=True)
        for name in names:
            (unfinished / name).replace(folder / name)
        # What is left of killed runs is nobody's.
        shutil.rmtree(unfinished, ignore_errors=True)
    finally:
        for name in (*names, _SCRATCH):
            (unfinished / name).unlink(missing_ok=True)
        with suppress(OSError):
            unfinished.rmdir()


def require_placeable(lines: Sequence[bytes], text: Path) -> None:
    """Check that sentences have neither bars nor names.

    Raises:
        UserError: one has; the message says where in the text.
    """
    require_words(lines, text)
    require_unmarked(lines, text)


def _tables(ini: MosesIni, folder: Path) -> dict[str, Path]:
    """Return which tables are written, by the labels of their features."""
    tables = {ini.phrase_table().label: folder / "phrase-table.gz"}
    reorderings = (feature.label for feature in ini.features() if feature.kind == "LexicalReordering")
    return tables | {label: folder / f"reordering-table{number or ''}.gz" for number, label in enumerate(reorderings)}


def _declare(ini: MosesIni, tables: Mapping[str, Path], weights: Weights | None, origin: str) -> MosesIni:
    """Return an ini with other tables, and weights if any are given, checked before any work is done.

    Raises:
        UserError: the embedded decoder does not know the system, weights do not fit, or an ini cannot hold a path.
    """
    placed = ini.with_absolute_paths()
    for label, path in tables.items():
        # A link of an earlier system's is replaced, not followed.
        placed.set_argument(label, "path", str(path.parent.resolve() / path.name))
    model = declare_model(placed, factored_targets=True)
    if weights is not None:
        model.set_weights(weights, origin)
        placed.set_weights(weights)
    ini.require_files()
    return placed


def _load(
    ini: MosesIni, sentences: Sequence[Words], settings: DecoderSettings, weights: Weights | None
) -> LogLinearModel:
    """Load what the sentences need of a system; the weights may be some of a wider phrase table, and are checked."""
    model, table = load_model(ini, sentences, settings, factored_targets=True), ini.phrase_table()
    if weights is not None:
        own = {table.label: weights[table.label][: table.width]} if table.label in weights else {}
        model.set_weights({**weights, **own})
    return model


def _values(
    columns: ScorerColumns | None, sentences: Sequence[Words], places: Sequence[Place], scratch: Path
) -> Floats:
    """Return the new columns [O, K] of the options of all places."""
    options = sum(len(place.phrase.lines) for place in places)
    if columns is None:
        return np.zeros((options, 0))
    values_OK = columns.values(sentences, places, scratch)
    if values_OK.shape != (options, len(columns.columns)) or np.isnan(values_OK).any():
        raise ValueError("columns are not as many as were promised, or not numbers")
    return values_OK


def _write(table: Path, lines: Iterable[bytes]) -> None:
    with open_output(table) as stream:
        stream.writelines(lines)
