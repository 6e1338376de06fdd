"""`align`: word alignment in parts, for an aligner that holds its text in memory.

Each part is aligned by itself, so a word that is rare in all of them is aligned as a rare word. What is done of a run
that was stopped is not done again, if texts and method are the same.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from collections.abc import Iterator
from itertools import chain, count, islice
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.steps import clear_if_changed
from moses_integration.build.alignment import METHODS, align
from moses_integration.build.parallel_text import read_pairs
from phrasescore.cli.options import positive
from phrasescore.files import read_lines, sha256_of, write_lines


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("align", help="align words, in parts", description=__doc__)
    parser.add_argument("source", type=Path, metavar="SOURCE", help="prepared text")
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation")
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FILE", help="links, a line a pair")
    parser.add_argument("--method", choices=METHODS, default="eflomal", help="(default: %(default)s)")
    parser.add_argument(
        "--part", type=positive, default=1_000_000, metavar="N", help="pairs of a part (default: %(default)s)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    parts = args.output.with_name(f"{args.output.name}.parts")
    clear_if_changed(parts, [sha256_of(args.source), sha256_of(args.target), args.method, args.part])
    parts.mkdir(exist_ok=True)
    done = list(_align_parts(args.source, args.target, parts, args.method, args.part))
    write_lines(args.output, chain.from_iterable(map(read_lines, done)))
    shutil.rmtree(parts)
    return 0


def _align_parts(source: Path, target: Path, parts: Path, method: str, size: int) -> Iterator[Path]:
    """Yield the file of each part's links."""
    pairs = read_pairs(source, target)
    for number in count(1):
        part = list(islice(pairs, size))
        if not part:
            return
        links = parts / f"{number}.align"
        if not links.exists():
            print(f"part {number}: {len(part):,} pairs", file=sys.stderr)
            with TemporaryDirectory(prefix=".align", dir=parts) as folder:
                texts = [Path(folder) / side for side in ("source", "target")]
                for text, lines in zip(texts, zip(*part, strict=True), strict=True):
                    write_lines(text, lines)
                align(texts[0], texts[1], links, method)
        yield links
