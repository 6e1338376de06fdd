"""`phrasescore-smt decode`: translate sentences."""

from __future__ import annotations

import argparse
from pathlib import Path

from moses_integration.cli.options import (
    add_text_options,
    add_toolkit_options,
    prepare_text,
    toolkit_of,
    work_folder,
)
from phrasescore.cli.console import Reporter, interrupt_on_sigterm
from phrasescore.cli.options import add_quiet_option, path_or_standard_stream
from phrasescore.errors import UserError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser(
        "decode",
        help="translate sentences",
        description="Translate sentences, a line each, from standard input to standard output. Plain text gives plain "
        "text; with --prepared, tokens give tokens.",
    )
    parser.add_argument("ini", type=Path, metavar="INI", help="moses.ini")
    parser.add_argument(
        "--source",
        type=path_or_standard_stream,
        default="-",
        metavar="TEXT",
        help="sentences (default: standard input)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=path_or_standard_stream,
        default="-",
        metavar="TEXT",
        help="translations (default: standard output)",
    )
    parser.add_argument(
        "--nbest", nargs=2, metavar=("FILE", "SIZE"), help="also write n-best lists of distinct translations, as tokens"
    )
    parser.add_argument("--work", type=Path, metavar="FOLDER", help="keep logs and filtered tables here")
    add_text_options(parser)
    add_toolkit_options(parser)
    add_quiet_option(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    from moses_integration.build.system import SystemText
    from moses_integration.ini import MosesIni
    from moses_integration.toolkit import NbestRequest
    from phrasescore.files import open_output, read_bytes, read_lines, write_atomically

    if args.nbest and not args.nbest[1].isdecimal():
        raise UserError(f"--nbest: `{args.nbest[1]}` is no size; give --nbest FILE SIZE")
    nbest = NbestRequest(Path(args.nbest[0]), int(args.nbest[1])) if args.nbest else None
    toolkit = toolkit_of(args, Reporter(quiet=args.quiet))
    ini = MosesIni.read(args.ini)
    with interrupt_on_sigterm(), work_folder(args.work) as folder:
        raw = folder / "input"
        # Moses loses a last line that has no end.
        content = read_bytes(args.source)
        write_atomically(raw, content if content.endswith(b"\n") or not content else content + b"\n")
        source = prepare_text(ini, "source", raw, folder / "input.prepared", args.prepared)
        if args.prepared:
            toolkit.decode(ini, source, args.output, nbest, folder)
            return 0
        tokens = folder / "output.tokens"
        toolkit.decode(ini, source, tokens, nbest, folder)
        text = SystemText.of(ini)
        assert text is not None, "the text was prepared"
        with open_output(args.output) as stream:
            stream.writelines(line + b"\n" for line in text.detokenise(read_lines(tokens)))
    return 0
