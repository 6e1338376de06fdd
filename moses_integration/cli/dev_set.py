"""The options --source and --reference for a dev set, and its preparation for the system."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.cli.texts import prepare_text
from phrasescore.text import Log, note_one_sided, text_lines

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.tuning.tune import References


@dataclass(frozen=True)
class DevSet:
    """The prepared dev set, in files and in memory."""

    source: Path
    references: list[Path]
    sentences: list[bytes]
    translations: References
    """One or more references of each sentence."""


def add_dev_set_options(parser: argparse.ArgumentParser) -> None:
    """Add --source and --reference."""
    parser.add_argument("--source", type=Path, required=True, metavar="TEXT", help="source text of the dev set")
    parser.add_argument(
        "--reference",
        type=Path,
        nargs="+",
        action="extend",
        required=True,
        metavar="TEXT",
        help="its translations; several files are several references",
    )


def prepare_dev_set(args: argparse.Namespace, ini: MosesIni | None, folder: Path, log: Log) -> DevSet:
    """Write the dev set to a folder, prepared like the system's training text, or unchanged with --prepared.

    Raises:
        UserError: a text cannot be read, or the files differ in length.
    """
    from moses_integration.tuning.bleu import read_references
    from moses_integration.tuning.tune import check_dev_set

    source = prepare_text(ini, "source", args.source, folder / "dev.source", args.prepared, log)
    notes: list[str] = []
    references = [
        prepare_text(ini, "target", path, folder / f"dev.reference{number}", args.prepared, notes.append)
        for number, path in enumerate(args.reference)
    ]
    sentences = list(text_lines(source))
    # Check here, so that messages name the user's files.
    translations = read_references(references, args.reference)
    check_dev_set(sentences, translations, (args.source, args.reference[0]))
    # Log notes only for references that pass the checks.
    for note in notes:
        log(note)
    for path, lines in zip(args.reference, zip(*translations, strict=True), strict=True):
        note_one_sided(sentences, lines, (args.source, path), log)
    return DevSet(source, references, sentences, translations)
