"""What a neural language model is trained on, as data."""

from __future__ import annotations

from dataclasses import dataclass

from phrasescore.configuration import option


@dataclass(frozen=True)
class TextConfig:
    """What is read from the training text."""

    vocabulary: int = option(15_000, "most frequent words that the network knows, its shortlist", minimum=1)
    min_count: int = option(
        2,
        "times that a word must occur to enter the shortlist; the network learns from the others when to expect an "
        "unknown word",
        minimum=1,
    )
    held_out: float = option(
        0.01,
        "share of the sentences kept from training to measure the loss, if there is no --validation",
        minimum=0,
        maximum=1,
    )
