"""The units and the encoder equal the corresponding torch modules; plugins can register more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from phrasescore.device import on_device
from phrasescore.errors import UserError
from phrasescore.nn.architecture import Biases, ModelConfig
from phrasescore.nn.attention import ATTENTIONS, Attention, register_attention
from phrasescore.nn.batch import SourceBatch
from phrasescore.nn.encoder import ENCODERS, EncodedSource, Encoder, RecurrentEncoder, register_encoder
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.prefix_tree import Rows
from phrasescore.nn.units import UNITS, GatedForm, GatedUnit, LstmUnit, RecurrentUnit, TanhUnit, register_unit
from phrasescore.nn.weights import initialise
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import END
from tests.conftest import TINY
from tests.nn.attention import attention_weights
from tests.nn.networks import SOURCES, random_network, scores, shared

TORCH_CELLS = {"rnn": nn.RNNCell, "gru": nn.GRUCell, "lstm": nn.LSTMCell}
TORCH_STACKS = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def torch_weights(unit: nn.Module) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The weights and biases in the layout of torch's modules: of [x; c], of h, and a bias with each."""
    assert isinstance(unit, GatedUnit | TanhUnit | LstmUnit)
    layers = [unit.recurrent_gates, unit.recurrent_candidate] if isinstance(unit, GatedUnit) else [unit.recurrent]
    inputs = unit.input.weight if unit.context is None else torch.cat((unit.input.weight, unit.context.weight), dim=1)
    hidden = torch.cat([layer.weight for layer in layers])
    return inputs, hidden, unit.input.bias, torch.cat([layer.bias for layer in layers])


@pytest.mark.parametrize("context", [0, 3])
@pytest.mark.parametrize("kind", TORCH_CELLS)
@torch.no_grad()
def test_units_equal_torch_s_cells(kind: str, context: int) -> None:
    """For torch's cells a context is one more input."""
    torch.manual_seed(1)
    unit = UNITS[kind](4, 6, context, "all")
    twin = TORCH_CELLS[kind](4 + context, 6)
    assert isinstance(unit, nn.Module)
    assert sum(p.numel() for p in unit.parameters()) == sum(p.numel() for p in twin.parameters())
    for mine, its in zip(torch_weights(unit), twin.parameters(), strict=True):
        its.copy_(mine)
    x, h, c = torch.randn(5, 4), torch.randn(5, unit.state), torch.randn(5, context)
    expected = twin(torch.cat((x, c), dim=1), h.chunk(2, dim=1) if kind == "lstm" else h)
    expected = torch.cat(expected, dim=1) if kind == "lstm" else expected
    found = unit.step(unit.project(x), h, unit.project_context(c) if context else None)
    assert torch.allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize("form", ["gru-paper", "gru-appendix", "gru"])
@torch.no_grad()
def test_the_position_of_the_reset_gate(form: GatedForm) -> None:
    """torch.nn.GRU resets only the recurrent product; only gru-appendix resets the context too."""
    torch.manual_seed(1)
    unit = GatedUnit(4, 6, 3, "all", form=form)
    for name, parameter in unit.named_parameters():
        if name.endswith("bias"):
            parameter.zero_()
    twin = nn.GRUCell(4, 6, bias=False)
    twin.weight_ih.copy_(unit.input.weight)
    twin.weight_hh.copy_(torch.cat((unit.recurrent_gates.weight, unit.recurrent_candidate.weight)))
    x, h, c = torch.randn(5, 4), torch.randn(5, 6), torch.randn(5, 3)
    is_equal = torch.allclose(unit.step(unit.project(x), h), twin(x, h), atol=1e-6)
    assert is_equal == (form != "gru-paper")
    assert unit.context is not None
    whole = nn.GRUCell(7, 6, bias=False)
    whole.weight_ih.copy_(torch.cat((unit.input.weight, unit.context.weight), dim=1))
    whole.weight_hh.copy_(twin.weight_hh)
    found = unit.step(unit.project(x), h, unit.project_context(c))
    assert torch.allclose(found, whole(torch.cat((x, c), dim=1), h), atol=1e-6) == (form == "gru")


