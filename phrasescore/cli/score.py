"""`phrasescore score`: compute log-probabilities of phrase pairs, one per line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_device_options, add_input, add_model_option, load_models
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.scoring.occurrences import Occurrences, clean_pairs
from phrasescore.text import Log, chunks, text_lines
from phrasescore.vocabulary import WordCounts

_PAIRS_AT_ONCE = 8192


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "score",
        help="score phrase pairs",
        description="Read lines `source TAB target` and print ln p(target | source) of each, a natural logarithm that "
        "includes the end symbol.",
        examples=("printf 'the house\\tla maison\\n' | phrasescore score -m rnn",),
    )
    add_input(parser, "pairs", "file of phrase pairs")
    add_model_option(parser)
    add_device_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    reporter = Reporter(quiet=False)
    scorer = load_models(args, reporter)
    words, place = WordCounts(), f"{display_name(args.pairs)}, line"
    pairs = clean_pairs(_pairs(args.pairs, place, reporter.log), scorer.factors, place)
    for some in chunks(pairs, _PAIRS_AT_ONCE):
        sources, targets = zip(*some, strict=True)
        scores = scorer.score(Occurrences(sources, targets))
        sys.stdout.writelines(f"{value:.9g}\n" for value in scores.first_N.tolist())
        sys.stdout.flush()
        words += scores.words
    if words.source_unknown or words.target_unknown:
        reporter.log(
            f"{words} are unknown to the network; they are scored as <unk>, like rare words of its training data"
        )
    return 0


def _pairs(path: str | Path, place: str, log: Log) -> Iterator[list[bytes]]:
    for number, line in enumerate(text_lines(path, log), 1):
        pair = line.split(b"\t")
        if len(pair) != 2:
            raise UserError(f"{place} {number}: is not a source phrase, one tab and a target phrase; fix the line")
        yield pair
