"""Measure, and write a report as JSON and as a table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from experiments.machine import machine
from experiments.speed import decoder, end_to_end, language_model, long_sentences, pipeline, scoring, training
from phrasescore.cli.console import run_command
from phrasescore.cli.options import positive
from phrasescore.device import choose_device, settle_memory
from phrasescore.files import write_atomically, write_json
from phrasescore.lm.presets import PRESETS

_TABLE = Path("tests/data/mini/phrase-table.gz")
_PARTS = ("scoring", "end-to-end", "dask", "training", "pipeline", "memory", "language-model", "long-sentences")
_DECODER = "decoder"
"""Measured where --ini says with what."""


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.speed", description=__doc__)
    parser.add_argument("--table", type=Path, default=_TABLE, help="phrase table (default: a small one, %(default)s)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")
    parser.add_argument("--parts", nargs="*", choices=_PARTS, default=_PARTS, help="what to measure (default: all)")
    parser.add_argument("--lines", type=positive, default=16_384, help="lines to score (default: %(default)s)")
    parser.add_argument(
        "--batch-pairs", type=positive, help="the most pairs that are scored at once (default: what suits the device)"
    )
    parser.add_argument(
        "--annotated-lines",
        type=positive,
        default=131_072,
        help="lines to annotate from file to file (default: %(default)s)",
    )
    parser.add_argument("--repetitions", type=positive, default=3, help="runs of each scorer (default: %(default)s)")
    parser.add_argument("--updates", type=positive, default=80, help="training updates (default: %(default)s)")
    parser.add_argument("--cuda-graphs", action="store_true", help="measure training by CUDA graphs, too")
    parser.add_argument(
        "--preset", choices=PRESETS, default="cho2014", help="sizes of the language model (default: %(default)s)"
    )
    parser.add_argument(
        "--memory-lines", type=positive, default=10_000_000, help="lines of the huge table (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("results/speed"), help="folder of the report (default: %(default)s)"
    )
    group = parser.add_argument_group("decoder", "measured if --ini and --source are given")
    group.add_argument("--ini", type=Path, help="tuned moses.ini with a CSLM feature")
    group.add_argument("--source", type=Path, help="prepared sentences")
    group.add_argument("--sentences", type=positive, default=100, help="how many of them (default: %(default)s)")
    args = parser.parse_args()
    if (args.ini is None) != (args.source is None):
        parser.error("--ini and --source go together")
    return args


def measured_on(device_name: str) -> dict[str, Any]:
    """Return what the figures were measured on, and how PyTorch uses it."""
    device = choose_device(device_name, "auto")
    return machine() | {
        "threads": torch.get_num_threads(),
        "gpu": torch.cuda.get_device_name(device.torch_device) if device.torch_device.type == "cuda" else None,
        "default_precision": device.precision,
    }


def as_table(report: dict[str, Any]) -> str:
    """Return the report as a Markdown table."""
    where = report["machine"]
    rows = [
        f"Measured on {where['gpu'] or where['cpu']}, {where['threads']} threads.",
        "",
        "| what | figure |",
        "|---|---|",
    ]
    if "scoring" in report:
        found = report["scoring"]
        speed, share = found["pairs_per_second"], found["share_of_matrix_product_rate"]
        rows += [
            f"| (a) straightforward, 32 bit | {speed['a_straightforward_fp32']:,.0f} pairs/s |",
            f"| (b) engine, 32 bit | {speed['b_engine_fp32']:,.0f} pairs/s, {found['times_a']['b']:.2f} times (a), "
            f"{share['b']:.0%} of the matrix-product rate |",
            f"| (c) engine, 16 bit | {speed['c_engine_bf16']:,.0f} pairs/s, {found['times_a']['c']:.2f} times (a), "
            f"{share['c']:.0%} of the matrix-product rate |",
            f"| largest difference (b) to (a) | {found['largest_difference_b_a']:.1e} nats |",
            f"| mean, largest difference (c) to (a) | {found['mean_difference_c_a']:.1e}, "
            f"{found['largest_difference_c_a']:.1e} nats |",
        ]
    if "end-to-end" in report:
        found = report["end-to-end"]
        rows += [
            f"| from gz to gz, 16 bit, {way} | {speed:,.0f} lines/s, "
            f"{found['times_straightforward'][way]:.2f} times the straightforward scorer, "
            f"{found['times_straightforward_by_cpu'][way]:.2f} by the time of the processor |"
            for way, speed in found["lines_per_second"].items()
        ]
    if "dask" in report:
        found = report["dask"]
        rows += [
            f"| {found['workers']} Dask workers, {way} | {found['lines_per_second'][f'dask{key}']:,.0f} lines/s, "
            f"{found[f'share_of_own{key}']:.2f} of as many processes |"
            for way, key in (("16 bit", ""), ("without the network", "_without_network"))
        ]
    if "training" in report:
        found = report["training"]
        rows.append(f"| training, 512 units, {found['precision']} | {found['pairs_per_second']:,.0f} pairs/s |")
        if "pairs_per_second_of_graphs" in found:
            rows.append(f"| the same by CUDA graphs | {found['pairs_per_second_of_graphs']:,.0f} pairs/s |")
    if "pipeline" in report:
        rows += [
            f"| pipeline without the network, {number} | {found['lines_per_second']:,.0f} lines/s |"
            for number, found in report["pipeline"].items()
        ]
    if "memory" in report:
        found = report["memory"]
        rows.append(
            f"| peak memory of annotating {found['lines']:,} lines by {found['processes']} processes | "
            f"{found['peak_memory_of_one_mb']:,.0f} MB the largest process, {found['peak_memory_mb']:,.0f} MB all; "
            f"{found['seconds']:,.0f} s |"
        )
    if "language-model" in report:
        found = report["language-model"]
        speed = found["queries_per_second"]
        rows += [
            f"| language model, exact, {found['precision']} | {speed['exact']:,.0f} queries/s |",
            f"| language model, unnormalised, {found['precision']} | {speed['unnormalised']:,.0f} queries/s, "
            f"{found['times_exact']:.1f} times exact |",
        ]
    if "long-sentences" in report:
        rows += [
            f"| a sentence of {found['words']:,} words | {found['best']:.2f} s, a list of 100: {found['list']:.2f} s |"
            for found in report["long-sentences"]
        ]
    if _DECODER in report:
        found = report[_DECODER]
        rows.append(f"| decoder without the language model | {found['without']['cold']['seconds']:.3f} s a sentence |")
        rows += [
            f"| with it, {name} | {cold['seconds']:.3f} s a sentence, {found[name]['times_without']:.1f} times; "
            f"{cold['queries']:,.0f} queries, {cold['served']:.0%} of them from the cache; again: "
            f"{warm['seconds']:.3f} s, {warm['served']:.0%} |"
            for name in ("normalised", "unnormalised")
            if name in found
            for cold, warm in [(found[name]["cold"], found[name]["warm"])]
        ]
    return "\n".join(rows) + "\n"


def run(args: argparse.Namespace) -> int:
    """Measure what was asked for; print the table."""
    settle_memory()
    report: dict[str, Any] = {"schema": 3, "table": str(args.table), "machine": measured_on(args.device)}
    measurements: dict[str, Callable[[], Any]] = {
        "scoring": lambda: scoring.measure(args.table, args.device, args.lines, args.repetitions, args.batch_pairs),
        "end-to-end": lambda: end_to_end.measure(args.table, args.device, args.annotated_lines, args.repetitions),
        "dask": lambda: end_to_end.measure_dask(args.table, args.annotated_lines, args.repetitions),
        "training": lambda: training.measure(args.table, args.device, args.updates, cuda_graphs=args.cuda_graphs),
        "pipeline": lambda: {f"{number} processes": pipeline.measure_pipeline(args.table, number) for number in (1, 2)},
        "memory": lambda: pipeline.measure_memory(args.table, args.memory_lines),
        "language-model": lambda: language_model.measure(args.device, args.preset, args.repetitions),
        "long-sentences": long_sentences.measure,
        _DECODER: lambda: decoder.measure(args.ini, args.source, args.sentences),
    }
    for part in [*args.parts, *([_DECODER] if args.ini else [])]:
        report[part] = measurements[part]()
        args.output.mkdir(parents=True, exist_ok=True)
        write_json(args.output / "report.json", report)
        write_atomically(args.output / "report.md", as_table(report).encode())
    print(as_table(report), end="")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.speed", lambda: run(arguments)))
