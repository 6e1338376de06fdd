"""Neural language models in the search."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moses_integration.decoder.cslm import NeuralLanguageModelFeature
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Floats, Indices, Words
from moses_integration.decoder.pool import load_decoder, start_decoders
from moses_integration.decoder.settings import read_settings
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.tune import Tuner, tunable_model
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.errors import UserError
from tests.counting import count_rows
from tests.moses_integration.decoder.searching import (
    NARROW,
    TOLERANCE,
    UNLIMITED,
    WEIGHTS,
    check_values,
    decode,
    key,
    options_of,
    scored,
)
from tests.moses_integration.decoder.small_system import Line, SmallSystem, random_system


def with_neural_model(system: SmallSystem, folder: Path, backoff: Path) -> SmallSystem:
    return replace(system, neural_models=[(folder, backoff)], weights={**system.weights, "N0": [0.7]})


@pytest.fixture(scope="module", params=["neural_model", "joint_model"])
def any_model(request: pytest.FixtureRequest) -> Path:
    """A language model, or a joint model."""
    path: Path = request.getfixturevalue(request.param)
    return path


@settings(max_examples=10)
@given(st.integers(0, 2**32))
def test_without_limits_the_list_is_that_of_all_derivations(
    language_models: list[Path], any_model: Path, seed: int
) -> None:
    """Without limits, the n-best list equals that of all derivations.

    So recombination is lossless, and each sum is the score of the whole sentence.
    """
    system, sentence = random_system(random.Random(seed), language_models)
    system = replace(with_neural_model(system, any_model, language_models[1]), settings=UNLIMITED)
    expected = scored(system, sentence)
    model, found = decode(system, sentence)
    listed = found.n_best(len(expected) + 1, distinct=False)
    assert sorted(map(key, listed), key=repr) == sorted((one for _, one in expected), key=repr)
    assert [one.score for one in listed] == pytest.approx([score for score, _ in expected], abs=TOLERANCE)
    check_values(system, sentence, model, listed[:50])


@settings(max_examples=20)
@given(st.integers(0, 2**32))
def test_a_narrow_search_scores_its_translations(language_models: list[Path], any_model: Path, seed: int) -> None:
    system, sentence = random_system(random.Random(seed), language_models)
    system = replace(with_neural_model(system, any_model, language_models[0]), settings=NARROW)
    model, found = decode(system, sentence)
    check_values(system, sentence, model, found.n_best(20, distinct=False))


def test_rounding_differences_between_batches_make_no_new_candidates(
    tmp_path: Path, language_models: list[Path], neural_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounding differences between batches create no new tuning candidates."""
    extend, noise = NeuralLanguageModelFeature.extend, np.random.default_rng(1)

    def moved(self: NeuralLanguageModelFeature, *arguments: Any) -> tuple[Floats, Indices]:
        values_NK, states_N = extend(self, *arguments)
        return values_NK + noise.normal(0, 1e-9, values_NK.shape), states_N

    monkeypatch.setattr(NeuralLanguageModelFeature, "extend", moved)
    system, sentence = random_system(random.Random(2), language_models)
    ini = with_neural_model(system, neural_model, language_models[1]).write(tmp_path)
    lists: list[Candidates] = []
    for _ in range(2):
        with start_decoders(partial(load_decoder, ini, read_settings(ini)), [sentence], processes=1) as pool:
            tuner = Tuner(tunable_model(ini), pool, [(b"A B",)], TuningConfig(), processes=1)
            lists.append(tuner._decode(tuner._start_F, lambda done: None)[0])
    first, second = lists
    assert len(first) > 10
    assert len(first.extended(second)) == len(first)


@pytest.fixture
def feature(language_models: list[Path], neural_model: Path) -> NeuralLanguageModelFeature:
    feature = NeuralLanguageModelFeature("N0", neural_model, language_models[1])
    feature.load()
    return feature


