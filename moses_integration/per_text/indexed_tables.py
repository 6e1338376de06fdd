"""The files of a per-text table: phrase and reordering tables, and the digest of their text.

The tables have one copy of a line for each position where it applies. Lines are sorted by the bytes of their source
phrase, as Moses' converters to binary tables require.

Shapes: O options at all positions, ordered by position.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words
from moses_integration.decoder.tables import ReorderingTable
from moses_integration.ini import MosesIni
from moses_integration.per_text.position_tags import MARK
from moses_integration.per_text.positions import Copy, Position
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json
from phrasescore.files.documents import read_json
from phrasescore.phrases import offsets_of
from phrasescore.table.entry import SEPARATOR, SURFACE, cut_line, without_end
from phrasescore.words import quote

DIGEST = "text.json"
"""Name of a file with the digest of the text. The digest is not in the ini, because mert-moses.pl writes a new ini."""
_KEY = "text_sha256"


def write_digest(folder: Path, text: Path) -> None:
    """Write the digest of the text of the tables in a folder."""
    write_json(folder / DIGEST, {_KEY: sha256_of(text)})


def digest_of_text(ini: MosesIni) -> str | None:
    """Return the SHA-256 of the text of an ini's per-text phrase table, None for other tables."""
    named = [ini.path_of(one) for one in ini.features() if one.is_phrase_table and "path" in one.arguments]
    for path in (table.with_name(DIGEST) for table in named):
        if path.exists():
            digest = read_json(path, "make the table again").get(_KEY)
            if not isinstance(digest, str):
                raise UserError(f"{path}: has no `{_KEY}`; make the table again")
            return digest
    return None


def phrase_lines(
    model: LogLinearModel,
    positions: Sequence[Position],
    text: Sequence[Words],
    texts_O: Sequence[bytes],
) -> Iterator[bytes]:
    """Yield the lines of the model's phrase table for an indexed text; `texts_O` is inserted after the scores."""
    first = offsets_of(np.array([len(position.phrase.targets) for position in positions], np.int64))
    cut: dict[Words, list[tuple[bytes, bytes]]] = {}
    for source, number in sorted((_source(position, text), number) for number, position in enumerate(positions)):
        words = positions[number].phrase.words
        if words not in cut:
            cut[words] = [_around_column(line) for line in _lines_of(model, words)]
        texts = texts_O[first[number] : first[number + 1]]
        for (before, after), column in zip(cut[words], texts, strict=True):
            yield b"%b%b%b%b" % (source, before, column, after)


def reordering_lines(
    table: ReorderingTable, positions: Iterable[Position], text: Sequence[Words], copies: Iterable[Copy]
) -> Iterator[bytes]:
    """Yield the lines of a reordering table for an indexed text, including its lines for copied words."""
    found: dict[Words, list[bytes]] = {}
    ends: list[tuple[bytes, list[bytes]]] = []
    for position in positions:
        words = position.phrase.words
        if words not in found:
            # Reordering tables contain only the first factor of target words.
            surfaces = [tuple(map(SURFACE.network_words, target)) for target in position.phrase.targets]
            found[words] = _reordering_ends(table, words, zip(surfaces, surfaces, strict=True))
        ends.append((_source(position, text), found[words]))
    for word, name, target in copies:
        original = (word,) if target else ()
        ends.append((_as_source((name,)), _reordering_ends(table, (word,), [(original, target)])))
    for source, of_source in sorted(ends):
        yield from (source + end for end in of_source)


def _lines_of(model: LogLinearModel, words: Words) -> list[bytes]:
    """Return the lines of the options of a source phrase."""
    every = model.all_translations(words)
    assert every is not None
    assert model.table is not None
    lines = model.table.lines(words)
    kept = [lines[i] for i in model.selected(every)]
    if any(MARK in line for line in kept):
        raise UserError(
            f"{model.table.path}: a line for `{quote(b' '.join(words))}` has U+FDD0, which marks position tags; "
            "remove the line"
        )
    return kept


def _source(position: Position, text: Sequence[Words]) -> bytes:
    return _as_source(text[position.sentence][position.start : position.end + 1])


def _as_source(words: Words) -> bytes:
    """Return the first field of a line and the separator, which together are the sort key."""
    return b" ".join(words) + b" |||"


def _around_column(line: bytes) -> tuple[bytes, bytes]:
    """Return the parts of a phrase table line between source phrase and end of scores, and after the scores."""
    entry = cut_line(line)
    return line[line.index(SEPARATOR) + len(SEPARATOR) : entry.end], without_end(line[entry.end :]) + b"\n"


def _reordering_ends(table: ReorderingTable, source: Words, targets: Iterable[tuple[Words, Words]]) -> list[bytes]:
    """Return the ends of lines, after the source, for each (target, tagged target) whose target is in the table."""
    ends = []
    for target, name in targets:
        scores = table.scores(source, target)
        if scores is not None:
            fields = [b" ".join(name)] * table.has_target + [scores]
            ends.append(b" " + b" ||| ".join(fields) + b"\n")
    return list(dict.fromkeys(ends))
