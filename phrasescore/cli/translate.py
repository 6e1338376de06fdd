"""`phrasescore translate`: translate sentences or phrases with a trained network."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter
from phrasescore.cli.options import (
    add_device_options,
    add_model_option,
    add_quiet_option,
    add_section_options,
    given_options,
    load_networks,
    path_or_standard_stream,
    positive,
)
from phrasescore.errors import UsageError, UserError
from phrasescore.files import STANDARD_STREAM, display_name, open_output, require_writable
from phrasescore.model_files import files_of_models
from phrasescore.pictures import check_picture
from phrasescore.search.search_config import SearchConfig
from phrasescore.text import Log, chunks, lines_of, text_lines
from phrasescore.tokenisation import tokenise_lines
from phrasescore.words import split_words

if TYPE_CHECKING:
    from phrasescore.search.translator import Translation, Translator

_BATCHES_AT_ONCE = 32
_PICTURES = 4


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "translate",
        help="translate with a network alone",
        description="Translate tokenised text, one sentence or phrase per line. On a terminal, it answers each line at "
        "once. A network of `train --direction source-given-target` translates from the target language.",
        most_used=("text", "models", "output", "beam", "n_best", "json", "device"),
        examples=(
            "phrasescore translate test.en -m s2s --beam 5 -o test.fr",
            "phrasescore translate test.en -m s2s --beam 10 --n-best 10 --json -o test.nbest.json",
        ),
    )
    parser.add_argument(
        "text",
        type=path_or_standard_stream,
        nargs="?",
        default="-",
        metavar="TEXT",
        help="tokenised text (default: standard input)",
    )
    add_model_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        default="-",
        metavar="FILE",
        help="translations, compressed by the suffix of the name (default: standard output)",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="print one JSON object per line: the source and its translations, best first, each with its score ln "
        "p(target | source), the value that the search ranked it by, its number of samples, and its attention weights",
    )
    parser.add_argument(
        "--attention",
        type=Path,
        metavar="FILE",
        help=f"draw the attention weights of the first {_PICTURES} sentences into a .png, .svg or .pdf file",
    )
    parser.add_argument(
        "--tokenise",
        metavar="LANGUAGE",
        help="tokenise the input first, by the rules of sacremoses for this language, such as en",
    )
    parser.add_argument(
        "--batch-size", type=positive, default=64, metavar="N", help="sentences per batch (default: %(default)s)"
    )
    add_section_options(parser, "search", SearchConfig)
    add_device_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command; return the exit code."""
    given = given_options(args, SearchConfig)
    config = SearchConfig(**given)
    config.check_effect(given)
    if config.n_best > 1 and not args.json:
        raise UsageError("--n-best: needs --json; add it")
    from phrasescore.search.translator import Translator

    if args.attention:
        check_picture("--attention", args.attention)
    require_writable(args.output, args.attention, inputs=[args.text, *files_of_models(args.models)])
    scorer, reporter = load_networks(args), Reporter(quiet=args.quiet)
    translator = Translator(scorer, config, args.batch_size)
    if args.attention and not translator.has_attention:
        raise UserError("--attention: this network has no attention to draw; leave --attention out")
    if scorer.note is not None:
        reporter.log(scorer.note)
    if (args.text, args.output) == (STANDARD_STREAM, STANDARD_STREAM) and sys.stdin.isatty():
        return _converse(args, translator, reporter.log)
    name = display_name(args.text)
    # A progress bar would interleave with translations on the terminal.
    reporter = Reporter(quiet=args.quiet or (args.output == STANDARD_STREAM and sys.stdout.isatty()))
    pictures: list[tuple[bytes, Translation]] = []
    done, started = 0, time.monotonic()
    with open_output(args.output) as output, reporter.task("translating") as task:
        for sentences, translations in _translate(args, translator, reporter.log):
            output.writelines(_lines(args, sentences, translations))
            output.flush()
            done += len(sentences)
            task.update(None, f"{done:,} sentences, {done / (time.monotonic() - started):,.0f} sentences/s")
            firsts = [(sentence, some[0]) for sentence, some in zip(sentences, translations, strict=True) if some]
            pictures += firsts[: _PICTURES - len(pictures)]
    translator.unknown.warn_if_many(name, "network", reporter.log)
    if args.attention:
        _draw(args, pictures)
    return 0


def _translate(
    args: argparse.Namespace, translator: Translator, log: Log
) -> Iterator[tuple[list[bytes], list[list[Translation]]]]:
    """Yield the input in chunks with its translations; lines that are not UTF-8 are reported to `log`."""
    first = 0
    for lines in chunks(text_lines(args.text, log), _BATCHES_AT_ONCE * args.batch_size):
        sentences = _prepared(args, lines)
        yield sentences, translator.translate(sentences, first)
        first += len(sentences)


def _converse(args: argparse.Namespace, translator: Translator, log: Log) -> int:
    """Translate each line that is typed; lines that are not UTF-8 are reported to `log`."""
    print("one sentence a line, Ctrl-D to end", file=sys.stderr)
    for number, line in enumerate(lines_of(sys.stdin.buffer, display_name(STANDARD_STREAM), log)):
        sentences = _prepared(args, [line])
        translations = translator.translate(sentences, number)
        sys.stdout.buffer.writelines(_lines(args, sentences, translations))
        sys.stdout.buffer.flush()
        if args.attention and translations[0]:
            _draw(args, [(sentences[0], translations[0][0])])
    translator.unknown.warn_if_many(display_name(STANDARD_STREAM), "network", log)
    return 0


def _prepared(args: argparse.Namespace, sentences: list[bytes]) -> list[bytes]:
    return sentences if args.tokenise is None else tokenise_lines(sentences, args.tokenise)


def _lines(args: argparse.Namespace, sentences: list[bytes], translations: list[list[Translation]]) -> Iterator[bytes]:
    for sentence, some in zip(sentences, translations, strict=True):
        if args.json:
            record = {"source": _text(sentence), "translations": [_record(args, one) for one in some]}
            yield json.dumps(record, ensure_ascii=False).encode() + b"\n"
        else:
            yield (some[0].text if some else b"") + b"\n"


def _record(args: argparse.Namespace, one: Translation) -> dict[str, Any]:
    record: dict[str, Any] = {"text": _text(one.text), "score": one.log_prob, "value": one.value}
    if args.sample:
        record["times"] = one.times
    if one.attention_TL is not None:
        record["attention"] = [[round(share, 4) for share in row] for row in one.attention_TL.tolist()]
    return record


def _text(words: bytes) -> str:
    return words.decode("utf-8", "replace")


def _draw(args: argparse.Namespace, pictures: list[tuple[bytes, Translation]]) -> None:
    from phrasescore.search.alignment_plot import Alignment, draw_alignments

    alignments = [
        Alignment(split_words(sentence), one.words, one.attention_TL)
        for sentence, one in pictures
        if one.attention_TL is not None
    ]
    if not alignments:
        raise UserError("--attention: there is no sentence to draw; give one with words")
    draw_alignments(alignments, args.attention)
