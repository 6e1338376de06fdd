"""Beam search: the k most probable beginnings of translations, extended together.

Legend: S sentences still searched, k width of the beam, w beginnings of each sentence (1 at first, then k), B = S w
rows, V words, C candidates of each sentence, best first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.search.walk import Numbers, Walk
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class _Candidates:
    """The best ways to go on, of each sentence, by falling probability."""

    row_SC: Numbers
    """The row that is extended."""
    word_SC: Numbers
    total_SC: NDArray[np.float64]
    """ln p of the whole beginning; minus infinity where there are no more candidates."""


def beam_search(walk: Walk, config: SearchConfig) -> list[list[Hypothesis]]:
    """Return up to k translations of each source, best first.

    Beginnings compete by ln p. One of the k best candidates that ends is set aside; a sentence is done when k are, or
    when its longest translation is reached, where only the end symbol may follow. Those set aside compete by
    `Hypothesis.value`.

    Args:
        walk: at its start, where no row has read a word; it is used up.
        config: width, longest translation, what finished translations compete by.

    Raises:
        UserError: the networks do not give log-probabilities.
    """
    longest_S = config.longest(walk.source_words_S)
    finished: list[list[Hypothesis]] = [[] for _ in longest_S]
    sentence_S = np.arange(len(longest_S))
    total_Sw = np.zeros((len(longest_S), 1))
    length = 0
    while len(sentence_S):
        must_end_S = longest_S[sentence_S] == length
        found = _extend(walk, total_Sw, must_end_S, config)
        _set_aside(walk, found, sentence_S, finished, config)
        lasting = [
            group
            for group, sentence in enumerate(sentence_S.tolist())
            if len(finished[sentence]) < config.beam and not must_end_S[group]
        ]
        live = _without_ends(found, config.beam)
        total_Sw = live.total_SC[lasting]
        sentence_S = sentence_S[lasting]
        walk.go_on(live.row_SC[lasting].ravel(), live.word_SC[lasting].ravel())
        length += 1
    return [sorted(some, key=lambda one: -one.value) for some in finished]


def _extend(
    walk: Walk, total_Sw: NDArray[np.float64], must_end_S: NDArray[np.bool_], config: SearchConfig
) -> _Candidates:
    """Return the 2 k best candidates: at most k of them end, so k others are left."""
    log_prob_BV = walk.step(forbid_unknown=config.forbid_unknown)
    sentences, width = total_Sw.shape
    words = log_prob_BV.shape[1]
    before_B1 = torch.from_numpy(total_Sw).to(log_prob_BV.device).view(-1, 1)
    total_SX = (log_prob_BV + before_B1.to(log_prob_BV.dtype)).view(sentences, width, words)
    if must_end_S.any():
        may_not_end = torch.from_numpy(must_end_S).to(log_prob_BV.device)[:, None, None] & (
            torch.arange(words, device=log_prob_BV.device) != END
        )
        total_SX = total_SX.masked_fill(may_not_end, -torch.inf)
    best = total_SX.view(sentences, -1).topk(min(2 * config.beam, width * words))
    row_SC = best.indices // words + width * torch.arange(sentences, device=log_prob_BV.device)[:, None]
    word_SC = best.indices % words
    # Sums of many words are in 64 bits, as the scores of pairs are.
    exact_SC = before_B1[row_SC, 0] + log_prob_BV[row_SC, word_SC].double()
    exact_SC = exact_SC.masked_fill(torch.isneginf(best.values), -torch.inf)
    return _Candidates(row_SC.cpu().numpy(), word_SC.cpu().numpy(), walk.to_cpu(exact_SC))


def _set_aside(
    walk: Walk, found: _Candidates, sentence_S: Numbers, finished: list[list[Hypothesis]], config: SearchConfig
) -> None:
    """Collect the translations that end here."""
    k = config.beam
    ends = (found.word_SC[:, :k] == END) & np.isfinite(found.total_SC[:, :k])
    for group, place in np.argwhere(ends).tolist():
        some = finished[sentence_S[group]]
        if len(some) < k:
            some.append(finish(walk, int(found.row_SC[group, place]), float(found.total_SC[group, place]), config))


def _without_ends(found: _Candidates, beam: int) -> _Candidates:
    """Return the k best candidates that go on."""
    is_end_SC = found.word_SC == END
    first_SC = np.argsort(is_end_SC, axis=1, kind="stable")[:, :beam]
    row_Sw, word_Sw, total_Sw, end_Sw = (
        np.take_along_axis(array, first_SC, axis=1)
        for array in (found.row_SC, found.word_SC, found.total_SC, is_end_SC)
    )
    return _Candidates(row_Sw, word_Sw, np.where(end_Sw, -np.inf, total_Sw))
