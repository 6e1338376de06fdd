"""Greedy search.

Legend: S source sentences, B unfinished rows, V words.
"""

from __future__ import annotations

import numpy as np
import torch

from phrasescore.search.decoding import Decoding
from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.vocabulary import END


def greedy_search(decoding: Decoding, config: SearchConfig) -> list[Hypothesis]:
    """Return a translation of each source; `decoding` must be before its first step, and is consumed."""
    longest_S = config.longest(decoding.source_words_S)
    total_B = np.zeros(len(longest_S))
    found: dict[int, Hypothesis] = {}
    for length in range(int(longest_S.max(initial=-1)) + 1):
        log_prob_BV = decoding.step(forbid_unknown=config.forbid_unknown)
        must_end_B = torch.from_numpy(longest_S[decoding.source_B] == length).to(log_prob_BV.device)
        best_B = torch.where(must_end_B, END, log_prob_BV.argmax(dim=1))
        total_B = total_B + decoding.to_cpu(log_prob_BV.gather(1, best_B[:, None]))[:, 0]
        words_B = best_B.cpu().numpy()
        for row in np.flatnonzero(words_B == END).tolist():
            found[int(decoding.source_B[row])] = finish(decoding, row, float(total_B[row]), config)
        unfinished = np.flatnonzero(words_B != END)
        if not len(unfinished):
            break
        total_B = total_B[unfinished]
        decoding.advance(unfinished, words_B[unfinished])
    return [found[number] for number in range(len(longest_S))]
