"""The divergence of two passes with different dropout masks (R-Drop, Liang et al. 2021).

    D = 1/2 KL(p || q) + 1/2 KL(q || p) = 1/2 sum_v (p_v - q_v) d_v,   d_v = ln p_v - ln q_v

for the distributions p and q of the two passes over the words. With respect to the logits of p, its gradient is
1/2 [p_v (d_v - KL(p || q)) + p_v - q_v], and with p and q exchanged, that of q.

Legend: A input vectors of the softmax, of which 2k and 2k + 1 belong to the two passes; H = A / 2, V words, r size of a
vector, T vectors of a tile, t = T / 2.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_CPU_TILE, _GPU_TILE = 16, 2048
"""Vectors that are computed together; on a CPU, their logits are in the cache."""


def divergences(s_Ar: Tensor, G_Vr: Tensor, b_V: Tensor, dtype: torch.dtype) -> Tensor:
    """Return the divergence of each pair of vectors, in nats, [H]; `dtype` is the type of the products of the gradient.

    The softmax has the matrix G and the bias b.
    """
    found: Tensor = _Divergence.apply(s_Ar, G_Vr, b_V, dtype)
    return found


class _Divergence(torch.autograd.Function):
    """Computes the gradient of the logits in the forward pass, while the logits are in the cache."""

    @staticmethod
    def forward(ctx: Any, s_Ar: Tensor, G_Vr: Tensor, b_V: Tensor, dtype: torch.dtype) -> Tensor:
        s_Ar = s_Ar.to(G_Vr.dtype)
        G_rV = G_Vr.t().contiguous()
        tile = _CPU_TILE if s_Ar.device.type == "cpu" else _GPU_TILE
        gradient_AV = s_Ar.new_empty(len(s_Ar), len(G_Vr), dtype=dtype)
        divergence_H = s_Ar.new_empty(len(s_Ar) // 2)
        for s_Tr, gradient_TV, divergence_t in zip(
            s_Ar.split(tile), gradient_AV.split(tile), divergence_H.split(tile // 2), strict=True
        ):
            log_p_TV = torch.log_softmax(torch.addmm(b_V, s_Tr, G_rV), dim=1)
            d_tV = log_p_TV[0::2] - log_p_TV[1::2]
            p_TV = log_p_TV.exp_()
            p_tV, q_tV = p_TV[0::2], p_TV[1::2]
            kl_pq_t, kl_qp_t = torch.linalg.vecdot(p_tV, d_tV), -torch.linalg.vecdot(q_tV, d_tV)
            divergence_t.copy_((kl_pq_t + kl_qp_t) / 2)
            gradient_TV[0::2] = (p_tV * (d_tV - kl_pq_t[:, None] + 1) - q_tV) / 2
            gradient_TV[1::2] = (q_tV * (1 - d_tV - kl_qp_t[:, None]) - p_tV) / 2
        ctx.save_for_backward(s_Ar, G_Vr, gradient_AV)
        return divergence_H

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Multiply the gradient of the logits, which are linear in s, G and b."""
        (grad_H,) = gradients
        s_Ar, G_Vr, gradient_AV = ctx.saved_tensors
        weight_A = grad_H.repeat_interleave(2)
        ds_Ar = (gradient_AV @ G_Vr.to(gradient_AV.dtype)).to(s_Ar.dtype) * weight_A[:, None]
        weighted_Ar1 = torch.cat((s_Ar, torch.ones_like(weight_A)[:, None]), dim=1) * weight_A[:, None]
        dG_Vr1 = (gradient_AV.t() @ weighted_Ar1.to(gradient_AV.dtype)).to(G_Vr.dtype)
        return ds_Ar, dG_Vr1[:, :-1], dG_Vr1[:, -1], None
