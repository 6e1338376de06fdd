"""Targets drawn from the network, word by word from p(y_t | y_<t, x) (ancestral sampling).

Samples that share a prefix share all that is computed for it: for each distinct prefix it is drawn at once how many of
its samples go on with which word.

Legend: S distinct prefixes, V words.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.nn.batch import PairBatch
from phrasescore.phrases import Phrases
from phrasescore.scoring.engine import Scorer
from phrasescore.vocabulary import END

_LONGEST = 50

Prefix = tuple[int, ...]


class Sample(NamedTuple):
    """A target that was drawn."""

    target: bytes
    times: int
    log_prob: float
    """ln p(target | source), end symbol included."""


def sample_targets(scorer: Scorer, source: bytes, number: int, seed: int, longest: int = _LONGEST) -> list[Sample]:
    """Draw targets of a source phrase and return the distinct ones, most frequent first.

    Args:
        scorer: the network.
        source: the input phrase.
        number: how many to draw.
        seed: the same seed gives the same samples.
        longest: samples that have not ended after so many words are left out.
    """
    random = np.random.default_rng(seed)
    ids = scorer.model.source_vocabulary.encode([source])
    samples: dict[Prefix, int] = {(): number}
    log_prob: dict[Prefix, float] = {(): 0.0}
    ended: list[tuple[Prefix, int, float]] = []
    for _ in range(longest + 1):
        prefixes = list(samples)
        if not prefixes:
            break
        log_p_SV = next_word_log_probs(scorer, ids, prefixes)
        longer: dict[Prefix, int] = {}
        for prefix, log_p_V in zip(prefixes, log_p_SV, strict=True):
            p_V = np.exp(log_p_V)
            drawn_V = random.multinomial(samples[prefix], p_V / p_V.sum())
            for word in np.flatnonzero(drawn_V).tolist():
                count, total = int(drawn_V[word]), log_prob[prefix] + float(log_p_V[word])
                if word == END:
                    ended.append((prefix, count, total))
                else:
                    longer[*prefix, word] = count
                    log_prob[*prefix, word] = total
        samples = longer
    ended.sort(key=lambda one: (-one[1], -one[2]))
    words = scorer.model.target_vocabulary.words
    return [Sample(b" ".join(words[word] for word in prefix), count, total) for prefix, count, total in ended]


@torch.inference_mode()
def next_word_log_probs(scorer: Scorer, source: Phrases, prefixes: Sequence[Prefix]) -> NDArray[np.float64]:
    """Return ln p(y | prefix, source) of every word y after each of some target prefixes, [S, V].

    `source` is one input phrase, without its end symbol.
    """
    targets = Phrases.from_lists(prefixes)
    batch = PairBatch.sharing(source, np.zeros(len(targets), np.int64), targets).to(scorer.device.torch_device)
    with scorer.device.products():
        s_Ak = scorer.model.network.decoder(batch, scorer.model.network.encoder(batch))
        # What comes after a prefix is predicted where its end symbol would be.
        ends_S = torch.from_numpy(targets.with_end(END).offsets[1:] - 1).to(batch.node_I.device)
        logits_SV = scorer.model.network.softmax.words(s_Ak[batch.node_I[ends_S]])
    log_p_SV: NDArray[np.float64] = torch.log_softmax(logits_SV.double(), dim=1).cpu().numpy()
    return log_p_SV
