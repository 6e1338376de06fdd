"""`select`: keep the sentences of a large corpus that are most like a small one, by cross-entropy difference.

Moore and Lewis (2010) with one side; Axelrod, He and Gao (2011) with source and target.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from experiments.options import share
from experiments.wmt14.selection import Domain, choose, read_part, sample, threshold, write_scores
from moses_integration.cli.options import natural
from phrasescore.cli.options import positive
from phrasescore.errors import UserError
from phrasescore.files import write_json
from phrasescore.words import split_words


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("select", help="keep the sentences most like a small text", description=__doc__)
    parser.add_argument(
        "--in-domain", nargs="+", type=Path, required=True, metavar="TEXT", help="small text, one side or two"
    )
    parser.add_argument(
        "--corpus",
        nargs="+",
        type=Path,
        action="append",
        required=True,
        dest="corpora",
        metavar="TEXT",
        help="a part of the large corpus, of as many sides; may be given several times",
    )
    parser.add_argument("-o", "--output", nargs="+", type=Path, required=True, metavar="TEXT", help="a file a side")
    amount = parser.add_mutually_exclusive_group(required=True)
    amount.add_argument("--words", type=positive, metavar="N", help="to keep at most, counted on the last side")
    amount.add_argument("--share", type=share, metavar="X", help="of the words to keep at most, from 0 to 1")
    parser.add_argument("--order", type=positive, default=4, metavar="N", help="of the models (default: %(default)s)")
    parser.add_argument(
        "--seed", type=natural, default=1, metavar="N", help="draws as many sentences of the corpus (default: 1)"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write what was kept as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    parts = [tuple(part) for part in args.corpora]
    sides = len(args.in_domain)
    if sides > 2 or {sides} != {len(part) for part in parts} | {len(args.output)}:
        raise UserError("select: the texts differ in their number of sides; give one or two of each")
    small = list(read_part(tuple(args.in_domain)))
    for side, path in enumerate(args.in_domain):
        if not any(split_words(lines[side]) for lines in small):
            raise UserError(f"{path}: has no words; give text of the domain")
    with TemporaryDirectory(prefix=".select", dir=args.output[0].parent) as name:
        folder = Path(name)
        drawn = sample(parts, len(small), args.seed)
        domains = [
            Domain.learn([lines[side] for lines in small], [lines[side] for lines in drawn], args.order, folder)
            for side in range(sides)
        ]
        scores = folder / "scores"
        words = write_scores(parts, domains, scores)
        highest = threshold(scores, args.words or int(words * args.share))
        chosen = choose(parts, scores, highest, args.output)
    for part in chosen:
        sentences, words_kept = f"{part.kept:,} of {part.sentences:,}", f"{part.kept_words:,} of {part.words:,}"
        print(f"{part.part}: {sentences} sentences, {words_kept} words")
    if args.report:
        report = {"in_domain": args.in_domain, "order": args.order, "seed": args.seed, "highest_score": highest}
        report["parts"] = [asdict(part) for part in chosen]
        write_json(args.report, report)
    return 0
