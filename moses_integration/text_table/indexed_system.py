"""The system for one text: a moses.ini with the per-text tables, and the indexed text."""

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
from moses_integration.text_table.context_columns import ContextColumns
from moses_integration.text_table.context_sections import option_weights, with_columns, without_columns
from moses_integration.text_table.indexed_tables import phrase_lines, reordering_lines
from moses_integration.text_table.position_tags import require_untagged
from moses_integration.text_table.positions import Position, copies, find_positions, index_text
from moses_integration.text_table.text_digest import DIGEST, write_digest
from phrasescore.errors import UserError
from phrasescore.files import open_output, require_writable, write_atomically, write_lines
from phrasescore.text import text_lines

INI, TEXT = "moses.ini", "text"
"""Names of the files in the folder; the names of the tables are in the ini."""
_UNFINISHED = ".unfinished"
"""Name of a subfolder for new files, until all are complete and replace those of an earlier run."""
_SCRATCH = "scores"
"""Name of the checkpoint of the columns, removed when all files are written."""


@dataclass(frozen=True)
class IndexedSystem:
    """Paths and sizes of a per-text system."""

    ini: Path
    text: Path
    """The indexed text, the only input of this ini."""
    sentences: int
    positions: int
    lines: int
    """Number of lines of the phrase table."""


def write_indexed_system(
    ini: MosesIni,
    text: Path,
    folder: Path,
    columns: ContextColumns | None = None,
    weights: Weights | None = None,
    origin: str = "weights",
    table_limit: int | None = None,
    chosen_by: Weights | None = None,
) -> IndexedSystem:
    """Write the system for one text; any toolkit translates the indexed text as it translates the text with `ini`.

    There is one exception: a copied word with a position tag (see `index_text`) is unknown to the language model.

    The same call resumes a run that was interrupted while it scored phrase pairs.

    Args:
        ini: the system; it may already have weights for the new columns (`add_columns_in_context`).
        text: prepared sentences.
        folder: for ini, text and tables; the ini is written last.
        columns: the columns to add to the phrase table.
        weights: of the system with the new columns; None for the ini's weights, with initial weights for new columns.
        origin: the source of `weights`, for messages.
        table_limit: the number of options to keep for a phrase, ranked by all features except the new columns; 0 for
            all, None for the ini's table limit.
        chosen_by: other weights to rank options by; None for the weights recorded by tuning, or else the system's.

    Raises:
        UserError: the text contains `|` or position tags, the weights do not match the features, or the embedded
            decoder does not support the system, for instance a feature of source words or a binary table.
    """
    lines = list(text_lines(text))
    require_indexable(lines, text)
    sentences = [words_of(line) for line in lines]
    tables = _tables(ini, folder)
    if columns and IN_CONTEXT not in ini.phrase_table().arguments:
        ini = ini.copy()
        add_columns_in_context(ini, len(columns.columns))
    system = without_columns(ini)
    try:
        indexed = _declare(with_columns(ini), tables, weights, origin)
        settings = read_settings(system)
    except UnsupportedError as error:
        raise UserError(error.for_any_toolkit) from error
    model = _load(system, sentences, settings, chosen_by or option_weights(ini) or weights)
    if table_limit is not None:
        model.table_limit = table_limit
    positions = list(find_positions(model, sentences, settings.search.longest_phrase))
    with _unfinished(folder, [*(path.name for path in tables.values()), TEXT, DIGEST, INI]) as unfinished:
        values_OK = _values(columns, sentences, positions, unfinished / _SCRATCH)
        named = index_text(sentences, positions)
        copied = copies(model, sentences, positions, named)
        _write(
            unfinished / tables[ini.phrase_table().label].name,
            phrase_lines(positions, named, columns.columns if columns else (), values_OK),
        )
        for feature in model.features:
            if isinstance(feature, LexicalReordering):
                table = unfinished / tables[feature.label].name
                _write(table, reordering_lines(feature.table, positions, named, copied))
        write_lines(unfinished / TEXT, (b" ".join(sentence) for sentence in named))
        write_digest(unfinished, unfinished / TEXT)
        # The absolute paths of this ini have no files yet, so write it without checking them.
        write_atomically(unfinished / INI, indexed.to_bytes())
    return IndexedSystem(folder / INI, folder / TEXT, len(sentences), len(positions), len(values_OK))


@contextmanager
def _unfinished(folder: Path, names: Sequence[str]) -> Iterator[Path]:
    """Yield a temporary folder; move the files to `folder` when all are complete, in the order of `names`.

    After an error, move nothing and keep only the checkpoint, from which another run resumes.
    """
    require_writable(*(folder / name for name in names))
    unfinished = folder / _UNFINISHED
    unfinished.mkdir(exist_ok=True)
    try:
        yield unfinished
        # The ini of an earlier run does not match the new tables.
        (folder / names[-1]).unlink(missing_ok=True)
        for name in names:
            (unfinished / name).replace(folder / name)
        # Remove also the files of killed runs.
        shutil.rmtree(unfinished, ignore_errors=True)
    finally:
        for name in (*names, _SCRATCH):
            (unfinished / name).unlink(missing_ok=True)
        with suppress(OSError):
            unfinished.rmdir()


def require_indexable(lines: Sequence[bytes], text: Path) -> None:
    """Raise a UserError, with the line number, if a sentence contains `|` or position tags."""
    require_words(lines, text)
    require_untagged(lines, text)


def _tables(ini: MosesIni, folder: Path) -> dict[str, Path]:
    """Return the paths of the tables to write, by feature label."""
    tables = {ini.phrase_table().label: folder / "phrase-table.gz"}
    reorderings = (feature.label for feature in ini.features() if feature.kind == "LexicalReordering")
    return tables | {label: folder / f"reordering-table{number or ''}.gz" for number, label in enumerate(reorderings)}


def _declare(ini: MosesIni, tables: Mapping[str, Path], weights: Weights | None, origin: str) -> MosesIni:
    """Return an ini with the given tables and weights; check it before the work starts."""
    indexed = ini.with_absolute_paths()
    for label, path in tables.items():
        # Resolve only the parent: a link of an earlier system is replaced, not followed.
        indexed.set_argument(label, "path", str(path.parent.resolve() / path.name))
    model = declare_model(indexed, factored_targets=True)
    if weights is not None:
        model.set_weights(weights, origin)
        indexed.set_weights(weights)
    ini.require_files()
    return indexed


def _load(
    ini: MosesIni, sentences: Sequence[Words], settings: DecoderSettings, weights: Weights | None
) -> LogLinearModel:
    """Load the part of a system that the sentences need; `weights` may include those of columns in context."""
    model, table = load_model(ini, sentences, settings, factored_targets=True), ini.phrase_table()
    if weights is not None:
        own = {table.label: weights[table.label][: table.width]} if table.label in weights else {}
        model.set_weights({**weights, **own})
    return model


def _values(
    columns: ContextColumns | None, sentences: Sequence[Words], positions: Sequence[Position], scratch: Path
) -> Floats:
    """Return the new columns, [O, K], of the options at all positions."""
    options = sum(len(position.phrase.lines) for position in positions)
    if columns is None:
        return np.zeros((options, 0))
    values_OK = columns.values(sentences, positions, scratch)
    if values_OK.shape != (options, len(columns.columns)) or np.isnan(values_OK).any():
        raise ValueError("columns are not as many as were promised, or not numbers")
    return values_OK


def _write(table: Path, lines: Iterable[bytes]) -> None:
    with open_output(table) as stream:
        stream.writelines(lines)
