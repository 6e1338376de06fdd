"""`phrasescore score`: compute log-probabilities of phrase pairs, one per line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_model_option,
    path_or_standard_stream,
)
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.scoring.given_pairs import given_phrase
from phrasescore.table.entry import LineFault
from phrasescore.table.factors import Factors
from phrasescore.text import Log, chunks, text_lines
from phrasescore.word_counts import WordCounts
from phrasescore.words import join_words

_PAIRS_AT_ONCE = 8192


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "score",
        help="score phrase pairs",
        description="Read lines `source TAB target` and print ln p(target | source) of each, a natural logarithm that "
        "includes the end symbol.",
        examples=("printf 'the house\\tla maison\\n' | phrasescore score -m rnn",),
    )
    parser.add_argument(
        "pairs",
        type=path_or_standard_stream,
        nargs="?",
        default="-",
        metavar="PAIRS",
        help="file of phrase pairs (default: standard input)",
    )
    add_model_option(parser)
    add_device_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    from phrasescore.device import settle_memory
    from phrasescore.scoring.occurrences import Occurrences
    from phrasescore.scoring.scorer import load_scorer

    settle_memory()
    scorer = load_scorer(*args.models, device=args.device, precision=args.precision)
    reporter = Reporter(quiet=False)
    if scorer.note is not None:
        reporter.log(scorer.note)
    words = WordCounts()
    for pairs in _chunks(args.pairs, scorer.factors, reporter.log):
        scores = scorer.score(Occurrences([source for source, _ in pairs], [target for _, target in pairs]))
        sys.stdout.writelines(f"{value:.9g}\n" for value in scores.first_N.tolist())
        sys.stdout.flush()
        words += scores.words
    if words.source_unknown or words.target_unknown:
        reporter.log(
            f"{words} are unknown to the network; they are scored as <unk>, like rare words of its training data"
        )
    return 0


def _chunks(path: str | Path, factors: Factors | None, log: Log) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the pairs of the input in chunks, reduced to `factors` if given."""
    number = 0
    for lines in chunks(text_lines(path, log), _PAIRS_AT_ONCE):
        pairs = []
        for line in lines:
            number += 1
            source, *others = map(join_words, line.split(b"\t"))
            if len(others) != 1 or not source:
                raise UserError(
                    f"{display_name(path)}, line {number}: is not a source phrase, one tab and a target phrase; "
                    "fix the line"
                )
            try:
                pairs.append((given_phrase("source", source, factors), given_phrase("target", others[0], factors)))
            except LineFault as fault:
                raise UserError(f"{display_name(path)}, line {number}, {fault}") from fault
        yield pairs