@pytest.mark.parametrize("second", [slice(0, 3), torch.tensor([2, 0, 2])])
@pytest.mark.parametrize("form", ["gru-appendix", "gru"])
def test_all_steps_at_once_equal_single_steps(form: GatedForm, second: Rows) -> None:
    """Values and gradients, for levels that are slices (training) and gathers (shared prefixes)."""
    torch.manual_seed(1)
    unit = GatedUnit(4, 6, 0, "all", form=form).double()
    h_Rn, x_Ng = torch.randn(5, 6, dtype=torch.float64), torch.randn(11, unit.rows, dtype=torch.float64)
    factor_Nn = torch.randn(11, 6, dtype=torch.float64)
    results = []
    for unroll in (unit.unroll, partial(RecurrentUnit.unroll, unit)):
        given = h_Rn.clone().requires_grad_(), x_Ng.clone().requires_grad_()
        found_Nn = unroll(given[0], [slice(0, 5), second, slice(0, 3)], torch.split(given[1], [5, 3, 3]))
        used = (*given, *unit.recurrent_gates.parameters(), *unit.recurrent_candidate.parameters())
        results.append((found_Nn, *torch.autograd.grad((found_Nn * factor_Nn).sum(), used)))
    for found, expected in zip(*results, strict=True):
        assert torch.allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kept_apart", [False, True])
@pytest.mark.parametrize("directions", ["forward", "both"])
@pytest.mark.parametrize("kind", TORCH_STACKS)
@torch.no_grad()
def test_the_encoder_equals_torch_on_packed_sequences(kind: str, directions: Any, kept_apart: bool) -> None:
    torch.manual_seed(2)
    config = replace(TINY, encoder_unit=kind, directions=directions, encoder_layers=2, hidden=6, summary=False)
    encoder = RecurrentEncoder(9, replace(config, attention="general"))
    twin = TORCH_STACKS[kind](5, 6, num_layers=2, bidirectional=directions == "both")
    units = [unit for layer in zip(*encoder.directions, strict=True) for unit in layer]
    # torch's order: layer by layer, forward and backward in each.
    its = iter(twin.parameters())
    for unit in units:
        assert isinstance(unit, nn.Module)
        for mine in torch_weights(unit):
            next(its).copy_(mine)
    assert next(its, None) is None
    closed = [[*source, END] for source in SOURCES]
    padded = nn.utils.rnn.pad_sequence([encoder.embedding.words(torch.tensor(source)) for source in closed])
    lengths = torch.tensor([len(source) for source in closed])
    packed = nn.utils.rnn.pack_padded_sequence(padded, lengths, enforce_sorted=False)
    outputs, last = twin(packed)
    expected_LSd, _ = nn.utils.rnn.pad_packed_sequence(outputs)
    found = encoder(SourceBatch.of(Phrases.from_lists(SOURCES), shared=not kept_apart))
    assert found.annotations_SLd is not None
    assert found.real_SL is not None
    assert found.real_SL.sum(1).tolist() == lengths.tolist()
    expected_SLd = expected_LSd.transpose(0, 1)
    assert torch.allclose(found.annotations_SLd[found.real_SL], expected_SLd[found.real_SL], atol=1e-6)
    # h_n of all layers and directions, and c_n of an LSTM.
    states = [state for layer in found.last_states for state in layer]
    for part, expected in enumerate(last if kind == "lstm" else (last,)):
        mine = torch.stack([state[:, 6 * part : 6 * part + 6] for state in states])
        assert torch.allclose(mine, expected, atol=1e-6)


