"""Options that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import shtab

from phrasescore.cli.console import Reporter
from phrasescore.configuration import LARGEST
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import STANDARD_STREAM

if TYPE_CHECKING:
    from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
    from phrasescore.scoring.scorer import PhraseScorer


def add_path(parser: argparse._ActionsContainer, names: str, metavar: str, text: str, **settings: Any) -> None:
    """Add an argument for a path; `names` are separated by spaces."""
    parser.add_argument(*names.split(), **{"type": Path, "metavar": metavar, "help": text, **settings})


def add_switch(parser: argparse._ActionsContainer, names: str, text: str) -> None:
    """Add an option without a value."""
    parser.add_argument(*names.split(), action="store_true", help=text)


def add_number(
    parser: argparse._ActionsContainer, name: str, text: str, default: int | None = None, least: int = 1
) -> None:
    """Add an option for an integer of at least `least`; the help shows the default."""
    shown = "" if default is None else " (default: %(default)s)"
    parse = partial(whole_number, least=least)
    parser.add_argument(name, type=parse, default=default, metavar="N", help=text + shown)


def add_input(parser: argparse.ArgumentParser, name: str, text: str) -> None:
    """Add an optional positional argument: a file, by default standard input."""
    text = f"{text} (default: standard input)"
    add_path(parser, name, name.upper(), text, type=path_or_standard_stream, nargs="?", default=STANDARD_STREAM)


def add_table(parser: argparse.ArgumentParser) -> None:
    """Add the positional argument for a phrase table."""
    add_path(parser, "table", "TABLE", "phrase table, - for standard input", type=path_or_standard_stream)


def add_output(parser: argparse.ArgumentParser, text: str, **settings: Any) -> None:
    """Add --output for a file or standard output, which is the default unless `settings` say otherwise."""
    default = {} if settings.get("required") else {"default": STANDARD_STREAM}
    add_path(parser, "-o --output", "FILE", text, type=path_or_standard_stream, **{**default, **settings})


def whole_number(text: str, least: int) -> int:
    """Parse an integer between `least` and the maximum of all options."""
    number = int(text)
    if not least <= number <= LARGEST:
        raise argparse.ArgumentTypeError(f"{text} is not a number from {least} to {LARGEST}")
    return number


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    return whole_number(text, 1)


def add_device_options(parser: argparse.ArgumentParser, *, trains: bool = False, in_context: bool = False) -> None:
    """Add --device and --precision; training has no 8-bit products, and `in_context` limits them to these scores."""
    group = parser.add_argument_group("computing")
    of = " scores in context" if in_context else ""
    text = f"where to compute{of}: auto, cpu, cuda or cuda:N (default: %(default)s)"
    device = group.add_argument("--device", default="auto", metavar="DEVICE", help=text)
    device.complete = shtab.cmd("echo auto cpu cuda")  # type: ignore[attr-defined]
    of = f" of{of}" if in_context else ""
    text = f"precision of matrix products{of}; auto selects bf16 where it is faster than fp32"
    text += "" if trains else "; int8 needs a CPU with VNNI"
    precisions = ("auto", "fp32", "bf16") if trains else ("auto", "fp32", "bf16", "int8")
    group.add_argument("--precision", default="auto", choices=precisions, help=f"{text} (default: %(default)s)")


def add_sharing_options(parser: argparse._ActionsContainer) -> None:
    """Add --processes and --scheduler, which are mutually exclusive."""
    either = parser.add_mutually_exclusive_group()
    add_processes_option(either)
    text = "address of a Dask scheduler, such as tcp://node1:8786, whose workers do the work; they need the same files "
    either.add_argument("--scheduler", metavar="ADDRESS", help=f"{text}(docs/cluster.md)")


def add_processes_option(parser: argparse._ActionsContainer) -> None:
    """Add --processes."""
    add_number(parser, "--processes", "number of processes (default: all cores)")


def add_quiet_option(parser: argparse.ArgumentParser, text: str = "print errors only") -> None:
    """Add --quiet."""
    add_switch(parser, "-q --quiet", text)


def reject_without_effect(args: argparse.Namespace, names: Sequence[str], reason: str) -> None:
    """Reject options that were given on the command line and have no effect.

    Raises:
        UsageError: such an option was given.
    """
    for name in names:
        value = getattr(args, name)
        if value is not None and value is not False and value != "auto":
            raise UsageError(f"{arg_name(name)}: changes nothing {reason}; leave it out")


def path_or_standard_stream(text: str) -> str | Path:
    """Parse a path, or `-`."""
    path = Path(text)
    if text != STANDARD_STREAM and str(path) == STANDARD_STREAM:
        # `./-` is a file named `-`.
        return path.absolute()
    return text if text == STANDARD_STREAM else path


def add_backoff_option(parser: argparse.ArgumentParser, default: str) -> None:
    """Add --backoff."""
    text = f"n-gram model, ARPA or KenLM binary, for words outside the shortlist (default: {default})"
    add_path(parser, "--backoff", "LM", text)


def add_plugin_option(parser: argparse.ArgumentParser) -> None:
    """Add --plugin; see `running.run_with_plugins`."""
    text = "run this Python file first, which registers your own units, attentions, encoders, decoders, optimisers or "
    text += "scorers (docs/plugins.md); may be given several times"
    add_path(parser, "--plugin", "FILE.py", text, action="append", dest="plugins")


def add_model_option(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add --model, as `models`, and --plugin."""
    text = "model folder; several give the mean of their scores, and need the same vocabulary (`train` with several "
    text += "--seed)"
    add_plugin_option(parser)
    add_path(parser, "-m --model", "FOLDER", text, required=required, action="append", dest="models")


def load_models(args: argparse.Namespace, reporter: Reporter) -> PhraseScorer:
    """Load the models of --model, and log the scorer's note."""
    from phrasescore.device import configure_memory
    from phrasescore.scoring.scorer import load_scorer

    configure_memory()
    scorer = load_scorer(*args.models, device=args.device, precision=args.precision)
    if scorer.note is not None:
        reporter.log(scorer.note)
    return scorer


def load_networks(args: argparse.Namespace, reporter: Reporter) -> EncoderDecoderScorer:
    """Load the encoder-decoders of --model, for commands that need more than scores."""
    from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer

    scorer = load_models(args, reporter)
    if not isinstance(scorer, EncoderDecoderScorer):
        raise UserError(f"{scorer.name}: is not an encoder-decoder; give the folder of one")
    return scorer
