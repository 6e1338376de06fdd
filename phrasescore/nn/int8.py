"""Matrix products of 8-bit integers, for inference on a CPU.

    y_mn = s_m t_n sum_k p_mk q_nk + b_n,   s_m = max_k |x_mk| / 127,   p_mk = round(x_mk / s_m)

and the same for the weights, with a scale t_n for each output. Sums of integers are exact, so each row of a product
depends on the same row of x alone, bit for bit.

Legend: M rows, K inputs, N outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

_LARGEST = 127
_ZERO = 128
"""Added to the integers of x, because the processors multiply unsigned by signed integers."""
_LEAST_SIZE = 64
"""Layers with fewer inputs or outputs gain nothing."""
_packed_weights: Any = WeakTensorKeyDictionary()


class Int8Products(TorchFunctionMode):
    """A context in which linear layers multiply 8-bit integers, except in training; other products are unchanged."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not nn.functional.linear or torch.is_grad_enabled() or min(args[1].shape) < _LEAST_SIZE:
            return func(*args, **(kwargs or {}))
        return linear(*args, **(kwargs or {}))


def is_supported() -> bool:
    """Return whether this CPU has instructions for 8-bit products, and PyTorch the products."""
    return bool(torch.cpu._is_vnni_supported()) and hasattr(torch.ops.onednn, "qlinear_pointwise")


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W' + b in 32 bits, [..., N]."""
    x_MK = input.reshape(-1, input.shape[-1]).float()
    packed, t_N, zero_N = _packed(weight)
    s_M1 = _scales(x_MK)
    # The conversion truncates, so adding a half rounds.
    p_MK = torch.addcmul(x_MK.new_full((1,), _ZERO + 0.5), x_MK, s_M1.reciprocal()).to(torch.uint8)
    y_MN = torch.ops.onednn.qlinear_pointwise(
        p_MK, 1.0, _ZERO, packed, t_N, zero_N, None, 1.0, 0, torch.float32, "none", [], ""
    )
    y_MN = y_MN.mul_(s_M1) if bias is None else torch.addcmul(bias, y_MN, s_M1, out=y_MN)
    return y_MN.view(*input.shape[:-1], -1)


def _scales(rows: Tensor) -> Tensor:
    """Return the scale of each row, as a column; slightly too large, so that no rounding exceeds the range."""
    # PyTorch's aminmax and maximum norm take several times as long.
    largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
    return largest.div_(_LARGEST - 1e-3).clamp_(min=torch.finfo(torch.float32).tiny)


def _packed(weight_NK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights as oneDNN stores them, their scales and zero points [N]; those of layers are cached."""
    found: tuple[Tensor, Tensor, Tensor] | None = _packed_weights.get(weight_NK)
    if found is None:
        scale_N1 = _scales(weight_NK.float())
        q_NK = (weight_NK / scale_N1).round_().to(torch.int8)
        found = torch.ops.onednn.qlinear_prepack(q_NK, None), scale_N1[:, 0], torch.zeros(len(q_NK), dtype=torch.int64)
        if isinstance(weight_NK, nn.Parameter):
            _packed_weights[weight_NK] = found
    return found