def test_an_ngram_is_scored_once(feature: NeuralLanguageModelFeature) -> None:
    phrases: list[Words] = [(b"A", b"B"), (b"C",), ()]
    values = []
    for asked in (3, 6):
        start = feature.begin(options_of(phrases))
        first, states = feature.extend(np.full(3, start), np.array([0, 1, 2]), is_end=False)
        assert len(set(states.tolist())) == 3
        values.append(first)
        assert feature.queries == asked
    assert (values[0] == values[1]).all()
    assert feature.served == 3
    assert feature.queries == 6
    assert values[0][2] == 0


def test_a_context_is_normalised_once(feature: NeuralLanguageModelFeature, monkeypatch: pytest.MonkeyPatch) -> None:
    """A context is normalised once, also if later stacks ask for other words after it."""
    summed = count_rows(feature._scorer.model.network.softmax, "log_probs", monkeypatch)
    start = feature.begin(options_of([(b"A", b"B"), (b"A", b"C"), (b"C",)]))
    values = [feature.extend(np.array([start]), np.array([phrase]), is_end=False)[0] for phrase in range(3)]
    assert summed == [2]
    assert (feature.queries, feature.served) == (5, 1)
    alone = NeuralLanguageModelFeature("N0", feature.path, feature.backoff)
    for phrase, value in enumerate(values):
        alone.load()
        start = alone.begin(options_of([(b"A", b"B"), (b"A", b"C"), (b"C",)]))
        assert alone.extend(np.array([start]), np.array([phrase]), is_end=False)[0] == pytest.approx(value, abs=1e-5)


def test_an_empty_phrase_does_not_change_the_state(feature: NeuralLanguageModelFeature) -> None:
    phrases: list[Words] = [(), (b"A", b"C")]
    start = feature.begin(options_of(phrases))
    first, states = feature.extend(np.full(2, start), np.arange(2), is_end=False)
    second, _ = feature.extend(states[:1], np.array([1]), is_end=False)
    assert (second[0] == first[1]).all()


def test_states_are_the_last_words(feature: NeuralLanguageModelFeature) -> None:
    """The state is the last three words for order 4; an unknown last word matters too."""
    phrases: list[Words] = [(b"A", b"B", b"A"), (b"B", b"A", b"B", b"A"), (b"B", b"A", b"C"), (b"B", b"A", b"D")]
    phrases += [(b"C",), (b"B", b"A", b"B"), (b"A", b"B")]
    start = feature.begin(options_of(phrases))
    _, states = feature.extend(np.full(4, start), np.arange(4), is_end=False)
    assert states[0] == states[1]
    assert len(set(states.tolist())) == 3
    behind, _ = feature.extend(states, np.full(4, 4), is_end=False)
    assert behind[0] == behind[1]
    assert len(set(behind.ravel().tolist())) == 3
    _, one = feature.extend(states, np.full(4, 6), is_end=False)
    assert one[2] == one[3]
    assert one[0] != one[2]
    _, again = feature.extend(states, np.full(4, 5), is_end=True)
    assert len(set(again.tolist())) == 1


@dataclass(frozen=True)
class Threads:
    """A task that returns the number of threads of PyTorch."""

    needs_arcs: bool = False

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> int:
        return torch.get_num_threads()


def test_each_of_several_processes_takes_one_core(
    tmp_path: Path, language_models: list[Path], neural_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    lines = [Line((b"a",), (b"A",), (0.5,))]
    ini = with_neural_model(SmallSystem(lines, WEIGHTS), neural_model, language_models[0]).write(tmp_path)
    with start_decoders(partial(load_decoder, ini, read_settings(ini)), [(b"a",)] * 9, processes=2) as pool:
        assert set(pool.run(Threads(), ini.weights())) == {1}


def test_missing_files_are_errors(tmp_path: Path, language_models: list[Path], neural_model: Path) -> None:
    for folder, backoff, message in (
        (tmp_path / "none", language_models[0], "none"),
        (neural_model, tmp_path / "lm", "lm: does not exist"),
    ):
        system = with_neural_model(SmallSystem([], WEIGHTS), folder, backoff)
        with pytest.raises(UserError, match=message):
            decode(system, (b"a",))
