"""What comments of a moses.ini say of the networks in context whose column its phrase table has."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.ini import MosesIni, Weights
from phrasescore.errors import UserError

if TYPE_CHECKING:
    from moses_integration.placed.context_column import ContextColumn

IN_CONTEXT = "in-context"
"""Name of the comments that say where the networks lie."""
IN_CONTEXT_SHA256 = "in-context-sha256"
"""Name of the comments that say which weights they had when the ini was tuned."""
OPTIONS_BY = "in-context-options-by"
"""Name of the comments that say, as lines of weights, by which weights the options of a phrase are chosen: those that
tuning began with. The weights that it finds trust the network, and may be against what else is known of a pair."""


def networks_of(ini: MosesIni) -> list[str]:
    """Return the folders of the networks; an ini without a column in context has none."""
    return ini.remarks(IN_CONTEXT)


def name_networks(ini: MosesIni, folders: Iterable[str | Path], digests: Sequence[str] = ()) -> None:
    """Let an ini that has all its features, but is not tuned with the networks yet, say with which ones it will be.

    Args:
        ini: with their column.
        folders: of the networks.
        digests: SHA-256 of the weights of each; without them nobody can tell whether they are others one day.

    Raises:
        UserError: a comment cannot hold a path, one that is there is no line of weights, or the ini is tuned with
            networks already, among options that nobody knows any more.
    """
    _require_option_weights(ini)
    keep_option_weights(ini)
    ini.set_remarks(IN_CONTEXT_SHA256, digests)
    ini.set_remarks(IN_CONTEXT, [str(Path(folder).resolve()) for folder in folders])


def forget_networks(ini: MosesIni) -> None:
    """Let an ini say nothing of networks in context."""
    for name in (IN_CONTEXT, IN_CONTEXT_SHA256, OPTIONS_BY):
        ini.set_remarks(name, [])


def require_tuned_for(ini: MosesIni, columns: ContextColumn) -> None:
    """Check that the weights of an ini were sought with these networks, where comments say with which they were.

    Raises:
        UserError: they were sought with others, or among options that nobody knows any more.
    """
    _require_option_weights(ini)
    sought_with = ini.remarks(IN_CONTEXT_SHA256)
    if sought_with and sorted(sought_with) != sorted(columns.networks):
        raise UserError(
            f"{columns.scorer.origin}: is not what {ini.name} was tuned with, or was trained on since; give that by "
            "--in-context, or tune again"
        )


def _require_option_weights(ini: MosesIni) -> None:
    """Check that an ini with networks says among which options it was tuned: its own weights would choose others."""
    if networks_of(ini) and not ini.remarks(OPTIONS_BY):
        raise UserError(
            f"{ini.name}: does not say among which options it was tuned; tune again, with --in-context, the "
            "ini that it was made of"
        )


def option_weights(ini: MosesIni) -> Weights | None:
    """Return the weights by which tuning chose the options of phrases, None if no comment of an ini tells.

    Raises:
        UserError: the comments are not the weights of the ini's features.
    """
    kept = _kept_weights(ini)
    if kept and _widths(kept) != _widths(ini.weights_of_features()):
        raise UserError(
            f"{ini.name}: its comments `{OPTIONS_BY}` are not the weights of its features; tune again, with "
            "--in-context, the ini that it was made of"
        )
    return kept or None


def keep_option_weights(ini: MosesIni) -> None:
    """Let comments of an ini say by which weights options are chosen: as before, and new features' as they are now.

    Raises:
        UserError: a comment is no line of weights.
    """
    kept, now = _kept_weights(ini), ini.weights_of_features()
    weights = {label: kept[label] if len(kept.get(label, ())) == len(now[label]) else now[label] for label in now}
    ini.set_remarks(
        OPTIONS_BY, [f"{label}= {' '.join(f'{one:.6g}' for one in numbers)}" for label, numbers in weights.items()]
    )


def _kept_weights(ini: MosesIni) -> Weights:
    """Return the weights in an ini's comments.

    Raises:
        UserError: one is no line of weights.
    """
    lines = [f"{line}\n" for line in ini.remarks(OPTIONS_BY)]
    try:
        return MosesIni(["[weight]\n", *lines], ini.name).weights()
    except UserError as error:
        raise UserError(f"{ini.name}: a comment `{OPTIONS_BY}` is no line of weights; copy the ini again") from error


def _widths(weights: Weights) -> dict[str, int]:
    return {label: len(numbers) for label, numbers in weights.items()}
