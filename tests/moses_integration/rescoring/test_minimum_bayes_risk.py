"""Minimum Bayes risk chooses the translation with the highest expected BLEU under several n-best lists."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import numpy as np
import pytest

from moses_integration.nbest import ListFault, NbestEntry
from moses_integration.rescoring import minimum_bayes_risk
from moses_integration.rescoring.minimum_bayes_risk import Posterior, combine, expected_bleu
from moses_integration.tuning.bleu import bleu_statistics, smoothed_bleu


def entries_of(*lists: Sequence[tuple[str, float]]) -> list[NbestEntry]:
    """Return an n-best list with the translations and totals of each sentence."""
    return [
        NbestEntry(number, words.encode(), b"X= 0", repr(total).encode())
        for number, group in enumerate(lists)
        for words, total in group
    ]


def certain(*translations: str) -> Posterior:
    """Return the distribution with one translation of each sentence."""
    return Posterior(1.0, {number: {words.encode(): 1.0} for number, words in enumerate(translations)})


def perplexity_of(posterior: Posterior) -> float:
    entropies = [-sum(p * math.log(p) for p in probs.values() if p) for probs in posterior.probs.values()]
    return math.exp(sum(entropies) / len(entropies))


def random_sentences(count: int, seed: int) -> list[str]:
    """Return distinct sentences with repeated n-grams and words."""
    choose = random.Random(seed)
    texts = (" ".join(choose.choices("abc", k=choose.randrange(9))) for _ in iter(int, 1))
    found: dict[str, None] = {}
    while len(found) < count:
        found.setdefault(next(texts))
    return list(found)


def test_expected_bleu_is_the_mean_of_that_of_tuning(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of one block, of two, and of an incomplete last one."""
    texts = [text.encode() for text in random_sentences(40, seed=1)]
    probs = np.random.default_rng(1).dirichlet(np.ones(len(texts)))
    columns = [smoothed_bleu(bleu_statistics([reference], texts)) for reference in texts]
    for rows in (40, 20, 17):
        monkeypatch.setattr(minimum_bayes_risk, "_ROWS_AT_ONCE", rows)
        assert expected_bleu(texts, probs) == pytest.approx(np.stack(columns, axis=1) @ probs)


@pytest.mark.parametrize("perplexity", [1.5, 3.0, 6.0])
def test_the_distributions_of_a_list_have_the_perplexity(perplexity: float) -> None:
    choose = random.Random(2)
    lists = [[(text, choose.gauss(0, 5)) for text in random_sentences(10, seed)] for seed in range(4)]
    posterior = Posterior.of_list(entries_of(*lists), perplexity)
    assert perplexity_of(posterior) == pytest.approx(perplexity, rel=1e-6)
    for number, group in enumerate(lists):
        totals = np.array([total for _, total in group])
        logits = posterior.scale * totals
        expected = np.exp(logits - np.logaddexp.reduce(logits))
        assert list(posterior.probs[number].values()) == pytest.approx(expected)
    # The totals of tuned systems have no common scale.
    tenfold = Posterior.of_list(entries_of(*[[(text, 10 * total) for text, total in one] for one in lists]), perplexity)
    assert tenfold.scale == pytest.approx(posterior.scale / 10, rel=1e-4)


def test_a_list_of_fewer_translations_is_uniform() -> None:
    posterior = Posterior.of_list(entries_of([("a", -1.0), ("b", -2.0)], [("c", 0.0)]), 5.0)
    assert posterior == Posterior(0.0, {0: {b"a": 0.5, b"b": 0.5}, 1: {b"c": 1.0}})


def test_equal_totals_share_the_probability_at_every_perplexity() -> None:
    posterior = Posterior.of_list(entries_of([("a", -1.0), ("b", -1.0)]), 1.5)
    assert posterior.probs == {0: {b"a": 0.5, b"b": 0.5}}


def test_derivations_of_one_translation_share_its_probability() -> None:
    posterior = Posterior.of_list(entries_of([("a", 0.0), ("b", 0.0), ("a", 0.0)]), 3.0)
    assert posterior.probs[0] == pytest.approx({b"a": 2 / 3, b"b": 1 / 3})


