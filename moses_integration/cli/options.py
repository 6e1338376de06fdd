"""Options that several commands of `phrasescore-smt` share."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_plugin_option,
    add_sharing_options,
    path_or_standard_stream,
    refuse_idle,
    whole_number,
)
from phrasescore.errors import UsageError, UserError, spelled
from phrasescore.files import STANDARD_STREAM, can_be_read_only_once, require_writable
from phrasescore.model_files import files_of_models

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.per_text.context_columns import ContextColumns
    from moses_integration.toolkits.toolkit import BuildingToolkit, Toolkit
    from moses_integration.tuning.tunings import Tuning


def natural(text: str) -> int:
    """Parse a number of at least 0."""
    return whole_number(text, 0)


def finite_number(text: str) -> float:
    """Parse a finite number."""
    number = float(text)
    if not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text} is no finite number")
    return number


# Texts


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add --source; the default is standard input."""
    parser.add_argument(
        "--source",
        type=path_or_standard_stream,
        default=STANDARD_STREAM,
        metavar="TEXT",
        help="source sentences (default: standard input)",
    )


def add_dev_set_options(parser: argparse.ArgumentParser) -> None:
    """Add --source and --reference."""
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text of the dev set")
    add_reference_option(parser, "its translations")


def add_reference_option(parser: argparse.ArgumentParser, what: str) -> None:
    """Add --reference; `what` names the translations in the help."""
    parser.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="TEXT",
        help=f"{what}; several files are several references",
    )


def add_prepared_option(parser: argparse.ArgumentParser) -> None:
    """Add --prepared."""
    parser.add_argument(
        "--prepared",
        action="store_true",
        help="the text is tokenised, cased and escaped as the training text; without this option, plain text is "
        "prepared automatically",
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
        help="installed Moses or embedded toolkit; auto selects Moses if MOSES_HOME is set or `moses` is on the PATH "
        "(default: %(default)s)",
    )
    add_sharing_options(parser)


def add_binarise_option(parser: argparse.ArgumentParser) -> None:
    """Add --binarise."""
    parser.add_argument(
        "--binarise",
        choices=("compact", "probing"),
        help="convert the filtered phrase table to this binary format, which needs less memory; with an installed "
        "Moses only",
    )


def toolkit_of(args: argparse.Namespace, reporter: Reporter) -> BuildingToolkit:
    """Return the toolkit of --toolkit; log an automatic choice."""
    from moses_integration.toolkits.toolkit import choose_toolkit

    toolkit = choose_toolkit(args.toolkit, args.processes, getattr(args, "binarise", None), args.scheduler)
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
    add_device_options(parser)
    add_plugin_option(parser)


def context_columns(args: argparse.Namespace, ini: MosesIni, reporter: Reporter) -> ContextColumns | None:
    """Return the columns of the networks of --in-context, or else of the ini; None if there are none."""
    from moses_integration.per_text.context_sections import networks_of

    folders = args.in_context or networks_of(ini)
    if not folders:
        for name in ("device", "precision"):
            if getattr(args, name) != "auto":
                raise UsageError(f"{spelled(name)}: changes nothing without a network in context; leave it out")
        refuse_idle(args, ["plugins"], "without a network in context")
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
    """Return ini and toolkit for the networks of --in-context, or else of the ini; unchanged if there are none.

    Args:
        args: the options.
        ini: the system.
        toolkit: translates with the per-text phrase tables.
        reporter: for messages.
        new_weight: initial weight of a new column; None if the ini must already have the column.
        tunes: whether the weights are tuned anew, so that other networks are no error.
    """
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


def log_spread(tunings: Sequence[Tuning], reporter: Reporter) -> None:
    """Log mean and standard deviation of dev BLEU over seeds; warn if BLEU is meaningless."""
    from moses_integration.metrics import NOISE_BLEU
    from moses_integration.tuning.tunings import spread

    mean, deviation = spread([tuning.bleu for tuning in tunings])
    if len(tunings) > 1:
        reporter.log(f"dev BLEU of {len(tunings)} seeds: mean {mean:.2f}, standard deviation {deviation:.2f}")
    advice = "check that the dev text and its reference belong together and are prepared in the same way"
    if not mean:
        reporter.log(f"dev BLEU is 0, since no translation shares 4 words in a row with its reference; {advice}")
    elif mean < NOISE_BLEU:
        reporter.log(f"dev BLEU is no higher than that of random translations; {advice}")
