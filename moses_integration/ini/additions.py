"""Columns and features that a moses.ini gets or loses, with all that it says of them, in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from moses_integration.ini.lines import quote_text, split_blanks
from moses_integration.ini.moses_ini import IN_CONTEXT, LABEL, OTHER_WEIGHTS, PATHS, FeatureLine, MosesIni, files_at
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, open_input
from phrasescore.table.entry import LineFault, cut_line

NEW_WEIGHT = 0.2
"""What tuning begins with for a column or a feature that is added to a system that is not tuned."""


def first_weight(others: Sequence[float]) -> float:
    """Return what tuning begins with for what is added beside others, which may be tuned: 0.2 would drown all then."""
    mean = sum(map(abs, others)) / max(1, len(others))
    return min(NEW_WEIGHT, mean) or NEW_WEIGHT


def add_columns(ini: MosesIni, label: str, table: Path, columns: int, weight: float | None = None) -> None:
    """Let a phrase table be another file that has `columns` more scores: three numbers move together.

    Path, num-features and weights change in one step, after everything was checked. A table without a line of
    weights has weights of 1, as in Moses; the new columns get `weight`, None for `first_weight`.

    Raises:
        UserError: columns cannot be added to the table (`_add_weights`), or the file has another number of scores
            than the ini would say.
    """
    widened = ini.copy()
    _add_weights(widened, label, columns, weight)
    before = ini.feature(label)
    _require_scores(table, ini, before, columns)
    widened.set_argument(label, "num-features", str(before.width + columns))
    widened.set_argument(label, "path", ini.path_to(table, before.arguments.get("path", "")))
    ini.take_lines_of(widened)


def add_columns_in_context(ini: MosesIni, columns: int, weight: float | None = None) -> None:
    """Let the one phrase table have weights for columns that are in no file yet: each text's table will have them.

    Raises:
        UserError: columns cannot be added to the table (`_add_weights`).
    """
    table, changed = ini.phrase_table(), ini.copy()
    _add_weights(changed, table.label, columns, weight)
    changed.set_argument(table.label, IN_CONTEXT, str(columns))
    ini.take_lines_of(changed)


def _add_weights(ini: MosesIni, label: str, columns: int, weight: float | None) -> None:
    """Give a phrase table weights for more columns.

    Raises:
        UserError: the feature is no text table, the weights do not fit it, another line says something of it that
            would be wrong then, or a label or path is one that Moses' programs cannot read.
    """
    feature = ini.feature(label)
    if not feature.is_phrase_table:
        raise ini.fault(feature.row, f"{label} is a {feature.kind}", "give the label of a phrase table")
    if feature.kind != "PhraseDictionaryMemory":
        raise ini.fault(
            feature.row,
            f"{label} is a {feature.kind}, whose columns are inside a binary file",
            "name the text table in a PhraseDictionaryMemory line, and make the wider table binary again",
        )
    if "tuneable-components" in feature.arguments:
        raise ini.fault(
            feature.row, "tuneable-components= has a value for each column", "remove it, or add the column by hand"
        )
    ini.check_label(feature)
    _refuse_parallel_paths(ini, label)
    _refuse_mentions(ini, feature.label, feature.kind)
    weights = ini.weights_of_table(feature)
    ini.set_weights({label: [*weights, *[first_weight(weights) if weight is None else weight] * columns]})


def _require_scores(table: Path, ini: MosesIni, feature: FeatureLine, columns: int) -> None:
    """Check that a table has as many scores as a feature and the new columns.

    Raises:
        UserError: it has more or fewer; the message says what to do in each case.
    """
    found, before = score_count(table), feature.width
    if found == before + columns:
        return
    named = ini.path_of(feature) if "path" in feature.arguments else None
    if found == before and named is not None and table.resolve() in {file.resolve() for file in files_at(named)}:
        advice = f"{ini.name} names this table already, so no column is missing"
    elif found == before:
        advice = f"run `phrasescore annotate {table} -m MODEL -o ANNOTATED` and give --table ANNOTATED"
    elif found > before:
        advice = f"give --columns {found - before} if all the others are new"
    else:
        advice = f"annotate the table that {ini.name} names"
    raise UserError(
        f"{table}: has {found} scores a line, but {ini.name} has num-features={before} and {columns} more are to be "
        f"added; {advice}"
    )


def add_feature(
    ini: MosesIni, kind: str, label: str, arguments: Mapping[str, str | Path], weights: Sequence[float]
) -> None:
    """Add a feature, last, with its weights; files and folders among the arguments are given as paths.

    Raises:
        UserError: there is a feature of this label, another line speaks of one, mert-moses.pl could not read
            the label, a value cannot be written, or weights are no numbers or do not fit their table.
    """
    if not LABEL.fullmatch(label):
        raise UserError(f"{label}: is a label that mert-moses.pl cannot tune; use letters and digits only")
    if any(feature.label == label for feature in ini.features()):
        raise UserError(f"{ini.name}: has a feature {label} already; give another label")
    _refuse_mentions(ini, label, kind)
    for feature in ini.features():
        if feature.is_phrase_table:
            ini.weights_of_table(feature)
    added = ini.copy()
    added.append("feature", f"{kind} name={label}")
    for key, value in arguments.items():
        added.set_argument(label, key, value if isinstance(value, str) else ini.path_to(value, ""))
    added.set_weights({label: weights})
    ini.take_lines_of(added)


def _refuse_parallel_paths(ini: MosesIni, label: str) -> None:
    """Refuse to add scores to a table where not every phrase gets its scores (StaticData.cpp, LoadDecodeGraphs)."""
    steps = [(row, split_blanks(value)) for row, value in ini.rows("mapping")]
    # `T 0` stands for `0 T 0`.
    others = [row for row, words in steps if words[0] not in {"0", "T", "G"}]
    if others:
        raise ini.fault(
            others[0],
            f"[mapping] has several decoding paths, and phrases of other paths than {label}'s would have the "
            "best score there is in the new column, ln 1",
            "add columns to all tables, by hand",
        )


def _refuse_mentions(ini: MosesIni, label: str, kind: str) -> None:
    """Refuse to change or add a feature of which another line says what would be wrong then, or hides it."""
    for section in ("feature", "feature-add", "feature-overwrite", "feature-name-overwrite", *OTHER_WEIGHTS):
        for row, value in ini.rows(section):
            mention = _mention(section, split_blanks(value), label, kind)
            if mention:
                raise ini.fault(
                    row,
                    f"[{section}] has `{quote_text(mention)}`, which would not go with the new {label}",
                    "remove it, or make the change by hand in both places",
                )


def _mention(section: str, words: Sequence[str], label: str, kind: str) -> str | None:
    """Return the word of a line by which it says something of a feature, besides its own line and weights."""
    arguments = [(word, *word.partition("=")[::2]) for word in words]
    match section:
        case "feature" | "feature-add":
            # A part of a combination, as in components=A,B of PhraseDictionaryMultiModel.
            named = [(word, value) for word, key, value in arguments if key not in PATHS and key != "name"]
            return next((word for word, value in named if label in value.split(",")), None)
        case "feature-overwrite":
            changes = [word for word, key, _ in arguments if key in {"path", "num-features", "tuneable-components"}]
            return next(iter(changes), None) if words[0] == label else None
        case "feature-name-overwrite":
            return kind if kind in words else None
        case _:
            return next((word for word in words if word == f"{label}="), None)


def score_count(table: Path) -> int:
    """Return how many scores the first line of a text phrase table has.

    Raises:
        UserError: the table cannot be read, is empty, or its first line is malformed.
    """
    with open_input(table) as source:
        line = source.stream.readline(LONGEST_LINE)
    if not line:
        raise UserError(f"{table}: is empty; give the annotated table")
    try:
        return cut_line(line).score_count()
    except LineFault as fault:
        raise UserError(f"{table}: line 1: {str(fault).removeprefix('line: ')}") from fault
