"""Options that several commands of `phrasescore-smt` share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moses_integration.building.preparation import SystemText
from moses_integration.ini import NEW_WEIGHT, MosesIni, first_weight
from moses_integration.per_text.context_sections import networks_of, with_networks
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.errors import UserError, arg_name
from phrasescore.files import STANDARD_STREAM, require_one_standard_input, require_writable
from phrasescore.model_files import files_of_models
from phrasescore.words import parse_number

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn
    from moses_integration.toolkits.toolkit import BuildingToolkit, Toolkit


def add_weight_option(parser: argparse.ArgumentParser, of: str, kind: str) -> None:
    """Add --weight for new features; `kind` names the other features whose weights limit the default."""
    text = f"initial weight {of} (default: {NEW_WEIGHT}, or the mean weight of a {kind} if that is less)"
    parser.add_argument("--weight", type=parse_number, metavar="X", help=text)


# Texts


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add --source; the default is standard input."""
    kind, text = options.path_or_standard_stream, "source sentences (default: standard input)"
    options.add_path(parser, "--source", "TEXT", text, type=kind, default=STANDARD_STREAM)


def add_dev_set_options(parser: argparse.ArgumentParser) -> None:
    """Add --source and --reference."""
    options.add_path(parser, "--source", "TEXT", "source text of the dev set", required=True)
    add_reference_option(parser, "its translations")


def add_reference_option(parser: argparse._ActionsContainer, what: str, *, required: bool = True) -> None:
    """Add --reference; `what` names the translations in the help."""
    text = f"{what}; several files are several references"
    options.add_path(parser, "--reference", "TEXT", text, nargs="+", action="extend", required=required)


def add_prepared_option(parser: argparse.ArgumentParser) -> None:
    """Add --prepared."""
    text = "the text is tokenised, cased and escaped as the training text; otherwise plain text is prepared"
    options.add_switch(parser, "--prepared", text)


# Systems


def add_ini(parser: argparse.ArgumentParser, text: str = "moses.ini", **settings: Any) -> None:
    """Add the positional argument for a moses.ini."""
    options.add_path(parser, "ini", "INI", text, **settings)


def add_ini_output(parser: argparse.ArgumentParser) -> None:
    """Add --output for a moses.ini."""
    options.add_path(parser, "-o --output", "INI", "moses.ini to write", required=True)


def add_toolkit_options(parser: argparse.ArgumentParser) -> None:
    """Add --toolkit, --processes and --scheduler."""
    text = "installed Moses or embedded toolkit; auto: embedded with --scheduler, else Moses if MOSES_HOME is set or "
    text += "`moses` is on the PATH"
    toolkits = ("auto", "moses", "embedded")
    parser.add_argument("--toolkit", choices=toolkits, default="auto", help=f"{text} (default: %(default)s)")
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

    It is an error if one of the `outputs` is a file of the system, of a model that the ini names, or of `networks`.
    """
    ini = MosesIni.read(path)
    models = files_of_models([*networks_of(ini), *(networks or ())])
    require_writable(*outputs, inputs=(*ini.model_files(), *SystemText.files_of(ini), *models))
    for note in ini.notes:
        reporter.log(note)
    if missing := ini.without_weights():
        reporter.log(f"{path}: [weight] has no {', '.join(missing)}, so these weights are 1, as in Moses")
    return ini


# Columns in context


def add_in_context_option(parser: argparse.ArgumentParser, text: str, default: str | None = None) -> None:
    """Add --in-context and the options of its networks: device, plugins, and --restart for interrupted scoring."""
    text = f"{text}; several give the mean of their scores" + (f" (default: {default})" if default else "")
    options.add_path(parser, "--in-context", "FOLDER", text, nargs="+", action="extend")
    options.add_switch(parser, "--restart", "discard the work of an interrupted run; do not resume it")
    options.add_device_options(parser, in_context=True)
    options.add_plugin_option(parser)


def context_column(
    args: argparse.Namespace, ini: MosesIni, reporter: Reporter, *, tunes: bool = False
) -> ContextColumn | None:
    """Return the column of the networks of --in-context, or else of the ini; None if there is none."""
    folders = args.in_context or networks_of(ini)
    if not getattr(args, "work", True):
        options.reject_without_effect(args, ["restart"], f"without {arg_name('work')}")
    if not folders:
        # Tuning itself can be resumed.
        names = ["device", "precision", "plugins", *([] if tunes else ["restart"])]
        options.reject_without_effect(args, names, "without a network in context")
        return None
    from moses_integration.per_text.context_column import ContextColumn
    from phrasescore.scoring.scorer import load_scorer, require_in_context

    try:
        scorer = load_scorer(*folders, device=args.device, precision=args.precision)
    except UserError as error:
        if args.in_context:
            raise
        option = arg_name("in_context")
        raise UserError(f"{error}; or give the new folder of the network of {ini.name} by {option}") from error
    require_in_context(scorer)
    return ContextColumn(scorer, args.processes, args.scheduler, reporter.log, args.restart)


def open_system(
    args: argparse.Namespace,
    reporter: Reporter,
    outputs: Sequence[str | Path | None],
    new_weight: float | None = None,
    *,
    tunes: bool = False,
) -> tuple[MosesIni, Toolkit, ContextColumn | None]:
    """Check inputs and outputs; return the system with the networks of --in-context, or else of the ini.

    `new_weight` is that of the column of --in-context, which the ini must not have yet; see `with_networks`.
    """
    inputs = args.ini, args.source, *getattr(args, "reference", ())
    require_one_standard_input(*inputs)
    require_writable(*outputs, inputs=inputs)
    toolkit = toolkit_of(args, reporter)
    ini = read_ini(args.ini, reporter, outputs, args.in_context)
    ini.require_some_weight()
    if args.in_context and new_weight is not None and networks_of(ini):
        raise UserError(
            f"{ini.name}: has a column in context already; give an ini without it, or leave out "
            f"{arg_name('in_context')}"
        )
    if args.in_context and tunes:
        new_weight = first_weight(ini.weights_of_table(ini.phrase_table()))
    column = context_column(args, ini, reporter, tunes=tunes)
    if column is None:
        return ini, toolkit, None
    ini = with_networks(ini, column, args.in_context, new_weight, tunes=tunes)
    return ini, toolkit.with_context_column(column), column
