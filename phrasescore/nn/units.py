"""Recurrent units.

Legend: N nodes, B rows of one step, m input size, n hidden size, s state size, d context size, g rows of the
projections.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from phrasescore.nn.architecture import Biases
from phrasescore.registry import Registry


class RecurrentUnit(Protocol):
    """The interface of a unit.

    `project` and `project_context` compute everything that does not depend on the previous state for all steps at once;
    `step` does the rest.
    """

    hidden: int
    """n, the size of the output, which is the first n elements of the state."""
    state: int
    """s, the size of the state, a multiple of n: n, or 2n for a unit with a cell."""
    rows: int
    """g."""

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return the part of the pre-activations that depends on the inputs, [N, g]."""

    def project_context(self, c_Sd: Tensor) -> Tensor:
        """Return the part that depends on the context vector of each source phrase, [S, g]."""

    def step(self, x_Bg: Tensor, h_Bs: Tensor, context_Bg: Tensor | None = None) -> Tensor:
        """Return the next state [B, s] from the projected input, the state, and the projected context."""


class UnitBuilder(Protocol):
    """A registered class or function that returns a `torch.nn.Module` with the interface of `RecurrentUnit`.

    Linear layers named `recurrent...` are initialised as orthogonal n x n blocks; see `initialisation.py`.
    """

    def __call__(self, inputs: int, hidden: int, context: int, biases: Biases) -> RecurrentUnit:
        """Build a unit; `inputs` and `context` are sizes, and 0 if absent."""


UNITS: Registry[UnitBuilder] = Registry("unit")
register_unit = UNITS.register


def output(unit: RecurrentUnit, h_Bs: Tensor) -> Tensor:
    """Return the output part of a state, [B, n]."""
    return h_Bs if unit.state == unit.hidden else h_Bs[:, : unit.hidden]


class _Unit(nn.Module):
    """The terms W x and C c of the pre-activations, each of `blocks` blocks of n rows."""

    context: nn.Linear | None

    def __init__(self, inputs: int, hidden: int, *, blocks: int, states: int, bias: bool) -> None:
        super().__init__()
        self.hidden, self.state, self.rows = hidden, states * hidden, blocks * hidden
        self.input = _input_layer(inputs, self.rows, bias)

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return W x [N, g]."""
        x_Ng: Tensor = self.input(x_Nm)
        return x_Ng

    def project_context(self, c_Sd: Tensor) -> Tensor:
        """Return C c [S, g]."""
        if self.context is None:
            raise ValueError("this unit was built without a context")
        c_Sg: Tensor = self.context(c_Sd)
        return c_Sg


def _input_layer(inputs: int, rows: int, bias: bool) -> nn.Linear:
    """Return a linear layer; without inputs it returns its bias."""
    layer = nn.Linear(max(inputs, 1), rows, bias=bias)
    if not inputs:
        layer.in_features, layer.weight = 0, nn.Parameter(torch.empty(rows, 0))
    return layer


GatedForm = Literal["gru-paper", "gru-appendix", "gru"]


class GatedUnit(_Unit):
    """The paper's gated hidden unit (section 2.3 and appendix), with three positions of the reset gate.

    Eq. 5, 6       r = sigma(W_r x + U_r h + C_r c),   z = sigma(W_z x + U_z h + C_z c)
    Eq. 7          h' = z * h + (1 - z) * h~
    gru-paper      h~ = tanh(W x + C c + U (r * h))        Eq. 8: before the recurrent product
    gru-appendix   h~ = tanh(W x + r * (U h + C c))        after it, on the context too: the paper's decoder
    gru            h~ = tanh(W x + C c + r * (U h))        after it: `torch.nn.GRU` with [x; c] as its input

    Without a context the last two are identical. With biases, gru has those of `torch.nn.GRU`, one with W x and one
    with U h.
    """

    def __init__(
        self, inputs: int, hidden: int, context: int = 0, biases: Biases = "none", *, form: GatedForm = "gru-paper"
    ) -> None:
        is_torch = form == "gru" and biases != "none"
        # Rows of the projections: r, z, candidate.
        super().__init__(inputs, hidden, blocks=3, states=1, bias=is_torch or biases == "all")
        self.form = form
        self.recurrent_gates = nn.Linear(hidden, 2 * hidden, bias=is_torch)
        self.recurrent_candidate = nn.Linear(hidden, hidden, bias=is_torch)
        self.context = nn.Linear(context, self.rows, bias=False) if context else None
        # The authors' code has a bias for the candidate and none for the gates.
        is_authors = biases == "authors" and not is_torch
        self.candidate_bias = nn.Parameter(torch.zeros(hidden)) if is_authors else None

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return [W_r x; W_z x; W x], [N, 3n]."""
        if self.candidate_bias is None:
            return super().project(x_Nm)
        bias = nn.functional.pad(self.candidate_bias, (2 * self.hidden, 0))
        return nn.functional.linear(x_Nm, self.input.weight, bias)

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
        if c_Bn is not None and self.form != "gru-appendix":
            candidate_Bn = candidate_Bn + c_Bn
        if self.form == "gru-paper":
            candidate_Bn = candidate_Bn + self.recurrent_candidate(r_Bn * h_Bn)
        else:
            product_Bn = self.recurrent_candidate(h_Bn)
            if c_Bn is not None and self.form == "gru-appendix":
                product_Bn = product_Bn + c_Bn
            candidate_Bn = torch.addcmul(candidate_Bn, r_Bn, product_Bn)
        candidate_Bn = torch.tanh(candidate_Bn)
        return candidate_Bn + z_Bn * (h_Bn - candidate_Bn)


