from __future__ import annotations

import pytest
import torch

from phrasescore.nn.divergence import divergences

VECTORS, WORDS, SIZE = 38, 50, 4
"""More vectors than two tiles."""


def test_values_and_gradients_are_those_of_the_definition() -> None:
    torch.manual_seed(1)
    factors = (torch.randn(VECTORS, SIZE).double(), torch.randn(WORDS, SIZE).double(), torch.randn(WORDS).double())
    weight_H = torch.randn(VECTORS // 2, dtype=torch.float64)

    def defined(s_Ar: torch.Tensor, G_Vr: torch.Tensor, b_V: torch.Tensor) -> torch.Tensor:
        log_p_AV = torch.log_softmax(s_Ar @ G_Vr.t() + b_V, dim=1)
        log_p_HV, log_q_HV = log_p_AV[0::2], log_p_AV[1::2]
        forward_H = (log_p_HV.exp() * (log_p_HV - log_q_HV)).sum(1)
        backward_H = (log_q_HV.exp() * (log_q_HV - log_p_HV)).sum(1)
        return (forward_H + backward_H) / 2

    results = []
    for compute in (defined, lambda s_Ar, G_Vr, b_V: divergences(s_Ar, G_Vr, b_V, torch.float64)):
        given = [factor.clone().requires_grad_() for factor in factors]
        found_H = compute(*given)
        results.append((found_H, *torch.autograd.grad((weight_H * found_H).sum(), given)))
    for expected, found in zip(*results, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_products_of_fewer_bits_are_close(dtype: torch.dtype) -> None:
    torch.manual_seed(1)
    s_Ar, G_Vr, b_V = torch.randn(VECTORS, SIZE), torch.randn(WORDS, SIZE), torch.randn(WORDS)

    def gradients(weights: torch.dtype, products: torch.dtype) -> tuple[torch.Tensor, ...]:
        s, G, b = (factor.to(weights, copy=True).requires_grad_() for factor in (s_Ar, G_Vr, b_V))
        return torch.autograd.grad(divergences(s, G, b, products).sum(), (s, G, b))

    for exact, found in zip(gradients(torch.float64, torch.float64), gradients(torch.float32, dtype), strict=True):
        torch.testing.assert_close(found, exact.float(), rtol=0, atol=0.02 * float(exact.abs().max()))
