"""Greedy search: the most probable next word, again and again.

Legend: S source sentences, B rows still going on, V words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from phrasescore.device import Device
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.search.hypothesis import Hypothesis, finish
from phrasescore.search.search_config import SearchConfig
from phrasescore.search.walk import Walk
from phrasescore.vocabulary import END


def greedy_search(
    networks: Sequence[EncoderDecoder],
    device: Device,
    sources: Phrases,
    config: SearchConfig,
    origin: str = "network",
) -> list[Hypothesis]:
    """Return a translation of each source.

    Args:
        networks: on the device, in evaluation mode.
        device: where and how precisely to compute.
        sources: the source sentences, without end symbols.
        config: the longest translation.
        origin: what to call the networks in messages.

    Raises:
        UserError: the networks do not give log-probabilities.
    """
    walk = Walk(networks, device, sources, forbid_unknown=config.forbid_unknown, origin=origin)
    longest_S = config.longest(sources.lengths)
    total_B = np.zeros(len(sources))
    found: dict[int, Hypothesis] = {}
    for length in range(int(longest_S.max(initial=-1)) + 1):
        log_prob_BV = walk.step()
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
    return [found[number] for number in range(len(sources))]
