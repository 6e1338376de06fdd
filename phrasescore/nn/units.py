"""Recurrent units.

Legend: R start nodes, N nodes below them, S source phrases, B rows of one step, m input size, n hidden size, s state
size, d context size, g rows of the projections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import repeat
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from phrasescore.nn.architecture import Biases
from phrasescore.nn.cpu_products import rounded_rows
from phrasescore.nn.prefix_tree import Rows, take_rows
from phrasescore.plugins import Registry


class RecurrentUnit(nn.Module):
    """The interface of a unit, and the terms W x (+ b) and C c of its pre-activations.

    `project` and `project_context` compute everything that does not depend on the previous state for all steps at once;
    `step` does the rest. Linear layers named `recurrent...` are initialised as orthogonal n x n blocks.
    """

    def __init__(
        self, inputs: int, hidden: int, context: int, *, blocks: int, bias: bool, has_cell: bool = False
    ) -> None:
        """Build W and C of `blocks` blocks of n rows; `inputs` and `context` are the sizes m and d, and 0 if absent."""
        super().__init__()
        self.hidden = hidden
        """n, the size of the output, which is the first n elements of the state."""
        self.state = 2 * hidden if has_cell else hidden
        self.rows = blocks * hidden
        self.input = nn.Linear(inputs, self.rows, bias=bias)
        self.context = nn.Linear(context, self.rows, bias=False) if context else None

    def project(self, x_Nm: Tensor) -> Tensor:
        """Return W x [N, g]."""
        return self.input(x_Nm)

    def project_context(self, c_Sd: Tensor) -> Tensor:
        """Return C c [S, g]."""
        assert self.context is not None
        return self.context(c_Sd)

    def step(self, x_Bg: Tensor, h_Bs: Tensor, context_Bg: Tensor | None = None) -> Tensor:
        """Return the next state [B, s] from the projected input, the state, and the projected context."""
        raise NotImplementedError

    def unroll(
        self, h_Rs: Tensor, parents: Sequence[Rows], inputs: Sequence[Tensor], contexts: Iterable[Tensor] | None = None
    ) -> Tensor:
        """Return the states after all steps, [N, s], from the states before the first step.

        `parents` are the rows of the states before each step among those after the step above; `inputs` and `contexts`
        are projected, [B, g] for each step.
        """
        states, h_Bs = [], h_Rs
        context_of_step: Iterable[Tensor | None] = repeat(None) if contexts is None else contexts
        for rows, x_Bg, c_Bg in zip(parents, inputs, context_of_step, strict=False):
            h_Bs = self.step(x_Bg, take_rows(h_Bs, rows), c_Bg)
            states.append(h_Bs)
        return torch.cat(states)

    def output(self, h_Bs: Tensor) -> Tensor:
        """Return the output part of a state, [B, n]."""
        return h_Bs if self.state == self.hidden else h_Bs[:, : self.hidden]


UnitBuilder = Callable[[int, int, int, Biases], RecurrentUnit]
"""A registered class or function; the arguments are `inputs`, `hidden`, `context` (sizes) and `biases`."""
UNITS: Registry[UnitBuilder] = Registry("unit")
register_unit = UNITS.register

GatedForm = Literal["gru-paper", "gru-appendix", "gru"]


class GatedUnit(RecurrentUnit):
    """The gated hidden unit of Cho et al. (2014, section 2.3 and appendix), with three positions of the reset gate.

    Eq. 5, 6       r = sigma(W_r x + U_r h + C_r c),   z = sigma(W_z x + U_z h + C_z c)
    Eq. 7          h' = z * h + (1 - z) * h~
    gru-paper      h~ = tanh(W x + C c + U (r * h))        Eq. 8: before the recurrent product
    gru-appendix   h~ = tanh(W x + r * (U h + C c))        after it, on the context too: the paper's decoder
    gru            h~ = tanh(W x + C c + r * (U h))        after it: `torch.nn.GRU` with [x; c] as its input

    Without a context the last two are identical, but for biases: gru has those of `torch.nn.GRU`, one with W x and one
    with U h.
    """

    def __init__(
        self, inputs: int, hidden: int, context: int, biases: Biases, *, form: GatedForm = "gru-paper"
    ) -> None:
        is_torch = form == "gru"
        # Rows of the projections: r, z, candidate.
        super().__init__(inputs, hidden, context, blocks=3, bias=is_torch or biases == "all")
        self.form = form
        self.recurrent_gates = nn.Linear(hidden, 2 * hidden, bias=is_torch)
        self.recurrent_candidate = nn.Linear(hidden, hidden, bias=is_torch)
        # The authors' code has a bias for the candidate and none for the gates.
        is_authors = biases == "authors" and not is_torch
        self.candidate_bias = nn.Parameter(torch.zeros(hidden)) if is_authors else None

    def project(self, x_Nm: Tensor) -> Tensor:
        if self.candidate_bias is None:
            return super().project(x_Nm)
        bias = nn.functional.pad(self.candidate_bias, (2 * self.hidden, 0))
        return nn.functional.linear(x_Nm, self.input.weight, bias)

    def gates(self, x_B3n: Tensor, h_Bn: Tensor, context_B3n: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return r and z (Eq. 5, 6)."""
        gates_B2n = self.recurrent_gates(h_Bn).add_(x_B3n[:, : 2 * self.hidden])
        if context_B3n is not None:
            gates_B2n.add_(context_B3n[:, : 2 * self.hidden])
        r_Bn, z_Bn = gates_B2n.sigmoid_().chunk(2, dim=1)
        return r_Bn, z_Bn

    def step(self, x_B3n: Tensor, h_Bn: Tensor, context_B3n: Tensor | None = None) -> Tensor:
        """Return h' (Eq. 7, 8)."""
        x_Bn = x_B3n[:, 2 * self.hidden :]
        c_Bn = None if context_B3n is None else context_B3n[:, 2 * self.hidden :]
        r_Bn, z_Bn = self.gates(x_B3n, h_Bn, context_B3n)
        if self.form == "gru-paper":
            candidate_Bn = self.recurrent_candidate(r_Bn * h_Bn).add_(x_Bn)
        else:
            product_Bn = self.recurrent_candidate(h_Bn)
            if c_Bn is not None and self.form == "gru-appendix":
                product_Bn.add_(c_Bn)
            candidate_Bn = torch.addcmul(x_Bn, r_Bn, product_Bn)
        if c_Bn is not None and self.form != "gru-appendix":
            candidate_Bn.add_(c_Bn)
        # Under autocast states keep their precision.
        return torch.lerp(candidate_Bn.tanh_().to(h_Bn.dtype), h_Bn, z_Bn.to(h_Bn.dtype))

    def unroll(
        self, h_Rs: Tensor, parents: Sequence[Rows], inputs: Sequence[Tensor], contexts: Iterable[Tensor] | None = None
    ) -> Tensor:
        """See `RecurrentUnit`; the reset gate after the product permits one product per step."""
        if contexts is not None or self.form == "gru-paper" or type(self) is not GatedUnit:
            return super().unroll(h_Rs, parents, inputs, contexts)
        layers = self.recurrent_gates, self.recurrent_candidate
        U_3nn = torch.cat([layer.weight for layer in layers])
        b_3n = torch.cat([layer.bias for layer in layers]) if self.form == "gru" else None
        with torch.autocast(h_Rs.device.type, enabled=False):
            # Autocast has chosen the type of the projected inputs.
            h_Nn: Tensor = _GatedSteps.apply(h_Rs, U_3nn, b_3n, parents, inputs[0].dtype, *inputs)
        return h_Nn