def test_repeated_translations_do_not_change_the_distributions() -> None:
    """A list of derivations has each translation several times; the perplexity is that of translations."""
    choose = random.Random(4)
    distinct = [[(text, choose.gauss(0, 5)) for text in random_sentences(10, seed)] for seed in range(3)]
    once = Posterior.of_list(entries_of(*distinct), 4.0)
    repeated = Posterior.of_list(entries_of(*[one * 6 for one in distinct]), 4.0)
    assert repeated.scale == pytest.approx(once.scale)
    for number, probs in once.probs.items():
        assert repeated.probs[number] == pytest.approx(probs)


def test_sentences_with_one_translation_do_not_count() -> None:
    several = [(text, -float(number)) for number, text in enumerate(random_sentences(10, seed=5))]
    alone = Posterior.of_list(entries_of(several), 4.0)
    beside = Posterior.of_list(entries_of(several, [("", 0.0)], [("a", -7.0), ("a", -8.0)]), 4.0)
    assert beside.scale == pytest.approx(alone.scale)
    assert beside.probs[2] == {b"a": 1.0}


@pytest.mark.parametrize("unit", [1e-30, 1e-6, 1e6, 1e30])
def test_totals_of_any_size(unit: float) -> None:
    posterior = Posterior.of_list(entries_of([("a", 0.0), ("b", -unit), ("c", -2 * unit)]), 1.5)
    assert perplexity_of(posterior) == pytest.approx(1.5, rel=1e-6)


def test_totals_beyond_32_bits_are_an_error() -> None:
    with pytest.raises(ListFault, match=r"has a total beyond 32 bits: 1e\+300; correct it"):
        Posterior.of_list(entries_of([("a", 0.0), ("b", 1e300)]), 1.5)


def test_an_empty_list() -> None:
    assert Posterior.of_list([], 2.0) == Posterior(0.0, {})


def test_the_choice_agrees_with_most_of_the_lists() -> None:
    """A translation that is first in no list has the highest expected BLEU, as it shares n-grams with the others."""
    one = Posterior(1.0, {0: {b"the red house is on a hill": 0.6, b"the red house stands on a hill": 0.4}})
    other = Posterior(1.0, {0: {b"a red house stands on the hill": 0.6, b"the red house stands on a hill": 0.4}})
    assert [*combine([one, other], [1, 1], 1)] == [b"the red house stands on a hill"]
    assert [*combine([one, other], [1e308, 1e308], 1)] == [b"the red house stands on a hill"]
    assert [*combine([one, other], [1, 0], 1)] == [b"the red house is on a hill"]


def test_the_choice_maximises_expected_bleu() -> None:
    choose = random.Random(3)
    for seed in range(20):
        texts = [text.encode() for text in random_sentences(12, seed)]
        lists = [{text: choose.random() for text in choose.sample(texts, 8)} for _ in range(3)]
        weights = [choose.random() for _ in lists]

        def expected(
            candidate: bytes,
            lists: list[dict[bytes, float]] = lists,
            weights: list[float] = weights,
        ) -> float:
            return sum(
                weight * prob * float(smoothed_bleu(bleu_statistics([reference], [candidate]))[0])
                for weight, probs in zip(weights, lists, strict=True)
                for reference, prob in probs.items()
            )

        (chosen,) = combine([Posterior(1.0, {0: probs}) for probs in lists], weights, 1)
        listed = {text for probs in lists for text in probs}
        assert chosen in listed
        assert expected(chosen) == pytest.approx(max(map(expected, listed)))


def test_sentences_without_words_have_empty_translations() -> None:
    posterior = Posterior(1.0, {1: {b"a b": 1.0}})
    assert [*combine([posterior], [1], 3)] == [b"", b"a b", b""]


def test_equal_lists_prefer_the_first() -> None:
    assert [*combine([certain("a b"), certain("c d")], [1, 1], 1)] == [b"a b"]
