"""Add columns and features to a moses.ini, with their weights; an error leaves the ini unchanged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path

from moses_integration.ini.lines import IN_CONTEXT, FeatureLine, split_fields
from moses_integration.ini.moses_ini import LABEL, PATHS, MosesIni, files_at
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, open_input, read_lines
from phrasescore.table.entry import LineFault, cut_line
from phrasescore.words import join_words

NEW_WEIGHT = 0.2
"""Initial weight of a column or feature that is added to an untuned system."""
_COMPARED, _LINES_TO_READ = 100, 1_000_000
"""The number of annotated lines to look up, and of original lines to read: the check takes a second or two."""
_OVERRIDES = (
    *("feature-add", "feature-overwrite", "feature-name-overwrite"),
    *("weight-add", "weight-overwrite", "alternate-weight-setting"),
)
"""Sections that change features or dense weights (moses/Parameter.cpp, moses/StaticData.cpp)."""


def first_weight(others: Sequence[float]) -> float:
    """Return an initial weight that does not dominate the other weights, which may be tuned and small."""
    mean = sum(map(abs, others)) / max(1, len(others))
    return min(NEW_WEIGHT, mean) or NEW_WEIGHT


def add_columns(ini: MosesIni, label: str, table: Path, columns: int, weight: float | None = None) -> None:
    """Replace a phrase table by a file with `columns` more scores, which get `weight`, by default `first_weight`."""
    feature = ini.feature(label)
    weights = _widened_weights(ini, feature, columns, weight)
    _require_scores(table, ini, feature, columns)
    # First, because it may fail.
    ini.set_argument(label, "path", ini.path_to(table, feature.arguments.get("path", "")))
    ini.set_argument(label, "num-features", str(feature.width + columns))
    ini.set_weights({label: weights})


def add_column_in_context(ini: MosesIni, weight: float | None = None) -> None:
    """Give the only phrase table a weight for a column that only the per-text tables will have."""
    table = ini.phrase_table()
    ini.set_weights({table.label: _widened_weights(ini, table, 1, weight)})
    ini.set_argument(table.label, IN_CONTEXT, "1")


def _widened_weights(ini: MosesIni, table: FeatureLine, columns: int, weight: float | None) -> list[float]:
    """Return the weights of a text phrase table with more columns; check that columns can be added."""
    label, kind = table.label, table.kind
    if not table.is_phrase_table:
        raise ini.fault(table.row, f"{label} is a {kind}", "give the label of a phrase table")
    if kind != "PhraseDictionaryMemory":
        remedy = "name the text table in a PhraseDictionaryMemory line, and binarise the wider table again"
        raise ini.fault(table.row, f"{label} is a {kind}, which is a binary file", remedy)
    ini.check_label(table)
    _require_one_decoding_path(ini, label)
    _require_no_overrides(ini, label)
    for feature in ini.features():
        # Part of a combination, for instance components=A,B of PhraseDictionaryMultiModel.
        for key, value in feature.arguments.items():
            if key not in PATHS and key != "name" and label in value.split(","):
                raise ini.fault(feature.row, f"{key}= combines {label} with other tables", "add the column manually")
    weights = ini.weights_of_table(table)
    return [*weights, *[first_weight(weights) if weight is None else weight] * columns]


def _require_scores(table: Path, ini: MosesIni, feature: FeatureLine, columns: int) -> None:
    found, before = score_count(table), feature.width
    if found != before + columns:
        raise UserError(
            f"{table}: has {found} scores per line, but {ini.name} has num-features={before} and {columns} to be "
            f"added; run `phrasescore annotate` on the table that {ini.name} names, and give its output"
        )


def add_feature(
    ini: MosesIni, kind: str, label: str, arguments: Mapping[str, str | Path], weights: Sequence[float]
) -> None:
    """Append a feature with its weights; arguments that name files or folders are of type Path."""
    if not LABEL.fullmatch(label):
        raise UserError(f"{label}: mert-moses.pl cannot tune a feature with this label; use letters and digits only")
    if any(feature.label == label for feature in ini.features()):
        raise UserError(f"{ini.name}: already has a feature {label}; give another label")
    _require_no_overrides(ini, label)
    for feature in ini.features():
        if feature.is_phrase_table:
            ini.weights_of_table(feature)
    added = ini.copy()
    added.append("feature", f"{kind} name={label}")
    for key, value in arguments.items():
        added.set_argument(label, key, value if isinstance(value, str) else ini.path_to(value, ""))
    added.set_weights({label: weights})
    ini.take_lines_of(added)


def _require_one_decoding_path(ini: MosesIni, label: str) -> None:
    for row, value in ini.rows("mapping"):
        # `T 0` is short for `0 T 0`.
        if split_fields(value)[0] not in {"0", "T", "G"}:
            reason = f"[mapping] has several decoding paths, and the others than that of {label} would score ln 1"
            raise ini.fault(row, reason, "add columns to all tables manually")


def _require_no_overrides(ini: MosesIni, label: str) -> None:
    for section in _OVERRIDES:
        for row, _ in ini.rows(section):
            reason = f"[{section}] may conflict with the new {label}"
            raise ini.fault(row, reason, "move its content to [feature] and [weight]")


def score_count(table: Path) -> int:
    """Return the number of scores in the first line of a text phrase table."""
    with open_input(table) as source:
        line = source.stream.readline(LONGEST_LINE)
    if not line:
        raise UserError(f"{table}: is empty; give the annotated table")
    try:
        return cut_line(line).score_count()
    except LineFault as fault:
        raise UserError(f"{table}: line 1: {str(fault).removeprefix('line: ')}") from fault


def require_pairs_of(table: Path, own: Path, ini: str) -> None:
    """Check that the first phrase pairs of a table are also in the table `own` that it replaces.

    The check reads only the start of that table, so it takes little time.
    """
    found = [file for file in files_at(own) if file.suffix != ".minphr"]
    if not found:
        return
    missing = {_pair_of(line) for line in islice(read_lines(table), _COMPARED)}
    for number, line in enumerate(read_lines(found[0])):
        missing.discard(_pair_of(line))
        if not missing or number == _LINES_TO_READ:
            return
    raise UserError(f"{table}: has phrase pairs that {found[0]} lacks, which {ini} names; annotate that table")


def _pair_of(line: bytes) -> tuple[bytes, ...]:
    return tuple(map(join_words, line.split(b"|||")[:2]))
