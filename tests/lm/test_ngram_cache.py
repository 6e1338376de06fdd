"""The cache of n-gram scores."""

from __future__ import annotations

import numpy as np
import pytest

from phrasescore.lm import ngram_cache
from phrasescore.lm.ngram_cache import NgramCache, ngram_keys


def some_ngrams(count: int, seed: int = 1) -> tuple[ngram_cache.Keys, ngram_cache.Scores]:
    words = np.random.default_rng(seed).integers(0, 1 << 63, (count, 4), np.uint64)
    return ngram_keys(words), np.linspace(-20, -1e-6, count, dtype=np.float32)


def test_added_scores_are_found() -> None:
    cache = NgramCache()
    keys, scores = some_ngrams(300)
    assert np.isnan(cache.find(keys)).all()
    for first in range(0, 300, 20):
        cache.add(keys[first : first + 20], scores[first : first + 20])
    found = cache.find(keys)
    is_found = ~np.isnan(found)
    # Two keys of one call may hash to the same entry.
    assert is_found.mean() > 0.9
    assert (found[is_found] == scores[is_found]).all()
    assert np.isnan(cache.find(some_ngrams(300, seed=2)[0])).all()


def test_a_full_cache_forgets_and_never_errs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ngram_cache, "_SETS", 1 << 8)
    cache = NgramCache()
    keys, scores = some_ngrams(20_000)
    for first in range(0, 20_000, 100):
        cache.add(keys[first : first + 100], scores[first : first + 100])
    found = cache.find(keys)
    is_found = ~np.isnan(found)
    assert (1 << 11) * 0.95 < is_found.sum() <= 1 << 11
    assert (found[is_found] == scores[is_found]).all()


def test_keys_depend_on_the_order_of_words() -> None:
    words = np.array([[1, 2, 3], [3, 2, 1], [1, 2, 3], [0, 0, 0], [0, 0, 1]], np.uint64)
    keys = ngram_keys(words)
    assert keys[0] == keys[2]
    assert len(set(keys.tolist())) == 4
