"""Which text a phrase table was made for, in a JSON file beside the table.

The table, not the ini, leads to it: mert-moses.pl writes another ini, without the comments of the one that it reads.
"""

from __future__ import annotations

from pathlib import Path

from moses_integration.ini import MosesIni
from phrasescore.documents import read_json
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json

DIGEST = "text.json"
"""Name of the file."""
_KEY = "text_sha256"


def write_digest(folder: Path, text: Path) -> None:
    """Say of the tables in a folder which text they were made for.

    Raises:
        UserError: the file cannot be written.
    """
    write_json(folder / DIGEST, {_KEY: sha256_of(text)})


def digest_of_text(ini: MosesIni) -> str | None:
    """Return the SHA-256 of the text that the phrase table of an ini was made for; None if it is for any text.

    Raises:
        UserError: the file that says so is damaged.
    """
    named = [ini.path_of(one) for one in ini.features() if one.is_phrase_table and "path" in one.arguments]
    for path in (table.with_name(DIGEST) for table in named):
        if path.exists():
            digest = read_json(path, "make the table again").get(_KEY)
            if not isinstance(digest, str):
                raise UserError(f"{path}: has no `{_KEY}`; make the table again")
            return digest
    return None
