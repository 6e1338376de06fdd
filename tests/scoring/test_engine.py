from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import phrasescore
from phrasescore.device import Device, Precision, choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import TrainedModel, load_model
from phrasescore.nn import softmax
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import Direction
from phrasescore.scoring import encoder_decoder
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import load_scorer, require_in_context
from phrasescore.table.reader import TableReader
from phrasescore.vocabulary import END, Vocabulary, WordCounts
from phrasescore.workers import pickled
from tests.conftest import DATA, MINI, TINY
from tests.family_reference import pair_log_prob
from tests.nn.family import FAMILY, config_of
from tests.nn.networks import weights_of
from tests.no_numbers import META, copies

WORDS = [b"a", b"b", b"c", b"d"]


def make_model(direction: Direction = "target-given-source", seed: int = 7, config: ModelConfig = TINY) -> TrainedModel:
    torch.manual_seed(seed)
    vocabulary = Vocabulary(WORDS)
    network = EncoderDecoder(config, len(vocabulary), len(vocabulary)).eval()
    return TrainedModel(network, vocabulary, vocabulary, direction, folder=Path("tiny"))


def make_scorer(direction: Direction = "target-given-source") -> EncoderDecoderScorer:
    return EncoderDecoderScorer(make_model(direction), choose_device("cpu", "fp32"))


SCORER = make_scorer()
phrases = st.lists(st.sampled_from([*WORDS, b"z"]), min_size=1, max_size=4).map(b" ".join)
pairs = st.lists(st.tuples(phrases, st.one_of(phrases, st.just(b""))), min_size=1, max_size=12)


def score(scorer: EncoderDecoderScorer, some: list[tuple[bytes, bytes]]) -> list[float]:
    found = scorer.score(Occurrences([source for source, _ in some], [target for _, target in some]))
    return [float(value) for value in found.first_N]


def test_self_normalised_networks_offer_unnormalised_scores() -> None:
    plain, normal = make_model(), make_model(config=replace(TINY, self_normalise=0.1))
    normal.network.load_state_dict(plain.network.state_dict())
    device, occurrences = choose_device("cpu", "fp32"), Occurrences([b"a b", b"a b", b"c"], [b"a", b"b z", b""])
    scorer = EncoderDecoderScorer(normal, device, [normal])
    assert scorer.context_column == scorer.column("unnormalised") == scorer.columns[-1]
    found = scorer.score(occurrences, (scorer.context_column, scorer.columns[0]))
    assert np.array_equal(found.values_NK[:, 1], SCORER.score(occurrences).first_N)
    pairs = scorer.encode(occurrences)
    (batch,) = scorer.batches(pairs)
    s_Ar = normal.network.decoder(batch, normal.network.encoder(batch.sources))
    log_norm_I = normal.network.softmax.words(s_Ar).logsumexp(1)[batch.node_I].detach()
    log_norm_P = torch.zeros(3).index_add_(0, batch.pair_I, log_norm_I).numpy()
    assert found.first_N == pytest.approx(found.values_NK[:, 1] + log_norm_P, abs=1e-5)
    mixed = EncoderDecoderScorer(normal, device, [plain])
    assert mixed.columns == SCORER.columns
    assert mixed.context_column == mixed.columns[0]


@given(pairs)
def test_scores_equal_the_equations(some: list[tuple[bytes, bytes]]) -> None:
    weights = weights_of(SCORER.model.network)
    for (source, target), found in zip(some, score(SCORER, some), strict=True):
        expected = pair_log_prob(weights, TINY, ids_of(SCORER.model, source), ids_of(SCORER.model, target), END)
        assert abs(found - expected) < 1e-4


@pytest.mark.parametrize("name", FAMILY)
def test_every_member_of_the_family_scores(name: str) -> None:
    """Scores follow the model's equations and the order of the input, for any batching.

    The input has repeated and empty phrases.
    """
    model = make_model(config=config_of(name))
    with torch.no_grad():
        for parameter in model.network.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    weights = weights_of(model.network)
    some = [(b"a b", b"c"), (b"d", b"d d z a"), (b"a b", b""), (b"a b z d", b"b"), (b"d", b"d d"), (b"a", b"c c")]
    expected = [
        pair_log_prob(weights, model.network.config, ids_of(model, source), ids_of(model, target), END)
        for source, target in some
    ]
    scorer = EncoderDecoderScorer(model, choose_device("cpu", "fp32"))
    for size in (1, 2, 4096):
        scorer.batch_pairs = size
        assert np.allclose(score(scorer, some), expected, atol=1e-4)


