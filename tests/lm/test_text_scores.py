from __future__ import annotations

from collections.abc import Callable

import kenlm
import numpy as np
import pytest

from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.ngrams import TextRow
from phrasescore.lm.text_scores import TextScores, best_weight, interpolate, learn_weight
from phrasescore.text import text_lines
from phrasescore.training.batches import perplexity
from tests.conftest import MINI
from tests.lm.conftest import ARPA

MakeScorer = Callable[..., NeuralLmScorer]
TEXT = MINI / "test.fr"


def test_perplexities_are_those_of_the_models_alone_and_together(make_scorer: MakeScorer) -> None:
    scorer = make_scorer()
    weight = learn_weight(scorer, MINI / "dev.fr")
    found = TextScores(scorer, weight)
    both = list(found.score(map(TextRow, text_lines(TEXT)), "text"))
    lines = TEXT.read_text().splitlines()
    model = kenlm.Model(str(ARPA))
    assert found.sentences == len(lines)
    assert found.words == sum(len(line.split()) + 1 for line in lines)
    shortlist = set(scorer.model.vocabulary.known_words)
    assert found.outside_shortlist == sum(word.encode() not in shortlist for line in lines for word in line.split())
    assert found.unknown_to_backoff == sum(word not in model for line in lines for word in line.split())
    assert found.perplexity["backoff"] == pytest.approx(10 ** (-sum(map(model.score, lines)) / found.words), rel=1e-4)
    alone = scorer.sentence_log_probs([line.encode().split() for line in lines])
    assert found.perplexity["network"] == pytest.approx(np.exp(-sum(alone) / found.words), rel=1e-4)
    assert found.perplexity["interpolation"] == pytest.approx(np.exp(-sum(both) / found.words))
    assert 0 < weight < 1


def test_absent_values_are_none(make_scorer: MakeScorer) -> None:
    scorer = make_scorer(backoff=False)
    found = TextScores(scorer)
    lines = TEXT.read_bytes().splitlines()
    assert list(found.score(map(TextRow, lines), "text")) == scorer.sentence_log_probs([line.split() for line in lines])
    assert (found.unknown_to_backoff, found.perplexity["backoff"], found.perplexity["interpolation"]) == (None,) * 3


def test_interpolation() -> None:
    first, second = np.log([0.5, 0.1]), np.log([0.1, 0.3])
    assert np.exp(interpolate(first, second, 0.25)) == pytest.approx([0.2, 0.25])
    assert (interpolate(first, second, 1.0) == first).all()
    assert (interpolate(first, second, 0.0) == second).all()


def test_the_weight_is_the_best_one() -> None:
    rng = np.random.default_rng(2)
    first, second = np.log(rng.uniform(0.001, 1, (2, 500)))
    weight = best_weight(first, second)
    grid = np.linspace(0.01, 0.99, 981)
    found = [perplexity(-interpolate(first, second, w).mean()) for w in grid]
    assert weight == pytest.approx(grid[int(np.argmin(found))], abs=0.002)


def test_a_model_that_never_wins_gets_no_weight() -> None:
    good = np.log(np.full(50, 0.5))
    assert best_weight(good - 3, good) < 1e-4
    assert best_weight(good, good - 3) > 1 - 1e-4
