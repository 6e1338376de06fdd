"""Which texts the experiment is made of: `configs/corpora.toml`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from phrasescore.documents import read_toml

CONFIGS = Path(__file__).parent / "configs"
SOURCE, TARGET = "en", "fr"

Role = Literal["parallel", "monolingual", "dev", "test"]


@dataclass(frozen=True)
class Text:
    """A text and the file that it comes in; amounts are in millions."""

    name: str
    file: str
    url: str
    gigabytes: float
    """Of the file."""
    lines: float
    words: float
    """Of the target side, tokenised."""
    role: Role = "parallel"
    source: str | None = None
    """Name of the source side in the archive; None if the file is the text, of the target language."""
    target: str | None = None
    keep: float = 0.0
    """Words that data selection leaves; 0 for all."""
    md5: str | None = None

    @property
    def share(self) -> float:
        """The share of its words that is kept."""
        return self.keep / self.words if self.keep else 1.0


def read_corpora() -> tuple[Text, ...]:
    """Return the texts in the order of the file."""
    return tuple(Text(**entry) for entry in read_toml(CONFIGS / "corpora.toml")["text"])
