"""`filter`: what texts need of a large system: the lines whose source phrase occurs in them, the likeliest of each."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import groupby
from pathlib import Path

from moses_integration.build.pair_alignment import LONGEST_PHRASE
from moses_integration.build.system import INI, PHRASE_TABLE, REORDERING_TABLE
from moses_integration.build.system_text import PREPARATION
from moses_integration.ini import MosesIni
from phrasescore.cli.options import positive
from phrasescore.errors import UserError
from phrasescore.files import open_input, open_output, read_bytes, write_atomically
from phrasescore.table.entry import LineFault, cut_line, cut_source, parse_scores
from phrasescore.table.sources import phrases_in_texts

_DIRECT = 2
"""Which score of a table is p(target | source)."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("filter", help="keep of a system what texts need", description=__doc__)
    parser.add_argument("system", type=Path, metavar="SYSTEM", help="system folder")
    parser.add_argument("--texts", nargs="+", type=Path, required=True, metavar="TEXT", help="prepared source texts")
    parser.add_argument(
        "--limit",
        type=positive,
        required=True,
        metavar="N",
        help="translations of a source phrase to keep, the likeliest; the decoder takes 20 by all its features",
    )
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="FOLDER", help="system folder to write")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    args.output.mkdir(parents=True, exist_ok=True)
    kept: set[int] = set()
    with open_input(args.system / PHRASE_TABLE) as table, open_output(args.output / PHRASE_TABLE) as stream:
        sources = phrases_in_texts(args.texts, LONGEST_PHRASE)
        for line in likeliest(table.stream, sources, args.limit, args.system / PHRASE_TABLE):
            kept.add(_pair(line))
            stream.write(line)
    with open_input(args.system / REORDERING_TABLE) as table, open_output(args.output / REORDERING_TABLE) as stream:
        stream.writelines(line for line in table.stream if _pair(line) in kept)
    print(f"{args.output}: {len(kept):,} phrase pairs")
    write_atomically(args.output / PREPARATION, read_bytes(args.system / PREPARATION))
    # The tables have the same names in both folders, and the language model an absolute one.
    write_atomically(args.output / INI, MosesIni.read(args.system / INI).to_bytes())
    return 0


def likeliest(lines: Iterable[bytes], sources: frozenset[bytes], limit: int, path: Path) -> Iterator[bytes]:
    """Yield the lines of a table that are for these phrases, of each the likeliest ones, in their order.

    The lines of a phrase must stand together, as they do in a table of Moses.

    Raises:
        UserError: a line has no such score; `path` names the table.
    """
    for source, group in groupby(lines, cut_source):
        if source in sources:
            numbered = list(enumerate(group))
            best = nlargest(limit, numbered, lambda one: _direct(one[1], path)) if len(numbered) > limit else numbered
            yield from (line for _, line in sorted(best))


def _direct(line: bytes, path: Path) -> float:
    try:
        return parse_scores(cut_line(line).scores)[_DIRECT]
    except (IndexError, LineFault):
        shown = line.decode("utf-8", "replace").strip()
        raise UserError(f"{path}: `{shown}` has no third score; give a table with Moses' four scores") from None


def _pair(line: bytes) -> int:
    """Return a hash of source and target; two pairs of one hash would only leave one line more."""
    entry = cut_line(line)
    return hash((entry.source, entry.target))
