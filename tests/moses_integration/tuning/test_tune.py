"""The tuning loop: decode, merge n-best lists, optimise weights, and stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from moses_integration.decoder.cslm import NeuralLanguageModelFeature
from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.graph import Derivation, Step
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import TargetPhrase, WordPenalty, words_of
from moses_integration.decoder.pool import load_decoder, start_decoders
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from moses_integration.per_text.position_tags import tag_word
from moses_integration.tuning import tune
from moses_integration.tuning.bleu import bleu_statistics
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.mert import Optimum, optimise
from moses_integration.tuning.tune import Tuner, tunable_model
from moses_integration.tuning.tunings import Tuning, TuningConfig, spread
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from tests.conftest import MINI

SETTINGS = TuningConfig(nbest=10, iterations=2, restarts=2)
SENTENCES = list(read_lines(MINI / "dev.en"))[:12]
REFERENCES = [(line,) for line in read_lines(MINI / "dev.fr")][:12]


@contextmanager
def tuner(
    references: Sequence[tuple[bytes, ...]] = REFERENCES,
    settings: TuningConfig = SETTINGS,
    sentences: Sequence[bytes] = SENTENCES,
    processes: int = 1,
    ini: MosesIni | None = None,
) -> Iterator[Tuner]:
    ini = ini or MosesIni.read(MINI / "moses.ini")
    model = tunable_model(ini)
    load = partial(load_decoder, ini, read_settings(ini))
    with start_decoders(load, [words_of(line) for line in sentences], processes) as pool:
        yield Tuner(model, pool, references, settings, processes)


def test_lists_have_few_digits_of_a_neural_language_model_and_all_of_others() -> None:
    features = [NeuralLanguageModelFeature("CSLM0", Path("rnn"), Path("lm.arpa")), WordPenalty("WordPenalty0")]
    found = Derivation((Step(0, 0, 0, TargetPhrase((b"un",))),), -3.0, np.array([-1.23456789, -1.23456789]))
    graph = Mock(n_best=Mock(return_value=[found]))
    listed = tune._Listing(10, [(b"un",)])(0, (b"a",), LogLinearModel(features), graph)
    assert listed.features_KF.tolist() == [[-1.2346, -1.23456789]]


def test_a_copied_word_is_the_word_for_bleu_whatever_its_name() -> None:
    found = Derivation((Step(0, 0, 0, TargetPhrase((tag_word(b"un", 0, 3),))),), -3.0, np.array([-1.0]))
    listing = tune._Listing(10, [(b"un",)])
    listed = listing(0, (b"a",), LogLinearModel([WordPenalty("W")]), Mock(n_best=Mock(return_value=[found])))
    assert listed.best_9.tolist() == bleu_statistics((b"un",), [b"un"])[0].tolist()
    assert listed.best_9.tolist() != bleu_statistics((b"un",), [b"deux"])[0].tolist()


def flat(weights: dict[str, list[float]]) -> list[float]:
    return [number for numbers in weights.values() for number in numbers]


def test_each_search_has_a_seed_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each search has its own seed, so that tuning runs and the restarts of each decoding differ."""
    searches: list[tuple[int, int]] = []

    def noted(*arguments: Any, seed: int, restarts: int, **options: Any) -> Optimum:
        searches.append((seed, restarts))
        return optimise(*arguments, seed=seed, restarts=restarts, **options)

    monkeypatch.setattr(tune, "optimise", noted)
    with tuner() as work:
        work.tune(1)
        work.tune(2)
    assert len({seed for seed, _ in searches}) == len(searches) == 4
    assert {restarts for _, restarts in searches} == {SETTINGS.restarts}


