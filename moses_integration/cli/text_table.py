"""`phrasescore-smt text-table`: the per-text phrase table of a text, for Moses' own scripts."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli import system_options
from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_sections import networks_of, require_tuned_for
from moses_integration.prepared_text import prepare_text, work_folder
from phrasescore.cli import options
from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import Subparsers
from phrasescore.errors import reported_as
from phrasescore.files import display_name, require_one_standard_input
from phrasescore.text import text_lines


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "text-table",
        help="write a per-text phrase table and the indexed text",
        description="Write the system of one text for Moses: tables with a line per phrase pair and position, and the "
        "indexed text. `strip-tags` removes the tags from the translations of Moses. "
        "`tune` and `decode` do all this automatically.",
        examples=(
            "phrasescore-smt text-table system/tuned.ctx.ini --source test.en -o test.indexed",
            "moses -f test.indexed/moses.ini < test.indexed/text | phrasescore-smt strip-tags > test.tokens",
        ),
    )
    system_options.add_ini(parser)
    system_options.add_source_option(parser)
    text = "folder to write: moses.ini, its tables, and the indexed text in the file `text`"
    options.add_path(parser, "-o --output", "FOLDER", text, required=True)
    options.add_path(parser, "--weights", "INI", "take the weights of this tuned ini (default: those of INI)")
    system_options.add_prepared_option(parser)
    system_options.add_in_context_option(
        parser, "network whose scores in context become one more column", "that of INI, if it was tuned with one"
    )
    options.add_sharing_options(parser)
    options.add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from moses_integration.per_text.indexed_system import write_indexed_system
    from moses_integration.toolkits.moses_tables import check_features, require_moses_words

    require_one_standard_input(args.ini, args.source, args.weights)
    reporter = Reporter(quiet=args.quiet)
    ini = system_options.read_ini(args.ini, reporter)
    # The tables are meant for Moses.
    check_features(ini)
    column = system_options.context_column(args, ini, reporter)
    tuned = MosesIni.read(args.weights) if args.weights else None
    (tuned or ini).require_some_weight()
    if column is None:
        options.reject_without_effect(args, ["processes", "scheduler"], "without a network in context")
    else:
        ini.require_some_weight()
        require_tuned_for(tuned or ini, column.scorer)
        if not networks_of(ini):
            add_column_in_context(ini)
    with work_folder(args.output) as folder, work_folder(None) as temporary:
        prepared = temporary / "prepared"
        with reported_as({prepared: Path(display_name(args.source))}):
            prepare_text(ini, "source", args.source, prepared, args.prepared, reporter.log, args.processes)
            require_moses_words(text_lines(prepared), prepared)
            made = write_indexed_system(ini, prepared, folder, column, tuned)
    if made.sentences and not made.positions:
        reporter.log(f"{display_name(args.source)}: contains no phrase of the table; prepare it like the training text")
    a_sentence = f" ({made.lines / made.sentences:.0f} a sentence)" if made.sentences else ""
    reporter.log(
        f"{made.ini}: written, with {made.lines:,} lines{a_sentence} for {made.positions:,} positions; decode "
        f"{made.text} with it, by `phrasescore-smt decode --prepared`"
    )
    return 0
