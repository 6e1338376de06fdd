"""What a report says of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from phrasescore.files import sha256_of


def describe_file(path: Path) -> dict[str, Any]:
    """Return a file's name, size and SHA-256.

    Raises:
        UserError: it cannot be read.
    """
    return {"file": str(path), "sha256": sha256_of(path), "bytes": path.stat().st_size}
