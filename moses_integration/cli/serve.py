"""`phrasescore-smt serve`: translate over HTTP, with loaded systems."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli.system_options import add_ini, read_ini
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_sections import networks_of
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_number,
    add_plugin_option,
    add_processes_option,
    add_quiet_option,
    reject_without_effect,
)
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.workers import available_cores


def add_parser(subparsers: Subparsers) -> None:
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
    add_ini(parser, "moses.ini of the only system", nargs="?")
    text = "a system and its name, instead of INI; repeat it for several systems, of which the first is the default"
    parser.add_argument("--system", action="append", default=[], metavar="NAME=INI", help=text)
    text = "address to listen at; with any other than the default, everybody who reaches it can translate, without a "
    parser.add_argument("--host", default="127.0.0.1", help=f"{text}password (default: %(default)s)")
    add_number(parser, "--port", "port to listen at; 0 for any free one", default=8080, least=0)
    add_processes_option(parser)
    add_number(parser, "--max-words", "longest sentence, in words", default=200)
    add_number(parser, "--max-seconds", "time limit of a request, in seconds", default=30)
    add_device_options(parser, in_context=True)
    add_plugin_option(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    try:
        from moses_integration.serving.app import serve
    except ModuleNotFoundError as error:
        raise UserError(f"serve needs the module `{error.name}`; pip install 'phrasescore[smt,serve]'") from error
    from moses_integration.serving.batches import Limits

    reporter = Reporter(quiet=args.quiet)
    systems = {name: _read(path, reporter) for name, path in _named(args).items()}
    if not any(map(networks_of, systems.values())):
        reject_without_effect(args, ["device", "precision"], "without a network in context")
    limits = Limits(words=args.max_words, seconds=args.max_seconds)
    processes = args.processes or available_cores()
    serve(systems, (args.host, args.port), processes, limits, args.device, args.precision, reporter.log)
    return 0


def _read(path: Path, reporter: Reporter) -> MosesIni:
    ini = read_ini(path, reporter)
    ini.require_some_weight()
    return ini


def _named(args: argparse.Namespace) -> dict[str, Path]:
    """Return the path of each system's moses.ini by name."""
    if (args.ini is None) == (not args.system):
        raise UsageError(f"serve: give either INI or {arg_name('system')} NAME=INI")
    if args.ini:
        return {args.ini.stem: args.ini}
    named = dict[str, Path]()
    for text in args.system:
        name, equals, path = text.partition("=")
        if not (name and equals and path) or name in named:
            raise UsageError(f"{arg_name('system')} {text}: is not NAME=INI, or repeats a name")
        named[name] = Path(path)
    return named
