"""Greedy search: the most probable next word, again and again.

Legend: S source sentences, B rows still going on, V words.
"""

from __future__ import annotations

import numpy as np
import torch

from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.search.walk import Walk
from phrasescore.vocabulary import END


def greedy_search(walk: Walk, config: SearchConfig) -> list[Hypothesis]:
    """Return a translation of each source.

    Args:
        walk: at its start, where no row has read a word; it is used up.
        config: the longest translation.

    Raises:
        UserError: the networks do not give log-probabilities.
    """
    longest_S = config.longest(walk.source_words_S)
    total_B = np.zeros(len(longest_S))
    found: dict[int, Hypothesis] = {}
    for length in range(int(longest_S.max(initial=-1)) + 1):
        log_prob_BV = walk.step(forbid_unknown=config.forbid_unknown)
        must_end_B = torch.from_numpy(longest_S[walk.source_B] == length).to(log_prob_BV.device)
        best_B = torch.where(must_end_B, END, log_prob_BV.argmax(dim=1))
        total_B = total_B + walk.to_cpu(log_prob_BV.gather(1, best_B[:, None]))[:, 0]
        words_B = best_B.cpu().numpy()
        for row in np.flatnonzero(words_B == END).tolist():
            found[int(walk.source_B[row])] = finish(walk, row, float(total_B[row]), config)
        going_on = np.flatnonzero(words_B != END)
        if not len(going_on):
            break
        total_B = total_B[going_on]
        walk.go_on(going_on, words_B[going_on])
    return [found[number] for number in range(len(longest_S))]
