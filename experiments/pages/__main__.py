"""Write the generated parts of README.md and docs/: results, from docs/results, and commands, from their parsers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.drawing import shown
from experiments.pages.appendix import appendix
from experiments.pages.markers import filled, untraced
from experiments.pages.results import Results
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_command
from phrasescore.errors import UserError
from phrasescore.files import write_atomically

ROOT = Path(__file__).parents[2]
APPENDIX = Path("docs/results-appendix.md")


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.pages", description=__doc__)
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; fail if a page differs from docs/results or the parsers, or a figure has no source there",
    )
    return parser.parse_args()


def run(args: argparse.Namespace, root: Path = ROOT) -> int:
    """Write the pages that differ, or fail if one does.

    Raises:
        UserError: a marker or a file of results is malformed, a figure has no source, or, with --check, a page differs.
    """
    results = Results(root / "docs" / "results")
    wanted = {root / APPENDIX: appendix(results).encode()}
    untraceable: list[str] = []
    for page in [root / "README.md", *sorted((root / "docs").glob("*.md"))]:
        if page in wanted:
            continue
        text = page.read_text()
        new, pictures = filled(text, page, results)
        wanted |= {page: new.encode(), **pictures}
        untraceable += [f"{page.relative_to(root)}:{line}: {figure}" for line, figure in untraced(text)]
    differing = [
        path for path, content in wanted.items() if not path.exists() or shown(path.read_bytes()) != shown(content)
    ]
    if not args.check:
        for path in differing:
            write_atomically(path, wanted[path])
            print(f"{path.relative_to(root)}: written")
    if untraceable:
        print(*untraceable, sep="\n", file=sys.stderr)
        raise UserError(
            f"{len(untraceable)} figures have no source in docs/results; put markers around them (docs/experiments.md)"
        )
    if args.check and differing:
        raise UserError(f"{differing[0]}: differs from what `make pages` writes; run it")
    return 0


if __name__ == "__main__":
    arguments = parse_arguments()
    sys.exit(run_command("experiments.pages", lambda: run(arguments)))
