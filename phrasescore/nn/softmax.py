"""Log-softmax over the output words in one pass over the logits.

    log p(y | s) = l_y - log sum_v exp(l_v),   l_v = g_v . s + b_v

Let t be the largest logit of the words that are predicted from s. Then log p(t) = -log Z with Z = sum_v exp(l_v
- t) >= 1. The matrix product adds the shift -t and the bias by extra columns, which leaves one exponential and one
addition per word, in a tile that stays in the cache. The shift also keeps 16-bit logits accurate where it matters: the
largest terms of a confident prediction are near zero. The logits of the predicted words use the same rounded factors;
otherwise the term of t would not be 1, and p not a distribution. Z overflows when log p < -88, and the products of the
gradient earlier, so rows with log Z > 40 are recomputed by logsumexp.

Logits of 32 bits, also of products of 8-bit integers, are accurate without the shift, so scoring in these precisions
omits it. The few rows whose sum overflows or underflows are recomputed by logsumexp; on a GPU all rows are, because
counting would synchronise.

Training on a CPU may estimate Z from a sample of the words (Jean et al. 2015). The frequent words and the predicted
ones stand for themselves. Each of the m words drawn from the n others stands for n / m words: its bias grows by
ln(n / m).

Legend: A readout vectors, R rows of their products, I predicted symbols, V words, W sampled words, r size of a readout
vector, p columns of the product (r + 4, without a shift r + 1), O vectors whose Z is too large.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.nn.cpu_products import int8_linear, int8_rounded, rounded_rows
from phrasescore.nn.divergence import divergences

_BITS = math.log2(math.e)
"""Bits of a nat."""
_LARGEST_LOG_Z = 40.0 * _BITS
"""Far below the 88 nats where 32 bits overflow: e_RV @ G sums up to exp(log Z) times weights, over many words."""
_CPU_TILES = (256, 32)
_GPU_TILES = (16384, 16384)
"""Rows of a matrix product, and rows that are exponentiated while they are in the cache."""
_GPU_RECOMPUTED = 64
"""Rows that a GPU recomputes: at least this number, and at least one in this number."""
_UNSHIFTED_ROWS = 64
"""Rows of a product in 32 or 8 bits."""
_SMALLEST_Z = 1e-30
"""Smaller sums without a shift have lost digits."""


class TiedWords(nn.Module):
    """The layer of the softmax with the matrix of the word vectors, which it does not save or train itself."""

    def __init__(self, embedding: nn.Embedding, bias: nn.Parameter) -> None:
        super().__init__()
        self.bias = bias
        self.__dict__["embedding"] = embedding

    @property
    def weight(self) -> Tensor:
        return self.__dict__["embedding"].weight

    def forward(self, s_Ar: Tensor) -> Tensor:
        return nn.functional.linear(s_Ar, self.weight, self.bias)


class WordSoftmax(nn.Module):
    """G_l and b: the softmax layer over the words of the target vocabulary (Cho et al. 2014, Eq. 2)."""

    def __init__(self, words: int, size: int) -> None:
        super().__init__()
        self.words: nn.Linear | TiedWords = nn.Linear(size, words)
        self.product_dtype: torch.dtype | None = None
        """The type of the matrix products; None for that of the weights."""
        self.sampled_words = 0
        """Words from which training on a CPU estimates Z, three quarters of them the most frequent words; 0 for all."""

    def log_probs(self, s_Ar: Tensor, node_I: Tensor, symbol_I: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln p of each symbol at its node, [I], and ln sum_v exp(l_v) of each node, [A]."""
        # `product_dtype` takes the place of autocast. Products of 8-bit integers have no gradient.
        dtype = self.product_dtype or self.words.weight.dtype
        if dtype is torch.int8 and torch.is_grad_enabled():
            dtype = self.words.weight.dtype
        with torch.autocast(s_Ar.device.type, enabled=False):
            if dtype in (self.words.weight.dtype, torch.int8) and not torch.is_grad_enabled():
                return _unshifted_log_probs(s_Ar, self.words.weight, self.words.bias, node_I, symbol_I, dtype)
            G_Vr: Tensor = self.words.weight
            b_V: Tensor = self.words.bias
            if self.training and _is_on_cpu(s_Ar) and 0 < self.sampled_words < len(b_V):
                words_W, log_weight_W, symbol_I = _sample(symbol_I, len(b_V), self.sampled_words)
                G_Vr, b_V = G_Vr.index_select(0, words_W), b_V.index_select(0, words_W) + log_weight_W
            found: tuple[Tensor, Tensor] = _LogProb.apply(
                s_Ar, G_Vr, b_V, node_I, symbol_I, dtype, torch.is_grad_enabled()
            )
        return found

    def mean_log_probs(self, s_Ar: Tensor, log_norm_A: Tensor) -> Tensor:
        """Return the mean of ln p over all words at each node, [A]; the mean of linear logits is one dot product."""
        with torch.autocast(s_Ar.device.type, enabled=False):
            g_r, b = self.words.weight.mean(0), self.words.bias.mean()
            return torch.mv(s_Ar.to(g_r.dtype), g_r) + b - log_norm_A

    def divergences(self, s_Ar: Tensor) -> Tensor:
        """Return the divergence of the distributions over all words at nodes 2k and 2k + 1, in nats, [A / 2]."""
        with torch.autocast(s_Ar.device.type, enabled=False):
            return divergences(s_Ar, self.words.weight, self.words.bias, self.product_dtype or self.words.weight.dtype)

    def logit(self, s_Ar: Tensor, node_I: Tensor, symbol_I: Tensor) -> Tensor:
        """Return l_v of each symbol at its node, [I], in the type of the weights."""
        with torch.autocast(s_Ar.device.type, enabled=False):
            G_Vr = self.words.weight
            return _logit(s_Ar.to(G_Vr.dtype), G_Vr, self.words.bias, node_I, symbol_I, G_Vr.dtype)


