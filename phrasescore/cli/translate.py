"""`phrasescore translate`: translate sentences or phrases with a trained network."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.cli.section_options import add_section_options, given_options
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import STANDARD_STREAM, display_name, open_output, require_writable
from phrasescore.model_files import files_of_models
from phrasescore.pictures import Alignment, check_picture, draw_alignments
from phrasescore.search_config import SearchConfig
from phrasescore.text import chunks, lines_of, text_lines
from phrasescore.tokenisation import tokenise_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.translator import Translator

_BATCHES_AT_ONCE = 32
_PICTURES = 4


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "translate",
        help="translate with a network alone",
        description="Translate tokenised text, one sentence or phrase per line. On a terminal, it answers each line at "
        "once. A network of `train --direction source-given-target` translates from the target language.",
        most_used=("text", "models", "output", "beam", "n_best", "json", "device"),
        examples=(
            "phrasescore translate test.en -m s2s --beam 5 -o test.fr",
            "phrasescore translate test.en -m s2s --beam 20 --n-best 20 -o test.nbest",
        ),
    )
    options.add_input(parser, "text", "tokenised text")
    options.add_model_option(parser)
    options.add_output(
        parser,
        "translations, with --n-best above 1 n-best lists in Moses' form; compressed by the suffix of the name "
        "(default: standard output)",
    )
    text = "print one JSON object per line: the source, and its translations with scores and attention weights"
    options.add_switch(parser, "--json", text)
    text = f"draw the attention weights of the first {_PICTURES} sentences (.png, .svg or .pdf)"
    options.add_path(parser, "--attention", "FILE", text)
    text = "tokenise the input first, by the rules for this language, such as en"
    parser.add_argument("--tokenise", metavar="LANGUAGE", help=text)
    options.add_number(parser, "--batch-size", "sentences per batch", default=64)
    add_section_options(parser, "search", SearchConfig)
    options.add_device_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    config = SearchConfig.checked(given_options(args, SearchConfig))
    if config.n_best > 1 and config.sample and not args.json:
        raise UsageError(f"{arg_name('n_best')}: needs {arg_name('json')} with {arg_name('sample')}; add it")
    from phrasescore.translator import Translator

    if args.attention:
        check_picture("attention", args.attention)
    require_writable(args.output, args.attention, inputs=[args.text, *files_of_models(args.models)])
    reporter, name = Reporter(quiet=args.quiet), display_name(args.text)
    scorer = options.load_networks(args, reporter)
    translator = Translator(scorer, config, args.batch_size)
    if args.attention and not translator.has_attention:
        raise UserError(f"{arg_name('attention')}: this network has no attention to draw; leave it out")
    is_typed = (args.text, args.output) == (STANDARD_STREAM, STANDARD_STREAM) and sys.stdin.isatty()
    if is_typed:
        print("one sentence a line, Ctrl-D to end", file=sys.stderr)
    lines = lines_of(sys.stdin.buffer, name, reporter.log) if is_typed else text_lines(args.text, reporter.log)
    # A progress bar would interleave with translations on the terminal.
    progress = Reporter(quiet=args.quiet or is_typed or (args.output == STANDARD_STREAM and sys.stdout.isatty()))
    at_once = 1 if is_typed else _BATCHES_AT_ONCE * args.batch_size
    alignments = _translate(args, translator, chunks(lines, at_once), progress)
    translator.words.warn_if_many_unknown(name, "network", reporter.log)
    if args.attention:
        if not alignments:
            raise UserError(f"{arg_name('attention')}: there is no sentence to draw; give one with words")
        draw_alignments(alignments, args.attention)
    return 0


def _translate(
    args: argparse.Namespace, translator: Translator, chunks: Iterable[list[bytes]], reporter: Reporter
) -> list[Alignment]:
    """Write the translations of the lines; return the first alignments."""
    from phrasescore.translator import as_json, as_nbest

    alignments: list[Alignment] = []
    done, started = 0, time.monotonic()
    with open_output(args.output) as output, reporter.task("translating") as task:
        for lines in chunks:
            sentences = lines if args.tokenise is None else tokenise_lines(lines, args.tokenise)
            for number, (sentence, found) in enumerate(
                zip(sentences, translator.translate(sentences, done), strict=True), done
            ):
                if args.json:
                    written = [as_json(sentence, found, sampled=args.sample)]
                elif (args.n_best or 1) > 1:
                    written = as_nbest(number, found)
                else:
                    written = [found[0].text if found else b""]
                output.writelines(line + b"\n" for line in written)
                if found and found[0].attention_TL is not None and len(alignments) < _PICTURES:
                    alignments.append(Alignment(split_words(sentence), found[0].words, found[0].attention_TL))
            output.flush()
            done += len(sentences)
            task.update(None, f"{done:,} sentences, {done / (time.monotonic() - started):,.0f} sentences/s")
    return alignments
