"""N-gram models as features of the decoder."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_integration.decoder import language_models as models
from moses_integration.decoder.language_models import LanguageModel
from moses_integration.decoder.phrases import Words
from phrasescore.errors import UserError
from tests.moses_integration.decoder.searching import options_of

PHRASES: list[Words] = [(b"A", b"B"), (b"B",)]


def loaded(path: Path) -> LanguageModel:
    feature = LanguageModel("LM0", path)
    feature.load()
    return feature


def test_a_model_may_be_compressed_and_of_any_name(language_models: list[Path], tmp_path: Path) -> None:
    """A language model may be compressed and have any file name, as in Moses with KenLM."""
    path = tmp_path / os.fsdecode(b"\xff.gz")
    path.write_bytes(gzip.compress(language_models[1].read_bytes()))
    found, expected = (loaded(one).alone(PHRASES) for one in (path, language_models[1]))
    assert np.array_equal(found, expected)


def test_minus_infinity_is_no_score(language_models: list[Path], tmp_path: Path) -> None:
    """A log-probability of minus infinity is an error.

    KenLM accepts it, and a translation would be empty without a message.
    """
    content = language_models[1].read_bytes()
    (tmp_path / "lm.arpa").write_bytes(re.sub(rb"\n[^\t\n]*(?=\tA\t)", b"\n-inf", content))
    rejected = pytest.raises(UserError, match=r"lm.arpa: gives words log-probabilities that are infinite or above 0")
    feature = loaded(tmp_path / "lm.arpa")
    with rejected:
        feature.alone(PHRASES)
    feature.alone(PHRASES[1:])
    # No longer n-gram begins with `</s>`, so the next word gets its unigram score.
    start = feature.begin(options_of([(b"</s>",), (b"A",)]))
    _, [behind] = feature.extend(np.array([start]), np.array([0]), is_end=False)
    with rejected:
        feature.extend(np.array([behind]), np.array([1]), is_end=False)


def test_scores_do_not_depend_on_the_cache(language_models: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    def scores() -> list[float]:
        feature, found = loaded(language_models[1]), []
        for phrases in (PHRASES, PHRASES[::-1]):
            start = feature.begin(options_of(phrases))
            first, states = feature.extend(np.full(2, start), np.arange(2), is_end=False)
            last, _ = feature.extend(np.repeat(states, 2), np.tile(np.arange(2), 2), is_end=True)
            found += [*first.ravel(), *last.ravel()]
        return found

    expected = scores()
    monkeypatch.setattr(models, "_CACHED", 1)
    monkeypatch.setattr(models, "_MOST_STATES", 0)
    assert scores() == expected


class Interrupted(list[Any]):
    """A list whose first `append` is interrupted, as by the time limit of a server."""

    is_interrupted = False

    def append(self, item: Any) -> None:
        if not self.is_interrupted:
            self.is_interrupted = True
            raise TimeoutError
        super().append(item)


@pytest.mark.parametrize("numbered", ["states", "words"])
def test_an_interruption_leaves_no_wrong_number(language_models: list[Path], numbered: str) -> None:
    def scores(feature: LanguageModel) -> Any:
        start = feature.begin(options_of(PHRASES))
        first, states = feature.extend(np.full(2, start), np.arange(2), is_end=False)
        return first, feature.extend(states, np.arange(2), is_end=True)[0]

    feature = loaded(language_models[1])
    if numbered == "states":
        feature._states = Interrupted(feature._states)
    else:
        feature._words.texts = Interrupted(feature._words.texts)
    with pytest.raises(TimeoutError):
        scores(feature)
    assert np.array_equal(scores(feature), scores(loaded(language_models[1])))
