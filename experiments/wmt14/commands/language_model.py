"""`language-model`: a Kneser-Ney model, as KenLM's binary trie where `build_binary` is installed, else as ARPA."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.build.language_model import build_language_model, find_kenlm_program
from moses_integration.toolkits.installation import run_step
from phrasescore.cli.options import positive


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("language-model", help="estimate a language model", description=__doc__)
    parser.add_argument("text", type=Path, help="prepared text")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="model; readers tell its form")
    parser.add_argument("--order", type=positive, default=5, metavar="N", help="(default: %(default)s)")
    parser.add_argument(
        "--memory", default="50%", metavar="SIZE", help="for lmplz, as of GNU sort: 50%%, 40G (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    # Beside the model: /tmp is often too small to sort in.
    arpa = args.output.with_name(f"{args.output.name}.arpa")
    report = build_language_model(
        args.text, arpa, args.order, memory=args.memory, temporary_folder=args.output.resolve().parent
    )
    print(f"{report.estimator}: {', '.join(f'{count:,}' for count in report.ngram_counts)} n-grams by order")
    program = find_kenlm_program("build_binary")
    if program is None:
        arpa.replace(args.output)
        return 0
    log = args.output.with_name(f"{args.output.name}.log")
    run_step("binary language model", [program, "-T", f"{arpa}.sorting", "trie", arpa, args.output], log, [args.output])
    arpa.unlink()
    return 0
