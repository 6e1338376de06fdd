"""The readout: from decoder states to the input of the softmax.

A readout depends on some of e(y_{t-1}), the state h_t and the context c; terms of size 0 are left out. The softmax
matrix can be factored, G = G_l G_r of a given rank. G_r is defined here, G_l in `softmax.py`.

Legend: B rows, N the last of them that have a previous word, m embedding size, n hidden size, d context size,
q size of the context's term, s outputs, r output rank.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.dropout import Dropout


class Readout(nn.Module):
    """The interface of a readout."""

    def __init__(self, config: ModelConfig, outputs: int, *, uses_context: bool) -> None:
        super().__init__()
        self.uses_context = uses_context
        self.dropout = Dropout(config.dropout)
        self.outputs = outputs
        """s."""
        self.size = config.output_rank or outputs
        """Input size of the softmax: the rank, or s."""
        self.factor: nn.Linear | None = None

    def project_context(self, c_Bd: Tensor) -> Tensor:
        """Return the term that depends on the context alone, [B, q]."""
        return c_Bd

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bq: Tensor | None) -> Tensor:
        """Return s [B, s]; e(y_{t-1}) of all but the last N rows is zero."""
        raise NotImplementedError

    def shrink(self, s_Bs: Tensor) -> Tensor:
        """Return G_r s [B, r], or s for rank 0."""
        return s_Bs if self.factor is None else self.factor(s_Bs)


class MaxoutReadout(Readout):
    """The deep output of the paper (section 4.1.1 and appendix A.1.2).

    s'_t = O_h h'_t + O_y e(y_{t-1}) + O_c c;   s_{t,i} = max(s'_{t,2i-1}, s'_{t,2i})
    """

    def __init__(self, config: ModelConfig, embedding: int, context: int) -> None:
        super().__init__(config, config.maxout, uses_context=context > 0)
        rows = 2 * config.maxout
        self.state = nn.Linear(config.hidden, rows)
        self.word = nn.Linear(embedding, rows, bias=False) if embedding else None
        self.context = nn.Linear(context, rows, bias=False) if context else None

    def project_context(self, c_Bd: Tensor) -> Tensor:
        """Return O_c c [B, 2s]."""
        return c_Bd if self.context is None else self.context(c_Bd)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_B2s: Tensor | None) -> Tensor:
        """Return the maxima [B, s]."""
        s_B2s = self.state(h_Bn)
        if context_B2s is not None:
            s_B2s = s_B2s + context_B2s
        if self.word is not None:
            s_B2s = s_B2s + self.word(_below_zeros(e_Nm, len(h_Bn)))
        s_Bs: Tensor = self.dropout(torch.amax(s_B2s.unflatten(1, (-1, 2)), dim=2))
        return s_Bs


class StateReadout(Readout):
    """The state alone."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, config.hidden, uses_context=False)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bq: Tensor | None) -> Tensor:
        """Return h_t [B, n]."""
        s_Bn: Tensor = self.dropout(h_Bn)
        return s_Bn


class ConcatenatedReadout(Readout):
    """[e(y_{t-1}); h_t; c] without a layer. It has no dropout, because the word vector has had dropout already."""

    def __init__(self, config: ModelConfig, embedding: int, context: int) -> None:
        super().__init__(config, embedding + config.hidden + context, uses_context=True)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bd: Tensor | None) -> Tensor:
        """Return the concatenation [B, s]."""
        assert context_Bd is not None
        return torch.cat((_below_zeros(e_Nm, len(h_Bn)), h_Bn, context_Bd), dim=1)


class AttentionalReadout(Readout):
    """h~_t = tanh(W [h_t; c_t]) (Luong et al. 2015, Eq. 5), which input feeding gives to the next step."""

    def __init__(self, config: ModelConfig, context: int) -> None:
        super().__init__(config, config.hidden, uses_context=True)
        self.state = nn.Linear(config.hidden, config.hidden, bias=config.biases == "all")
        self.context = nn.Linear(context, config.hidden, bias=False)

    def project_context(self, c_Bd: Tensor) -> Tensor:
        """Return the term of the context, [B, n]."""
        context_Bn: Tensor = self.context(c_Bd)
        return context_Bn

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bn: Tensor | None) -> Tensor:
        """Return h~ [B, n]."""
        s_Bn: Tensor = self.dropout(torch.tanh(self.state(h_Bn) + context_Bn).to(h_Bn.dtype))
        return s_Bn


def _below_zeros(word_Nx: Tensor, rows: int) -> Tensor:
    """Return `rows` rows, with zeros above those given."""
    return nn.functional.pad(word_Nx, (0, 0, rows - len(word_Nx), 0))


def make_readout(config: ModelConfig, embedding: int, context: int) -> Readout:
    """Build the readout; `embedding` and `context` are sizes, and 0 if absent."""
    form = config.readout
    if not context and form not in ("maxout", "state"):
        raise UserError(f"readout `{form}` needs a context; set `attention` or `feed_context`, or `readout` to state")
    readout: Readout
    if form == "maxout":
        readout = MaxoutReadout(config, embedding, context)
    elif form == "state":
        readout = StateReadout(config)
    elif form == "word-state-context":
        readout = ConcatenatedReadout(config, embedding, context)
    else:
        readout = AttentionalReadout(config, context)
    if config.output_rank:
        # The last layer, because weights are drawn, and stored for the optimiser, in the order of the layers.
        readout.factor = nn.Linear(readout.outputs, config.output_rank, bias=False)
    return readout
