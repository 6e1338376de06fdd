"""Features of options beside the table's columns: what else a decoder has, and what a network would add.

Shapes: O options.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.options import Options
from phrasescore.lm.backoff import as_word
from phrasescore.lm.ngram_model import LN_10, require_log_probs
from phrasescore.table.entry import LOWEST_LOG
from phrasescore.words import split_words

if TYPE_CHECKING:
    import kenlm

    from phrasescore.scoring.engine import Scorer

_OPTIONS_AT_ONCE = 8192


def target_words(options: Options) -> NDArray[np.float64]:
    """Return the number of target words of each option [O]: what Moses calls the word penalty, but for its sign."""
    return np.array([len(split_words(target)) for target in options.targets], np.float64)


def phrase_log_probs(model: kenlm.Model, path: Path, options: Options) -> NDArray[np.float64]:
    """Return ln p of the words of each target [O] by an n-gram model from a file, of the first without any before it.

    Raises:
        UserError: the file has numbers that are no log-probabilities.
    """
    import kenlm

    before, after = kenlm.State(), kenlm.State()

    def log10_prob(target: bytes) -> float:
        nonlocal before, after
        model.NullContextWrite(before)
        total = 0.0
        for word in split_words(target):
            total += model.BaseScore(before, as_word(word), after)
            before, after = after, before
        return total

    of_target = {target: log10_prob(target) for target in set(options.targets)}
    log10_probs = np.array([of_target[target] for target in options.targets], np.float64)
    require_log_probs(log10_probs, path)
    return np.maximum(LN_10 * log10_probs, LOWEST_LOG)


def network_log_probs(scorer: Scorer, options: Options) -> NDArray[np.float64]:
    """Return ln p of each option [O] by a network, as its column would have it.

    It is p(target given source), or of networks for source-given-target p(source given target).

    Raises:
        UserError: the network is damaged.
    """
    sources = [options.sources[source] for source in options.source_O.tolist()]
    scores = [np.zeros(0)]
    for start in range(0, len(sources), _OPTIONS_AT_ONCE):
        some = slice(start, start + _OPTIONS_AT_ONCE)
        scores.append(scorer.score_encoded(scorer.encode(sources[some], options.targets[some])).log_prob)
    return np.maximum(np.concatenate(scores), LOWEST_LOG)
