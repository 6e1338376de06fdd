"""From decoder states to the vector that the output words are compared with.

Legend: A nodes, N = A - R nodes below the R start nodes, m embedding size, n hidden size, d context size,
s maxout outputs, r output rank.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.nn.config import Biases


class MaxoutReadout(nn.Module):
    """The deep output of the paper (section 4.1.1 and appendix A.1.2).

    s'_t = O_h h'_t + O_y e(y_{t-1}) + O_c c;   s_{t,i} = max(s'_{t,2i-1}, s'_{t,2i});   G = G_l G_r
    This layer ends with G_r s; G_l and the softmax are in `softmax.py`. Rank 0 leaves G whole.
    """

    def __init__(
        self, embedding: int, hidden: int, context: int, maxout: int, rank: int, *, biases: Biases, dropout: float = 0.0
    ) -> None:
        super().__init__()
        self.state = nn.Linear(hidden, 2 * maxout, bias=biases != "none")
        self.word = nn.Linear(embedding, 2 * maxout, bias=False)
        self.context = nn.Linear(context, 2 * maxout, bias=False)
        self.factor = nn.Linear(maxout, rank, bias=False) if rank else None
        self.dropout = nn.Dropout(dropout)
        self.size = rank or maxout

    def forward(self, h_An: Tensor, e_Nm: Tensor, c_Sd: Tensor, source_A: Tensor) -> Tensor:
        """Return G_r s [A, r] of each node.

        Args:
            h_An: the states, start nodes first.
            e_Nm: e(y_{t-1}) of the nodes below the start nodes, for which it is zero.
            c_Sd: the context of each source phrase.
            source_A: the source phrase of each node.
        """
        starts = len(h_An) - len(e_Nm)
        s_A2s = self.state(h_An) + self.context(c_Sd).index_select(0, source_A)
        s_A2s = s_A2s + nn.functional.pad(self.word(e_Nm), (0, 0, starts, 0))
        s_As: Tensor = self.dropout(torch.amax(s_A2s.unflatten(1, (-1, 2)), dim=2))
        return s_As if self.factor is None else self.factor(s_As)