class _GatedSteps(torch.autograd.Function):
    """All steps of `GatedUnit` with r after the recurrent product u = U h + b.

    With the gradient g of h' and a = (1 - z)(1 - h~^2), the gradients of the pre-activations of r, z and h~ are

        g a u_h r (1 - r),   g (h - h~) z (1 - z),   g a

    and that of u_h is g a r. The factors of g do not depend on g, so they are computed for all steps at once, and so is
    the gradient of U.
    """

    @staticmethod
    def forward(
        ctx: Any,
        h_Rn: Tensor,
        U_3nn: Tensor,
        b_3n: Tensor | None,
        parents: Sequence[Rows],
        dtype: torch.dtype,
        *inputs: Tensor,
    ) -> Tensor:
        n, sizes = h_Rn.shape[1], [len(x_B3n) for x_B3n in inputs]
        U_3nn, b_3n = U_3nn.to(dtype), None if b_3n is None else b_3n.to(dtype)
        # The pre-activations become r, z and h~ in place.
        gates_N3n = torch.cat(inputs).to(h_Rn.dtype)
        u_N3n = torch.empty_like(gates_N3n)
        h_Nn, change_Nn = (h_Rn.new_empty(len(gates_N3n), n) for _ in range(2))
        before_Nn = torch.empty_like(h_Nn, dtype=dtype)
        above_Bn = h_Rn
        for rows, before_Bn, u_B3n, gates_B3n, change_Bn, after_Bn in zip(
            parents, *(x.split(sizes) for x in (before_Nn, u_N3n, gates_N3n, change_Nn, h_Nn)), strict=True
        ):
            h_Bn = take_rows(above_Bn, rows)
            u_B3n.copy_(nn.functional.linear(before_Bn.copy_(h_Bn), U_3nn, b_3n))
            gates_B3n[:, : 2 * n].add_(u_B3n[:, : 2 * n]).sigmoid_()
            r_Bn, z_Bn, candidate_Bn = gates_B3n.chunk(3, dim=1)
            candidate_Bn.addcmul_(r_Bn, u_B3n[:, 2 * n :]).tanh_()
            torch.sub(h_Bn, candidate_Bn, out=change_Bn)
            above_Bn = torch.addcmul(candidate_Bn, z_Bn, change_Bn, out=after_Bn)
        ctx.save_for_backward(U_3nn, before_Nn, gates_N3n, u_N3n[:, 2 * n :], change_Nn)
        ctx.parents, ctx.sizes, ctx.starts, ctx.has_bias = parents, sizes, len(h_Rn), b_3n is not None
        return h_Nn

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        U_3nn, before_Nn, gates_N3n, u_Nn, change_Nn = ctx.saved_tensors
        r_Nn, z_Nn, candidate_Nn = gates_N3n.chunk(3, dim=1)
        a_Nn = (1 - z_Nn).mul_(1 - candidate_Nn.square())
        factor_N3n = torch.stack((a_Nn * u_Nn * r_Nn * (1 - r_Nn), change_Nn * z_Nn * (1 - z_Nn), a_Nn), dim=1)
        u_factor_N3n = factor_N3n.clone()
        u_factor_N3n[:, 2] *= r_Nn
        du_N3n = torch.empty_like(factor_N3n, dtype=U_3nn.dtype)
        dh_An = torch.cat((gradients[0].new_zeros(ctx.starts, gradients[0].shape[1]), gradients[0]))
        levels = dh_An.split([ctx.starts, *ctx.sizes])
        steps = zip(
            ctx.parents, levels, levels[1:], *(x.split(ctx.sizes) for x in (z_Nn, u_factor_N3n, du_N3n)), strict=False
        )
        for rows, above_Bn, dh_Bn, z_Bn, factor_B3n, du_B3n in reversed(list(steps)):
            torch.mul(dh_Bn[:, None], factor_B3n, out=du_B3n)
            through_Bn = (dh_Bn * z_Bn).add_((rounded_rows(du_B3n.flatten(1)) @ U_3nn)[: len(dh_Bn)])
            if isinstance(rows, slice):
                above_Bn[rows].add_(through_Bn)
            else:
                above_Bn.index_add_(0, rows, through_Bn)
        dh_Nn, flat_N3n = dh_An[ctx.starts :], du_N3n.flatten(1)
        dx_N3n = (dh_Nn[:, None] * factor_N3n).flatten(1)
        dU_3nn = (rounded_rows(flat_N3n).t() @ rounded_rows(before_Nn)).to(dh_An.dtype)
        db_3n = flat_N3n.sum(0, dtype=dh_An.dtype) if ctx.has_bias else None
        return dh_An[: ctx.starts], dU_3nn, db_3n, None, None, *dx_N3n.split(ctx.sizes)


