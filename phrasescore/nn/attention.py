"""Attention (Bahdanau et al. 2015, Luong et al. 2015).

    a_t(j) = softmax_j(score(q, h_j)),   c_t = sum_j a_t(j) h_j

over the annotations h_j of the source, one per word and one for the end symbol. q is a state of the decoder. The sum
may also be over linear functions of h_j: W c_t = sum_j a_t(j) W h_j.

Legend: S source phrases, B rows of T queries with the same source phrase, L symbols of the longest source phrase,
n size of the query, d size of an annotation, k size of a key, v size of a value, h_j or W h_j.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.prefix_tree import Rows, take_rows
from phrasescore.plugins import Registry

_CHUNK = 1 << 24
"""Elements of the values that are gathered at once."""


class Attention(nn.Module):
    """The interface of a score function; the product of query and key is the default."""

    def keys(self, annotations_SLd: Tensor) -> Tensor:
        """Return the part of the score that depends on the annotations alone, [S, L, k]."""
        raise NotImplementedError

    def scores(self, query_BTn: Tensor, keys_BLk: Tensor) -> Tensor:
        """Return score(q, h_j) [B, T, L]; values on padding are ignored."""
        return torch.bmm(query_BTn.to(keys_BLk.dtype), keys_BLk.transpose(1, 2))


AttentionBuilder = Callable[[int, int], Attention]
"""A registered class or function; the arguments are the sizes n of a query and d of an annotation."""
ATTENTIONS: Registry[AttentionBuilder] = Registry("attention")
register_attention = ATTENTIONS.register


class Memory(NamedTuple):
    """Keys and values of the source phrases."""

    values_SLv: Tensor
    keys_SLk: Tensor
    real_SL: Tensor
    """False on padding."""

    def take(self, source_B: Rows) -> Memory:
        return Memory(*(take_rows(tensor, source_B) for tensor in self))


def attend(attention: Attention, query_BTn: Tensor, memory: Memory, source_B: Rows) -> tuple[Tensor, Tensor]:
    """Return the contexts c_t [B, T, v] and the weights a_t [B, T, L]; `source_B` is the source phrase of each row."""
    rows = max(1, _CHUNK // memory.values_SLv[0].numel())
    if isinstance(source_B, slice) or len(source_B) <= rows:
        return _attend(attention, query_BTn, memory.take(source_B))
    parts = [
        _attend(attention, query, memory.take(sources))
        for query, sources in zip(query_BTn.split(rows), source_B.split(rows), strict=True)
    ]
    contexts, weights = zip(*parts, strict=True)
    return torch.cat(contexts), torch.cat(weights)


def _attend(attention: Attention, query_BTn: Tensor, memory: Memory) -> tuple[Tensor, Tensor]:
    scores_BTL = attention.scores(query_BTn, memory.keys_SLk)
    # Under autocast the softmax and the sum keep the precision of the states.
    scores_BTL = scores_BTL.to(query_BTn.dtype).masked_fill(~memory.real_SL[:, None], -torch.inf)
    weights_BTL = torch.softmax(scores_BTL, dim=2)
    context_BTv = torch.bmm(weights_BTL.to(memory.values_SLv.dtype), memory.values_SLv)
    return context_BTv.to(query_BTn.dtype), weights_BTL


@register_attention("dot")
class DotAttention(Attention):
    """score(q, h) = q . h, for annotations as large as the state."""

    def __init__(self, query: int, annotation: int) -> None:
        super().__init__()
        if query != annotation:
            raise UserError(
                f"attention `dot` compares states of {query} numbers with annotations of {annotation}; set "
                "`directions` to forward or halves, or `attention` to general"
            )

    def keys(self, annotations_SLd: Tensor) -> Tensor:
        return annotations_SLd


@register_attention("general")
class GeneralAttention(Attention):
    """score(q, h) = q . W h."""

    def __init__(self, query: int, annotation: int) -> None:
        super().__init__()
        self.key = nn.Linear(annotation, query, bias=False)

    def keys(self, annotations_SLd: Tensor) -> Tensor:
        return self.key(annotations_SLd)


@register_attention("scaled")
class ScaledAttention(GeneralAttention):
    """score(q, h) = q . W h / sqrt(n): `general` for large states.

    A step of Adam changes each element of W by about the learning rate, so its effect on the score grows with n.
    Without the root, training with n = 1,000 converges badly (docs/results.md).
    """

    def keys(self, annotations_SLd: Tensor) -> Tensor:
        return super().keys(annotations_SLd) / math.sqrt(self.key.out_features)


@register_attention("concat")
class ConcatAttention(Attention):
    """score(q, h) = v . tanh(W q + U h) = v . tanh(W' [q; h]); the inner layer has size n."""

    def __init__(self, query: int, annotation: int) -> None:
        super().__init__()
        self.query = nn.Linear(query, query, bias=False)
        self.key = nn.Linear(annotation, query, bias=False)
        self.score = nn.Linear(query, 1, bias=False)

    def keys(self, annotations_SLd: Tensor) -> Tensor:
        return self.key(annotations_SLd)

    def scores(self, query_BTn: Tensor, keys_BLn: Tensor) -> Tensor:
        scores_BTL1: Tensor = self.score(torch.tanh(self.query(query_BTn)[:, :, None] + keys_BLn[:, None]))
        return scores_BTL1[..., 0]