for _form in get_args(GatedForm):
    register_unit(_form)(partial(GatedUnit, form=_form))


class _PlainUnit(_Unit):
    """A unit with pre-activations W x + b + U h + b' + C c, as in torch's modules."""

    blocks = 1
    states = 1

    def __init__(self, inputs: int, hidden: int, context: int = 0, biases: Biases = "none") -> None:
        bias = biases != "none"
        super().__init__(inputs, hidden, blocks=self.blocks, states=self.states, bias=bias)
        self.recurrent = nn.Linear(hidden, self.rows, bias=bias)
        self.context = nn.Linear(context, self.rows, bias=False) if context else None

    def activations(self, x_Bg: Tensor, h_Bn: Tensor, context_Bg: Tensor | None) -> Tensor:
        """Return the pre-activations, [B, g]."""
        a_Bg: Tensor = x_Bg + self.recurrent(h_Bn)
        return a_Bg if context_Bg is None else a_Bg + context_Bg


@register_unit("rnn")
class TanhUnit(_PlainUnit):
    """h' = tanh(W x + U h + C c), the unit without gates; `torch.nn.RNN`."""

    def step(self, x_Bn: Tensor, h_Bn: Tensor, context_Bn: Tensor | None = None) -> Tensor:
        """Return h' [B, n]."""
        # Under autocast states keep their precision.
        return torch.tanh(self.activations(x_Bn, h_Bn, context_Bn)).to(h_Bn.dtype)


@register_unit("lstm")
class LstmUnit(_PlainUnit):
    """Long short-term memory without peepholes; `torch.nn.LSTM`. The state is [h; k] with the cell k.

    i, f, o = sigma(W x + U h + C c), each with its own matrices;   k~ = tanh(W x + U h + C c)
    k' = f * k + i * k~;   h' = o * tanh(k')
    """

    blocks = 4
    states = 2

    def step(self, x_B4n: Tensor, h_B2n: Tensor, context_B4n: Tensor | None = None) -> Tensor:
        """Return h' and k' [B, 2n]."""
        h_Bn, k_Bn = h_B2n.chunk(2, dim=1)
        i_Bn, f_Bn, new_Bn, o_Bn = self.activations(x_B4n, h_Bn, context_B4n).chunk(4, dim=1)
        k_Bn = torch.sigmoid(f_Bn) * k_Bn + torch.sigmoid(i_Bn) * torch.tanh(new_Bn)
        return torch.cat((torch.sigmoid(o_Bn) * torch.tanh(k_Bn), k_Bn), dim=1)