for _form in get_args(GatedForm):
    register_unit(_form)(partial(GatedUnit, form=_form))


@register_unit("rnn")
class TanhUnit(RecurrentUnit):
    """h' = tanh(W x + b + U h + b' + C c), the unit without gates; `torch.nn.RNN`."""

    def __init__(self, inputs: int, hidden: int, context: int, biases: Biases) -> None:
        super().__init__(inputs, hidden, context, blocks=1, bias=True)
        self.recurrent = nn.Linear(hidden, self.rows)

    def step(self, x_Bn: Tensor, h_Bn: Tensor, context_Bn: Tensor | None = None) -> Tensor:
        a_Bn = x_Bn + self.recurrent(h_Bn)
        # Under autocast states keep their precision.
        return torch.tanh(a_Bn if context_Bn is None else a_Bn + context_Bn).to(h_Bn.dtype)


@register_unit("lstm")
class LstmUnit(RecurrentUnit):
    """Long short-term memory without peepholes; `torch.nn.LSTM`. The state is [h; k] with the cell k.

    i, f, o = sigma(W x + b + U h + b' + C c), each with its own matrices;   k~ = tanh(W x + b + U h + b' + C c)
    k' = f * k + i * k~;   h' = o * tanh(k')
    """

    def __init__(self, inputs: int, hidden: int, context: int, biases: Biases) -> None:
        super().__init__(inputs, hidden, context, blocks=4, bias=True, has_cell=True)
        self.recurrent = nn.Linear(hidden, self.rows)

    def step(self, x_B4n: Tensor, h_B2n: Tensor, context_B4n: Tensor | None = None) -> Tensor:
        h_Bn, k_Bn = h_B2n.chunk(2, dim=1)
        a_B4n = x_B4n + self.recurrent(h_Bn)
        i_Bn, f_Bn, new_Bn, o_Bn = (a_B4n if context_B4n is None else a_B4n + context_B4n).chunk(4, dim=1)
        k_Bn = torch.sigmoid(f_Bn) * k_Bn + torch.sigmoid(i_Bn) * torch.tanh(new_Bn)
        return torch.cat((torch.sigmoid(o_Bn) * torch.tanh(k_Bn), k_Bn), dim=1)
