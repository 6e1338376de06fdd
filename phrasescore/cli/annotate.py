"""`phrasescore annotate`: append the network's score to every line of a phrase table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from phrasescore.cli.console import Reporter, duration
from phrasescore.cli.options import (
    add_device_options,
    add_direction_option,
    add_model_option,
    add_quiet_option,
    add_sharing_options,
    path_or_standard_stream,
    positive,
    refuse_idle,
)
from phrasescore.errors import UsageError
from phrasescore.files import (
    STANDARD_STREAM,
    display_name,
    require_one_standard_input,
    require_writable,
    sha256_of_input,
    write_json,
)
from phrasescore.model_files import files_of_models
from phrasescore.scoring.columns import FLOOR, Column
from phrasescore.table.blocks import Shard, require_table_file
from phrasescore.table.sources import sources_in_texts
from phrasescore.text import counted

if TYPE_CHECKING:
    from phrasescore.scoring.annotate import Counts
    from phrasescore.scoring.estimate import Estimate
    from phrasescore.scoring.scorer import PhraseScorer

REPORT_SCHEMA = 5
_DOUBT = (
    "; check that it was trained on this table, or on one with the same languages on the same sides, tokenised and "
    "cased alike"
)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "annotate",
        help="append the scores of a network to a phrase table",
        description="Append exp(ln p(target | source)) as the last score of every line of a Moses phrase table; Moses "
        "takes the logarithm of a column, so its feature is ln p. Every other byte and the order of the lines stay the "
        "same. If an earlier run was interrupted, rerunning the same command resumes it. The output is identical for "
        "any number of processes.",
        most_used=("table", "models", "output", "columns", "only_sources_in", "processes", "device", "dry_run"),
        examples=(
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz",
            "phrasescore annotate phrase-table.gz -m rnn -o phrase-table.rnn.gz --columns score unknown-target",
        ),
    )
    parser.add_argument(
        "table", type=path_or_standard_stream, metavar="TABLE", help="phrase table, - for standard input"
    )
    add_model_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        metavar="FILE",
        help="table to write, compressed by its suffix; - for standard output (default: -, unless it is a terminal)",
    )
    columns = parser.add_argument_group("columns")
    add_direction_option(columns)
    columns.add_argument(
        "--columns",
        nargs="+",
        action="extend",
        metavar="NAME",
        help="columns to append, in this order. A network has score, per-word, unknown-target, unknown-source and "
        "unknown-both; a phrase-pair model has expected-bleu (default: the first). The next two options are short for "
        "some of them",
    )
    columns.add_argument(
        "--per-word",
        action="store_true",
        help="divide ln p by the number of predicted words plus one, the end symbol: those of the target, or with "
        "source-given-target of the source",
    )
    columns.add_argument(
        "--unknown-words",
        nargs="?",
        const="target",
        choices=("target", "source", "both"),
        help="append one more column, exp(count of words the network does not know), of this side (target if none "
        "is named)",
    )
    columns.add_argument(
        "--replace-last",
        metavar="SCORE",
        help="put the new columns in the place of the last score, which must be this text in every line, as 2.718 "
        "is in a table made with Moses' --PhraseCount",
    )
    lines = parser.add_argument_group("lines")
    lines.add_argument(
        "--only-sources-in",
        nargs="+",
        action="extend",
        type=Path,
        metavar="FILE",
        help="keep only lines whose source phrase occurs in these tokenised texts",
    )
    lines.add_argument("--limit", type=positive, metavar="N", help="stop after the first N lines")
    lines.add_argument(
        "--on-error",
        choices=("stop", "keep"),
        default="stop",
        help="what to do with a faulty line: stop, or keep it with 1 in each new column, as it is if it has no scores "
        "or a megabyte (default: %(default)s)",
    )
    lines.add_argument(
        "--shard",
        type=_shard,
        metavar="I/N",
        help="take only the I-th of N parts of the table, for an array of jobs, and say in FILE.part.json what it is; "
        "`phrasescore join` makes the whole of all parts",
    )
    parser.add_argument(
        "--restart", action="store_true", help="discard the work of an interrupted run; do not resume it"
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write counts and provenance as JSON")
    parser.add_argument(
        "--dry-run", action="store_true", help="say what it would take: read and score for some seconds, write nothing"
    )
    add_device_options(parser)
    add_sharing_options(parser.add_argument_group("sharing the work"))
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def _shard(text: str) -> Shard:
    try:
        return Shard.parse(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _columns(args: argparse.Namespace) -> list[str] | None:
    """Return the names of the columns asked for; None if none is.

    Raises:
        UsageError: they are asked for in two ways, or one is twice.
    """
    names = args.columns
    if names is None and not args.per_word and not args.unknown_words:
        return None
    if names is None:
        names = ["per-word" if args.per_word else "score"]
        names += [f"unknown-{args.unknown_words}"] if args.unknown_words else []
    elif args.per_word or args.unknown_words:
        raise UsageError("--columns: names all columns; leave out --per-word and --unknown-words")
    elif len(set(names)) < len(names):
        raise UsageError("--columns: names a column twice; leave one out")
    return list(names)


def run(args: argparse.Namespace) -> int:
    """Annotate; return the exit code."""
    from phrasescore.device import settle_memory
    from phrasescore.scoring.annotate import annotate
    from phrasescore.scoring.estimate import estimate
    from phrasescore.scoring.parts import description_of
    from phrasescore.scoring.scorer import load_scorer

    reporter = Reporter(quiet=args.quiet)
    if args.dry_run:
        refuse_idle(args, ("report",), "with --dry-run")
        require_table_file(args.table, "--dry-run")
    else:
        if args.output is None and sys.stdout.isatty() and args.limit is None:
            raise UsageError("-o: is missing, and a whole table would be printed here; give a file, -o - or --limit")
        args.output = args.output or STANDARD_STREAM
        part = [description_of(args.output)] if args.shard and args.output != STANDARD_STREAM else []
        inputs = (args.table, *files_of_models(args.models), *(args.only_sources_in or ()))
        require_writable(args.output, args.report, *part, inputs=inputs)
    if args.restart and not args.dry_run and args.output == STANDARD_STREAM:
        raise UsageError(
            "--restart: changes nothing with standard output, which cannot be resumed; give -o FILE, or leave it out"
        )
    require_one_standard_input(args.table, *(args.only_sources_in or ()))
    if args.replace_last and args.on_error == "keep":
        raise UsageError("--replace-last: does not go with --on-error keep, for a faulty line may have no last score")
    if args.shard:
        require_table_file(args.table, "--shard")
    names = _columns(args)
    digest = sha256_of_input(args.table) if args.report else None
    settle_memory()
    scorer = load_scorer(*args.models, device=args.device, precision=args.precision, direction=args.direction)
    columns = [scorer.columns[0]] if names is None else [scorer.column(name) for name in names]
    sources = sources_in_texts(args.only_sources_in, reporter.say) if args.only_sources_in else None
    models = ", ".join(map(str, args.models))
    reporter.say(f"scoring {display_name(args.table)} with {models} on {scorer.device}")
    if scorer.note is not None:
        reporter.say(scorer.note)
    options: dict[str, Any] = {
        "columns": columns,
        "replace_last": args.replace_last,
        "only_sources": sources,
        "limit": args.limit,
        "on_error": args.on_error,
    }
    if args.dry_run:
        sharing = {"processes": args.processes, "scheduler": args.scheduler}
        _say_estimate(estimate(args.table, scorer, shard=args.shard, **sharing, **options))
        return 0
    with reporter.task("annotating") as task:

        def on_block(counts: Counts, share: float | None) -> None:
            task.update(share, f"{counts.lines_read:,} lines, {_rate(counts):,.0f} lines/s")

        counts = annotate(
            args.table,
            scorer,
            args.output,
            shard=args.shard,
            processes=args.processes,
            scheduler=args.scheduler,
            restart=args.restart,
            progress=on_block,
            say=reporter.say,
            **options,
        )
    _summarise(reporter, counts)
    if sources is not None and args.limit is None and args.shard is None:
        _doubt_texts(reporter, counts, sources.get())
    advice = _advice(args, scorer, len(columns)) if _is_sound(counts) else None
    if advice is not None:
        reporter.say(f"next: {advice}")
    if args.report:
        write_json(args.report, make_report(args, digest, scorer, columns, counts))
    return 0


def _advice(args: argparse.Namespace, scorer: PhraseScorer, width: int) -> str | None:
    """Return the command that comes next, None where that is for the user to know."""
    if args.output == STANDARD_STREAM:
        return None
    if args.shard is not None:
        return "phrasescore join PART... -o TABLE, when all of them are there"
    if args.replace_last is not None or args.limit is not None:
        return None
    weight = "" if scorer.columns[0].values == "log-probability" else " --weight W"
    return (
        f"phrasescore-smt add-column moses.ini --table {quote(str(args.output))} --columns {width}{weight} -o NEW.ini"
    )


def _say_estimate(found: Estimate) -> None:
    about = "" if found.is_exact else "about "
    print(
        f"{about}{found.lines:,} lines; about {duration(found.seconds)} and {found.memory / 1e9:.1f} GB of memory, "
        f"processes: {found.processes}"
    )


def make_report(
    args: argparse.Namespace, digest: str | None, scorer: PhraseScorer, columns: Sequence[Column], counts: Counts
) -> dict[str, Any]:
    """Return the counts and where the numbers come from; the digest is that of the table."""
    from phrasescore.versions import versions

    return {
        "schema": REPORT_SCHEMA,
        "input": str(args.table),
        "input_sha256": digest,
        "output": str(args.output),
        "scorer": scorer.described(),
        "columns": {
            "names": [column.name for column in columns],
            "replace_last": args.replace_last,
            "floor": FLOOR,
        },
        "lines": {
            "only_sources_in": args.only_sources_in and [str(path) for path in args.only_sources_in],
            "limit": args.limit,
            "shard": args.shard and f"{args.shard.number}/{args.shard.of}",
            "on_error": args.on_error,
        },
        "computing": {"device": str(scorer.device.torch_device), "precision": scorer.device.precision},
        "counts": asdict(counts),
        "versions": versions(),
    }


def _doubt_texts(reporter: Reporter, counts: Counts, phrases: frozenset[bytes]) -> None:
    """Say where hardly any line was kept: a word of a text has several lines in a table that fits it."""
    words = sum(b" " not in phrase for phrase in phrases)
    if counts.lines_written < words:
        reporter.say(
            f"only {counted(counts.lines_written, 'line')} kept for {words:,} different words in the texts of "
            "--only-sources-in; check that they are tokenised and cased as the table is"
        )


def _rate(counts: Counts) -> float:
    """Return lines read a second."""
    return (counts.lines_read - counts.lines_of_run_before) / max(counts.seconds, 1e-9)


def _summarise(reporter: Reporter, counts: Counts) -> None:

    # A part of a small table may have no line.
    columns = "" if counts.columns_before is None else f"{counts.columns_before} columns -> {counts.columns_after}, "
    reporter.say(
        f"{counted(counts.lines_read, 'line')} read, {counts.lines_written:,} written, {columns}"
        f"{_rate(counts):,.0f} lines/s"
    )
    if counts.lines_of_run_before:
        reporter.say(f"{counts.lines_of_run_before:,} of them by a run that was stopped")
    if counts.pairs_clipped:
        reporter.say(f"{counted(counts.pairs_clipped, 'score')} below the floor, clipped")
    if counts.faulty_lines:
        reporter.say(
            f"{counted(counts.faulty_lines, 'faulty line')}, {counts.faulty_lines_kept:,} of them kept; the first: "
            f"{counts.first_fault}"
        )
    for side, (unknown, words) in _unknown_words(counts).items():
        if words:
            doubt = _DOUBT if _is_doubtful(unknown, words) else ""
            reporter.say(f"{unknown / words:.2%} of the {side} words are unknown to the network{doubt}")


def _unknown_words(counts: Counts) -> dict[str, tuple[int, int]]:
    """Return for each side how many words the network does not have, and of how many."""
    return {
        "source": (counts.source_words_unknown, counts.source_words),
        "target": (counts.target_words_unknown, counts.target_words),
    }


def _is_doubtful(unknown: int, words: int) -> bool:
    from phrasescore.scoring.scorer import MANY_UNKNOWN

    return words > 0 and unknown >= MANY_UNKNOWN * words


def _is_sound(counts: Counts) -> bool:
    """Whether most lines have a score, of words that the network has: else the next command would only waste time."""
    if 2 * counts.faulty_lines > counts.lines_read:
        return False
    return not any(_is_doubtful(*side) for side in _unknown_words(counts).values())
