"""The sections of a moses.ini that declare networks for scores in context.

Only per-text phrase tables have these columns; the table that the ini names lacks them. Moses rejects the sections and
the argument `in-context=` of the phrase table, so no decoder mistakes the ini for a complete system.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.ini import IN_CONTEXT, MosesIni, Weights
from phrasescore.errors import UserError

if TYPE_CHECKING:
    from moses_integration.text_table.context_columns import ContextColumns

NETWORKS = "in-context"
"""Section with the model folders of the networks."""
NETWORKS_SHA256 = "in-context-sha256"
"""Section with the fingerprint of their scorer: SHA-256 of the network weights at the time of tuning."""
OPTIONS_BY = "in-context-options-by"
"""Section with the weights by which options are selected: the initial weights of tuning. Tuned weights rely on the
network's score, which is not available for the selection."""
_AGAIN = "tune again, with --in-context, the ini that it was made of"


def networks_of(ini: MosesIni) -> list[str]:
    """Return the model folders of the networks, empty if the ini has no column in context.

    Raises:
        UserError: the ini has a column in context but no networks, or networks but no such column.
    """
    folders = ini.values(NETWORKS)
    marked = [feature for feature in ini.features() if IN_CONTEXT in feature.arguments]
    if marked and not folders:
        raise ini.fault(marked[0].row, f"{IN_CONTEXT}= needs a section [{NETWORKS}] with its networks", _AGAIN)
    if folders and not marked:
        raise UserError(f"{ini.location(NETWORKS)}: [{NETWORKS}] needs a phrase table with {IN_CONTEXT}=; {_AGAIN}")
    return folders


def name_networks(ini: MosesIni, folders: Iterable[str | Path], fingerprint: str | None = None) -> None:
    """Declare the networks of an ini, before it is tuned with them.

    Args:
        ini: complete, with the column of the networks.
        folders: model folders of the networks.
        fingerprint: of their scorer; without it, a later change of the network's weights is not detected.

    Raises:
        UserError: a path cannot be written to a moses.ini, or an ini tuned with networks has no option weights.
    """
    _require_option_weights(ini)
    keep_option_weights(ini)
    ini.set_values(NETWORKS_SHA256, [fingerprint] if fingerprint else [])
    ini.set_values(NETWORKS, [str(Path(folder).resolve()) for folder in folders])


def without_columns(ini: MosesIni) -> MosesIni:
    """Return the system for the phrase table that the ini names, without columns in context."""
    table, weights = ini.phrase_table(), ini.weights_of_table(ini.phrase_table())
    system = _without_sections(ini)
    if table.weight_count > table.width:
        system.set_weights({table.label: weights[: table.width]})
    return system


def with_columns(ini: MosesIni) -> MosesIni:
    """Return the system for a per-text phrase table, with columns in context; paths do not change."""
    table = ini.phrase_table()
    system = _without_sections(ini)
    if table.weight_count > table.width:
        system.set_argument(table.label, "num-features", str(table.weight_count))
    return system


def _without_sections(ini: MosesIni) -> MosesIni:
    """Return a copy without the argument and the sections for columns in context."""
    system = ini.copy()
    system.remove_argument(ini.phrase_table().label, IN_CONTEXT)
    for section in (NETWORKS, NETWORKS_SHA256, OPTIONS_BY):
        system.set_values(section, [])
    return system


def require_tuned_for(ini: MosesIni, columns: ContextColumns) -> None:
    """Check that the weights of an ini were tuned with these networks, if it has their fingerprint.

    Raises:
        UserError: they were tuned with other networks, or the ini has no option weights.
    """
    _require_option_weights(ini)
    tuned_with = ini.values(NETWORKS_SHA256)
    if tuned_with and tuned_with != [columns.scorer.fingerprint]:
        raise UserError(
            f"{columns.scorer.name}: is not what {ini.name} was tuned with, or was trained on since; give that by "
            "--in-context, or tune again"
        )


def _require_option_weights(ini: MosesIni) -> None:
    """Check that an ini with networks has the weights that chose the options in tuning: its own would choose others."""
    if ini.values(NETWORKS) and not ini.values(OPTIONS_BY):
        raise UserError(f"{ini.name}: has no section [{OPTIONS_BY}], by which options were chosen in tuning; {_AGAIN}")


def option_weights(ini: MosesIni) -> Weights | None:
    """Return the weights by which tuning selected translation options, None if the ini does not have them.

    Raises:
        UserError: they do not match the ini's features.
    """
    kept = ini.weights(OPTIONS_BY)
    if kept and _widths(kept) != _widths(ini.weights_of_features()):
        raise UserError(f"{ini.location(OPTIONS_BY)}: [{OPTIONS_BY}] has not the weights of the features; {_AGAIN}")
    return kept or None


def keep_option_weights(ini: MosesIni) -> None:
    """Record the weights that select options: those recorded before, and the current weights of new features."""
    kept, now = ini.weights(OPTIONS_BY), ini.weights_of_features()
    weights = {label: kept[label] if len(kept.get(label, ())) == len(now[label]) else now[label] for label in now}
    ini.set_values(
        OPTIONS_BY, [f"{label}= {' '.join(f'{one:.6g}' for one in numbers)}" for label, numbers in weights.items()]
    )


def _widths(weights: Weights) -> dict[str, int]:
    return {label: len(numbers) for label, numbers in weights.items()}
