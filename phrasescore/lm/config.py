"""The architecture of a neural language model and its data, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasescore.configuration import option

Initialisation = Literal["uniform", "scaled"]


@dataclass(frozen=True)
class NeuralLmConfig:
    """Sizes and forms of the network. The defaults are the paper's (section 4.1.2)."""

    order: int = option(7, "words of an n-gram: the predicted one and those before it", minimum=2)
    embedding: int = option(512, "size of a word vector", minimum=1)
    first_hidden: int = option(1536, "rectified units in the first hidden layer", minimum=1)
    second_hidden: int = option(1024, "rectified units in the second hidden layer", minimum=1)
    initialisation: Initialisation = option(
        "uniform", "all weights uniform between -0.01 and 0.01, or scaled by layer size"
    )
    dropout: float = option(
        0.0, "share of word vectors' elements and of hidden units dropped in training", minimum=0, maximum=0.9
    )
    self_normalise: float = option(
        0.0,
        "weight of (ln Z)^2 in the loss, which drives the softmax's Z to 1, so that a score needs no sum over the "
        "words (Devlin et al. 2014, who took 0.1)",
        minimum=0,
    )


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
