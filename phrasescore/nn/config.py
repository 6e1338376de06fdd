"""The architecture of a network, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasescore.configuration import option

Reset = Literal["before", "after"]
Biases = Literal["none", "authors", "all"]
"""Which layers have biases: none (a literal reading of the equations), those where the authors' code learns
them, or every layer."""
Initialisation = Literal["cho2014", "scaled"]


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and forms of the encoder-decoder. The defaults are the paper's."""

    hidden: int = option(1000, "units in the state of the encoder and of the decoder", minimum=1)
    embedding: int = option(100, "size of a word vector, the rank of the input factor", minimum=1)
    maxout: int = option(500, "outputs of the maxout readout, each the larger of two units", minimum=1)
    output_rank: int = option(100, "rank of the softmax matrix; 0 leaves it whole", minimum=0)
    encoder_reset: Reset = option("before", "reset gate before the recurrent product (Eq. 8) or after it")
    decoder_reset: Reset = option("after", "the same in the decoder; the appendix has it after the product")
    summary: bool = option(True, "c = tanh(V h_N) as in the appendix, not c = h_N as in the authors' code")
    biases: Biases = option("authors", "none, those the authors' code learns, or in all layers")
    initialisation: Initialisation = option(
        "cho2014", "Gaussian of 0.01 and orthogonal recurrent matrices (cho2014), or scaled by layer size"
    )
    dropout: float = option(
        0.0,
        "share of word vectors' elements, of the summary's and of the maxout outputs dropped in training",
        minimum=0,
        maximum=0.9,
    )