def _logit(s_Ar: Tensor, G_Vr: Tensor, b_V: Tensor, node_I: Tensor, symbol_I: Tensor, dtype: torch.dtype) -> Tensor:
    """Return l_v of each symbol at its node, [I], with factors rounded to `dtype`, summed in that of the weights."""
    s_Ir, g_Ir = (_rounded(x, dtype) for x in (s_Ar.index_select(0, node_I), G_Vr.index_select(0, symbol_I)))
    return (s_Ir * g_Ir).sum(1) + b_V[symbol_I]


def _rounded(rows: Tensor, dtype: torch.dtype) -> Tensor:
    return int8_rounded(rows) if dtype is torch.int8 else rows.to(dtype).to(rows.dtype)


def _sample(symbol_I: Tensor, words: int, size: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return a sample of the words, [W], ln of the number that each stands for, [W], and the symbols in it, [I]."""
    frequent = size - size // 4
    is_exact_V = torch.arange(words) < frequent
    is_exact_V[symbol_I] = True
    exact_W, other_W = is_exact_V.nonzero()[:, 0], (~is_exact_V).nonzero()[:, 0]
    # Most samples have the same size, so that kernels are used again (see `cpu_products.py`).
    drawn_W = other_W[torch.randperm(len(other_W))[: max(size - len(exact_W), size // 8)]]
    words_W = torch.cat((exact_W, drawn_W))
    log_weight_W = torch.zeros(len(words_W))
    if len(drawn_W):
        log_weight_W[len(exact_W) :] = math.log(len(other_W) / len(drawn_W))
    return words_W, log_weight_W, torch.searchsorted(exact_W, symbol_I.contiguous())


def _unshifted_log_probs(
    s_Ar: Tensor, G_Vr: Tensor, b_V: Tensor, node_I: Tensor, symbol_I: Tensor, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """See `WordSoftmax.log_probs`."""
    bits_Ar, b_V = s_Ar.to(G_Vr.dtype) * _BITS, b_V * _BITS
    log_Z_A = _log2_norms(bits_Ar, G_Vr, b_V, dtype)
    l_I = _logit(bits_Ar, G_Vr, b_V, node_I, symbol_I, dtype)
    return (l_I - log_Z_A[node_I]) / _BITS, log_Z_A / _BITS


def _log2_norms(bits_Ar: Tensor, G_Vr: Tensor, b_V: Tensor, dtype: torch.dtype) -> Tensor:
    """Return log2 sum_v 2^l_v of each node, [A], in the type of the weights."""
    logits: Callable[[Tensor], Tensor]
    if dtype is torch.int8:
        left_Ap, logits = bits_Ar, partial(int8_linear, weight=G_Vr, bias=b_V)
    else:
        # A column for the bias saves a pass over the logits.
        left_Ap = nn.functional.pad(bits_Ar, (0, 1), value=1)
        logits = partial(torch.mm, mat2=torch.cat((G_Vr, b_V[:, None]), dim=1).t())

    def exact(rows: Tensor) -> Tensor:
        return logits(rows).div_(_BITS).logsumexp(1) * _BITS

    if not _is_on_cpu(bits_Ar):
        return torch.cat([exact(rows) for rows in left_Ap.split(_GPU_TILES[0])])
    # Sums of their own between the logits would fragment the memory.
    Z_A = bits_Ar.new_empty(len(bits_Ar))
    for rows, sums in zip(left_Ap.split(_UNSHIFTED_ROWS), Z_A.split(_UNSHIFTED_ROWS), strict=True):
        torch.sum(logits(rows).exp2_(), dim=1, out=sums)
    log_Z_A = Z_A.log2()
    outside_O = ((Z_A < _SMALLEST_Z) | ~Z_A.isfinite()).nonzero()[:, 0]
    if len(outside_O):
        log_Z_A[outside_O] = torch.cat([exact(rows) for rows in left_Ap[outside_O].split(_UNSHIFTED_ROWS)])
    return log_Z_A


class _LogProb(torch.autograd.Function):
    """log p of the predicted symbols and log Z; `keep` saves the [A, V] exponentials for the gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        s_Ar: Tensor,
        G_Vr: Tensor,
        b_V: Tensor,
        node_I: Tensor,
        symbol_I: Tensor,
        dtype: torch.dtype,
        keep: bool,
    ) -> tuple[Tensor, Tensor]:
        s_Ar = s_Ar.to(G_Vr.dtype)
        # Logits and log Z are in bits, because 2^x is faster than e^x, with MKL on AMD processors four times.
        bits_Ar, b_V = s_Ar * _BITS, b_V * _BITS
        l_I = _logit(bits_Ar, G_Vr, b_V, node_I, symbol_I, dtype)
        t_A = torch.zeros_like(s_Ar[:, 0]).scatter_reduce_(0, node_I, l_I, "amax", include_self=False)
        one_A2 = s_Ar.new_ones(len(s_Ar), 2, dtype=dtype)
        left_Ap = torch.cat((bits_Ar.to(dtype), one_A2, _split(t_A, dtype)), dim=1)
        right_Vp = torch.empty(len(G_Vr), left_Ap.shape[1], dtype=dtype, device=G_Vr.device)
        right_Vp[:, :-4], right_Vp[:, -4:-2], right_Vp[:, -2:] = G_Vr, _split(b_V, dtype), -1
        e_RV, Z_R = _exponentials(rounded_rows(left_Ap), right_Vp.t(), keep)
        Z_A = Z_R[: len(s_Ar)]
        log_Z_A = Z_A.log2()
        large_O = _large(log_Z_A)
        if len(large_O):
            l_OV = (torch.addmm(b_V, bits_Ar[large_O], G_Vr.t()) - t_A[large_O, None]) / _BITS
            log_Z_O = torch.logsumexp(l_OV, dim=1)
            log_Z_A.index_copy_(0, large_O, log_Z_O * _BITS)
            if keep:
                e_RV.index_copy_(0, large_O, torch.exp(l_OV - log_Z_O[:, None]).to(dtype))
                Z_A.index_fill_(0, large_O, 1.0)
        if keep:
            ctx.save_for_backward(s_Ar, G_Vr, right_Vp[:, :-4], node_I, symbol_I, e_RV, Z_A)
        return ((l_I - t_A[node_I]) - log_Z_A[node_I]) / _BITS, (t_A + log_Z_A) / _BITS

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """With p = e / Z: d log p(y) / d l_v = [v = y] - p_v, d log Z / d l_v = p_v, and l_v is linear in s, G and b.

        The factor 1 / Z is applied to the small factors of the products, not to the [A, V] matrix.
        """
        grad_I, norm_grad_A = gradients
        s_Ar, G_Vr, rounded_Vr, node_I, symbol_I, e_RV, Z_A = ctx.saved_tensors
        dtype = e_RV.dtype
        weight_A = norm_grad_A.index_add(0, node_I, grad_I, alpha=-1) / Z_A
        ds_Ar = (e_RV @ rounded_Vr)[: len(s_Ar)].to(s_Ar.dtype) * weight_A[:, None]
        ds_Ar.index_add_(0, node_I, grad_I[:, None] * G_Vr.index_select(0, symbol_I))
        scaled_Ar1 = torch.cat((s_Ar, torch.ones_like(weight_A)[:, None]), dim=1) * weight_A[:, None]
        dG_Vr1 = e_RV.t() @ rounded_rows(scaled_Ar1.to(dtype))
        # Contiguous, so that the gradient of the layer needs no copy.
        dG_Vr, db_V = torch.empty_like(G_Vr).copy_(dG_Vr1[:, :-1]), dG_Vr1[:, -1].to(G_Vr.dtype, copy=True)
        dG_Vr.index_add_(0, symbol_I, grad_I[:, None] * s_Ar.index_select(0, node_I))
        db_V.index_add_(0, symbol_I, grad_I)
        return ds_Ar, dG_Vr, db_V, None, None, None, None


