from __future__ import annotations

import pytest
import torch

from phrasescore.nn import softmax
from phrasescore.nn.softmax import WordSoftmax


def layer(words: int, size: int, scale: float) -> tuple[WordSoftmax, torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(2)
    found = WordSoftmax(words, size)
    torch.nn.init.normal_(found.words.bias)
    states = torch.randn(70, size) * scale
    node, symbol = torch.arange(140) % 70, torch.randint(words, (140,))
    return found, states, node, symbol


def log_probs(layer: WordSoftmax, states: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(layer.words(states), dim=1)


@pytest.mark.parametrize("wants_gradient", [True, False])
@pytest.mark.parametrize("tiles", [(512, 32), (16, 5)])
@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_log_prob_is_the_log_softmax(
    monkeypatch: pytest.MonkeyPatch, tiles: tuple[int, int], scale: float, wants_gradient: bool
) -> None:
    """log p equals the log-softmax, also below -88, where the shifted sum overflows 32 bits."""
    monkeypatch.setattr(softmax, "_CPU_TILES", tiles)
    monkeypatch.setattr(softmax, "_UNSHIFTED_ROWS", tiles[0])
    found, states, node, symbol = layer(300, 20, scale)
    expected = log_probs(found.double(), states.double())[node, symbol]
    if scale > 1:
        assert expected.min() < -100
    with torch.set_grad_enabled(wants_gradient):
        log_prob = found.float().log_probs(states, node, symbol)[0]
    assert torch.allclose(log_prob.double(), expected, atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_gradients_are_those_of_the_log_softmax(scale: float) -> None:
    found, states, node, symbol = layer(50, 8, scale)
    found.double()
    weight = torch.linspace(-1, 2, 140, dtype=torch.float64)
    gradients = []
    for log_prob in (lambda s, n, y: found.log_probs(s, n, y)[0], lambda s, n, y: log_probs(found, s)[n, y]):
        s = states.double().requires_grad_()
        found.zero_grad()
        (log_prob(s, node, symbol) * weight).sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([s.grad, found.words.weight.grad, found.words.bias.grad])
    for ours, theirs in zip(*gradients, strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.allclose(ours, theirs, atol=1e-9)


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
@pytest.mark.parametrize("gap", [*range(60, 101, 5), 88, 89])
def test_gradients_of_improbable_words_are_finite(gap: int, dtype: torch.dtype | None) -> None:
    """Z fits into 32 bits, but not its products with weights above 1."""
    found = WordSoftmax(3, 1)
    found.product_dtype = dtype
    gradients = []
    for log_prob in (lambda s, n, y: found.log_probs(s, n, y)[0], lambda s, n, y: log_probs(found, s)[n, y]):
        with torch.no_grad():
            found.words.weight.copy_(torch.tensor([[5.0], [5.0], [-3.0]]))
            found.words.bias.copy_(torch.tensor([0.0, float(gap), 0.0]))
        found.zero_grad()
        s = torch.ones(1, 1).requires_grad_()
        log_prob(s, torch.tensor([0]), torch.tensor([0])).sum().backward()  # type: ignore[no-untyped-call]
        gradients.append([s.grad, found.words.weight.grad, found.words.bias.grad])
    for ours, theirs in zip(*gradients, strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 60.0])
def test_the_norm_and_its_gradient(scale: float) -> None:
    """The norm and its gradient equal logsumexp, also for nodes without predictions."""
    found, states, node, symbol = layer(50, 8, scale)
    found.double()
    node = node[:50]
    gradients = []

    def ours(s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return found.log_probs(s, node, symbol[:50])

    def theirs(s: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return log_probs(found, s)[node, symbol[:50]], torch.logsumexp(found.words(s), dim=1)

    values = []
    for function in (ours, theirs):
        s = states.double().requires_grad_()
        found.zero_grad()
        log_prob, log_norm = function(s)
        (log_prob.sum() + 0.1 * log_norm.square().sum()).backward()  # type: ignore[no-untyped-call]
        gradients.append([s.grad, found.words.weight.grad, found.words.bias.grad])
        values.append(log_norm.detach())
    assert torch.allclose(values[0], values[1], atol=1e-9)
    for one, other in zip(*gradients, strict=True):
        assert one is not None
        assert other is not None
        assert torch.allclose(one, other, atol=1e-8)


def test_logits_are_log_probs_before_normalisation() -> None:
    found, states, node, symbol = layer(50, 8, 1.0)
    log_prob, log_norm = found.log_probs(states, node, symbol)
    assert torch.allclose(found.logit(states, node, symbol) - log_norm[node], log_prob, atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 6.0, 60.0])
def test_sixteen_bit_probabilities_sum_to_one(scale: float) -> None:
    """Several words are predicted at each node, so the shift is not always the logit of the most probable word."""
    found, states, _, _ = layer(300, 20, scale)
    found.product_dtype = torch.bfloat16
    node, symbol = torch.arange(70).repeat_interleave(300), torch.randperm(300).repeat(70)
    log_prob = found.log_probs(states, node, symbol)[0].detach().double()
    assert log_prob.max() < 1e-3
    assert (log_prob.exp().view(70, 300).sum(1) - 1).abs().max() < 2e-3


def test_sixteen_bit_products_keep_confident_predictions_accurate() -> None:
    found, states, node, _ = layer(300, 20, 6.0)
    symbol = log_probs(found, states).argmax(1)[node]
    exact = found.log_probs(states, node, symbol)[0].double()
    found.product_dtype = torch.bfloat16
    rounded = found.log_probs(states, node, symbol)[0].double()
    error = (rounded - exact).abs()
    assert error.max() < 0.05
    confident = exact > -0.05
    assert confident.any()
    assert error[confident].max() < 0.005


def test_a_sample_of_all_words_gives_the_log_softmax() -> None:
    """Of 50 words all but 3 are frequent or predicted, and 12 may be drawn."""
    found, states, node, symbol = layer(50, 8, 1.0)
    symbol = symbol % 47
    expected = [x.detach() for x in found.log_probs(states, node, symbol)]
    found.sampled_words = 48
    for ours, theirs in zip(found.log_probs(states, node, symbol), expected, strict=True):
        assert torch.allclose(ours, theirs, atol=1e-5)


def test_sums_and_gradients_of_samples_are_right_on_average() -> None:
    """20 of 60 words: the 15 most frequent, and 5 that stand for those that are neither frequent nor predicted."""
    found, states, _, _ = layer(60, 8, 1.0)
    found.double().sampled_words = 20
    states, node, symbol = states[:2].double(), torch.tensor([0, 1]), torch.tensor([3, 59])

    def sums_and_gradient() -> torch.Tensor:
        found.zero_grad()
        sum_A = found.log_probs(states, node, symbol)[1].exp()
        sum_A.sum().backward()  # type: ignore[no-untyped-call]
        assert found.words.bias.grad is not None
        return torch.cat((sum_A.detach(), found.words.bias.grad))

    estimates = torch.stack([sums_and_gradient() for _ in range(1000)])
    found.eval()
    exact = sums_and_gradient()
    assert estimates.std(0).max() > 0.01
    error = estimates.std(0) / len(estimates) ** 0.5
    assert ((estimates.mean(0) - exact).abs() <= 4.5 * error + 1e-9).all()


def test_predicted_words_stand_for_themselves() -> None:
    found, states, node, symbol = layer(60, 8, 1.0)
    symbol = 50 + symbol % 10
    found.sampled_words = 4
    log_prob, log_norm = found.log_probs(states, node, symbol)
    assert torch.allclose(found.logit(states, node, symbol) - log_norm[node], log_prob, atol=1e-5)
    found.zero_grad()
    log_prob.sum().backward()  # type: ignore[no-untyped-call]
    assert found.words.weight.grad is not None
    trained = found.words.weight.grad.abs().sum(1) > 0
    assert trained[symbol].all()
    assert trained.sum() <= 10 + 4
