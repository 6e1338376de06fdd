"""`run`: do the steps one after the other; what was done before, by the same commands, is passed over."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from experiments.steps import Steps, check_exit_code, clear_if_changed, say
from experiments.wmt14.commands.plan import as_text
from experiments.wmt14.config import read_config
from experiments.wmt14.corpora import CONFIGS, read_corpora
from experiments.wmt14.estimates import Estimates
from experiments.wmt14.rates import read_rates
from experiments.wmt14.step_commands import main as own
from experiments.wmt14.steps import GROUPS, OWN, Command, Step, make_steps
from moses_integration.cli import main as smt
from moses_integration.toolkits.choice import choose_toolkit
from moses_integration.toolkits.installation import find_installation
from phrasescore.cli import main as phrasescore
from phrasescore.errors import UserError
from phrasescore.files import sha256_of

# In this process, which saves loading PyTorch for each step.
_PROGRAMS: dict[str, Callable[[Sequence[str]], int]] = {OWN: own, "phrasescore": phrasescore, "phrasescore-smt": smt}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("run", help="do the steps", description=__doc__)
    parser.add_argument("folder", type=Path, help="for everything")
    parser.add_argument(
        "--stand-in",
        type=Path,
        metavar="DATA",
        help="a folder with train, dev and test, as experiments.data makes it, in the place of the downloads",
    )
    parser.add_argument("--config", type=Path, help="(default: configs/full.toml; with --stand-in stand-in.toml)")
    parser.add_argument("--until", choices=GROUPS, metavar="STEP", help="the last step to do, as `plan` calls it")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config = read_config(args.config or CONFIGS / ("stand-in.toml" if args.stand_in else "full.toml"))
    texts = read_corpora()
    groups = list(GROUPS)
    last = groups.index(args.until or groups[-1])
    if last >= groups.index("tables"):
        # What is not installed is told before the days that the steps before take.
        for toolkit in (config.tables.toolkit, config.tuning.toolkit):
            choose_toolkit(toolkit)
    has_moses = find_installation() is not None
    estimates = Estimates(texts, config, read_rates())
    steps = make_steps(config, texts, args.folder, estimates, args.stand_in, has_moses)
    if not has_moses:
        print("no Moses: the embedded toolkit does all of it, and is compared with nothing", file=sys.stderr)
    runner = _Runner(args.folder)
    for step in steps:
        if groups.index(step.group) <= last:
            runner.do(step)
    return 0


class _Runner:
    """Does steps."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._steps = Steps(folder / "steps", say)
        self._done: list[Any] = []

    def do(self, step: Step) -> None:
        """Do a step if it or one before it has changed.

        Raises:
            UserError: a command failed, or left out what it should have written.
        """
        commands = [[self._inside(word) for word in command] for command in step.commands]
        depends_on = [commands, self._done]

        def work() -> dict[str, str]:
            if step.resumed_in:
                clear_if_changed(step.resumed_in, depends_on)
            for output in step.outputs:
                output.parent.mkdir(parents=True, exist_ok=True)
            for command in step.commands:
                _run(command)
            missing = [str(output) for output in step.outputs if not output.exists()]
            if missing:
                raise UserError(f"{step.name}: {missing[0]} was not written; run its commands by hand to see why")
            return {self._inside(str(output)): sha256_of(output) for output in step.outputs}

        self._done.append(self._steps.run(step.name, depends_on, work))

    def _inside(self, word: str) -> str:
        """Return a path from the folder, so that what was done holds wherever that lies; other words as they are."""
        return word.removeprefix(f"{self._folder}/")


def _run(command: Command) -> None:
    program, *arguments = command
    run_here = _PROGRAMS.get(program)
    code = run_here(arguments) if run_here else subprocess.run(command, check=False).returncode
    check_exit_code(code, as_text(command))
