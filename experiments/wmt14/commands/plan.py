"""`plan`: every step with its commands, what it needs and what it is expected to cost, as Markdown."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Sequence
from inspect import getdoc, isfunction
from itertools import groupby
from pathlib import Path

from experiments.wmt14.config import read_config
from experiments.wmt14.corpora import CONFIGS, read_corpora
from experiments.wmt14.estimates import Cost, Estimates
from experiments.wmt14.rates import read_rate_table, read_rates
from experiments.wmt14.steps import GROUPS, OWN, Step, make_steps
from phrasescore.cli.options import positive

_DAY = 24.0


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("plan", help="show the steps and what they cost", description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("work"), help="of the run (default: %(default)s)")
    parser.add_argument("--cores", type=positive, default=16, metavar="N", help="of the machine (default: %(default)s)")
    parser.add_argument("--config", type=Path, default=CONFIGS / "full.toml", help="(default: configs/full.toml)")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    config, texts = read_config(args.config), read_corpora()
    estimates = Estimates(texts, config, read_rates())
    steps = make_steps(config, texts, args.folder, estimates, None, has_moses=True)
    print(
        "\n".join(
            (*costs(steps, args.cores), "", *sizes(estimates), "", *formulas(), "", *rates(), "", *commands(steps))
        )
    )
    return 0


def costs(steps: Sequence[Step], cores: int) -> Iterator[str]:
    """Yield the table of what the groups of steps cost."""
    yield f"| step | what | machine | core hours | time on {cores} cores | memory, GB | disk kept, GB | scratch, GB |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, group in groupby(steps, lambda step: step.group):
        members = [step.cost for step in group]
        times = f" ({len(members)} times)" if len(members) > 1 else ""
        machine = GROUPS[name].machine
        gpu = sum(cost.gpu_hours for cost in members)
        duration = _time(sum(cost.hours(cores) for cost in members)) + (f"; GPU {_time(gpu)}" if gpu else "")
        yield (
            f"| {name}{times} | {GROUPS[name].what} | {machine} | {_number(sum(cost.core_hours for cost in members))} "
            f"| {duration} | {_number(max(cost.memory for cost in members))} "
            f"| {_number(sum(cost.disk for cost in members))} | {_number(max(cost.scratch for cost in members))} |"
        )
    yield _total([step.cost for step in steps], cores)


def _total(all_costs: Sequence[Cost], cores: int) -> str:
    on_cpu = [cost for cost in all_costs if not cost.gpu_hours]
    gpu = sum(cost.gpu_hours for cost in all_costs)
    return (
        f"| **all** | | | {_number(sum(cost.core_hours for cost in on_cpu))} without the networks "
        f"| {_time(sum(cost.hours(cores) for cost in on_cpu))}; GPU {_time(gpu)} "
        f"| {_number(max(cost.memory for cost in all_costs))} | {_number(sum(cost.disk for cost in all_costs))} "
        f"| {_number(max(cost.scratch for cost in all_costs))} |"
    )


def _time(hours: float) -> str:
    if hours < 1 / 60:
        return "below a minute"
    if hours < 1:
        return f"{hours * 60:.0f} min"
    return f"{hours:.0f} h" if hours < 2 * _DAY else f"{hours / _DAY:.0f} days"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.05 else "0"


def sizes(estimates: Estimates) -> Iterator[str]:
    """Yield the sizes that the costs are calculated from."""
    embedded = estimates.embedded_tables()
    yield (
        f"Sizes: {estimates.target_words:,.0f} million French words to choose from; training text "
        f"{estimates.train_words:.0f} million French words in {estimates.train_lines:.1f} million pairs; "
        f"{estimates.extracted:,.0f} million phrase pairs extracted, {estimates.table_lines:,.0f} million distinct; "
        f"{estimates.filtered_lines:.1f} million left for dev and test."
    )
    yield ""
    yield (
        f"`tables` with the embedded toolkit would take {embedded.memory:.0f} GB of memory and "
        f"{_time(embedded.core_hours)} on one core; hence Moses."
    )


def formulas() -> Iterator[str]:
    """Yield how the costs are calculated: what the methods of `Estimates` say."""
    yield "How the hours are calculated (`estimates.py` has the formulas):"
    yield ""
    for name, method in vars(Estimates).items():
        if isfunction(method) and not name.startswith("_"):
            yield f"- `{name}`: {getdoc(method)}"


def rates() -> Iterator[str]:
    """Yield the table of rates."""
    yield "| rate | value | unit | origin |"
    yield "|---|---|---|---|"
    for name, rate in read_rate_table().items():
        yield f"| `{name}` | {rate.value:g} | {rate.unit} | {rate.origin} |"


def commands(steps: Sequence[Step]) -> Iterator[str]:
    """Yield the commands of each group; of several steps alike, those of the first."""
    folders = dict.fromkeys(str(output.parent) for step in steps for output in step.outputs)
    yield "By hand they need these folders:"
    yield ""
    yield f"    {shlex.join(['mkdir', '-p', *folders])}"
    yield ""
    for name, group in groupby(steps, lambda step: step.group):
        first, *others = group
        yield f"### {name}"
        yield ""
        for command in first.commands[:3]:
            yield f"    {as_text(command)}"
        if len(first.commands) > 3:
            yield f"    ... and {len(first.commands) - 3} more"
        yield ""
        if others:
            yield f"Likewise: {', '.join(step.name.partition('.')[2] for step in others)}."
            yield ""
        yield f"Check: {GROUPS[name].check}."
        yield ""


def as_text(command: Sequence[str]) -> str:
    """Return a command as a shell takes it."""
    program, *arguments = command
    return shlex.join(["python", "-m", OWN, *arguments] if program == OWN else command)
