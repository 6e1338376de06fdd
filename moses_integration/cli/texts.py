"""The options --source and --prepared, and the preparation of texts for a system."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from phrasescore.cli.options import path_or_standard_stream
from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, can_be_read_only_once, display_name, sha256_of, write_lines
from phrasescore.text import Log, no_log, text_lines

if TYPE_CHECKING:
    from moses_integration.ini import MosesIni


def add_source_option(parser: argparse.ArgumentParser) -> None:
    """Add --source; the default is standard input."""
    parser.add_argument(
        "--source",
        type=path_or_standard_stream,
        default=STANDARD_STREAM,
        metavar="TEXT",
        help="source sentences (default: standard input)",
    )


def add_text_options(parser: argparse.ArgumentParser) -> None:
    """Add --prepared."""
    parser.add_argument(
        "--prepared",
        action="store_true",
        help="the text is tokenised, cased and escaped as the training text; without this option, plain text is "
        "prepared automatically",
    )


def require_lasting(*paths: Path | None, why: str) -> None:
    """Raise a UserError, with the reason `why`, if an input is a pipe or standard input; None is ignored."""
    for path in paths:
        if path is not None and can_be_read_only_once(path):
            raise UserError(f"{path}: is a pipe or device, but {why}; give a file")


def prepare_text(
    ini: MosesIni | None, side: str, raw: str | Path, prepared: Path, is_prepared: bool, log: Log = no_log
) -> Path:
    """Prepare a text like the system's training text, write it to `prepared`, and return that path.

    Args:
        ini: the system; None only for prepared text.
        side: `source` or `target`.
        raw: the text.
        prepared: the file to write.
        is_prepared: whether the text is prepared already.
        log: receives warnings about lines that are not UTF-8, and about text that does not look prepared as declared.

    Raises:
        UserError: the text cannot be read, the preparation of the system's text is unknown (for instance because the
            ini was moved), or the system has per-text tables for another text.
    """
    from moses_integration.building.system_text import SystemText
    from moses_integration.building.text_form import SYSTEM_TEXT_ADVICE, DeclaredForm, warn_about_form
    from moses_integration.text_table.text_digest import digest_of_text

    if is_prepared:
        # Check only tokenisation: a prepared text may contain no escapes and no capitals.
        advice = replace(SYSTEM_TEXT_ADVICE, if_plain="leave out --prepared")
        claim = DeclaredForm(tokenised=True, escaped=True, capitalised=False, advice=advice)
        write_lines(prepared, warn_about_form(text_lines(raw, log), display_name(raw), claim, log))
        if ini is not None and side == "source":
            _require_indexed_text(ini, prepared, raw)
        return prepared
    assert ini is not None, "text is prepared where no ini says how"
    if side == "source" and digest_of_text(ini) is not None:
        raise UserError(f"{ini.name}: has the tables of one text; give that, `text` beside it, and --prepared")
    text = SystemText.of(ini)
    if text is None:
        # Report missing files first: if the ini was moved, they are the cause.
        ini.require_files()
        raise UserError(
            f"{ini.name}: how its text was prepared is not known, for no preparation.json lies beside it or the files "
            "it names; give text that is tokenised and escaped as in training, and --prepared"
        )
    text.prepare(side, raw, prepared, log)
    return prepared


def _require_indexed_text(ini: MosesIni, text: Path, raw: str | Path) -> None:
    """Raise a UserError if the ini has per-text tables for another text; `raw` names the text in messages."""
    from moses_integration.text_table.text_digest import digest_of_text

    if digest_of_text(ini) not in (None, sha256_of(text)):
        raise UserError(
            f"{display_name(raw)}: is not the text that the tables of {ini.name} were made for; give the whole file "
            "`text` beside that ini, or the ini from which it was made, or run `text-table` again"
        )