def test_the_tutorial_has_its_number_of_parameters() -> None:
    """A GRU of 512 with word vectors of 256, the context at every step, one layer over [word; state; context]."""
    config = ModelConfig(
        hidden=512,
        embedding=256,
        output_rank=0,
        encoder_unit="gru",
        decoder_unit="gru",
        summary=False,
        bridge="last",
        readout="word-state-context",
        biases="all",
    )
    source, target, m, n = 7855, 5893, 256, 512
    with torch.device("meta"):
        network = EncoderDecoder(config, source, target)
    count = sum(parameter.numel() for parameter in network.parameters())
    encoder = source * m + 3 * n * (m + n + 2)
    decoder = target * m + 3 * n * (m + n + n + 2)
    assert count == encoder + decoder + target * (m + n + n + 1) == 14_220_293


@pytest.mark.parametrize("kind", ["rnn", "gru", "lstm"])
@pytest.mark.parametrize("biases", ["authors", "all"])
def test_recurrent_matrices_start_orthogonal(kind: str, biases: Biases) -> None:
    torch.manual_seed(3)
    unit = UNITS[kind](4, 6, 0, biases)
    assert isinstance(unit, nn.Module)
    initialise(unit, "cho2014")
    matrices = [p for name, p in unit.named_parameters() if name.startswith("recurrent") and name.endswith("weight")]
    blocks = [block for matrix in matrices for block in matrix.detach().reshape(-1, 6, 6)]
    assert len(blocks) == {"rnn": 1, "gru": 3, "lstm": 4}[kind]
    assert all(torch.allclose(block @ block.t(), torch.eye(6), atol=1e-5) for block in blocks)
    biases_found = [p for name, p in unit.named_parameters() if name.endswith("bias")]
    assert biases_found
    assert all((p == 0).all() for p in biases_found)


@pytest.fixture
def additions() -> Iterator[None]:
    """A unit, an attention and an encoder from a plugin."""

    @register_unit("leaky")
    class LeakyUnit(TanhUnit):
        """h' = (h + tanh(W x + U h + C c)) / 2."""

        def step(self, x_Bn: Tensor, h_Bn: Tensor, context_Bn: Tensor | None = None) -> Tensor:
            return (h_Bn + super().step(x_Bn, h_Bn, context_Bn)) / 2

    @register_attention("even")
    class EvenAttention(Attention):
        """Uniform attention."""

        def __init__(self, query: int, annotation: int) -> None:
            super().__init__()

        def keys(self, annotations_SLd: Tensor) -> Tensor:
            return annotations_SLd

        def scores(self, query_BTn: Tensor, keys_BLk: Tensor) -> Tensor:
            return keys_BLk.new_zeros(len(keys_BLk), query_BTn.shape[1], keys_BLk.shape[1])

    @register_encoder("bag")
    class BagOfWords(Encoder):
        """c = tanh(V sum_j e(x_j)), which ignores the order of the words; the annotations are the word vectors."""

        def __init__(self, words: int, config: ModelConfig) -> None:
            super().__init__(words, config, summary_size=config.hidden, annotation_size=config.embedding)
            self.summary = nn.Linear(config.embedding, config.hidden)

        def prepare(self, sources: SourceBatch) -> None:
            sources.grid()

        def forward(self, sources: SourceBatch) -> EncodedSource:
            device = self.embedding.words.weight.device
            symbol_SL, real_SL = on_device(sources.grid(), device)
            word_SL = torch.from_numpy(sources.closed.ids).long().to(device)[symbol_SL]
            e_SLm = self.embedding(word_SL) * real_SL[:, :, None]
            return EncodedSource(torch.tanh(self.summary(e_SLm.sum(1))), annotations_SLd=e_SLm, real_SL=real_SL)

    yield
    UNITS._things.pop("leaky")
    ATTENTIONS._things.pop("even")
    ENCODERS._things.pop("bag")


