"""The system for one text: a moses.ini with the per-text tables, and the indexed text."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from moses_integration.decoder.declaration import declare_model, load_model
from moses_integration.decoder.phrases import require_words, words_of
from moses_integration.decoder.reordering import LexicalReordering
from moses_integration.decoder.settings import UnsupportedError, read_settings
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.context_sections import selecting_weights, with_column, without_column
from moses_integration.per_text.indexed_tables import DIGEST, phrase_lines, reordering_lines, write_digest
from moses_integration.per_text.position_tags import require_untagged
from moses_integration.per_text.positions import Positions, copies, index_text
from phrasescore.errors import UserError
from phrasescore.files import open_output, require_writable, write_atomically, write_lines
from phrasescore.text import text_lines

INI, TEXT = "moses.ini", "text"
"""Names of the files in the folder; the names of the tables are in the ini."""
_UNFINISHED = ".unfinished"
"""Name of a subfolder for new files, until all are complete and replace those of an earlier run."""
_SCRATCH = "scores"
"""Name of the checkpoint of the column, removed when all files are written."""


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
    ini: MosesIni, text: Path, folder: Path, column: ContextColumn | None = None, tuned: MosesIni | None = None
) -> IndexedSystem:
    """Write the system for one text; any toolkit translates the indexed text as it translates the text with `ini`.

    There is one exception: a copied word with a position tag (see `index_text`) is unknown to the language model.

    The same call resumes a run that was interrupted while it scored phrase pairs. With a column in context, translation
    options are selected by the weights that tuning recorded, else by those of `ini`; the column has no part in it.

    Args:
        ini: the system; with `column`, it has a weight for it (see `add_column_in_context`).
        text: prepared sentences.
        folder: for ini, text and tables; the ini is written last.
        column: the column to add to the phrase table.
        tuned: another ini, to take the weights from.
    """
    lines = list(text_lines(text))
    require_indexable(lines, text)
    sentences = [words_of(line) for line in lines]
    tables, system = _tables(ini, folder), without_column(ini)
    try:
        indexed = _declare(with_column(ini), tables, tuned)
        settings = read_settings(system)
    except UnsupportedError as error:
        raise UserError(
            "{}; {}, because per-text phrase tables contain only what the embedded decoder supports, whatever decodes "
            "with them".format(*error.args)
        ) from error
    model = load_model(system, sentences, settings, factored_targets=True)
    model.set_weights(selecting_weights(ini, tuned, in_context=column is not None))
    positions = Positions(model, sentences, settings.longest_phrase)
    with _unfinished(folder, [*(path.name for path in tables.values()), TEXT, DIGEST, INI]) as unfinished:
        translated = [position for position in positions if not position.phrase.is_copied]
        options = sum(len(one.phrase.targets) for one in translated)
        texts_O = [b""] * options if column is None else _texts(column, positions, options, unfinished / _SCRATCH)
        tagged = index_text(sentences, translated)
        phrase_table = unfinished / tables[ini.phrase_table().label].name
        _write(phrase_table, phrase_lines(model, translated, tagged, texts_O))
        copied = copies(positions, tagged)
        for feature in model.features:
            if isinstance(feature, LexicalReordering):
                table = unfinished / tables[feature.label].name
                _write(table, reordering_lines(feature.table, translated, tagged, copied))
        write_lines(unfinished / TEXT, (b" ".join(sentence) for sentence in tagged))
        write_digest(unfinished, unfinished / TEXT)
        # The absolute paths of this ini have no files yet, so write it without checking them.
        write_atomically(unfinished / INI, indexed.to_bytes())
    return IndexedSystem(folder / INI, folder / TEXT, len(sentences), len(translated), options)


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
    """Raise an error, with the line number, if a sentence contains `|` or position tags."""
    require_words(lines, text)
    require_untagged(lines, text)


def _tables(ini: MosesIni, folder: Path) -> dict[str, Path]:
    """Return the paths of the tables to write, by feature label."""
    tables = {ini.phrase_table().label: folder / "phrase-table.gz"}
    reorderings = (feature.label for feature in ini.features() if feature.kind == "LexicalReordering")
    return tables | {label: folder / f"reordering-table{number or ''}.gz" for number, label in enumerate(reorderings)}


def _declare(ini: MosesIni, tables: Mapping[str, Path], tuned: MosesIni | None) -> MosesIni:
    """Return an ini with the given tables and the weights of `tuned`; check it before the work starts."""
    indexed = ini.with_absolute_paths()
    for label, path in tables.items():
        # Resolve only the parent: a link of an earlier system is replaced, not followed.
        indexed.set_argument(label, "path", str(path.parent.resolve() / path.name))
    model = declare_model(indexed, factored_targets=True)
    if tuned is not None:
        weights = tuned.weights_of_features()
        model.set_weights(weights, tuned.name)
        indexed.set_weights(weights)
    ini.require_files()
    return indexed


def _texts(column: ContextColumn, positions: Positions, options: int, scratch: Path) -> list[bytes]:
    """Return the text of the new column of each option; Moses takes the logarithm of its value."""
    values_O = column.values(positions, scratch)
    if values_O.shape != (options,) or np.isnan(values_O).any():
        raise ValueError("the column has not one number for each option")
    return [b" " + text for text in column.column.texts(values_O)[0]]


def _write(table: Path, lines: Iterable[bytes]) -> None:
    with open_output(table) as stream:
        stream.writelines(lines)
