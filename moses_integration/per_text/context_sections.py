"""The sections of a moses.ini that declare the networks of the column in context.

Only per-text phrase tables have this column; the table that the ini names lacks it. Moses rejects the sections and
the argument `in-context=` of the phrase table, so no decoder mistakes the ini for a complete system.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.ini import IN_CONTEXT, MosesIni, Weights, add_column_in_context
from phrasescore.errors import UserError, arg_name

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn
    from phrasescore.scoring.scorer import PhraseScorer

NETWORKS = "in-context"
"""Section with the model folders of the networks."""
NETWORKS_SHA256 = "in-context-sha256"
"""Section with the fingerprint of their scorer: SHA-256 of the network weights at the time of tuning."""
OPTIONS_BY = "in-context-options-by"
"""Section with the weights by which options are selected: the initial weights of tuning. Tuned weights rely on the
network's score, which is not available for the selection."""


def networks_of(ini: MosesIni) -> list[str]:
    """Return the model folders of the networks, empty if the ini has no column in context."""
    folders = ini.values(NETWORKS)
    is_marked = any(IN_CONTEXT in feature.arguments for feature in ini.features())
    if len({bool(folders), bool(ini.values(OPTIONS_BY)), is_marked}) > 1:
        # Without the weights of OPTIONS_BY, the tuned weights would select other options than in tuning.
        raise UserError(
            f"{ini.location(NETWORKS)}: [{NETWORKS}], [{OPTIONS_BY}] and {IN_CONTEXT}= of the phrase table belong "
            f"together; {_again()}"
        )
    return folders


def with_networks(
    ini: MosesIni,
    column: ContextColumn,
    folders: Sequence[Path] | None = None,
    new_weight: float | None = None,
    *,
    tunes: bool = False,
) -> MosesIni:
    """Return a system that declares the networks of `column`.

    Args:
        ini: the system.
        column: the column of the networks.
        folders: model folders of the networks; None for those of the ini.
        new_weight: initial weight of a new column; None if the ini must already have the column.
        tunes: true before tuning, which permits other networks than those of the ini.

    Raises:
        UserError: the ini lacks the column, or was tuned with other networks.
    """
    ini, known = ini.copy(), networks_of(ini)
    if not known:
        if new_weight is None:
            option = arg_name("in_context")
            raise UserError(f"{ini.name}: has no column for {option}; give the ini that `tune` with {option} wrote")
        add_column_in_context(ini, new_weight)
    if tunes or not known:
        name_networks(ini, folders or known, column.scorer.fingerprint)
    require_tuned_for(ini, column.scorer)
    return ini


def name_networks(ini: MosesIni, folders: Iterable[str | Path], fingerprint: str | None = None) -> None:
    """Declare the networks of an ini that has their column, before it is tuned with them.

    Without the fingerprint of their scorer, a later change of the networks is not detected.
    """
    keep_option_weights(ini)
    ini.set_values(NETWORKS_SHA256, [fingerprint] if fingerprint else [])
    ini.set_values(NETWORKS, [str(Path(folder).resolve()) for folder in folders])


def without_column(ini: MosesIni) -> MosesIni:
    """Return the system for the phrase table that the ini names, without the column in context."""
    table, system = ini.phrase_table(), _without_sections(ini)
    if table.weight_count > table.width:
        system.set_weights({table.label: ini.weights_of_table(table)[: table.width]})
    return system


def with_column(ini: MosesIni) -> MosesIni:
    """Return the system for a per-text phrase table, with the column in context; paths do not change."""
    table, system = ini.phrase_table(), _without_sections(ini)
    if table.weight_count > table.width:
        system.set_argument(table.label, "num-features", str(table.weight_count))
    return system


def _without_sections(ini: MosesIni) -> MosesIni:
    """Return a copy of the ini without its declaration of the column in context."""
    system = ini.copy()
    system.remove_argument(ini.phrase_table().label, IN_CONTEXT)
    for section in (NETWORKS, NETWORKS_SHA256, OPTIONS_BY):
        system.set_values(section, [])
    return system


def require_tuned_for(ini: MosesIni, scorer: PhraseScorer) -> None:
    """Raise an error if the ini records that its weights were tuned with other networks."""
    tuned_with = ini.values(NETWORKS_SHA256)
    if tuned_with and tuned_with != [scorer.fingerprint]:
        raise UserError(
            f"{scorer.name}: is not the network that {ini.name} was tuned with, or was trained further since; give "
            f"the old one by {arg_name('in_context')}, or tune again"
        )


def option_weights(ini: MosesIni) -> Weights | None:
    """Return the weights by which tuning selected translation options, None if the ini does not have them."""
    kept = ini.weights(OPTIONS_BY)
    if kept and _widths(kept) != _widths(ini.weights_of_features()):
        raise UserError(f"{ini.location(OPTIONS_BY)}: [{OPTIONS_BY}] does not fit the features; {_again()}")
    return kept or None


def selecting_weights(ini: MosesIni, tuned: MosesIni | None, *, in_context: bool) -> Weights:
    """Return the weights that select translation options, without that of the column in context."""
    tuned = tuned or ini
    weights = option_weights(tuned) or option_weights(ini)
    if weights is None:
        # Tuning by Moses' scripts records no weights; it used the options that `ini` selects.
        weights = (ini if in_context else tuned).weights_of_features()
    table = ini.phrase_table()
    return {**weights, table.label: weights[table.label][: table.width]}


def keep_option_weights(ini: MosesIni) -> None:
    """Record the weights that select options: those recorded before, and the current weights of new features."""
    kept, now = ini.weights(OPTIONS_BY), ini.weights_of_features()
    weights = {label: kept[label] if len(kept.get(label, ())) == len(now[label]) else now[label] for label in now}
    ini.set_values(
        OPTIONS_BY, [f"{label}= {' '.join(f'{one:.6g}' for one in numbers)}" for label, numbers in weights.items()]
    )


def _again() -> str:
    return f"run tune again with {arg_name('in_context')} on the untuned ini"


def _widths(weights: Weights) -> dict[str, int]:
    return {label: len(numbers) for label, numbers in weights.items()}