def ids_of(model: TrainedModel, phrase: bytes) -> list[int]:
    ids: list[int] = model.source_vocabulary.encode([phrase]).ids.tolist()
    return ids if phrase else []


@settings(max_examples=30)
@given(pairs, st.randoms(use_true_random=False), st.integers(1, 5))
def test_scores_do_not_depend_on_company_or_order(some: list[tuple[bytes, bytes]], random: object, size: int) -> None:
    together = score(SCORER, some)
    alone = [score(SCORER, [pair])[0] for pair in some]
    assert np.allclose(together, alone, atol=1e-4)
    order = list(range(len(some)))
    random.shuffle(order)  # type: ignore[attr-defined]
    shuffled = score(SCORER, [some[i] for i in order])
    assert np.allclose(shuffled, [together[i] for i in order], atol=1e-4)
    scorer = make_scorer()
    scorer.batch_pairs = size
    assert np.allclose(score(scorer, some), together, atol=1e-4)


def test_the_other_direction_swaps_the_sides() -> None:
    other = make_scorer("source-given-target")
    some = [(b"a b", b"c"), (b"a b", b"d d z"), (b"c", b"a")]
    swapped = [(target, source) for source, target in some]
    assert np.allclose(score(other, some), score(SCORER, swapped), atol=1e-5)


def test_several_networks_give_the_mean_of_their_scores() -> None:
    device, some = choose_device("cpu", "fp32"), [(b"a b", b"c"), (b"a b", b"d d z"), (b"c", b"a")]
    models = [make_model(seed=seed) for seed in (1, 2, 3)]
    alone = [score(EncoderDecoderScorer(model, device), some) for model in models]
    together = score(EncoderDecoderScorer(models[0], device, models[1:]), some)
    assert np.ptp(alone, axis=0).min() > 1e-3
    assert np.allclose(together, np.mean(alone, axis=0), atol=1e-5)


def test_each_of_several_networks_must_read_sentences() -> None:
    alone, placed = make_model(), make_model(config=replace(TINY, in_context=True))
    require_in_context(EncoderDecoderScorer(placed, SCORER.device, [placed]))
    with pytest.raises(UserError, match="tiny, tiny: does not condition on the sentence"):
        require_in_context(EncoderDecoderScorer(placed, SCORER.device, [alone]))


