"""Options that several commands of `phrasescore-smt` share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.ini import NEW_WEIGHT
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.errors import UsageError, UserError, spelled
from phrasescore.files import STANDARD_STREAM, can_be_read_only_once, require_writable
from phrasescore.model_files import files_of_models

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.per_text.context_columns import ContextColumns
    from moses_integration.toolkits.toolkit import BuildingToolkit, Toolkit


def natural(text: str) -> int:
    """Parse a number of at least 0."""
    return options.whole_number(text, 0)


def finite_number(text: str) -> float:
    """Parse a finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


def add_weight_option(parser: argparse.ArgumentParser, of: str, kind: str) -> None:
    """Add --weight for new features; `kind` names the other features whose weights limit the default."""
    parser.add_argument(
        "--weight",
        type=finite_number,
        metavar="X",
        help=f"initial weight {of} (default: {NEW_WEIGHT}, or the mean weight of a {kind} if that is less)",
    )


def add_seeds_option(group: argparse._ActionsContainer, default: str) -> None:
    """Add --seeds; see `seeds_of`."""
    text = f"seeds of the random restarts, one tuning per seed (default: {default})"
    group.add_argument("--seeds", type=natural, nargs="+", action="extend", metavar="N", help=text)


# Texts


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add --source; the default is standard input."""
    parser.add_argument(
        "--source",
        type=options.path_or_standard_stream,
        default=STANDARD_STREAM,
        metavar="TEXT",
        help="source sentences (default: standard input)",
    )


def add_dev_set_options(parser: argparse.ArgumentParser) -> None:
    """Add --source and --reference."""
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text of the dev set")
    add_reference_option(parser, "its translations")


def add_reference_option(parser: argparse._ActionsContainer, what: str, *, required: bool = True) -> None:
    """Add --reference; `what` names the translations in the help."""
    text = f"{what}; several files are several references"
    parser.add_argument(
        "--reference", type=Path, nargs="+", action="extend", required=required, metavar="TEXT", help=text
    )


def add_prepared_option(parser: argparse.ArgumentParser) -> None:
    """Add --prepared."""
    parser.add_argument(
        "--prepared",
        action="store_true",
        help="the text is tokenised, cased and escaped as the training text; otherwise plain text is prepared",
    )


def require_rereadable(*paths: Path | None, why: str) -> None:
    """Raise an error, with the reason `why`, if an input is a pipe or standard input; None is ignored."""
    for path in paths:
        if path is not None and can_be_read_only_once(path):
            raise UserError(f"{path}: is a pipe or device, but {why}; give a file")


# Systems


def add_toolkit_options(parser: argparse.ArgumentParser) -> None:
    """Add --toolkit, --processes and --scheduler."""
    parser.add_argument(
        "--toolkit",
        choices=("auto", "moses", "embedded"),
        default="auto",
        help="installed Moses or embedded toolkit; auto: Moses if MOSES_HOME is set or `moses` is on the PATH "
        "(default: %(default)s)",
    )
    options.add_sharing_options(parser)


def toolkit_of(args: argparse.Namespace, reporter: Reporter) -> BuildingToolkit:
    """Return the toolkit of --toolkit; log an automatic choice."""
    from moses_integration.toolkits.toolkit import choose_toolkit

    toolkit = choose_toolkit(args.toolkit, args.processes, args.scheduler)
    if args.toolkit == "auto":
        reporter.log(f"toolkit: {toolkit}")
    return toolkit


def read_ini(
    path: Path, reporter: Reporter, outputs: Sequence[str | Path | None] = (), networks: Sequence[Path] | None = None
) -> MosesIni:
    """Read a moses.ini, and log notes about unusual content.

    It is an error if one of the `outputs` is a file of a model that the ini names, or of `networks`.
    """
    from moses_integration.ini import MosesIni
    from moses_integration.per_text.context_sections import networks_of

    ini = MosesIni.read(path)
    require_writable(*outputs, inputs=(*ini.model_files(), *files_of_models([*networks_of(ini), *(networks or ())])))
    for note in ini.notes:
        reporter.log(note)
    return ini


# Columns in context


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
    options.add_device_options(parser)
    options.add_plugin_option(parser)


def context_columns(args: argparse.Namespace, ini: MosesIni, reporter: Reporter) -> ContextColumns | None:
    """Return the columns of the networks of --in-context, or else of the ini; None if there are none."""
    from moses_integration.per_text.context_sections import networks_of

    folders = args.in_context or networks_of(ini)
    if not folders:
        for name in ("device", "precision"):
            if getattr(args, name) != "auto":
                raise UsageError(f"{spelled(name)}: changes nothing without a network in context; leave it out")
        options.refuse_idle(args, ["plugins"], "without a network in context")
        return None
    from moses_integration.per_text.context_columns import ContextColumns
    from phrasescore.scoring.scorer import load_scorer, require_in_context

    try:
        scorer = load_scorer(*folders, device=args.device, precision=args.precision)
    except UserError as error:
        if args.in_context:
            raise
        option = spelled("in_context")
        raise UserError(f"{error}; or say by {option} where the network of {ini.name} lies now") from error
    require_in_context(scorer)
    return ContextColumns(scorer, args.processes, args.scheduler, reporter.log, args.restart)


def system_in_context(
    args: argparse.Namespace,
    ini: MosesIni,
    toolkit: Toolkit,
    reporter: Reporter,
    new_weight: float | None = None,
    *,
    tunes: bool = False,
) -> tuple[MosesIni, Toolkit]:
    """Return ini and toolkit for the networks of --in-context, or else of the ini; see `with_networks`."""
    from moses_integration.per_text.context_sections import with_networks
    from moses_integration.per_text.context_toolkit import ContextToolkit

    columns = context_columns(args, ini, reporter)
    if columns is None:
        return ini, toolkit
    ini = with_networks(ini, columns, args.in_context, new_weight, tunes=tunes)
    return ini, ContextToolkit(toolkit, columns, reporter.log)


# Tuning


def seeds_of(args: argparse.Namespace, default: Sequence[int]) -> Sequence[int]:
    """Return the seeds of --seeds; it is an error to repeat one."""
    seeds: Sequence[int] = args.seeds or default
    for index, seed in enumerate(seeds):
        if seed in seeds[:index]:
            raise UsageError(f"{spelled('seeds')}: {seed} is given twice")
    return seeds
