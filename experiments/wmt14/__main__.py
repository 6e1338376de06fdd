"""The paper's WMT'14 experiment: `python -m experiments.wmt14 plan` shows the way, `run` goes it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from experiments.wmt14.commands import plan, run
from experiments.wmt14.step_commands import STEP_COMMANDS
from phrasescore.cli.console import run_command
from phrasescore.cli.options import make_command_parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; return its exit code."""
    description = "The paper's WMT'14 English-French experiment; its page is experiments/wmt14/README.md."
    parser = make_command_parser("python -m experiments.wmt14", description, (plan, run, *STEP_COMMANDS))
    args = parser.parse_args(argv)
    return run_command(f"experiments.wmt14 {args.command}", lambda: int(args.run(args)))


if __name__ == "__main__":
    sys.exit(main())
