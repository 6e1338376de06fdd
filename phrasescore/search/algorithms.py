"""Beam search, which is greedy with a beam of one, and ancestral sampling.

Legend: S unfinished sentences, k beam width, w prefixes per sentence (1 at first, then k), B = S w rows, V words,
C candidates per sentence, best first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.search.decoding import Decoding, Hypothesis, Numbers
from phrasescore.search.search_config import SearchConfig
from phrasescore.vocabulary import END


@dataclass(frozen=True)
class _Candidates:
    """The best extensions for each sentence, by falling probability."""

    row_SC: Numbers
    """The row that is extended."""
    word_SC: Numbers
    total_SC: NDArray[np.float64]
    """ln p of the extended prefix; minus infinity where there are no more candidates."""


def beam_search(decoding: Decoding, config: SearchConfig) -> list[list[Hypothesis]]:
    """Return up to k translations of each source, best first; `decoding` is before its first step, and is consumed.

    Prefixes compete by ln p. Those of the k best candidates that end are finished hypotheses. A sentence is done when
    it has k of them, or at its maximum length, where only the end symbol may follow. Finished hypotheses are ranked by
    `Hypothesis.value`.
    """
    longest_S = config.longest(decoding.source_words_S)
    finished: list[list[Hypothesis]] = [[] for _ in longest_S]
    sentence_S = np.arange(len(longest_S))
    total_Sw = np.zeros((len(longest_S), 1))
    length = 0
    while len(sentence_S):
        must_end_S = longest_S[sentence_S] == length
        found = _extend(decoding, total_Sw, must_end_S, config)
        _collect_finished(decoding, found, sentence_S, finished, config)
        unfinished = [
            group
            for group, sentence in enumerate(sentence_S.tolist())
            if len(finished[sentence]) < config.beam and not must_end_S[group]
        ]
        live = _without_ends(found, config.beam)
        total_Sw = live.total_SC[unfinished]
        sentence_S = sentence_S[unfinished]
        decoding.advance(live.row_SC[unfinished].ravel(), live.word_SC[unfinished].ravel())
        length += 1
    return [sorted(some, key=lambda one: -one.value) for some in finished]


def _extend(
    decoding: Decoding, total_Sw: NDArray[np.float64], must_end_S: NDArray[np.bool_], config: SearchConfig
) -> _Candidates:
    """Return the 2 k best candidates: at most k of them end, so at least k are left to extend."""
    log_prob_BV = decoding.step(forbid_unknown=config.forbid_unknown)
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
    # The candidates are chosen in 32 bits, their scores summed in 64, as those of pairs are.
    exact_SC = before_B1[row_SC, 0] + log_prob_BV[row_SC, word_SC].double()
    exact_SC = exact_SC.masked_fill(torch.isneginf(best.values), -torch.inf)
    return _Candidates(row_SC.cpu().numpy(), word_SC.cpu().numpy(), decoding.to_cpu(exact_SC))


def _collect_finished(
    decoding: Decoding, found: _Candidates, sentence_S: Numbers, finished: list[list[Hypothesis]], config: SearchConfig
) -> None:
    k = config.beam
    ends = (found.word_SC[:, :k] == END) & np.isfinite(found.total_SC[:, :k])
    for group, rank in np.argwhere(ends).tolist():
        hypotheses = finished[sentence_S[group]]
        if len(hypotheses) < k:
            row, log_prob = int(found.row_SC[group, rank]), float(found.total_SC[group, rank])
            hypotheses.append(decoding.finish(row, log_prob, config))


def _without_ends(found: _Candidates, beam: int) -> _Candidates:
    """Return the k best candidates that do not end."""
    is_end_SC = found.word_SC == END
    first_SC = np.argsort(is_end_SC, axis=1, kind="stable")[:, :beam]
    row_Sw, word_Sw, total_Sw, end_Sw = (
        np.take_along_axis(array, first_SC, axis=1)
        for array in (found.row_SC, found.word_SC, found.total_SC, is_end_SC)
    )
    return _Candidates(row_Sw, word_Sw, np.where(end_Sw, -np.inf, total_Sw))


def draw_translations(
    decoding: Decoding, config: SearchConfig, randoms: Sequence[np.random.Generator]
) -> list[list[Hypothesis]]:
    """Draw `n_best` translations of each source from p(y_t | y_<t, x); return the distinct ones, most frequent first.

    Samples with a common prefix share its computation: a multinomial draw per distinct prefix gives the number of
    samples for each next word. Each sentence has its own generator, so that its samples do not depend on the others.
    """
    longest_S = config.longest(decoding.source_words_S)
    found: list[list[Hypothesis]] = [[] for _ in longest_S]
    times, totals = [config.n_best] * len(longest_S), [0.0] * len(longest_S)
    length = 0
    while times:
        unfinished: list[tuple[int, int, int, float]] = []
        for row, log_p_V in enumerate(decoding.to_cpu(decoding.step(forbid_unknown=config.forbid_unknown))):
            source = int(decoding.source_B[row])
            must_end = longest_S[source] == length
            drawn_V = _draw(log_p_V, times[row], config.temperature, randoms[source], must_end=must_end)
            for word in np.flatnonzero(drawn_V).tolist():
                count, total = int(drawn_V[word]), totals[row] + float(log_p_V[word])
                if word == END:
                    found[source].append(decoding.finish(row, total, config, count))
                else:
                    unfinished.append((row, word, count, total))
        times, totals = [one[2] for one in unfinished], [one[3] for one in unfinished]
        decoding.advance(*(np.array([one[column] for one in unfinished], np.int64) for column in (0, 1)))
        length += 1
    return [sorted(some, key=lambda one: (-one.times, -one.log_prob)) for some in found]


def _draw(
    log_p_V: NDArray[np.float64], number: int, temperature: float, random: np.random.Generator, *, must_end: bool
) -> NDArray[np.int64]:
    """Return the number of samples for each next word, [V]."""
    if must_end:
        return np.where(np.arange(len(log_p_V)) == END, number, 0)
    p_V = np.exp((log_p_V - log_p_V.max()) / temperature)
    return random.multinomial(number, p_V / p_V.sum())