def _large(log_Z_A: Tensor) -> Tensor:
    """Return the vectors whose Z is too large, [O]; on a GPU a fixed number, because counting would synchronise."""
    if _is_on_cpu(log_Z_A):
        return (log_Z_A > _LARGEST_LOG_Z).nonzero()[:, 0]
    number = max(_GPU_RECOMPUTED, len(log_Z_A) // _GPU_RECOMPUTED)
    return log_Z_A.topk(min(number, len(log_Z_A)), sorted=False).indices


def _is_on_cpu(tensor: Tensor) -> bool:
    return tensor.device.type == "cpu"


def _split(column: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a column as the sum of two columns of a narrower type, [rows, 2], so that -t and b are not rounded."""
    high = column.to(dtype)
    return torch.stack((high, (column - high).to(dtype)), dim=1)


def _exponentials(left_Ap: Tensor, right_pV: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """Return 2 to the power of the product, complete [A, V] if `keep`, and its row sums [A], in at least 32 bits."""
    rows, words = len(left_Ap), right_pV.shape[1]
    product_rows, cached_rows = _CPU_TILES if _is_on_cpu(left_Ap) else _GPU_TILES
    sums = torch.empty(rows, dtype=torch.promote_types(left_Ap.dtype, torch.float32), device=left_Ap.device)
    exponentials = left_Ap.new_empty(rows if keep else min(rows, product_rows), words)
    for start in range(0, rows, product_rows):
        tile = left_Ap[start : start + product_rows]
        out = exponentials[start : start + product_rows] if keep else exponentials[: len(tile)]
        torch.mm(tile, right_pV, out=out)
        for part, part_sums in zip(
            out.split(cached_rows), sums[start : start + len(tile)].split(cached_rows), strict=True
        ):
            torch.sum(part.exp2_(), dim=1, dtype=sums.dtype, out=part_sums)
    return exponentials, sums
