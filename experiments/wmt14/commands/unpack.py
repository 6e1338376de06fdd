"""`unpack`: texts out of a downloaded archive."""

from __future__ import annotations

import argparse
import hashlib
from pathlib import Path

from experiments.wmt14.archives import read_member
from phrasescore.errors import UsageError, UserError
from phrasescore.files import write_lines


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add the command."""
    parser = subparsers.add_parser("unpack", help="write texts of an archive as plain lines", description=__doc__)
    parser.add_argument("archive", type=Path, help="tar file")
    parser.add_argument("--member", nargs="+", required=True, metavar="NAME", help="texts in it; .gz and .sgm too")
    parser.add_argument("-o", "--output", nargs="+", type=Path, required=True, metavar="TEXT", help="a file for each")
    parser.add_argument("--md5", metavar="DIGEST", help="what the archive must have")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run the command."""
    if len(args.output) != len(args.member):
        raise UsageError("-o: give as many files as texts with --member")
    if args.md5:
        with args.archive.open("rb") as file:
            found = hashlib.file_digest(file, "md5").hexdigest()
        if found != args.md5:
            raise UserError(f"{args.archive}: has the MD5 digest {found}, not {args.md5}; download it again")
    for member, output in zip(args.member, args.output, strict=True):
        write_lines(output, read_member(args.archive, member))
    return 0
