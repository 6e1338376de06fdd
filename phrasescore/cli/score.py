"""`phrasescore score`: log-probabilities of phrase pairs, one a line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_direction_option,
    add_model_option,
    load_scorer,
    path_or_standard_stream,
)
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.scoring.given_pairs import given_phrase
from phrasescore.scoring.scores import UnknownSide
from phrasescore.table.entry import LineFault
from phrasescore.table.factors import Factors
from phrasescore.text import Say, chunks, text_lines
from phrasescore.unknown_words import UnknownWords
from phrasescore.words import join_words

_PAIRS_AT_ONCE = 8192


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "score",
        help="score phrase pairs, one `source TAB target` a line",
        description="Read `source TAB target` lines and print ln p(target | source) of each, end symbol included, "
        "as a natural logarithm, in the order of the input.",
    )
    parser.add_argument(
        "pairs", type=path_or_standard_stream, nargs="?", default="-", help="input (default: standard input)"
    )
    add_model_option(parser)
    add_direction_option(parser)
    parser.add_argument(
        "--per-word",
        action="store_true",
        help="divide ln p by the number of predicted words plus one, the end symbol: those of the target, or with "
        "source-given-target of the source",
    )
    add_device_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Score; return the exit code."""
    scorer, reporter = load_scorer(args, args.direction), Reporter(quiet=False)
    if scorer.note is not None:
        reporter.say(scorer.note)
    sides: tuple[UnknownSide, ...] = ("source", "target")
    unknown = [UnknownWords(side) for side in sides]
    for pairs in _chunks(args.pairs, scorer.model.factors, reporter.say):
        scores = scorer.score_encoded(scorer.encode([pair[0] for pair in pairs], [pair[1] for pair in pairs]))
        sys.stdout.writelines(f"{value:.9g}\n" for value in scores.values(per_word=args.per_word).tolist())
        sys.stdout.flush()
        for side, words, counted in zip(sides, scores.words, unknown, strict=True):
            counted.add(int(scores.unknown(side).sum()), words)
    if any(counted.unknown for counted in unknown):
        reporter.say(
            f"{unknown[0]} and {unknown[1]} are unknown to the network; they are scored as <unk>, as rare words of its "
            "text were"
        )
    return 0


def _chunks(path: str | Path, factors: Factors | None, say: Say) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the pairs of the input in chunks, with `factors` those of words that have several.

    `say` is told of lines that are not UTF-8.
    """
    number = 0
    for lines in chunks(text_lines(path, say), _PAIRS_AT_ONCE):
        pairs = []
        for line in lines:
            number += 1
            source, *others = map(join_words, line.split(b"\t"))
            if len(others) != 1 or not source:
                raise UserError(
                    f"{display_name(path)}, line {number}: is not a source phrase, one tab and a target phrase; "
                    "mend the line"
                )
            try:
                pairs.append((given_phrase("source", source, factors), given_phrase("target", others[0], factors)))
            except LineFault as fault:
                raise UserError(f"{display_name(path)}, line {number}, {fault}") from fault
        yield pairs
