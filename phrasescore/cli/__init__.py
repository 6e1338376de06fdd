"""The command line: the only place where arguments are parsed, text is printed and exit codes are chosen.

Exit codes: 0 done, 1 the run failed, 2 wrong usage, 130 and 143 stopped by SIGINT and SIGTERM.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence

import shtab

from phrasescore import __version__
from phrasescore.cli import annotate, check, score, train
from phrasescore.errors import UserError

_COMMANDS = (train, annotate, score, check)


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = argparse.ArgumentParser(
        prog="phrasescore",
        description="Neural scores for Moses phrase tables, after Cho et al. (EMNLP 2014).",
    )
    parser.add_argument("--version", action="version", version=f"phrasescore {__version__}")
    shtab.add_argument_to(parser, "--print-completion")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in _COMMANDS:
        command.add_parser(subparsers)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    args = make_parser().parse_args(argv)
    try:
        code = int(args.run(args))
        sys.stdout.flush()
        return code
    except UserError as error:
        print(f"phrasescore {args.command}: {error}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # Whoever read our output has had enough. Point stdout elsewhere, so that flushing it at exit is silent.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        print(
            f"phrasescore {args.command}: {place}{error.strerror or error}",
            file=sys.stderr,
        )
        return 1
    except (MemoryError, RuntimeError) as error:
        # torch raises a RuntimeError when the memory of the machine or of the GPU runs out.
        if isinstance(error, RuntimeError) and "memory" not in str(error):
            raise
        print(
            f"phrasescore {args.command}: memory ran out; close other programs or give smaller sizes", file=sys.stderr
        )
        return 1
    except KeyboardInterrupt:
        print(f"phrasescore {args.command}: stopped", file=sys.stderr)
        return 128 + signal.SIGINT
