"""Products of 8-bit integers: their error bound, and what a row depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from phrasescore import device
from phrasescore.device import Precision, choose_device
from phrasescore.errors import UserError
from phrasescore.nn import cpu_products
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.softmax import WordSoftmax
from tests.conftest import TINY
from tests.nn.networks import WORDS, random_network, shared

needs_int8 = pytest.mark.skipif(not cpu_products.has_int8(), reason="the CPU has no 8-bit products")
WIDE = replace(TINY, hidden=64, embedding=64, maxout=64)


@needs_int8
@pytest.mark.parametrize("shape", [(1, 64, 64), (33, 100, 200), (300, 70, 129)])
@torch.no_grad()
def test_the_error_is_within_half_a_step_of_each_factor(shape: tuple[int, int, int]) -> None:
    rows, inputs, outputs = shape
    torch.manual_seed(1)
    # Rows of very different sizes, and one of zeros.
    x = torch.randn(rows, inputs) * torch.logspace(-6, 3, rows)[:, None]
    x[-1] = 0
    W, b = nn.Parameter(torch.randn(outputs, inputs)), torch.randn(outputs)
    exact = x.double() @ W.double().t() + b
    x_step, W_step = (matrix.double().abs().amax(1) / 127 for matrix in (x, W))
    bound = (x_step[:, None] * W.double().abs().sum(1) + x.double().abs().sum(1)[:, None] * W_step) / 2
    bound += inputs * x_step[:, None] * W_step / 4
    # Beyond the rounding to integers, only errors of 32 bits.
    assert ((cpu_products.int8_linear(x, W, b) - exact).abs() <= 1.001 * bound + 1e-5 * (exact.abs() + 1)).all()
    assert torch.equal(cpu_products.int8_linear(x, W, b)[-1], b)


@needs_int8
@torch.no_grad()
def test_a_row_depends_on_nothing_but_itself() -> None:
    torch.manual_seed(1)
    x, W, b = torch.randn(300, 100), nn.Parameter(torch.randn(200, 100)), torch.randn(200)
    together = cpu_products.int8_linear(x, W, b)
    for rows in (torch.arange(1), torch.arange(7, 40), torch.randperm(300)):
        assert torch.equal(cpu_products.int8_linear(x[rows], W, b), together[rows])


@needs_int8
@torch.no_grad()
def test_weights_may_be_transposed_and_may_change() -> None:
    torch.manual_seed(1)
    x, W = torch.randn(5, 64), nn.Parameter(torch.randn(100, 64))
    expected = cpu_products.int8_linear(x, W)
    assert torch.equal(cpu_products.int8_linear(x, W.t().contiguous().t()), expected)
    W.mul_(2)
    assert torch.equal(cpu_products.int8_linear(x, W), 2 * expected)


@pytest.mark.parametrize("precision", ["bf16", "int8"])
@torch.no_grad()
def test_a_layer_with_a_vector_is_computed_by_pytorch(precision: Precision) -> None:
    if precision == "int8" and not cpu_products.has_int8():
        pytest.skip("the CPU has no 8-bit products")
    x, w = torch.randn(3, 5, 64), torch.randn(64)
    with choose_device("cpu", precision).products():
        found = nn.functional.linear(x, w)
    assert torch.allclose(found.float(), x @ w, atol=0.2)


@needs_int8
@pytest.mark.parametrize("unit", ["gru-paper", "gru", "lstm"])
def test_scores_are_near_those_of_32_bits(unit: str) -> None:
    torch.manual_seed(1)
    config = replace(WIDE, encoder_unit=unit, decoder_unit=unit, initialisation="scaled")
    network, batch = EncoderDecoder(config, WORDS, WORDS), shared()
    with torch.no_grad():
        exact = network.pair_scores(batch)
        with choose_device("cpu", "int8").products():
            found = network.pair_scores(batch)
    assert 0 < (found - exact).abs().max() < 0.02


@needs_int8
@torch.no_grad()
def test_probabilities_of_the_words_are_near_those_of_32_bits_and_sum_to_one() -> None:
    torch.manual_seed(1)
    softmax, s_Ar = WordSoftmax(70, 64), 10 * torch.randn(100, 64)
    node_I, symbol_I = torch.arange(100).repeat_interleave(70), torch.arange(70).repeat(100)
    exact = softmax.log_probs(s_Ar, node_I, symbol_I)
    softmax.product_dtype = torch.int8
    found = softmax.log_probs(s_Ar, node_I, symbol_I)
    for ours, theirs in zip(found, exact, strict=True):
        assert 0 < (ours - theirs).abs().max() < 0.3
    assert torch.allclose(found[0].exp().view(100, 70).sum(1), torch.ones(100), atol=1e-5)
    with torch.enable_grad():
        assert torch.allclose(softmax.log_probs(s_Ar, node_I, symbol_I)[0], exact[0], atol=1e-4)
    assert torch.equal(softmax.log_probs(s_Ar[7:8], torch.zeros(1, dtype=torch.int64), symbol_I[:1])[1], found[1][7:8])


@needs_int8
def test_training_is_exact() -> None:
    network = random_network(WIDE)
    expected = network(shared())
    with cpu_products.Int8Products():
        assert torch.equal(network(shared()), expected)


def test_a_device_without_8_bit_products_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "has_int8", lambda: False)
    with pytest.raises(UserError, match=r"^precision `int8`: needs the instructions AVX512-VNNI"):
        choose_device("cpu", "int8")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda **options: True)
    with pytest.raises(UserError, match=r"^precision `int8`: is for CPUs, not for cuda"):
        choose_device("cuda", "int8")