def test_batches_of_long_pairs_are_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batch memory is bounded: long pairs are put into smaller batches.

    Memory depends on the number of symbols times the hidden units, not on the number of pairs.
    """
    network = make_model().network
    monkeypatch.setitem(encoder_decoder._SYMBOL_UNITS, "cpu", 2000 * network.config.hidden)
    scorer = make_scorer()
    pairs = scorer.encode(Occurrences([b"a b"] * 50, [b"a b c " * 100] * 50))
    sizes = [len(batch.symbol_I) for batch in scorer.batches(pairs)]
    assert sum(sizes) == 50 * 301
    assert max(sizes) <= 2000
    assert len(sizes) == 9


def test_a_long_pair_alone_takes_no_more_rows_than_it_has_words() -> None:
    scorer = make_scorer()
    [batch] = scorer.batches(scorer.encode(Occurrences([b"a b"], [b"a b c " * 300])))
    assert batch.target.sizes == [1] * 900


def test_batches_that_do_not_fit_into_memory_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    some = [(b"a b", b"c"), (b"a b", b"d d"), (b"c", b"a"), (b"b", b"b a"), (b"d", b"")]
    scorer, expected, sizes = make_scorer(), score(make_scorer(), some), list[int]()
    scorer.batch_pairs = 8
    network = scorer.networks[0]
    pair_scores = network.pair_scores

    def of_two(batch: PairBatch, **options: bool) -> torch.Tensor:
        found: torch.Tensor = pair_scores(batch, **options)
        sizes.append(len(found))
        if len(found) > 2:
            raise torch.OutOfMemoryError
        return found

    monkeypatch.setattr(network, "pair_scores", of_two)
    assert np.allclose(score(scorer, some), expected, atol=1e-6)
    assert sizes == [5, 4, 2, 2, 1]
    assert scorer.batch_pairs == 2


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("name", FAMILY)
def test_a_batch_is_one_copy_and_asks_the_device_for_nothing(
    monkeypatch: pytest.MonkeyPatch, name: str, precision: Precision
) -> None:
    """Scoring a batch takes one copy to the device and one synchronisation, for the scores."""
    monkeypatch.setitem(encoder_decoder._SYMBOL_UNITS, "meta", 1 << 20)
    monkeypatch.setitem(encoder_decoder._BATCH_PAIRS, "meta", 2)
    monkeypatch.setattr(encoder_decoder, "fetch", lambda found: lambda: torch.full(found.shape, -1.0))
    model = make_model(config=config_of(name))
    device = Device(META, choose_device("cpu", precision).product_dtype)
    scorer = EncoderDecoderScorer(model, device, [make_model(config=config_of("Bahdanau reversed"))])
    some = Occurrences([b"a b", b"a b", b"c", b"d"], [b"c", b"d d z", b"a", b""])
    with copies() as counted:
        for number, batch in enumerate(scorer.batches(scorer.encode(some)), 1):
            scorer._start(batch, False)
            assert counted.number == number
        found = scorer.score(some).first_N
    assert counted.number == 4
    assert found.tolist() == [-1.0] * 4


def test_scores_are_waited_for_one_batch_late(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    scorer = make_scorer()
    scorer.batch_pairs = 1
    pair_scores = scorer.networks[0].pair_scores

    def start(batch: PairBatch, **options: bool) -> torch.Tensor:
        events.append("start")
        found: torch.Tensor = pair_scores(batch, **options)
        return found

    def wait(found: torch.Tensor) -> Callable[[], torch.Tensor]:
        def get() -> torch.Tensor:
            events.append("wait")
            return found

        return get

    monkeypatch.setattr(scorer.networks[0], "pair_scores", start)
    monkeypatch.setattr(encoder_decoder, "fetch", wait)
    score(scorer, [(b"a", b"b"), (b"b", b"c"), (b"c", b"d")])
    assert events == ["start", "start", "wait", "start", "wait", "wait"]


def test_sixteen_bit_scores_of_much_that_is_improbable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch in 16-bit precision with too many improbable words is recomputed.

    On a GPU only a limited number of rows is recomputed by themselves.
    """
    model = make_model()
    with torch.no_grad():
        model.network.softmax.words.weight.mul_(2000)
    some = [(b"a b", b"c"), (b"a b", b"d d z"), (b"c", b"a"), (b"b", b"b a"), (b"d", b"")]
    expected = score(EncoderDecoderScorer(model, choose_device("cpu", "fp32")), some)
    assert min(expected) < -100
    scorer = EncoderDecoderScorer(model, choose_device("cpu", "bf16"))
    monkeypatch.setattr(softmax, "_large", lambda log_Z_A: torch.empty(0, dtype=torch.int64))
    assert np.allclose(score(scorer, some), expected, rtol=0.05)
    assert model.network.softmax.product_dtype is torch.bfloat16


def test_a_pair_that_does_not_fit_into_memory_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    scorer = make_scorer()
    monkeypatch.setattr(scorer.networks[0], "pair_scores", Mock(side_effect=torch.OutOfMemoryError))
    with pytest.raises(torch.OutOfMemoryError):
        score(scorer, [(b"a", b"b"), (b"c", b"d")])


def test_counts_of_symbols_and_unknown_words() -> None:
    some = Occurrences([b"a z", b"z z", b"a z"], [b"b", b"z", b""])
    found = SCORER.score(some, SCORER.columns)
    log_prob_N, per_word_N, target_N = found.values_NK.T
    assert per_word_N * [2, 2, 1] == pytest.approx(log_prob_N)
    assert target_N.tolist() == [0, 1, 0]
    assert found.words == WordCounts(6, 4, 2, 1)


