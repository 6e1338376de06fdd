"""BLEU statistics for tuning: nine integers per translation, which are summed over sentences.

    c1 t1 c2 t2 c3 t3 c4 t4 R

t_n is the number of n-grams of the translation, and c_n the number of matches, clipped at the maximum count in a
reference. R is the length of the reference closest in length. Papineni et al., "BLEU: a Method for Automatic Evaluation
of Machine Translation" (ACL 2002), with the conventions of Moses (mert/BleuScorer.cpp, mert/Reference.h): tokens
are separated by spaces; text is not tokenised, normalised or lowercased.

Array names: C candidates, 9 statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.text import parallel_lines, utf8_lines
from phrasescore.words import split_words

MAX_ORDER = 4
STATISTICS = 2 * MAX_ORDER + 1

Statistics = NDArray[np.integer]
Ngram = tuple[bytes, ...]
References = Sequence[tuple[bytes, ...]]
"""The reference translations of each sentence."""


def read_references(paths: Sequence[Path]) -> list[tuple[bytes, ...]]:
    """Return the references of each sentence; each file holds one reference per line."""
    return list(parallel_lines(*paths, read=utf8_lines))


def read_dev_set(source: Path, references: Sequence[Path]) -> tuple[list[bytes], list[tuple[bytes, ...]]]:
    """Return the sentences of a dev set and their references."""
    translations = read_references(references)
    sentences = [sentence for sentence, _ in parallel_lines(source, references[0])]
    if not sentences:
        raise UserError(f"{source}: is empty; give some hundred dev sentences and their translations")
    return sentences, translations


def bleu_statistics(references: Sequence[bytes], candidates: Sequence[bytes]) -> NDArray[np.int32]:
    """Return the statistics of translations of one sentence, [C, 9]. Duplicates are computed only once.

    If two references are equally close in length, R is the length of the shorter one.
    """
    reference_words = [split_words(reference) for reference in references]
    lengths = sorted(len(words) for words in reference_words)
    limits = _largest_counts(reference_words)

    def row(words: list[bytes]) -> list[int]:
        return [*_matches_and_totals(words, limits), min(lengths, key=lambda length: abs(length - len(words)))]

    rows = {text: row(split_words(text)) for text in dict.fromkeys(candidates)}
    return np.array([rows[text] for text in candidates], np.int32).reshape(-1, STATISTICS)


def bleu(statistics: Statistics) -> NDArray[np.float64]:
    """Return BLEU, from 0 to 1, of statistics summed over sentences: [..., 9] -> [...].

    (product_n c_n / t_n)^(1/4) * exp(min(0, 1 - R / t_1)); 0 if any c_n is 0. There is no smoothing.
    """
    return _geometric_mean(statistics, 0)


def smoothed_bleu(statistics: Statistics) -> NDArray[np.float64]:
    """Return BLEU with 1 added to every c_n and t_n, [..., 9] -> [...]; it ranks candidates without matching 4-grams.

    Lin and Och (COLING 2004) add 1 for n > 1 only; Moses' mert/BleuScorer.cpp adds it also for n = 1.
    """
    return _geometric_mean(statistics, 1)


def _geometric_mean(statistics: Statistics, added: int) -> NDArray[np.float64]:
    matches, totals = statistics[..., :-1:2] + added, statistics[..., 1:-1:2] + added
    words, reference = statistics[..., 1], statistics[..., -1]
    brevity = np.where((words == 0) & (reference > 0), -np.inf, 1 - reference / np.maximum(words, 1))
    product = (matches / np.maximum(totals, 1)).prod(axis=-1)
    mean: NDArray[np.float64] = np.sqrt(np.sqrt(product)) * np.exp(np.minimum(brevity, 0))
    return mean


def _ngrams(words: list[bytes], order: int) -> Iterator[Ngram]:
    return zip(*(words[start:] for start in range(order)), strict=False)


def _largest_counts(references: list[list[bytes]]) -> Counter[Ngram]:
    """Return the maximum count of each n-gram in a reference."""
    largest: Counter[Ngram] = Counter()
    for words in references:
        largest |= Counter(chain.from_iterable(_ngrams(words, order) for order in range(1, MAX_ORDER + 1)))
    return largest


def _matches_and_totals(words: list[bytes], limits: Mapping[Ngram, int]) -> list[int]:
    """Return c1 t1 ... c4 t4. This is the inner loop of scoring in tuning, so it uses one loop and no Counter."""
    counts = []
    for order in range(1, MAX_ORDER + 1):
        matches = 0
        used: dict[Ngram, int] = {}
        for ngram in _ngrams(words, order):
            if ngram in limits:
                times = used.get(ngram, 0)
                if times < limits[ngram]:
                    used[ngram] = times + 1
                    matches += 1
        counts += [matches, max(len(words) - order + 1, 0)]
    return counts
