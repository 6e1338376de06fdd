"""Check the embedded toolkit against what a real Moses wrote, and write a report as JSON and as a table."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from experiments.goldens.building import check_build, check_language_model, check_tables
from experiments.goldens.decoding import SYSTEM, check_bleu, check_rescoring, check_search, check_speed
from experiments.goldens.finding import Finding, as_table
from experiments.goldens.tuning import check_mert, check_tuning
from experiments.machine import machine
from phrasescore.cli.console import run_command
from phrasescore.errors import UserError
from phrasescore.files import write_atomically, write_json

_ROOT = Path(__file__).parents[2]
_MINI = _ROOT / "tests/data/mini"

PARTS: dict[str, Callable[[Path], list[Finding]]] = {
    "rescoring": check_rescoring,
    "search": check_search,
    "bleu": check_bleu,
    "speed": check_speed,
    "language-model": check_language_model,
    "tables": check_tables,
    "build": check_build,
    "mert": lambda goldens: check_mert(_MINI),
    "tuning": check_tuning,
}
"""What is checked, by name; each takes the folder of the goldens."""


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.goldens", description=__doc__)
    parser.add_argument(
        "--goldens",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="with golden/multi30k-en-fr, what Moses made, and data/multi30k, what it made it of",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to check (default: all)")
    parser.add_argument(
        "--output", type=Path, default=Path("results/goldens"), help="folder of the report (default: %(default)s)"
    )
    return parser.parse_args()


def run(goldens: Path, parts: Iterable[str], output: Path) -> int:
    """Check the parts; return 1 if something does not hold."""
    if not (goldens / SYSTEM).exists() and set(parts) - {"mert"}:
        raise UserError(f"{goldens / SYSTEM}: is not there; give the folder of the goldens with --goldens")
    where = machine() | {"load_average": os.getloadavg()[0]}
    report: dict[str, Any] = {"schema": 1, "goldens": str(goldens), "machine": where, "parts": {}}
    findings: list[Finding] = []
    for part in parts:
        started, cpu_started = time.monotonic(), time.process_time()
        found = PARTS[part](goldens)
        report["parts"][part] = {
            "seconds": time.monotonic() - started,
            "cpu_seconds": time.process_time() - cpu_started,
            "findings": [asdict(one) | {"verdict": one.verdict} for one in found],
        }
        findings += found
        for one in found:
            print(f"{part}: {one.what}: {one.figure}", file=sys.stderr, flush=True)
        output.mkdir(parents=True, exist_ok=True)
        write_json(output / "report.json", report)
        text = (
            f"{as_table(findings)}\nMeasured on {where['cpu']}, {where['cores']} cores, load average "
            f"{where['load_average']:.1f} at the start; seconds are by the clock unless they are called CPU time.\n"
        )
        write_atomically(output / "report.md", text.encode())
    print(as_table(findings), end="")
    return int(any(one.holds is False for one in findings))


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.goldens", lambda: run(arguments.goldens, arguments.parts, arguments.output)))