def test_sixteen_bit_scores_are_near() -> None:
    model = load_model(DATA / "stored-model")
    entries = next(iter(TableReader(MINI / "phrase-table.gz", limit=2000))).entries
    sources, targets = [e.source for e in entries], [e.target for e in entries]
    exact = EncoderDecoderScorer(model, choose_device("cpu", "fp32"))
    expected = exact.score(Occurrences(sources, targets)).first_N
    rounded = EncoderDecoderScorer(load_model(DATA / "stored-model"), choose_device("cpu", "bf16"))
    found = rounded.score(Occurrences(sources, targets)).first_N
    assert 1e-4 < np.abs(found - expected).mean() < 0.05
    assert np.abs(found - expected).max() < 0.5


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_damaged_weights_are_noticed(number: float) -> None:
    good, damaged = make_model(seed=1), replace(make_model(), folder=Path("damaged"))
    with torch.no_grad():
        damaged.network.encoder.embedding.words.weight.fill_(number)
    some = [(b"a", b"b"), (b"b c", b"a d z")]
    for models in ([damaged], [good, damaged]):
        with pytest.raises(UserError, match=r"^damaged: gives scores that are no log-probabilities; its weights are"):
            score(EncoderDecoderScorer(models[0], choose_device("cpu", "fp32"), models[1:]), some)
    assert np.isfinite(score(EncoderDecoderScorer(good, choose_device("cpu", "fp32")), some)).all()


def test_a_score_above_zero_is_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    """A positive log-probability is an error, except for a small rounding error per symbol."""
    scorer = make_scorer()
    for excess, is_rejected in ((0.015, False), (0.025, True)):
        scores_P = torch.tensor([-1.0, excess]).double()
        monkeypatch.setattr(scorer.networks[0], "pair_scores", Mock(return_value=scores_P))
        with pytest.raises(UserError, match="no log-probabilities") if is_rejected else nullcontext():
            score(scorer, [(b"a", b""), (b"a", b"b")])


def test_the_stored_model_gives_the_stored_scores() -> None:
    """A stored model gives its stored scores, so that no later change alters scores unnoticed."""
    model = load_model(DATA / "stored-model")
    scorer = EncoderDecoderScorer(model, choose_device("cpu", "fp32"))
    lines = [line.split(b"\t") for line in (DATA / "stored-model-scores.tsv").read_bytes().splitlines()]
    found = scorer.score(Occurrences([line[0] for line in lines], [line[1] for line in lines])).first_N
    assert len(lines) == 200
    assert np.allclose(found, [float(line[2]) for line in lines], atol=1e-4)


@pytest.mark.gpu
def test_a_gpu_gives_the_same_scores() -> None:
    entries = next(iter(TableReader(MINI / "phrase-table.gz", limit=2000))).entries
    sources, targets = [e.source for e in entries], [e.target for e in entries]
    scores = []
    for device in ("cpu", "cuda"):
        scorer = EncoderDecoderScorer(load_model(DATA / "stored-model"), choose_device(device, "fp32"))
        scores.append(scorer.score(Occurrences(sources, targets)).first_N)
    assert np.abs(scores[0] - scores[1]).max() < 1e-4


def test_model_folder_is_read_from_any_place(tmp_path: Path) -> None:
    import shutil

    shutil.copytree(DATA / "stored-model", tmp_path / "moved")
    assert load_model(tmp_path / "moved").weights_digest == load_model(DATA / "stored-model").weights_digest


def test_pairs_of_text_or_bytes() -> None:
    scorer = load_scorer(DATA / "stored-model", device="cpu", precision="fp32")
    lines = (DATA / "stored-model-scores.tsv").read_bytes().splitlines()
    rows = [line.split(b"\t") for line in lines]
    found = phrasescore.score(((source.decode(), b"  %b " % target) for source, target, _ in rows), scorer)
    assert found.tolist() == pytest.approx([float(score) for _, _, score in rows], abs=1e-4)
    assert phrasescore.score([], scorer).shape == (0,)
    with pytest.raises(UserError, match="pair 2, source: has no words"):
        phrasescore.score([("a", "b"), (" ", "c")], scorer)
    with pytest.raises(UserError, match="pair 1, target: has more than 1,000 words"):
        phrasescore.score([("a", "b " * 1001)], scorer)


def test_a_scorer_is_loaded_again_where_the_work_is_done() -> None:
    """Each worker process loads a scorer once."""
    scorer = load_scorer(DATA / "stored-model", device="cpu", precision="bf16")
    sent = [pickle.loads(pickled(scorer)) for _ in range(2)]
    assert sent[0] is sent[1]
    assert sent[0] is not scorer
    assert sent[0].device == scorer.device
    assert phrasescore.score([("the", "le")], sent[0]) == phrasescore.score([("the", "le")], scorer)
    assert len(pickled(scorer)) < 2000
