"""What a report says of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phrasescore.errors import UserError
from phrasescore.files import STANDARD_STREAM, display_name, sha256_of


def describe_file(path: Path) -> dict[str, Any]:
    """Return a file's name, size and SHA-256.

    Raises:
        UserError: it cannot be read, or is no file: what can be read once only would have nothing left.
    """
    if (path.exists() and not path.is_file()) or str(path) == STANDARD_STREAM:
        raise UserError(f"{display_name(path)}: cannot be read twice; give a file")
    return {"file": str(path), "sha256": sha256_of(path), "bytes": path.stat().st_size}
