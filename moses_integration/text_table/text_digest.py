"""The digest of the text of a per-text phrase table, in a JSON file in the folder of the table.

The digest is not in the ini, because mert-moses.pl writes a new ini without comments.
"""

from __future__ import annotations

from pathlib import Path

from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from phrasescore.files import sha256_of, write_json
from phrasescore.files.documents import read_json

DIGEST = "text.json"
"""Name of the digest file."""
_KEY = "text_sha256"


def write_digest(folder: Path, text: Path) -> None:
    """Write the digest of the text of the tables in a folder."""
    write_json(folder / DIGEST, {_KEY: sha256_of(text)})


def digest_of_text(ini: MosesIni) -> str | None:
    """Return the SHA-256 of the text of an ini's per-text phrase table, None for other tables.

    Raises:
        UserError: the digest file is damaged.
    """
    named = [ini.path_of(one) for one in ini.features() if one.is_phrase_table and "path" in one.arguments]
    for path in (table.with_name(DIGEST) for table in named):
        if path.exists():
            digest = read_json(path, "make the table again").get(_KEY)
            if not isinstance(digest, str):
                raise UserError(f"{path}: has no `{_KEY}`; make the table again")
            return digest
    return None
