"""Words as vectors: the low-rank input factor of the paper (section 4.1.1).

Legend: N words, m embedding size.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WordEmbedding(nn.Module):
    """e(x) = E x (+ b). One a language; the gates, the candidate and the readout share it."""

    def __init__(self, words: int, size: int, *, bias: bool) -> None:
        super().__init__()
        self.words = nn.Embedding(words, size)
        self.bias = nn.Parameter(torch.zeros(size)) if bias else None

    def forward(self, words_N: Tensor) -> Tensor:
        """Return e(x) [N, m] of word ids."""
        e_Nm: Tensor = self.words(words_N)
        return e_Nm if self.bias is None else e_Nm + self.bias
