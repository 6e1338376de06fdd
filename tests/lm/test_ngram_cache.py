"""The cache of n-gram scores."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from phrasescore.errors import UserError
from phrasescore.lm import ngram_cache
from phrasescore.lm.ngram_cache import NgramCache, ngram_keys


@pytest.fixture(autouse=True)
def small_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the file size from a megabyte to 64 bytes."""
    monkeypatch.setattr(ngram_cache, "_LEAST_BYTES", 1 << 6)


def some_ngrams(count: int, seed: int = 1) -> tuple[ngram_cache.Keys, ngram_cache.Scores]:
    words = np.random.default_rng(seed).integers(0, 1 << 63, (count, 4), np.uint64)
    return ngram_keys(words), np.linspace(-20, -1e-6, count, dtype=np.float32)


@pytest.mark.parametrize("in_file", [False, True])
def test_added_scores_are_found(tmp_path: Path, in_file: bool) -> None:
    cache = NgramCache(tmp_path / "cache" if in_file else None)
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


def test_a_file_is_shared_by_all_who_opened_it(tmp_path: Path) -> None:
    first, second = NgramCache(tmp_path / "cache"), NgramCache(tmp_path / "cache")
    keys, scores = some_ngrams(1)
    first.add(keys, scores)
    assert second.find(keys) == NgramCache(tmp_path / "cache").find(keys) == scores


def test_a_full_cache_forgets_and_never_errs(tmp_path: Path) -> None:
    cache = NgramCache(tmp_path / "cache")
    keys, scores = some_ngrams(20_000)
    for first in range(0, 20_000, 100):
        cache.add(keys[first : first + 100], scores[first : first + 100])
    found = cache.find(keys)
    is_found = ~np.isnan(found)
    assert (1 << 11) * 0.95 < is_found.sum() <= 1 << 11
    assert (found[is_found] == scores[is_found]).all()


@pytest.mark.parametrize(("asked", "made"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128)])
def test_a_file_keeps_the_size_that_it_was_made_with(tmp_path: Path, asked: int, made: int) -> None:
    NgramCache(tmp_path / "cache", asked)
    assert (tmp_path / "cache").stat().st_size == 64 * (1 + made)
    cache = NgramCache(tmp_path / "cache")
    assert (tmp_path / "cache").stat().st_size == 64 * (1 + made)
    keys, scores = some_ngrams(5000)
    for first in range(0, 5000, 10):
        cache.add(keys[first : first + 10], scores[first : first + 10])
    assert np.count_nonzero(~np.isnan(cache.find(keys))) == pytest.approx(8 * made, rel=0.01)


def test_processes_that_start_together_make_one_file(tmp_path: Path) -> None:
    """Processes that start together create one file.

    A lock excludes any two openings of a file, also in one process.
    """
    for number in range(20):
        path = tmp_path / str(number)
        with ThreadPoolExecutor(4) as pool:
            caches = [one.result() for one in [pool.submit(NgramCache, path) for _ in range(4)]]
        keys, scores = some_ngrams(1)
        caches[0].add(keys, scores)
        assert all(cache.find(keys) == scores for cache in caches)


def test_a_cache_larger_than_the_free_space_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cache: needs .* MB, but .* MB are free; give another path or cache_size"):
        NgramCache(tmp_path / "cache", 1 << 50)
    assert not (tmp_path / "cache").exists()


def test_keys_depend_on_the_order_of_words_and_on_the_seed() -> None:
    words = np.array([[1, 2, 3], [3, 2, 1], [1, 2, 3], [0, 0, 0], [0, 0, 1]], np.uint64)
    keys = ngram_keys(words)
    assert keys[0] == keys[2]
    assert len({*keys.tolist(), *ngram_keys(words, seed=1).tolist()}) == 8


def test_other_files_are_errors_and_stay_unchanged(tmp_path: Path) -> None:
    old = b"scores of n-grams, written by phrasescore".ljust(63) + b"\n" + bytes(64)
    for text in (b"text\n", b"text" * 64, ngram_cache._HEADER, ngram_cache._HEADER + bytes(32), old):
        (tmp_path / "text").write_bytes(text)
        with pytest.raises(UserError, match="is not an intact cache of n-grams"):
            NgramCache(tmp_path / "text")
        assert (tmp_path / "text").read_bytes() == text
    with pytest.raises(UserError, match="cannot be a cache of n-grams"):
        NgramCache(tmp_path / "none" / "cache")
    for place in (tmp_path, Path("/dev/full")):
        with pytest.raises(UserError, match="is not a regular file and cannot be a cache of n-grams"):
            NgramCache(place)


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place // 8] ^= 1 << place % 8
    path.write_bytes(content)


def test_a_score_with_a_flipped_bit_is_not_found(tmp_path: Path) -> None:
    keys, scores = some_ngrams(1)
    NgramCache(tmp_path / "cache", 1).add(keys, scores)
    [entry] = [place for place in range(64, 128, 8) if any((tmp_path / "cache").read_bytes()[place : place + 8])]
    for bit in range(8 * entry, 8 * entry + 64):
        flip(tmp_path / "cache", bit)
        assert np.isnan(NgramCache(tmp_path / "cache").find(keys))
        flip(tmp_path / "cache", bit)
        assert NgramCache(tmp_path / "cache").find(keys) == scores


def test_a_full_disk_leaves_no_half_file(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 10, limits[1]))
    try:
        with pytest.raises(UserError, match="cannot be a cache of n-grams: File too large"):
            NgramCache(tmp_path / "cache")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not (tmp_path / "cache").exists()
