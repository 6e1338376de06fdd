"""Every architecture equals its equations (tests/family_reference.py), for every way to compute it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.nn import attention
from phrasescore.nn.architecture import Biases, ModelConfig
from phrasescore.nn.batch import PairBatch, SourceBatch
from phrasescore.nn.decoder import RecurrentDecoder
from phrasescore.nn.encoder import RecurrentEncoder
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.training.settings import PRESETS, Settings, read_presets
from phrasescore.vocabulary import END
from tests import family_reference
from tests.conftest import TINY
from tests.nn.attention import attention_weights
from tests.nn.family import BASE, VARIANTS, config_of
from tests.nn.networks import SOURCES, TARGETS, random_network, scores, shared, weights_of
from tests.no_numbers import META, copies


def expected_scores(network: EncoderDecoder) -> NDArray[np.float64]:
    weights = weights_of(network)
    return np.array(
        [
            family_reference.pair_log_prob(weights, network.config, source, target, END)
            for source, target in zip(SOURCES, TARGETS, strict=True)
        ]
    )


def apart() -> tuple[PairBatch, list[int]]:
    """Return the pairs as a training batch, and their order."""
    order = sorted(range(len(TARGETS)), key=lambda pair: -len(TARGETS[pair]))
    sources, targets = ([lists[pair] for pair in order] for lists in (SOURCES, TARGETS))
    return PairBatch.apart(Phrases.from_lists(sources), Phrases.from_lists(targets)), order


@pytest.fixture(params=[(torch.float64, 1e-9), (torch.float32, 1e-4)], ids=["double", "single"])
def bound(request: pytest.FixtureRequest) -> Iterator[float]:
    """Set the precision; return the tolerance."""
    dtype, error = request.param
    torch.set_default_dtype(dtype)
    yield error
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("preset", read_presets(PRESETS))
def test_every_preset_equals_the_equations(preset: str, bound: float) -> None:
    """With small sizes, because the reference is slow."""
    model = Settings.of("sentences" if preset == "transformer" else "aligned", preset, []).model
    embedding = 8 if model.tied_embeddings else 5
    config = replace(model, in_context=False, hidden=8, embedding=embedding, maxout=4)
    network = random_network(config).eval()
    assert np.abs(scores(network, shared()) - expected_scores(network)).max() < bound


def test_the_paper_s_preset_at_full_size_equals_the_equations() -> None:
    network = random_network(Settings.of("table", "cho2014", []).model)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(0.1)
    expected = expected_scores(network)
    assert np.abs(scores(network, shared()) - expected).max() < 1e-4
    assert np.abs(scores(network.double(), shared()) - expected).max() < 1e-9


@pytest.mark.parametrize("name", VARIANTS)
def test_scores_equal_the_equations(name: str, bound: float) -> None:
    network = random_network(config_of(name))
    expected = expected_scores(network)
    assert np.abs(scores(network, shared()) - expected).max() < bound
    batch, order = apart()
    assert np.abs(scores(network, batch) - expected[order]).max() < bound


@pytest.mark.parametrize("name", VARIANTS)
def test_scores_do_not_depend_on_the_batch(name: str) -> None:
    """A batch of one has no padding, so this tests masks and padding."""
    network = random_network(config_of(name))
    together = scores(network, shared())
    alone = [scores(network, shared([source], [target]))[0] for source, target in zip(SOURCES, TARGETS, strict=True)]
    assert np.abs(together - alone).max() < 1e-4


def test_unprepared_sources_are_moved_to_the_device() -> None:
    """A search passes sources on the CPU to the encoder."""
    network = random_network(config_of("Bahdanau")).to(META)
    sources = SourceBatch.of(Phrases.from_lists(SOURCES))
    assert network.encoder(sources).summary_Sk.device == META
    with copies() as counted:
        network.encoder(sources)
    assert counted.number == 2, "the orders of words, and the grid"


@pytest.mark.parametrize("name", VARIANTS)
@torch.inference_mode()
def test_steps_give_the_scores_of_teacher_forcing(name: str) -> None:
    network = random_network(config_of(name))
    closed = [[*target, END] for target in TARGETS]
    state = network.start(SourceBatch.of(Phrases.from_lists(SOURCES)))
    # Rows are permuted before the first step and after each.
    rows = list(range(len(SOURCES)))
    words: torch.Tensor | None = None
    found = np.zeros(len(SOURCES))
    for step in range(max(map(len, closed))):
        keep = [row for row, pair in reversed(list(enumerate(rows))) if len(closed[pair]) > step]
        rows = [rows[row] for row in keep]
        state = state.take(torch.tensor(keep))
        if step:
            words = torch.tensor([closed[pair][step - 1] for pair in rows])
        log_prob_BV, state, attention_BL = network.step(state, words)
        found[rows] += [float(log_p[closed[pair][step]]) for log_p, pair in zip(log_prob_BV, rows, strict=True)]
        assert torch.allclose(log_prob_BV.exp().sum(1), torch.ones(len(rows)), atol=1e-5)
        assert (attention_BL is None) == (network.config.attention == "none")
    assert np.abs(found - scores(network, shared())).max() < 1e-5 * 7


def test_rows_of_a_state_may_be_repeated() -> None:
    network = random_network(config_of("Luong with input feeding"))
    with torch.inference_mode():
        state = network.start(SourceBatch.of(Phrases.from_lists(SOURCES[:2])))
        _, state, _ = network.step(state, None)
        state = state.take(torch.tensor([1, 1, 0])).take(torch.tensor([2, 0, 1]))
        log_prob_BV, _, _ = network.step(state, torch.tensor([3, 4, 4]))
    weights = weights_of(network)
    for row, (source, word) in enumerate([(0, 3), (1, 4), (1, 4)]):
        found, _ = family_reference.next_log_probs(weights, network.config, SOURCES[source], [word], END)
        assert np.abs(log_prob_BV[row].numpy() - found[1]).max() < 1e-5


def test_attention_in_chunks_is_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    network = random_network(config_of("Bahdanau"))
    whole = scores(network, shared())
    monkeypatch.setattr(attention, "_CHUNK", 1)
    assert np.abs(scores(network, shared()) - whole).max() < 1e-5


@pytest.mark.parametrize("name", ["Bahdanau", "Bahdanau reversed", "Luong with input feeding", "dot after"])
def test_attention_weights_are_those_of_the_equations(name: str) -> None:
    network = random_network(config_of(name))
    for batch, order in (apart(), (shared(), list(range(len(SOURCES))))):
        weights_IL = attention_weights(network, batch).numpy()
        position = 0
        for pair in order:
            _, looked = family_reference.next_log_probs(
                weights_of(network), network.config, SOURCES[pair], TARGETS[pair], END
            )
            for expected in looked:
                assert np.abs(weights_IL[position, : len(expected)] - expected).max() < 1e-5
                assert (weights_IL[position, len(expected) :] == 0).all()
                position += 1
        assert position == len(weights_IL)


@pytest.mark.parametrize(
    "name",
    [
        *("Cho, units swapped", "Cho without summary", "simplest, lstm", "Bahdanau"),
        *("Luong with input feeding", "dot after", "transformer, tied"),
    ],
)
@pytest.mark.usefixtures("double_precision")
def test_gradients_by_finite_differences(name: str) -> None:
    config = config_of(name)
    if config.encoder == "recurrent":
        config = replace(config, hidden=2, embedding=2, maxout=2)
    network = random_network(config)
    names, parameters = zip(*network.named_parameters(), strict=True)
    batch, _ = apart()

    def loss(*values: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(network, dict(zip(names, values, strict=True)), (batch,))
        return (found * torch.linspace(0.5, 2.0, len(found))).sum()

    assert torch.autograd.gradcheck(loss, parameters, eps=1e-6, atol=1e-6, rtol=1e-5, fast_mode=True)


@pytest.mark.parametrize("name", ["tutorial", "Luong with input feeding", "simplest, rnn", "transformer"])
def test_free_running_reads_its_own_words(name: str, bound: float) -> None:
    network = random_network(config_of(name))
    weights = weights_of(network)
    batch, order = apart()
    with torch.inference_mode():
        found_I = network(batch, teacher_forcing=0.0).numpy()
    expected = []
    for pair in order:
        own: list[int] = []
        for word in [*TARGETS[pair], END]:
            log_p = family_reference.next_log_probs(weights, network.config, SOURCES[pair], own, END)[0][-1]
            expected.append(log_p[word])
            own.append(int(np.argmax(log_p)))
    assert np.abs(found_I - expected).max() < bound


def test_teacher_forcing_is_sampled_per_step() -> None:
    network = random_network(config_of("tutorial"))
    batch, _ = apart()
    with torch.inference_mode():
        forced, free = network(batch), network(batch, teacher_forcing=0.0)
        torch.manual_seed(1)
        mixed = network(batch, teacher_forcing=0.5)
        torch.manual_seed(1)
        assert torch.equal(network(batch, teacher_forcing=0.5), mixed)
    assert not torch.allclose(mixed, forced)
    assert not torch.allclose(mixed, free)


def test_pairs_with_shared_prefixes_need_full_teacher_forcing() -> None:
    with pytest.raises(ValueError, match="need full teacher forcing"):
        random_network(BASE)(shared(), teacher_forcing=0.5)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"encoder_unit": "grru"}, "there is no unit `grru`; did you mean `gru`"),
        (
            {"attention": "multiplicative"},
            "there is no attention `multiplicative`; known are concat, dot, general, scaled",
        ),
        ({"attention": "dot", "directions": "both"}, "annotations of 12; set `directions` to forward or halves"),
        ({"encoder": "recurent"}, "there is no encoder `recurent`; did you mean `recurrent`"),
        ({"bridge": "both"}, "bridge `both` needs an encoder in two directions"),
        ({"bridge": "first-backward"}, "bridge `first-backward` needs an encoder in two directions"),
        ({"bridge": "last", "decoder_layers": 2}, "at least as many layers"),
        ({"bridge": "last", "decoder_unit": "lstm"}, "units with as many states"),
        ({"readout": "attentional", "feed_context": False}, "readout `attentional` needs a context"),
        ({"input_feeding": True}, "set `readout` to attentional, or leave `input_feeding` out"),
        ({"attention": "concat", "readout": "state"}, "set `readout` to attentional, or `attention_order` to before"),
        ({"attention_order": "before"}, "attention order `before` has no effect without attention"),
        ({"share_units": True}, "`feed_context` to false"),
        ({"directions": "halves", "hidden": 5}, "an even number"),
        ({"decoder": "transformers"}, "there is no decoder `transformers`; did you mean `transformer`"),
        ({"decoder": "transformer"}, "set `encoder` to it"),
        ({"encoder": "transformer", "heads": 2}, "give a multiple of 4"),
        ({"encoder": "transformer", "heads": 3, "bridge": "last"}, "set `bridge` to context"),
        ({"tied_embeddings": True}, "`tied_embeddings` needs a joint vocabulary"),
    ],
)
def test_incompatible_options_are_errors(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        EncoderDecoder(replace(BASE, **changes), 9, 9)
    assert message in str(caught.value)


def test_shared_weights_are_stored_once() -> None:
    network = random_network(config_of("shared units and layers"))
    names = set(network.state_dict())
    assert not any(name.startswith(("decoder.unit", "decoder.upper")) for name in names)
    assert isinstance(network.encoder, RecurrentEncoder)
    assert isinstance(network.decoder, RecurrentDecoder)
    assert network.decoder.unit is network.encoder.unit


def test_a_transformer_decoder_has_no_attention_weights() -> None:
    """A preset may name an attention for the recurrent decoder."""
    network = random_network(config_of("transformer", attention="dot"))
    assert not network.config.has_attention
    assert network.step(network.start(SourceBatch.of(Phrases.from_lists(SOURCES))), None)[2] is None


def test_label_smoothing_mixes_in_the_mean_over_all_words() -> None:
    network = random_network(config_of("transformer, tied")).train()
    batch, _ = apart()
    with torch.no_grad():
        log_prob_IV = torch.log_softmax(
            network.softmax.words(network.decoder(batch, network.encoder(batch.sources))), 1
        )
    log_prob_IV = log_prob_IV[batch.node_I]
    exact_I = log_prob_IV.gather(1, batch.symbol_I[:, None])[:, 0]
    found_I = network(batch, label_smoothing=0.25)
    torch.testing.assert_close(found_I, 0.75 * exact_I + 0.25 * log_prob_IV.mean(1))


def test_training_pays_for_norms_that_differ_from_one() -> None:
    name = "Luong with input feeding"
    network, plain = (random_network(config_of(name, self_normalise=weight)) for weight in (0.5, 0.0))
    batch, _ = apart()
    with torch.no_grad():
        logits_AV = network.softmax.words(network.decoder(batch, network.encoder(batch.sources)))
        exact_I = plain(batch)
        log_norm_I = logits_AV.logsumexp(1)[batch.node_I]
        assert float(log_norm_I.abs().max()) > 0.1
        torch.testing.assert_close(network.eval()(batch), exact_I)
        torch.testing.assert_close(network.train()(batch), exact_I - 0.5 * log_norm_I**2)


def test_unnormalised_scores_are_sums_of_logits() -> None:
    network = random_network(config_of("Luong with input feeding"))
    batch, _ = apart()
    with torch.no_grad():
        logits_AV = network.softmax.words(network.decoder(batch, network.encoder(batch.sources))).double()
        logit_I = logits_AV[batch.node_I].gather(1, batch.symbol_I[:, None])[:, 0]
        expected_P = torch.zeros(batch.pairs).double().index_add_(0, batch.pair_I, logit_I)
        torch.testing.assert_close(network.pair_scores(batch, unnormalised=True), expected_P)


@torch.no_grad()
def test_self_normalised_networks_start_near_one() -> None:
    torch.manual_seed(1)
    batch, _ = apart()
    network = EncoderDecoder(replace(BASE, self_normalise=0.1), 20, 20)
    s_Ar = network.decoder(batch, network.encoder(batch.sources))
    _, log_norm_A = network.softmax.log_probs(s_Ar, batch.node_I, batch.symbol_I)
    assert float(log_norm_A.abs().max()) < 0.1


def test_sixteen_bit_products_are_close() -> None:
    for name in ("Luong with input feeding", "Bahdanau, lstm", "unit rnn", "both, halves, lstm", "transformer"):
        network = random_network(config_of(name))
        exact = scores(network, shared())
        with torch.autocast("cpu", torch.bfloat16):
            found = scores(network, shared())
        assert np.abs(found - exact).max() < 0.5


@pytest.mark.usefixtures("double_precision")
def test_probabilities_of_all_strings_sum_to_one() -> None:
    """Probabilities of all targets up to a length, plus that of longer ones, sum to one."""
    torch.manual_seed(5)
    words = 4
    network = EncoderDecoder(TINY, words, words)
    source, longest = [2, 3], 4
    others = [word for word in range(words) if word != END]
    targets = [list(t) for n in range(longest + 1) for t in itertools.product(others, repeat=n)]
    batch = PairBatch.sharing(
        Phrases.from_lists([source]), np.zeros(len(targets), np.int64), Phrases.from_lists(targets)
    )
    finished = np.exp(scores(network, batch)).sum()
    weights = weights_of(network)
    unfinished = 0.0
    for target, score in zip(targets, scores(network, batch), strict=True):
        if len(target) == longest:
            end = family_reference.next_log_probs(weights, TINY, source, target, END)[0][-1][END]
            unfinished += float(np.exp(score - end) * (1 - np.exp(end)))
    assert finished < 1
    assert abs(finished + unfinished - 1) < 1e-9


@pytest.mark.parametrize(
    ("biases", "summary", "sizes", "expected"),
    [
        ("authors", False, {}, 17_269_501),
        ("authors", True, {}, 18_269_501),
        ("authors", True, {"embedding": 500, "maxout": 1000, "output_rank": 500}, 42_022_501),
        ("all", True, {}, 18_274_301),
    ],
)
def test_parameter_counts(biases: Biases, summary: bool, sizes: dict[str, int], expected: int) -> None:
    config = ModelConfig(biases=biases, summary=summary, **sizes)  # type: ignore[arg-type]
    with torch.device("meta"):
        network = EncoderDecoder(config, 15_001, 15_001)
    count = sum(parameter.numel() for parameter in network.parameters())
    formula = family_reference.parameter_count(
        15_001,
        15_001,
        embedding=config.embedding,
        hidden=config.hidden,
        maxout=config.maxout,
        rank=config.output_rank,
        biases=biases,
        summary=summary,
    )
    assert count == formula == expected
