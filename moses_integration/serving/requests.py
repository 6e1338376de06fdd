"""What clients ask for and get, without the libraries that translate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from moses_integration.ini import MosesIni

_OF_MOSES = (
    "source given target",
    "source given target, lexical",
    "target given source",
    "target given source, lexical",
)
"""Moses' columns of a phrase table, in their order."""
Result = dict[str, Any]
"""A translation, for JSON."""


@dataclass(frozen=True)
class Sentence:
    """A sentence to translate, and what the result includes."""

    text: str
    is_prepared: bool = False
    nbest: int = 0
    distinct: bool = True
    options: bool = False
    """Whether the result has the other options of each phrase."""


@dataclass(frozen=True)
class Failure:
    """Why there is no translation, and the status of HTTP."""

    message: str
    status: int = 400


@dataclass(frozen=True)
class Limits:
    """What a server does for one request."""

    words: int = 200
    """Of a sentence."""
    sentences: int = 100
    nbest: int = 100
    seconds: float = 30.0


def column_names(ini: MosesIni) -> list[str]:
    """Name the columns of the phrase table: Moses' four, then by number, then those in context."""
    table = ini.phrase_table()
    of_moses = _OF_MOSES if table.width >= len(_OF_MOSES) else ()
    added = [f"column {number + 1}" for number in range(len(of_moses), table.width)]
    in_context = ["in context"] * (table.weight_count - table.width)
    return [*of_moses, *added, *in_context]
