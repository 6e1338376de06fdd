"""Show and measure what a network has learnt from a phrase table."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from experiments.machine import machine
from experiments.qualitative import pictures, report
from experiments.qualitative.loaded_table import load_table
from experiments.qualitative.probes import LONG, Probes, Settings
from experiments.qualitative.word_vectors import output_word_vectors
from experiments.steps import Json, log
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.errors import UserError
from phrasescore.files import make_folder, require_folder, write_atomically, write_json
from phrasescore.inspection import phrase_vectors
from phrasescore.model_files import described
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.table.reader import TableReader


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.qualitative", description=__doc__)
    parser.add_argument("-m", "--model", type=Path, required=True, metavar="FOLDER", help="model folder")
    parser.add_argument("--table", type=Path, required=True, help="phrase table with Moses' four scores")
    parser.add_argument(
        "--output", type=Path, default=Path("results/qualitative"), help="folder of the report (default: %(default)s)"
    )
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda[:N] (default: %(default)s)")
    add_section_options(parser, "samples", Settings)
    return parser.parse_args()


def analyse(
    model_folder: Path, table_path: Path, output: Path, settings: Settings, device: str, log: Callable[[str], None]
) -> Json:
    """Write the report into a folder and return it.

    Raises:
        UserError: the model or the table is malformed, or the folder cannot be written.
    """
    started = time.monotonic()
    require_folder(output)
    scorer = EncoderDecoderScorer.load([model_folder], device)
    # All measures and plots assume a model of target given source.
    if (direction := scorer.model.direction) != "target-given-source":
        raise UserError(f"{model_folder}: was trained for {direction}; give a network trained for target-given-source")
    log("reading the table")
    table = load_table(TableReader(table_path))
    make_folder(output)
    probes = Probes(scorer, table, settings)
    log("table score against network score")
    sample, correlations = probes.agreement()
    files = ["scatter.svg"]
    pictures.scatter(sample, output / files[0])
    log("retrieval of paraphrases")
    found: Json = {"retrieval": probes.retrieval()}
    log("order, wrong words, noise")
    found |= {"order": probes.order(), "wrong_word": probes.wrong_word(), "noise": probes.noise()}
    log("map of words")
    words, vectors = output_word_vectors(scorer, settings.words)
    if len(words) >= pictures.FEWEST:
        files.append("words.svg")
        pictures.draw_map(words, vectors, "target words", settings.seed, output / files[-1])
    log("map of phrases")
    phrases = probes.long_phrases()
    if len(phrases) >= pictures.FEWEST:
        files.append("phrases.svg")
        what = f"source phrases of {LONG} words or more"
        pictures.draw_map(phrases, phrase_vectors(scorer, phrases), what, settings.seed, output / files[-1])
    result = {
        "schema": 4,
        "provenance": {
            "model": described(model_folder),
            "table": {**described(table_path), "inputs": len(table.inputs), "pairs": len(table.outputs)},
            "settings": asdict(settings),
            "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
            "machine": machine(),
        },
        "seconds": round(time.monotonic() - started, 1),
        "agreement": correlations,
        "probes": found,
        "files": files,
    }
    write_json(output / "report.json", result)
    write_atomically(output / "report.md", report.markdown(result).encode())
    return result


def run(args: argparse.Namespace) -> int:
    """Run the analysis and print the report."""
    analyse(args.model, args.table, args.output, Settings(**given_options(args, Settings)), args.device, log)
    print((args.output / "report.md").read_text("utf-8"), end="")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.qualitative", lambda: run(arguments)))
