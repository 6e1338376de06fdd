from __future__ import annotations

from collections.abc import Callable

import kenlm
import numpy as np
import pytest

from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.perplexity import TextScores, learn_weight, score_text
from phrasescore.text import text_lines
from tests.conftest import MINI
from tests.lm.conftest import ARPA

MakeScorer = Callable[..., NeuralLmScorer]
TEXT = MINI / "test.fr"


def test_perplexities_are_those_of_the_models_alone_and_together(make_scorer: MakeScorer) -> None:
    scorer = make_scorer()
    weight = learn_weight(scorer, MINI / "dev.fr")
    found = TextScores(scorer, weight)
    both = [scores for scored in score_text(scorer, TEXT, text_lines) for scores in found.add(scored)]
    lines = TEXT.read_text().splitlines()
    model = kenlm.Model(str(ARPA))
    assert found.sentences == len(lines)
    assert found.words == sum(len(line.split()) + 1 for line in lines)
    shortlist = set(scorer.model.vocabulary.known_words)
    assert found.outside_shortlist == sum(word.encode() not in shortlist for line in lines for word in line.split())
    assert found.unknown_to_backoff == sum(word not in model for line in lines for word in line.split())
    assert found.backoff == pytest.approx(10 ** (-sum(map(model.score, lines)) / found.words), rel=1e-4)
    alone = scorer.sentence_log_probs([line.encode().split() for line in lines])
    assert found.network == pytest.approx(np.exp(-sum(alone) / found.words), rel=1e-4)
    assert found.interpolation == pytest.approx(np.exp(-np.concatenate(both).mean()))
    assert 0 < weight < 1


def test_what_is_absent_is_none(make_scorer: MakeScorer) -> None:
    scorer = make_scorer(backoff=False)
    found = TextScores(scorer)
    [scored] = score_text(scorer, TEXT, text_lines)
    assert found.add(scored) is scored.network
    assert (found.unknown_to_backoff, found.backoff, found.interpolation) == (None, None, None)
