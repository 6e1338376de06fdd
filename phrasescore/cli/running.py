"""Run the command line of a program: its parser, its exit codes, its error messages.

Exit codes: 0 success, 1 failure, 2 usage error, 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import TextIO

import shtab

from phrasescore import __version__
from phrasescore.cli.console import Reporter, as_line
from phrasescore.cli.options import path_or_standard_stream
from phrasescore.cli.parser import CommandParser
from phrasescore.errors import UsageError, options_spelled_as_flags, sentence_of
from phrasescore.files import STDOUT, complete_standard_streams, full_disk_as_error, require_open
from phrasescore.plugins import load_plugins, plugins_blamed
from phrasescore.signals import interrupt_on_signals


def make_command_parser(program: str, description: str, commands: Sequence[ModuleType]) -> CommandParser:
    """Return the parser of a program; each command is a module with `add_parser`."""
    parser = CommandParser(prog=program, description=description)
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    shtab.add_argument_to(
        parser, "--print-completion", help="print a script that lets this shell complete the commands"
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, prog=program)
    for command in commands:
        command.add_parser(subparsers)
    _let_complete(parser)
    return parser


def _let_complete(parser: argparse.ArgumentParser) -> None:
    """Mark arguments that shells complete with file or folder names; choices are completed without it."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                _let_complete(command)
        elif action.type in (Path, path_or_standard_stream):
            # `shtab` reads this attribute.
            action.complete = shtab.DIRECTORY if action.metavar == "FOLDER" else shtab.FILE  # type: ignore[attr-defined]


def run_program(parser: CommandParser, arguments: Sequence[str] | None) -> int:
    """Parse the command line of a program, run its command, and return the exit code."""
    args = parse_arguments(parser, arguments)
    quiet = getattr(args, "quiet", False)
    return run_command(f"{parser.prog} {args.command}", lambda: run_with_plugins(args), quiet=quiet)


def run_with_plugins(args: argparse.Namespace) -> int:
    """Import the plugins, then run the command; return its exit code."""
    if not getattr(args, "plugins", None):
        return int(args.run(args))
    load_plugins(args.plugins)
    with plugins_blamed():
        return int(args.run(args))


def run_command(name: str, run: Callable[[], int], *, quiet: bool = False) -> int:
    """Run a command; print an error as one line that begins with `name`; return the exit code.

    Log messages of the library are printed unless `quiet`. SIGTERM and SIGHUP interrupt the command as Ctrl-C does, so
    that no incomplete file and no child process remains.
    """
    complete_standard_streams()
    try:
        # Output files requested by users are named by their own error messages.
        with (
            options_spelled_as_flags(),
            interrupt_on_signals(),
            _log_printed(quiet),
            full_disk_as_error("standard output or a temporary file"),
            _closed_stdout_as_error(),
        ):
            if isinstance(sys.stdout, io.TextIOWrapper):
                # Escape characters that the encoding of the terminal does not have.
                sys.stdout.reconfigure(errors="backslashreplace")
            code = run()
            sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the pipe has closed it.
        _flush_or_discard(sys.stdout)
        return 1
    except Exception as error:
        if (sentence := sentence_of(error)) is None:
            raise
        _flush_or_discard(sys.stdout)
        _print_error(f"{name}: {sentence}")
        return 2 if isinstance(error, UsageError) else 1
    except KeyboardInterrupt:
        _print_error(f"{name}: stopped")
        return 128 + signal.SIGINT


def parse_arguments(parser: argparse.ArgumentParser, arguments: Sequence[str] | None) -> argparse.Namespace:
    """Parse a command line. If output such as --help cannot be written completely, an error is printed.

    Raises:
        SystemExit: the command line is invalid or requests only --help or the version.
    """
    complete_standard_streams()
    printed = io.StringIO()

    def show() -> int:
        sys.stdout.write(printed.getvalue())
        return 0

    try:
        with redirect_stdout(printed):
            return parser.parse_args(arguments)
    except SystemExit as end:
        _flush_or_discard(sys.stderr)
        raise SystemExit(end.code or run_command(parser.prog, show)) from None


@contextmanager
def _closed_stdout_as_error() -> Iterator[None]:
    """Convert the error of writing to a closed standard output.

    Raises:
        UserError: standard output is closed.
    """
    try:
        yield
    except OSError as error:
        if error.errno == errno.EBADF:
            require_open(STDOUT)
        raise


def _print_error(text: str) -> None:
    """Print a line on standard error, and ignore failures."""
    with suppress(OSError):
        print(as_line(text), file=sys.stderr)
    _flush_or_discard(sys.stderr)


def _flush_or_discard(stream: TextIO) -> None:
    """Flush a standard stream; if that fails, redirect it to the null device, so that Python exits silently."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def _log_printed(quiet: bool) -> Iterator[None]:
    """Print log messages of the library. A nested command overrides `quiet` of the outer one."""
    log, handler = logging.getLogger("phrasescore"), logging.Handler(logging.WARNING)
    handler.emit = lambda record: Reporter(quiet=quiet).log(record.getMessage())  # type: ignore[method-assign]
    outer, log.handlers = log.handlers, [handler]
    try:
        yield
    finally:
        log.handlers = outer
