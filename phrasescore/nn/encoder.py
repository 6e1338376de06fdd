"""The encoder: a source phrase becomes one vector.

Legend: S source phrases, N nodes of their prefix tree, n hidden size.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.config import Biases, Reset
from phrasescore.nn.embedding import WordEmbedding
from phrasescore.nn.recurrence import unroll
from phrasescore.nn.units import GatedUnit


@dataclass(frozen=True)
class EncodedSource:
    """What the decoder may look at."""

    summary_Sn: Tensor
    """c, the summary of each source phrase."""


class Encoder(nn.Module):
    """Reads x_1 .. x_N, `<eos>` with a recurrent unit from h_0 = 0; c = tanh(V h_N) (appendix A.1.1)."""

    def __init__(
        self,
        words: int,
        embedding: int,
        hidden: int,
        *,
        reset: Reset,
        summary: bool,
        biases: Biases,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.embedding = WordEmbedding(words, embedding, bias=biases == "authors")
        self.unit = GatedUnit(embedding, hidden, reset=reset, biases=biases)
        self.summary = nn.Linear(hidden, hidden, bias=biases == "all") if summary else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: PairBatch) -> EncodedSource:
        """Encode the source phrases of a batch."""
        tree = batch.source
        x_N3n = self.unit.project(self.dropout(self.embedding(tree.words_N)))
        h_Rn = self.embedding.words.weight.new_zeros(batch.source_starts, self.hidden)
        c_Sn = unroll(self.unit, tree, x_N3n, h_Rn).index_select(0, batch.source_end_S)
        if self.summary is not None:
            c_Sn = torch.tanh(self.summary(c_Sn))
        return EncodedSource(self.dropout(c_Sn))
