"""Write one HTML page about finished ablations, with a Markdown and a JSON file beside it."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.ablation.report import markdown
from experiments.report.embedded import embedded_markdown
from experiments.report.loaded import REPORT, LoadedAblation, read_report
from experiments.report.page import SENTENCES, Contents, write_page
from moses_integration.cli.options import natural
from phrasescore.cli.console import run_command
from phrasescore.errors import UsageError, UserError
from phrasescore.files import write_atomically, write_json


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__)
    parser.add_argument(
        "folders",
        type=Path,
        nargs="+",
        metavar="FOLDER",
        help=f"of experiments.ablation; those without a {REPORT} are left out",
    )
    parser.add_argument(
        "--qualitative", type=Path, nargs="+", default=[], metavar="FOLDER", help="of experiments.qualitative"
    )
    parser.add_argument(
        "--measurements",
        type=Path,
        nargs="+",
        default=[],
        metavar="FOLDER",
        help="of experiments.speed or experiments.goldens",
    )
    parser.add_argument(
        "--sentences",
        type=natural,
        default=SENTENCES,
        metavar="N",
        help="translations side by side: N with the largest gains, with the largest losses, and at random; 0 for a "
        "page without the data set's text (default: %(default)s)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        default=Path("results/report.html"),
        metavar="FILE",
        help="page to write; the other files have its name and .md and .json (default: %(default)s)",
    )
    return parser.parse_args()


def run(args: argparse.Namespace) -> int:
    """Write the page; print where it is."""
    if args.output.suffix in (".md", ".json"):
        raise UsageError(f"{args.output}: is where the page's Markdown or JSON would go; give a name with .html")
    finished = [folder for folder in args.folders if (folder / REPORT).exists()]
    for folder in args.folders:
        if folder not in finished:
            print(f"{folder}: has no {REPORT} yet, left out", file=sys.stderr)
    if not finished:
        raise UserError(f"{args.folders[0]}: has no {REPORT}; run `python -m experiments.ablation` first")
    ablations = [LoadedAblation.read(folder) for folder in finished]
    reports = {
        "schema": 2,
        "ablations": {str(one.folder): one.report for one in ablations},
        "qualitative": {str(folder): read_report(folder) for folder in args.qualitative},
        "measurements": {str(folder): read_report(folder) for folder in args.measurements},
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    write_page(Contents(ablations, args.qualitative, args.measurements, args.sentences), args.output)
    texts = [f"## {one.folder.name}\n\n{markdown(one.report)}" for one in ablations]
    texts += [embedded_markdown(folder, args.output.parent) for folder in (*args.qualitative, *args.measurements)]
    write_atomically(args.output.with_suffix(".md"), "\n".join(texts).encode())
    write_json(args.output.with_suffix(".json"), reports)
    print(f"{args.output} and, beside it, .md and .json: {', '.join(one.title for one in ablations)}.")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.report", lambda: run(arguments)))
