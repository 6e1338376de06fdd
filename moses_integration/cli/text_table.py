"""`phrasescore-smt text-table`: write the per-text phrase table of a text, and the text in its indexed form."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli.in_context import add_in_context_option, context_column
from moses_integration.cli.options import natural, read_ini
from moses_integration.cli.texts import add_source_option, add_text_options, prepare_text
from moses_integration.cli.work_folder import work_folder
from moses_integration.text_table.context_sections import option_weights, require_tuned_for
from phrasescore.cli.console import Reporter
from phrasescore.cli.options import add_quiet_option, add_sharing_options, refuse_idle
from phrasescore.files import require_one_standard_input


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "text-table",
        help="write a per-text phrase table and the indexed text",
        description="Write the system of one text: phrase and reordering tables with one line per phrase pair and "
        "position, so that a score can depend on the sentence, and the indexed text, in which position tags make each "
        "word unique. Moses decodes the indexed text with that system; `strip-tags` removes the tags from the output. "
        "`tune` and `decode` do all this automatically.",
        examples=(
            "phrasescore-smt text-table system/tuned.ctx.ini --source test.en -o test.indexed",
            "moses -f test.indexed/moses.ini < test.indexed/text | phrasescore-smt strip-tags > test.tokens",
        ),
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    add_source_option(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FOLDER",
        help="folder to write: moses.ini, its tables, and the indexed text in the file `text`",
    )
    parser.add_argument(
        "--weights",
        type=Path,
        metavar="INI",
        help="take the weights of this ini, such as one that was tuned on the per-text table of another text (default: "
        "those of INI)",
    )
    parser.add_argument(
        "--table-limit",
        type=natural,
        metavar="N",
        help="options of a phrase that are kept, the best by the weights, with a network by those that tuning began "
        "with; 0 for all (default: as many as INI lets a decoder use)",
    )
    add_text_options(parser)
    add_in_context_option(
        parser,
        "network whose scores in context become one more column",
        "that of INI, if it was tuned with one",
    )
    add_sharing_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.ini import MosesIni
    from moses_integration.text_table.indexed_system import write_indexed_system
    from moses_integration.toolkits.moses_input import require_moses_words
    from phrasescore.errors import naming
    from phrasescore.files import display_name
    from phrasescore.text import text_lines

    require_one_standard_input(args.ini, args.source, args.weights)
    reporter = Reporter(quiet=args.quiet)
    ini = read_ini(args.ini, reporter)
    columns, weights, chosen_by = context_column(args, ini, reporter), None, None
    tuned = MosesIni.read(args.weights) if args.weights else ini
    tuned.require_some_weight()
    if columns is None:
        refuse_idle(args, ["processes", "scheduler"], "without a network in context")
    else:
        require_tuned_for(tuned, columns)
        ini.require_some_weight()
        # An ini from Moses' own scripts has no option weights; its tuning used the options that --ini selects.
        chosen_by = option_weights(tuned) or option_weights(ini) or ini.weights_of_features()
    if args.weights:
        weights = tuned.weights_of_features()
    with work_folder(args.output) as folder, work_folder(None) as temporary:
        prepared = temporary / "prepared"
        with naming({prepared: Path(display_name(args.source))}):
            prepare_text(ini, "source", args.source, prepared, args.prepared, reporter.log)
            # The indexed text is meant as input for Moses.
            require_moses_words(text_lines(prepared), prepared)
            origin = str(args.weights or args.ini)
            made = write_indexed_system(ini, prepared, folder, columns, weights, origin, args.table_limit, chosen_by)
    if made.sentences and not made.positions:
        reporter.log(f"{display_name(args.source)}: has no phrase of the table; give text as the system's is")
    a_sentence = f" ({made.lines / made.sentences:.0f} a sentence)" if made.sentences else ""
    reporter.log(
        f"{made.ini}: written, with {made.lines:,} lines{a_sentence} for {made.positions:,} positions; decode "
        f"{made.text} with it, by `phrasescore-smt decode --prepared`"
    )
    return 0
