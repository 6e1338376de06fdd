"""Prepared and aligned parallel text: three files that belong together."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Corpus:
    """Parallel text, ready for extraction: words separated by blanks, a sentence a line."""

    source: Path
    target: Path
    alignment: Path
    """Links in the Pharaoh format, a line for each pair of sentences."""

    @classmethod
    def in_folder(cls, folder: Path, name: str, languages: tuple[str, str]) -> Corpus:
        """Return the files NAME.en, NAME.fr, NAME.align of a folder."""
        source, target, alignment = (folder / f"{name}.{suffix}" for suffix in (*languages, "align"))
        return cls(source, target, alignment)
