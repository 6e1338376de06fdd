"""`phrasescore inspect`: show the predictions and gates of a network for one phrase."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name, require_writable
from phrasescore.model_files import files_of_models
from phrasescore.pairs import Direction
from phrasescore.pictures import check_picture, draw_gates
from phrasescore.text import counted
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.inspection import Inspection


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "inspect",
        help="show what a network has learnt about a phrase",
        description="Show the nearest phrases, by the cosine of the encoder's summaries, and samples of the network. "
        "With --table, also show the targets of the table with the scores of table and network; without it, the "
        "targets of beam search. --gates draws the update and reset gates. All logarithms are natural.",
        examples=(
            'phrasescore inspect -m rnn "the letter" --table phrase-table.gz',
            'phrasescore inspect -m rnn "the letter" --gates gates.png',
        ),
    )
    parser.add_argument("phrase", metavar="PHRASE", help="source phrase, tokenised as the training data")
    options.add_plugin_option(parser)
    options.add_path(parser, "-m --model", "FOLDER", "model folder", required=True, nargs=1, dest="models")
    text = "phrase table; - for standard input"
    options.add_path(parser, "--table", "TABLE", text, type=options.path_or_standard_stream)
    options.add_number(parser, "--top", "number of nearest phrases, of targets and of samples to show", default=5)
    options.add_path(parser, "--gates", "FILE", "draw the gates of the first forward layer (.png, .svg or .pdf)")
    options.add_device_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from phrasescore.inspection import encoder_gates, inspect_phrase

    # Restore the bytes of the argument, whatever the locale.
    phrase = b" ".join(split_words(os.fsencode(args.phrase)))
    if not phrase:
        raise UsageError("the phrase is empty; give at least one word")
    if args.gates:
        check_picture("gates", args.gates)
    require_writable(args.gates, inputs=[args.table, *files_of_models(args.models)])
    reporter = Reporter(quiet=args.quiet)
    scorer = options.load_networks(args, reporter)
    if args.gates:
        if (gates := encoder_gates(scorer, phrase)) is None:
            option = arg_name("gates")
            raise UserError(f"{option}: the units of this network have no reset and update gates; leave it out")
        draw_gates(gates, args.gates)
        reporter.log(f"wrote {args.gates}")
    if args.table:
        reporter.log(f"reading {display_name(args.table)}")
    else:
        reporter.log(f"{args.models[0]}: give {arg_name('table')} to see the nearest phrases and the table's targets")
    _print(phrase, scorer.direction, inspect_phrase(scorer, phrase, args.table, args.top), args.top)
    return 0


def _print(phrase: bytes, direction: Direction, found: Inspection, top: int) -> None:
    from phrasescore.inspection import PROBABILITY, SAMPLES

    console = Console(highlight=False, soft_wrap=True, emoji=False)

    def section(title: str, columns: str = "") -> None:
        console.print(Text.assemble("\n", (title, "bold"), (columns and f"\n{columns}", "dim")))

    note = f"; unknown to the network: {', '.join(map(_shown, found.unknown))}" if found.unknown else ""
    console.print(Text.assemble((_shown(phrase), "bold"), f"  ({direction}{note})"))
    if found.compared:
        section(f"Nearest of {counted(found.compared, 'phrase')}, by the cosine of the summaries")
        for text, cosine in found.neighbours:
            console.print(Text(f"  {cosine:5.3f}  {_shown(text)}"))
    if found.candidates:
        column, name = PROBABILITY[direction]
        best = f"the best {top} of {found.candidates:,} by network and by table"
        section(f"Targets in the table: {best} (ln of score {column}, {name})", "   table     RNN  RNN, word by word")
    else:
        absent = "The table has no line with this phrase; the" if found.compared else "The"
        section(f"{absent} best {len(found.targets)} targets by beam search", "     RNN  RNN, word by word")
    for target in found.targets:
        line = Text("" if target.in_table is None else f"  {target.in_table:6.2f}").append(f"  {target.log_prob:6.2f} ")
        for word, value in zip(target.symbols, target.words_I.tolist(), strict=True):
            line.append(f" {_shown(word)}").append(f" {value:.2f}", style="dim")
        console.print(line)
    section(f"Of {SAMPLES} targets drawn from the network, the most frequent", "  times     RNN")
    for one in found.samples:
        console.print(Text(f"  {one.times:5}  {one.log_prob:6.2f}  {_shown(one.text)}"))


def _shown(text: bytes) -> str:
    return text.decode("utf-8", "backslashreplace")
