"""The dev set on a command line: --source and --reference, prepared as the system wants them."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from moses_integration.cli.texts import prepare_text
from phrasescore.text import Say, note_one_sided, text_lines

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni
    from moses_integration.tuning.tune import References


@dataclass(frozen=True)
class DevSet:
    """Prepared text, in files and in memory."""

    source: Path
    references: list[Path]
    sentences: list[bytes]
    translations: References
    """Of each sentence, one or more."""


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


def prepare_dev_set(args: argparse.Namespace, ini: MosesIni | None, folder: Path, say: Say) -> DevSet:
    """Write the dev set to a folder, prepared as the ini's system says, or as it is if it is --prepared.

    Raises:
        UserError: a text cannot be read, or they do not belong together.
    """
    from moses_integration.tuning.bleu import read_references
    from moses_integration.tuning.tune import check_dev_set

    source = prepare_text(ini, "source", args.source, folder / "dev.source", args.prepared, say)
    notes: list[str] = []
    references = [
        prepare_text(ini, "target", path, folder / f"dev.reference{number}", args.prepared, notes.append)
        for number, path in enumerate(args.reference)
    ]
    sentences = list(text_lines(source))
    # Here, where the names of the user's files are known.
    translations = read_references(references, args.reference)
    check_dev_set(sentences, translations, (args.source, args.reference[0]))
    # Only now, for a reference that is refused needs no notes.
    for note in notes:
        say(note)
    for path, lines in zip(args.reference, zip(*translations, strict=True), strict=True):
        note_one_sided(sentences, lines, (args.source, path), say)
    return DevSet(source, references, sentences, translations)
