"""The decoder: from the summary of the source to a state before each target symbol.

Legend: S source phrases, R start nodes, N nodes below them, A = R + N, m embedding size, n hidden size,
k readout size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.config import Biases, Reset
from phrasescore.nn.embedding import WordEmbedding
from phrasescore.nn.encoder import EncodedSource
from phrasescore.nn.readout import MaxoutReadout
from phrasescore.nn.recurrence import unroll
from phrasescore.nn.units import GatedUnit


class Decoder(nn.Module):
    """The recurrent decoder of appendix A.1.2, teacher-forced.

    h'_0 = tanh(V' c);  h'_t from e(y_{t-1}), h'_{t-1} and c, with e(y_0) = 0.
    What depends on the source alone is computed once a source phrase, not once a word.
    """

    def __init__(
        self,
        words: int,
        embedding: int,
        hidden: int,
        *,
        reset: Reset,
        maxout: int,
        rank: int,
        biases: Biases,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.embedding = WordEmbedding(words, embedding, bias=biases == "authors")
        self.initial = nn.Linear(hidden, hidden, bias=biases != "none")
        self.unit = GatedUnit(embedding, hidden, hidden, reset=reset, biases=biases)
        self.readout = MaxoutReadout(embedding, hidden, hidden, maxout, rank, biases=biases, dropout=dropout)
        self.dropout = nn.Dropout(dropout)

    def forward(self, batch: PairBatch, encoded: EncodedSource) -> Tensor:
        """Return the readout of each node [A, k]; its product with the output words gives their logits."""
        c_Sn, tree, source_A = encoded.summary_Sn, batch.target, batch.source_of_node_A
        e_Nm = self.dropout(self.embedding(tree.words_N))
        context_A3n = self.unit.project_context(c_Sn).index_select(0, source_A)
        context_R3n, context_N3n = context_A3n.split((batch.target_starts, len(e_Nm)))
        # The first step reads no word: e(y_0) = 0.
        x_13n = self.unit.project(e_Nm.new_zeros(1, e_Nm.shape[1]))
        # States are as precise as the weights, also where products are 16-bit.
        h_Sn = torch.tanh(self.initial(c_Sn)).to(self.initial.weight.dtype)
        h_Rn = h_Sn.index_select(0, source_A[: batch.target_starts])
        h_Rn = self.unit.step(x_13n.expand(len(h_Rn), -1), h_Rn, context_R3n)
        h_An = unroll(self.unit, tree, self.unit.project(e_Nm), h_Rn, context_N3n)
        s_Ak: Tensor = self.readout(h_An, e_Nm, c_Sn, source_A)
        return s_Ak
