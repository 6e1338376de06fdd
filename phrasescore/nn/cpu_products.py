"""Matrix products of 16-bit and 8-bit numbers on a CPU.

oneDNN compiles a kernel for each new shape of such a product, which can take longer than the product itself. So the
number of rows is rounded up: few shapes remain, and their kernels are used again.

8-bit integers:

    y_mn = s_m t_n sum_k p_mk q_nk + b_n,   s_m = max_k |x_mk| / 127,   p_mk = round(x_mk / s_m)

and the same for the weights, with a scale t_n for each output. Sums of integers are exact, so each row of a product
depends on the same row of x alone, bit for bit.

Legend: M rows, R rows rounded up, K inputs, N outputs.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary


def has_fast_bf16() -> bool:
    """Return whether 16-bit products of this CPU are faster than those in 32 bits.

    With AVX512-BF16 but without AMX, an AMD EPYC multiplies four times as fast as in 32 bits. An Intel Xeon with
    AVX512-FP16 has AMX; where a virtual machine hides it, 16-bit products have half the rate of those in 32 bits.
    """
    if torch.cpu._is_amx_tile_supported():
        return True
    hides_amx = {"GenuineIntel", "avx512_fp16"} <= set(_processor_description().split())
    return bool(torch.cpu._is_avx512_bf16_supported()) and not hides_amx


def _processor_description() -> str:
    description = Path("/proc/cpuinfo")
    return description.read_text() if description.exists() else ""


_COMPILED_BYTES = 2
"""Largest size of the data types whose products need a compiled kernel."""
_FEWEST_ROWS, _COARSE_UNIT = 16, 128


def rounded_rows(x_MK: Tensor) -> Tensor:
    """Append rows of zeros, [R, K]; return x itself if its products need no compiled kernel.

    R is the next multiple of a quarter of the largest power of two up to M, but at least of 16. For M above 1024 it is
    an eighth, because in large products the zeros would cost more than new kernels.
    """
    if x_MK.device.type != "cpu" or x_MK.element_size() > _COMPILED_BYTES or not len(x_MK):
        return x_MK
    octave = len(x_MK).bit_length() - 1
    unit = max(_FEWEST_ROWS, min(_COARSE_UNIT, 1 << octave >> 2), 1 << octave >> 3)
    added = -len(x_MK) % unit
    return nn.functional.pad(x_MK, (0, 0, 0, added)) if added else x_MK


class _RoundedRows(TorchFunctionMode):
    """A context in which 16-bit linear layers have rounded rows."""

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        # Plugins may give keywords.
        if func is not nn.functional.linear or not _has_matrix(args) or not _is_in_16_bit(args[0]):
            return func(*args, **(kwargs or {}))
        input, *rest = args
        x_MK = input.reshape(math.prod(input.shape[:-1]), input.shape[-1]).to(torch.bfloat16)
        y_RN = func(rounded_rows(x_MK), *rest, **(kwargs or {}))
        return y_RN[: len(x_MK)].view(*input.shape[:-1], y_RN.shape[1])


def _has_matrix(args: tuple[Any, ...]) -> bool:
    """Return whether the second argument of a linear layer is a matrix; PyTorch also permits a vector."""
    return len(args) > 1 and args[1].ndim > 1


def _is_in_16_bit(input: Tensor) -> bool:
    return input.dtype is torch.bfloat16 or (input.dtype is torch.float32 and torch.is_autocast_enabled("cpu"))


@contextlib.contextmanager
def bf16_products() -> Iterator[None]:
    """A context in which products are in 16 bits, those of linear layers with rounded rows."""
    with torch.autocast("cpu", torch.bfloat16), _RoundedRows():
        yield


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
        # Plugins may give keywords.
        is_layer = func is nn.functional.linear and _has_matrix(args)
        if not is_layer or torch.is_grad_enabled() or min(args[1].shape) < _LEAST_SIZE:
            return func(*args, **(kwargs or {}))
        return int8_linear(*args, **(kwargs or {}))


def has_int8() -> bool:
    """Return whether this CPU has instructions for 8-bit products, and PyTorch the products."""
    return bool(torch.cpu._is_vnni_supported()) and hasattr(torch.ops.onednn, "qlinear_pointwise")


def int8_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return x W' + b in 32 bits, [..., N]."""
    x_MK = input.reshape(math.prod(input.shape[:-1]), input.shape[-1]).float()
    packed, t_N, zero_N = _packed(weight)
    p_MK, s_M1 = _quantised(x_MK)
    y_RN = torch.ops.onednn.qlinear_pointwise(
        rounded_rows(p_MK), 1.0, _ZERO, packed, t_N, zero_N, None, 1.0, 0, torch.float32, "none", [], ""
    )
    y_MN = y_RN[: len(x_MK)]
    y_MN = y_MN.mul_(s_M1) if bias is None else torch.addcmul(bias, y_MN, s_M1, out=y_MN)
    return y_MN.view(*input.shape[:-1], y_MN.shape[1])


def int8_rounded(rows: Tensor) -> Tensor:
    """Return the rows of a factor of `int8_linear`, x or W, as it multiplies them, in 32 bits."""
    p_MK, s_M1 = _quantised(rows)
    return p_MK.float().sub_(_ZERO).mul_(s_M1)


def _quantised(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return integers, plus `_ZERO`, and the scale of each row."""
    s_M1 = _scales(rows)
    # The conversion truncates, so adding a half rounds.
    return torch.addcmul(rows.new_full((1,), _ZERO + 0.5), rows, s_M1.reciprocal()).to(torch.uint8), s_M1


def _scales(rows: Tensor) -> Tensor:
    """Return the scale of each row, as a column; slightly too large, so that no rounding exceeds the range."""
    # PyTorch's aminmax and maximum norm take several times as long.
    largest = torch.maximum(rows.amax(1, keepdim=True), -rows.amin(1, keepdim=True))
    return largest.div_(_LARGEST - 1e-3).clamp_(min=torch.finfo(torch.float32).tiny)


def _packed(weight_NK: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the weights as oneDNN stores them, their scales and zero points [N]; cached by their version.

    PyTorch's fused optimisers change weights without a new version; training has no 8-bit products.
    """
    version = None if weight_NK.is_inference() else weight_NK._version
    cached: tuple[int | None, tuple[Tensor, Tensor, Tensor]] | None = _packed_weights.get(weight_NK)
    if cached is None or cached[0] != version:
        # oneDNN misreads a transposed matrix.
        p_NK, t_N1 = _quantised(weight_NK.float().contiguous())
        packed = torch.ops.onednn.qlinear_prepack(p_NK.sub_(_ZERO).view(torch.int8), None)
        cached = version, (packed, t_N1[:, 0], torch.zeros(len(p_NK), dtype=torch.int64))
        _packed_weights[weight_NK] = cached
    return cached[1]