def test_tuning_finds_better_weights() -> None:
    told: list[float] = []
    with tuner() as work:
        result = work.tune(1, lambda iteration: told.append(iteration.bleu))
    assert told == [iteration.bleu for iteration in result.iterations]
    first, second = result.iterations
    assert first.predicted > first.bleu + 1
    assert result.bleu == max(first.bleu, second.bleu)
    assert result.weights == max(result.iterations, key=lambda iteration: iteration.bleu).weights
    assert second.candidates > first.candidates > 2 * len(SENTENCES)
    weights = MosesIni.read(MINI / "moses.ini").weights()
    assert {label: len(numbers) for label, numbers in result.weights.items()} == {
        label: len(numbers) for label, numbers in weights.items()
    }
    # The first decoding uses the ini's weights, scaled as mert-moses.pl scales them.
    size = sum(
        abs(number) for label, numbers in weights.items() if label != "UnknownWordPenalty0" for number in numbers
    )
    assert first.weights["LM0"] == pytest.approx([weights["LM0"][0] / size])


def test_the_seed_alone_decides_whatever_the_processes() -> None:
    found: list[Tuning] = []
    for processes in (1, 2):
        with tuner(processes=processes) as work:
            found.append(work.tune(7))
    one, two = ([replace(iteration, seconds=0) for iteration in tuning.iterations] for tuning in found)
    assert one == two
    assert (found[0].weights, found[0].bleu) == (found[1].weights, found[1].bleu)


