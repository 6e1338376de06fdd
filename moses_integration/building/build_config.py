"""Options of a build: apart from `system`, so that the command line shows its help without loading libraries."""

from __future__ import annotations

from dataclasses import dataclass

from moses_integration.building.alignment import Method
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.language_model import ORDERS
from phrasescore.configuration import option


@dataclass(frozen=True)
class BuildConfig:
    """Options of the word alignment and of the models."""

    aligner: Method = option("eflomal", "how to align words")
    seed: int = option(1, "of eflomal; the others need none", minimum=0)
    order: int = option(
        5, f"of the language model, from {ORDERS[0]} to {ORDERS[-1]}", minimum=ORDERS[0], maximum=ORDERS[-1]
    )
    longest_phrase: int = option(
        LONGEST_PHRASE, f"words of a phrase, from 1 to {LONGEST_PHRASE}", minimum=1, maximum=LONGEST_PHRASE
    )
