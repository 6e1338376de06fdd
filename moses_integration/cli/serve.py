"""`phrasescore-smt serve`: translate over HTTP, with loaded systems."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.cli.system_options import read_ini
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, add_quiet_option, positive, whole_number
from phrasescore.errors import UsageError, UserError, spelled

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "serve",
        help="translate over HTTP, with a page that explains translations",
        description="Keep systems loaded and translate over HTTP: a page at /, JSON at /translate, and mosesserver's "
        "XML-RPC method at /RPC2. Needs the extra `serve`.",
        most_used=("ini", "system", "port", "processes"),
        examples=(
            "phrasescore-smt serve system/tuned.ini",
            "phrasescore-smt serve --system baseline=system/tuned.ini --system ctx=system/tuned.ctx.ini",
        ),
    )
    parser.add_argument("ini", type=Path, nargs="?", metavar="INI", help="moses.ini of the only system")
    parser.add_argument(
        "--system",
        action="append",
        default=[],
        metavar="NAME=INI",
        help="a system and its name, instead of INI; repeat it for several systems, of which the first is the default",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="address to listen at; with any other than the default, everybody who reaches it can translate, without a "
        "password (default: %(default)s)",
    )
    parser.add_argument(
        "--port",
        type=lambda text: whole_number(text, 0),
        default=8080,
        metavar="N",
        help="port to listen at; 0 for any free one (default: %(default)s)",
    )
    parser.add_argument(
        "--processes", type=positive, metavar="N", help="number of processes that translate (default: all cores)"
    )
    parser.add_argument(
        "--max-words", type=positive, default=200, metavar="N", help="longest sentence, in words (default: %(default)s)"
    )
    parser.add_argument(
        "--max-seconds",
        type=positive,
        default=30,
        metavar="N",
        help="time limit of a request, in seconds (default: %(default)s)",
    )
    add_device_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    try:
        from moses_integration.serving.app import serve
    except ModuleNotFoundError as error:
        raise UserError(f"serve needs the module `{error.name}`; pip install 'phrasescore[smt,serve]'") from error
    from moses_integration.serving.batches import Limits
    from phrasescore.workers import available_cores

    reporter = Reporter(quiet=args.quiet)
    systems = {name: _read(path, reporter) for name, path in _named(args).items()}
    limits = Limits(words=args.max_words, seconds=args.max_seconds)
    processes = args.processes or available_cores()
    serve(systems, (args.host, args.port), processes, limits, args.device, args.precision, reporter.log)
    return 0


def _read(path: Path, reporter: Reporter) -> MosesIni:
    ini = read_ini(path, reporter)
    ini.require_some_weight()
    return ini.with_absolute_paths()


def _named(args: argparse.Namespace) -> dict[str, Path]:
    """Return the path of each system's moses.ini by name."""
    if (args.ini is None) == (not args.system):
        raise UsageError(f"serve: give either INI or {spelled('system')} NAME=INI")
    if args.ini:
        return {args.ini.stem: args.ini}
    named = dict[str, Path]()
    for text in args.system:
        name, equals, path = text.partition("=")
        if not (name and equals and path) or name in named:
            raise UsageError(f"{spelled('system')} {text}: is not NAME=INI, or repeats a name")
        named[name] = Path(path)
    return named