@pytest.mark.usefixtures("additions")
def test_a_user_s_unit_and_attention_are_used() -> None:
    config = replace(TINY, encoder_unit="leaky", decoder_unit="leaky", attention="even", decoder_layers=2)
    network = random_network(config)
    weights_IL = attention_weights(network, shared())
    assert np.isfinite(scores(network, shared())).all()
    assert weights_IL[0].tolist() == [0.25, 0.25, 0.25, 0.25, 0, 0]
    found = scores(network, shared())
    scores_of_gru = scores(random_network(replace(config, encoder_unit="rnn")), shared())
    assert not np.allclose(found, scores_of_gru)


@pytest.mark.parametrize("changes", [{}, {"attention": "general", "readout": "attentional", "decoder_unit": "lstm"}])
@pytest.mark.usefixtures("additions")
def test_a_user_s_encoder_is_used(changes: dict[str, Any]) -> None:
    network = random_network(replace(TINY, encoder="bag", decoder_layers=2, **changes)).eval()
    targets = [[7, 3], [2]] * 2
    found = scores(network, shared([[2, 3, 4], [4, 2, 3], [5], [5, 5]], targets))
    alone = [
        scores(network, shared([source], [target]))[0]
        for source, target in zip([[2, 3, 4], [4, 2, 3], [5], [5, 5]], targets, strict=True)
    ]
    assert np.abs(found - alone).max() < 1e-5
    swapped = scores(network, shared([[4, 2, 3], [2, 3, 4]], targets[:2]))
    assert np.abs(found[:2] - swapped).max() < 1e-5
    assert abs(found[2] - scores(network, shared([[5, 5]], targets[:1]))[0]) > 1e-3
    with pytest.raises(UserError, match="bridge `last` needs the states of a recurrent encoder"):
        EncoderDecoder(replace(TINY, encoder="bag", bridge="last"), 9, 9)


@pytest.mark.usefixtures("additions")
def test_names_are_unique() -> None:
    with pytest.raises(UserError, match="already the unit `leaky`"):
        register_unit("leaky")(TanhUnit)


def test_unknown_names_are_errors() -> None:
    with pytest.raises(UserError, match="there is no unit `leaky`; known are gru, gru-appendix, gru-paper, lstm, rnn"):
        UNITS["leaky"]


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"share_units": True, "feed_context": False, "encoder_unit": "lstm", "decoder_unit": "lstm"},
        {"feed_word": False, "feed_context": False, "readout": "state"},
        {"attention": "concat", "directions": "both", "encoder_layers": 2},
        # Dropout applies in training only.
        {"dropout": 0.5},
        {"directions": "both", "bridge": "both"},
    ],
)
def test_a_model_folder_stores_any_architecture(tmp_path: Path, changes: dict[str, Any]) -> None:
    from phrasescore.model_folder import load_model, save_description, save_weights
    from phrasescore.vocabulary import Vocabulary

    config = replace(TINY, **changes)
    network = random_network(config).eval()
    words = Vocabulary([b"%d" % number for number in range(7)])
    save_description(tmp_path, config, "target-given-source", words, words, {})
    save_weights(tmp_path, network)
    loaded = load_model(tmp_path).network
    assert loaded.config == config
    assert (scores(loaded, shared()) == scores(network, shared())).all()


def test_a_configuration_that_cannot_be_built_is_named(tmp_path: Path) -> None:
    from phrasescore.model_folder import load_model, save_description, save_weights
    from phrasescore.vocabulary import Vocabulary

    words = Vocabulary([b"a"])
    for changes, message in (
        ({"bridge": "both"}, "config.json: bridge `both` needs an encoder in two directions"),
        ({"decoder_unit": "gruu"}, "config.json: there is no unit `gruu`"),
    ):
        save_description(tmp_path, replace(TINY, **changes), "target-given-source", words, words, {})  # type: ignore[arg-type]
        save_weights(tmp_path, EncoderDecoder(TINY, len(words), len(words)))
        with pytest.raises(UserError, match=message):
            load_model(tmp_path)
