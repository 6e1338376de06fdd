"""The option --in-context: networks that condition on the sentence, and the toolkit that adds their scores."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.text_table.context_sections import name_networks, networks_of, require_tuned_for
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, add_plugin_option, refuse_idle
from phrasescore.errors import UsageError, UserError

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.text_table.context_columns import ContextColumns
    from moses_integration.toolkits.toolkit import Toolkit


def add_in_context_option(parser: argparse.ArgumentParser, text: str, default: str | None = None) -> None:
    """Add --in-context and the options of its networks: device, plugins, and --restart for interrupted scoring."""
    parser.add_argument(
        "--in-context",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FOLDER",
        help=f"{text}; several give the mean of their scores" + (f" (default: {default})" if default else ""),
    )
    parser.add_argument(
        "--restart", action="store_true", help="discard the work of an interrupted run; do not resume it"
    )
    add_device_options(parser)
    add_plugin_option(parser)


def placing(
    args: argparse.Namespace,
    ini: MosesIni,
    toolkit: Toolkit,
    reporter: Reporter,
    new_weight: float | None = None,
    *,
    tunes: bool = False,
) -> tuple[MosesIni, Toolkit]:
    """Return ini and toolkit for the networks of --in-context, or else of the ini; unchanged if there are none.

    Args:
        args: of a command with the options of --in-context.
        ini: the system.
        toolkit: translates with the per-text phrase tables.
        reporter: for messages.
        new_weight: initial weight of a new column; None if the ini must already have the column.
        tunes: whether the command tunes the weights, so that they need not have been tuned with these networks.

    Raises:
        UsageError: an option has no effect.
        UserError: a network cannot be used or differs from the one in tuning, or the ini lacks the column.
    """
    from moses_integration.ini import add_columns_in_context
    from moses_integration.text_table.context_toolkit import ContextToolkit

    columns = context_column(args, ini, reporter)
    if columns is None:
        return ini, toolkit
    ini = ini.copy()
    if not networks_of(ini):
        if new_weight is None:
            raise UserError(f"{ini.name}: has no column for --in-context; give the ini that `tune --in-context` wrote")
        add_columns_in_context(ini, len(columns.columns), new_weight)
        tunes = True
    if tunes:
        name_networks(ini, args.in_context or networks_of(ini), columns.scorer.fingerprint)
    require_tuned_for(ini, columns)
    return ini, ContextToolkit(toolkit, columns, reporter.log)


def context_column(args: argparse.Namespace, ini: MosesIni, reporter: Reporter) -> ContextColumns | None:
    """Return the columns of the networks of --in-context, or else of the ini; None if there are none.

    Raises:
        UsageError: an option applies to networks, but there are none.
        UserError: a network cannot be used.
    """
    folders = args.in_context or networks_of(ini)
    if not folders:
        for name in ("device", "precision"):
            if getattr(args, name) != "auto":
                raise UsageError(f"--{name}: changes nothing without a network in context; leave it out")
        refuse_idle(args, ["plugins"], "without a network in context")
        return None
    from moses_integration.text_table.context_columns import ContextColumns
    from phrasescore.scoring.scorer import load_scorer, require_in_context

    try:
        scorer = load_scorer(*folders, device=args.device, precision=args.precision)
    except UserError as error:
        if args.in_context:
            raise
        raise UserError(f"{error}; or say by --in-context where the network of {ini.name} lies now") from error
    require_in_context(scorer)
    return ContextColumns(scorer, args.processes, args.scheduler, reporter.log, args.restart)
