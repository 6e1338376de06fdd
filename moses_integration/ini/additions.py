"""Add columns and features to a moses.ini, with their weights, in one step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from moses_integration.ini.lines import quote_text, split_fields
from moses_integration.ini.moses_ini import IN_CONTEXT, LABEL, PATHS, FeatureLine, MosesIni, files_at
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, open_input
from phrasescore.table.entry import LineFault, cut_line

NEW_WEIGHT = 0.2
"""Initial weight of a column or feature that is added to an untuned system."""
_OTHER_WEIGHTS = ("weight-add", "weight-overwrite", "alternate-weight-setting")
"""Sections besides [weight] that give dense weights to features (moses/Parameter.cpp, moses/StaticData.cpp)."""


def first_weight(others: Sequence[float]) -> float:
    """Return an initial weight that does not dominate the other weights, which may be tuned and small."""
    mean = sum(map(abs, others)) / max(1, len(others))
    return min(NEW_WEIGHT, mean) or NEW_WEIGHT


def add_columns(ini: MosesIni, label: str, table: Path, columns: int, weight: float | None = None) -> None:
    """Replace a phrase table by a file with `columns` more scores.

    Path, num-features and weights change in one step, after all checks. The new columns get `weight`, by default
    `first_weight`.
    """
    widened = ini.copy()
    _add_weights(widened, label, columns, weight)
    before = ini.feature(label)
    _require_scores(table, ini, before, columns)
    widened.set_argument(label, "num-features", str(before.width + columns))
    widened.set_argument(label, "path", ini.path_to(table, before.arguments.get("path", "")))
    ini.take_lines_of(widened)


def add_columns_in_context(ini: MosesIni, columns: int, weight: float | None = None) -> None:
    """Give the only phrase table weights for columns that only the per-text tables will have."""
    table, changed = ini.phrase_table(), ini.copy()
    _add_weights(changed, table.label, columns, weight)
    changed.set_argument(table.label, IN_CONTEXT, str(columns))
    ini.take_lines_of(changed)


def _add_weights(ini: MosesIni, label: str, columns: int, weight: float | None) -> None:
    """Give a text phrase table weights for more columns."""
    feature = ini.feature(label)
    if not feature.is_phrase_table:
        raise ini.fault(feature.row, f"{label} is a {feature.kind}", "give the label of a phrase table")
    if feature.kind != "PhraseDictionaryMemory":
        raise ini.fault(
            feature.row,
            f"{label} is a {feature.kind}, which is a binary file",
            "name the text table in a PhraseDictionaryMemory line, and binarise the wider table again",
        )
    if "tuneable-components" in feature.arguments:
        raise ini.fault(
            feature.row, "tuneable-components= has a value for each column", "remove it, or add the column manually"
        )
    ini.check_label(feature)
    _require_one_decoding_path(ini, label)
    _require_no_mention(ini, feature.label, feature.kind)
    weights = ini.weights_of_table(feature)
    ini.set_weights({label: [*weights, *[first_weight(weights) if weight is None else weight] * columns]})


def _require_scores(table: Path, ini: MosesIni, feature: FeatureLine, columns: int) -> None:
    """Raise an error that says what to do if a table does not have the scores of the feature and the new columns."""
    found, before = score_count(table), feature.width
    if found == before + columns:
        return
    named = ini.path_of(feature) if "path" in feature.arguments else None
    if found == before and named is not None and table.resolve() in {file.resolve() for file in files_at(named)}:
        advice = f"{ini.name} names this table already, so it needs no more columns"
    elif found == before:
        advice = f"run `phrasescore annotate {table} -m MODEL -o ANNOTATED` and give --table ANNOTATED"
    elif found > before:
        advice = f"add {found - before} if all additional scores are new"
    else:
        advice = f"annotate the table that {ini.name} names"
    raise UserError(
        f"{table}: has {found} scores per line, but {ini.name} has num-features={before} and {columns} to be added; "
        f"{advice}"
    )


def add_feature(
    ini: MosesIni, kind: str, label: str, arguments: Mapping[str, str | Path], weights: Sequence[float]
) -> None:
    """Append a feature with its weights; arguments that name files or folders are of type Path."""
    if not LABEL.fullmatch(label):
        raise UserError(f"{label}: mert-moses.pl cannot tune a feature with this label; use letters and digits only")
    if any(feature.label == label for feature in ini.features()):
        raise UserError(f"{ini.name}: already has a feature {label}; give another label")
    _require_no_mention(ini, label, kind)
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
    """Raise an error if phrases may come from another table, without the scores (StaticData.cpp, LoadDecodeGraphs)."""
    steps = [(row, split_fields(value)) for row, value in ini.rows("mapping")]
    # `T 0` is short for `0 T 0`.
    others = [row for row, words in steps if words[0] not in {"0", "T", "G"}]
    if others:
        raise ini.fault(
            others[0],
            f"[mapping] has several decoding paths, and phrases from other paths than that of {label} would get the "
            "best possible score, ln 1, in the new column",
            "add columns to all tables manually",
        )


def _require_no_mention(ini: MosesIni, label: str, kind: str) -> None:
    """Raise an error if another line would contradict or hide the changed or added feature."""
    for section in ("feature", "feature-add", "feature-overwrite", "feature-name-overwrite", *_OTHER_WEIGHTS):
        for row, value in ini.rows(section):
            mention = _mention(section, split_fields(value), label, kind)
            if mention:
                raise ini.fault(
                    row,
                    f"[{section}] has `{quote_text(mention)}`, which conflicts with the new {label}",
                    "remove it, or change both places manually",
                )


def _mention(section: str, words: Sequence[str], label: str, kind: str) -> str | None:
    """Return the word by which a line refers to a feature, other than the feature's own line and weights."""
    arguments = [(word, *word.partition("=")[::2]) for word in words]
    match section:
        case "feature" | "feature-add":
            # Part of a combination, for instance components=A,B of PhraseDictionaryMultiModel.
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
    """Return the number of scores in the first line of a text phrase table."""
    with open_input(table) as source:
        line = source.stream.readline(LONGEST_LINE)
    if not line:
        raise UserError(f"{table}: is empty; give the annotated table")
    try:
        return cut_line(line).score_count()
    except LineFault as fault:
        raise UserError(f"{table}: line 1: {str(fault).removeprefix('line: ')}") from fault
