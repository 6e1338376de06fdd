"""Measure, and write a report as JSON and as a table."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.machine import machine
from experiments.markdown import as_markdown, figures
from experiments.speed import annotation, decoding, scoring, training
from phrasescore.cli.options import positive
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.device import choose_device, configure_memory
from phrasescore.files import make_folder, write_atomically, write_json
from phrasescore.lm.lm_settings import LM_PRESETS
from phrasescore.training.settings import preset_names

_TABLE, _TEXT = Path("tests/data/mini/phrase-table.gz"), Path("tests/data/mini/train")
_GPU_PARTS = ("tests", "engine", "training", "end-to-end")
_TEST_SECONDS = 180
PARTS: dict[str, Callable[[argparse.Namespace], Any]] = {
    "scoring": lambda args: scoring.measure(args.table, args.device, args.lines, args.repetitions),
    "engine": lambda args: scoring.measure_engine(args.table, args.device, args.lines, args.repetitions),
    "training": lambda args: training.measure(args.table, _TEXT, args.device, args.updates),
    "end-to-end": lambda args: annotation.measure(
        args.table, args.device, args.annotated_lines, args.repetitions, args.processes
    ),
    "language-model": lambda args: decoding.measure_language_model(args.device, args.preset, args.repetitions),
    "decoder": lambda args: decoding.measure_decoder(args.system, args.text),
    "long-sentences": lambda args: decoding.measure_long_sentences(),
    "tests": lambda args: run_gpu_tests(),
}


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(
        prog="python -m experiments.speed",
        description=__doc__,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--table", type=Path, default=_TABLE, help="phrase table; the default is a small one")
    parser.add_argument("--system", type=Path, default=decoding.SYSTEM, help="moses.ini for the decoder")
    parser.add_argument("--text", type=Path, default=decoding.TEXT, help="prepared text for the decoder")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N]")
    parts = [part for part in PARTS if part != "tests"]
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=parts, help="what to measure")
    parser.add_argument(
        "--gpu-list",
        action="store_const",
        dest="parts",
        const=_GPU_PARTS,
        default=argparse.SUPPRESS,
        help=f"measure everything that needs a GPU: --parts {' '.join(_GPU_PARTS)}; it takes less than nine minutes",
    )
    parser.add_argument("--lines", type=positive, default=16_384, help="lines to score")
    parser.add_argument("--annotated-lines", type=positive, default=131_072, help="to annotate from file to file")
    parser.add_argument("--updates", type=positive, default=50, help="updates of training")
    parser.add_argument("--processes", type=positive, nargs="*", help="of `annotate`; by default 1 and one per core")
    parser.add_argument("--repetitions", type=positive, default=3, help="runs of each scorer")
    parser.add_argument(
        "--preset", choices=preset_names(LM_PRESETS), default="cho2014", help="sizes of the language model"
    )
    parser.add_argument("--output", type=Path, default=Path("results/speed"), help="folder of the report")
    return parser.parse_args()


def run_gpu_tests() -> dict[str, Any]:
    """Run the tests that need a GPU; return the exit code and the last lines of the output."""
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TEST_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return {"exit_code": None, "output": [f"not finished after {_TEST_SECONDS} seconds"]}
    return {"exit_code": done.returncode, "output": done.stdout.splitlines()[-20:]}


def measured_on(device_name: str) -> dict[str, Any]:
    """Return the machine and the settings of PyTorch."""
    device = choose_device(device_name, "auto")
    return machine() | {
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device.torch_device) if device.torch_device.type == "cuda" else None,
        "default_precision": device.precision,
    }


def as_table(report: dict[str, Any]) -> str:
    """Return the report as a Markdown table, one figure per line."""
    where = report["machine"]
    measured = {name: part for name, part in report.items() if name in PARTS}
    head = f"Measured on {where['gpu'] or where['cpu']}, {where['threads']} threads.\n\n"
    return head + as_markdown(["what", "figure"], figures(measured))


def run(args: argparse.Namespace) -> int:
    """Run the selected measurements; print the table."""
    configure_memory()
    report: dict[str, Any] = {"schema": 6, "table": str(args.table), "machine": measured_on(args.device)}
    make_folder(args.output)
    for name in args.parts:
        report[name] = PARTS[name](args)
        write_json(args.output / "report.json", report)
        write_atomically(args.output / "report.md", as_table(report).encode())
    print(as_table(report), end="")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.speed", lambda: run(arguments)))
