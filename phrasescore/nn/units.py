"""Recurrent units: how one input changes the state.

Legend: N nodes, B rows of one step, m input size, n hidden size, d context size, g rows of the projections.
"""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor, nn

from phrasescore.nn.config import Biases, Reset


class RecurrentUnit(Protocol):
    """What the encoder and the decoder ask of a unit.

    Everything that does not depend on the previous state is computed for all steps at once, by `project`
    and `project_context`; `step` does the rest.
    """

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return the part of the pre-activations that depends on the inputs, [N, g]."""

    def project_context(self, c_Sd: Tensor) -> Tensor:
        """Return the part that depends on the context vector of each source phrase, [S, g]."""

    def step(self, x_Bg: Tensor, h_Bn: Tensor, context_Bg: Tensor | None) -> Tensor:
        """Return the next state from the projected input, the state, and the projected context."""


class GatedUnit(nn.Module):
    """The paper's gated hidden unit (section 2.3 and appendix), with its reset gate in either place.

    Eq. 5, 6     r = sigma(W_r x + U_r h + C_r c),   z = sigma(W_z x + U_z h + C_z c)
    Eq. 7        h' = z * h + (1 - z) * h~
    Eq. 8        h~ = tanh(W x + U (r * h) + C c)          reset "before" the recurrent product
    Appendix     h~ = tanh(W x + r * (U h + C c))          reset "after": the paper's decoder

    The encoder has no context: c = 0. `torch.nn.GRU` computes the second form, so it cannot stand in for
    the paper's encoder.
    """

    def __init__(self, inputs: int, hidden: int, context: int = 0, *, reset: Reset = "before", biases: Biases) -> None:
        super().__init__()
        self.hidden = hidden
        self.reset = reset
        # Rows of the projections: r, z, candidate.
        self.input = nn.Linear(inputs, 3 * hidden, bias=biases == "all")
        self.recurrent_gates = nn.Linear(hidden, 2 * hidden, bias=False)
        self.recurrent_candidate = nn.Linear(hidden, hidden, bias=False)
        self.context = nn.Linear(context, 3 * hidden, bias=False) if context else None
        # The authors' code learns a bias for the candidate and none for the gates.
        self.candidate_bias = nn.Parameter(torch.zeros(hidden)) if biases == "authors" else None

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return W_r x, W_z x, W x side by side, [N, 3n]."""
        bias: Tensor | None = self.input.bias
        if self.candidate_bias is not None:
            bias = nn.functional.pad(self.candidate_bias, (2 * self.hidden, 0))
        return nn.functional.linear(x_Nm, self.input.weight, bias)

    def project_context(self, c_Sd: Tensor) -> Tensor:
        """Return C_r c, C_z c, C c side by side, [S, 3n]."""
        if self.context is None:
            raise ValueError("this unit was built without a context")
        c_S3n: Tensor = self.context(c_Sd)
        return c_S3n

    def gates(self, x_B3n: Tensor, h_Bn: Tensor, context_B3n: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the reset gate r and the update gate z, each [B, n] (Eq. 5, 6)."""
        n = self.hidden
        x_B2n = x_B3n[:, : 2 * n]
        if context_B3n is not None:
            x_B2n = x_B2n + context_B3n[:, : 2 * n]
        r_Bn, z_Bn = torch.sigmoid(x_B2n + self.recurrent_gates(h_Bn)).chunk(2, dim=1)
        return r_Bn, z_Bn

    def step(self, x_B3n: Tensor, h_Bn: Tensor, context_B3n: Tensor | None = None) -> Tensor:
        """Return h' [B, n]."""
        n = self.hidden
        candidate_Bn = x_B3n[:, 2 * n :]
        c_Bn = None if context_B3n is None else context_B3n[:, 2 * n :]
        r_Bn, z_Bn = self.gates(x_B3n, h_Bn, context_B3n)
        if self.reset == "before":
            if c_Bn is not None:
                candidate_Bn = candidate_Bn + c_Bn
            candidate_Bn = candidate_Bn + self.recurrent_candidate(r_Bn * h_Bn)
        else:
            product_Bn = self.recurrent_candidate(h_Bn)
            if c_Bn is not None:
                product_Bn = product_Bn + c_Bn
            candidate_Bn = torch.addcmul(candidate_Bn, r_Bn, product_Bn)
        candidate_Bn = torch.tanh(candidate_Bn)
        return candidate_Bn + z_Bn * (h_Bn - candidate_Bn)