def test_seeds_share_the_first_decoding(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    decode = Tuner._decode

    def counting(self: Tuner, weights_F: tune.Floats, on_sentence: Callable[[int], None]) -> tuple[Candidates, float]:
        decoded.append(weights_F.tobytes())
        return decode(self, weights_F, on_sentence)

    monkeypatch.setattr(Tuner, "_decode", counting)
    with tuner() as work:
        runs = [work.tune(seed) for seed in (1, 2)]
    assert len(decoded) == 3
    assert decoded.count(decoded[0]) == 1
    assert runs[0].iterations[0].bleu == runs[1].iterations[0].bleu
    assert runs[0].iterations[0].weights == runs[1].iterations[0].weights


def test_nothing_to_tune_is_rejected() -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    for feature in ini.features():
        ini.set_argument(feature.label, "tuneable", "false")
    message = r"moses\.ini: has no feature that may be tuned; remove tuneable=false from"
    with pytest.raises(UserError, match=message), tuner(ini=ini):
        pass


# Stopping


@pytest.fixture
def pretend(monkeypatch: pytest.MonkeyPatch) -> Callable[[Sequence[float], Callable[[int], float]], Tuner]:
    """Return a tuner with the given BLEU for each decoding, whose searches move a weight by `step`.

    Each of the first `new` decodings finds a new candidate.
    """

    def make(bleus: Sequence[float], step: Callable[[int], float], new: int = 9) -> Tuner:
        model = declare_model(MosesIni.read(MINI / "moses.ini"))
        work = Tuner(model, Mock(), REFERENCES, TuningConfig(iterations=9), processes=1)
        names = work._names
        found_by = (
            Candidates.from_lists(names, [np.full((1, len(names)), min(number, new))], [np.zeros((1, 9), np.int32)])
            for number in itertools.count(1)
        )
        achieved = iter(bleus)

        def found(_: Candidates, starts_NF: tune.Floats, **others: object) -> Optimum:
            moved_F = starts_NF[0].copy()
            moved_F[0] += step(len(starts_NF))
            return Optimum(moved_F, 0.5)

        monkeypatch.setattr(Tuner, "_decode", lambda self, weights_F, on_sentence: (next(found_by), next(achieved)))
        monkeypatch.setattr(tune, "optimise", found)
        monkeypatch.setattr(tune, "PATIENCE", 2)
        return work

    return make


def test_it_ends_when_patience_does(pretend: Callable[..., Tuner]) -> None:
    result = pretend([0.49, 0.5, 0.495, 0.5, 0.9], lambda number: 0.1).tune(1)
    assert [iteration.bleu for iteration in result.iterations] == [49, 50, 49.5, 50]
    assert result.bleu == 50
    assert result.weights == result.iterations[1].weights


def test_decodings_that_stray_do_not_exhaust_patience(pretend: Callable[..., Tuner]) -> None:
    bleus = [0.5, 0.02, 0.3, 0.495, 0.52, 0.515, 0.1, 0.52, 0.9]
    result = pretend(bleus, lambda number: 0.1).tune(1)
    assert [iteration.bleu / 100 for iteration in result.iterations] == pytest.approx(bleus[:8])
    assert result.bleu == 52


def test_it_ends_when_nothing_moves(pretend: Callable[..., Tuner]) -> None:
    result = pretend([0.3, 0.2, 0.1], lambda number: 0.1 if number == 1 else 1e-6).tune(1)
    assert len(result.iterations) == 2
    assert result.bleu == 30


def test_it_ends_when_the_lists_hardly_grow(pretend: Callable[..., Tuner]) -> None:
    result = pretend([0.3, 0.4, 0.5, 0.6], lambda number: 0.1, new=2).tune(1)
    assert [iteration.candidates for iteration in result.iterations] == [1, 2, 2]


def test_it_ends_after_the_iterations_allowed(pretend: Callable[..., Tuner]) -> None:
    result = pretend(np.linspace(0.1, 0.9, 9).tolist(), lambda number: 0.1).tune(1)
    assert len(result.iterations) == 9
    assert result.weights == result.iterations[-1].weights


# Dev sets


def test_several_references() -> None:
    """With Moses' own translation as one of several references, the first decoding is perfect."""
    translations = [line.rstrip(b" ") for line in read_lines(MINI / "decode/default.out")]
    references = [(*given, made) for given, made in zip(REFERENCES, translations, strict=False)]
    with tuner(references, replace(SETTINGS, iterations=1)) as work:
        both = work.tune(1)
    assert both.bleu == pytest.approx(100)
    with tuner(settings=replace(SETTINGS, iterations=1)) as work:
        assert work.tune(1).bleu < 99


def test_a_weight_that_cannot_be_tuned_stays() -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    ini.set_weights({"UnknownWordPenalty0": [0.7]})
    with tuner(ini=ini) as work:
        result = work.tune(1)
    assert [iteration.weights["UnknownWordPenalty0"] for iteration in result.iterations] == [[0.7]] * 2
    tuned = [
        number for label, numbers in result.weights.items() if label != "UnknownWordPenalty0" for number in numbers
    ]
    assert sum(map(abs, tuned)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("sentences", "references"),
    [
        # Only unknown words: one candidate each, so there is no choice.
        ([b"zork", b"plugh zork"], [(b"zork",), (b"plugh zork",)]),
        # No candidate has a matching 4-gram.
        (SENTENCES[:2], [(b"x",), (b"y z",)]),
        # Empty lines.
        ([b"", SENTENCES[0]], [(b"",), REFERENCES[0]]),
        ([b""], [(b"",)]),
    ],
)
def test_dev_sets_that_teach_nothing(sentences: Sequence[bytes], references: Sequence[tuple[bytes, ...]]) -> None:
    with tuner(references, replace(SETTINGS, nbest=3), sentences) as work:
        result = work.tune(1)
    assert 0 <= result.bleu <= 100
    assert np.isfinite(flat(result.weights)).all()
    assert any(flat(result.weights))


def test_weights_of_nought_are_a_start() -> None:
    ini = MosesIni.read(MINI / "moses.ini")
    ini.set_weights({label: [0.0] * len(numbers) for label, numbers in ini.weights().items()})
    with tuner(ini=ini, settings=replace(SETTINGS, restarts=0)) as work:
        result = work.tune(1)
    assert np.isfinite(flat(result.weights)).all()
    assert result.bleu > 0


def test_the_spread_of_some_runs() -> None:
    assert spread([50.0]) == (50, 0)
    assert spread([50, 52, 54]) == (52, 2)
