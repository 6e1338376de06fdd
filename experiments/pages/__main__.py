"""Write the tables, figures and pictures of README.md and docs/ from docs/results."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.pages.markers import filled, untraced
from experiments.pages.plot import dot_plot
from experiments.pages.results import Results
from phrasescore.cli.console import run_command
from phrasescore.cli.parser import CommandParser
from phrasescore.errors import UserError
from phrasescore.files import write_atomically

ROOT = Path(__file__).parents[2]


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.pages", description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; fail if a page differs or a figure has no source"
    )
    return parser.parse_args()


def run(args: argparse.Namespace, root: Path = ROOT) -> int:
    """Write the pages that differ, or say which do.

    Raises:
        UserError: a marker or a file of results is faulty, a figure has no source, or, with --check, a page differs.
    """
    pages, results = [root / "README.md", *sorted((root / "docs").glob("*.md"))], Results(root / "docs" / "results")
    for name in results.names():
        results.table(name)
    wanted: dict[Path, bytes] = {}
    faults: list[str] = []
    for page in pages:
        text = page.read_text()
        new, pictures = filled(text, page, results, dot_plot)
        wanted |= {page: new.encode(), **pictures}
        faults += [f"{page.relative_to(root)}: line {line}: {figure}" for line, figure in untraced(text)]
    differing = [path for path, content in wanted.items() if not path.exists() or path.read_bytes() != content]
    if not args.check:
        for path in differing:
            write_atomically(path, wanted[path])
            print(f"{path.relative_to(root)}: written")
    if faults:
        print(*faults, sep="\n", file=sys.stderr)
        raise UserError(
            f"{len(faults)} figures have no source in docs/results; put markers around them (docs/experiments.md)"
        )
    if args.check and differing:
        raise UserError(f"{differing[0]}: is not what docs/results says; run `make pages`")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.pages", lambda: run(arguments)))
