from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.neural_lm import NeuralLanguageModel

CONFIG = NeuralLmConfig(order=4, embedding=5, first_hidden=9, second_hidden=7, initialisation="scaled")
WORDS = 23
CONTEXTS = torch.tensor([[1, 1, 1], [1, 1, 7], [3, 22, 0], [5, 5, 6]])


def network(config: NeuralLmConfig = CONFIG, source_words: int = 0) -> NeuralLanguageModel:
    torch.manual_seed(5)
    return NeuralLanguageModel(config, WORDS, source_words).double().eval()


def expected(
    model: NeuralLanguageModel, contexts: NDArray[np.int64], *, normalised: bool = True
) -> NDArray[np.float64]:
    """ln p of every word after each context, from the equations, or the outputs before the softmax."""
    weights = {name: tensor.numpy() for name, tensor in model.state_dict().items()}
    rows = []
    for context in contexts:
        source, history = context[: model.source_window], context[model.source_window :]
        e, f = np.split(weights["embedding.weight"], [len(weights["softmax.words.bias"])])
        x = np.concatenate([*(f[word] for word in source), *(e[word] for word in history)])
        h = np.maximum(0, weights["first.weight"] @ x + weights["first.bias"])
        s = np.maximum(0, weights["second.weight"] @ h + weights["second.bias"])
        logits = weights["softmax.words.weight"] @ s + weights["softmax.words.bias"]
        rows.append(logits - np.log(np.exp(logits).sum()) * normalised)
    return np.array(rows)


@torch.no_grad()
@pytest.mark.parametrize("source_words", [0, 9])
@pytest.mark.parametrize("times", [1, 50], ids=["of many words", "of few words"])
def test_the_network_equals_its_equations(times: int, source_words: int) -> None:
    model = network(replace(CONFIG, window=1), source_words)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    windows = torch.tensor([[1, 2, 3], [8, 0, 1], [5, 5, 5], [3, 2, 1]])
    contexts = torch.cat((windows[:, : model.source_window], CONTEXTS), dim=1).repeat(times, 1)
    reference = expected(model, contexts.numpy())
    node, word = (grid.ravel() for grid in np.indices((len(contexts), WORDS)))
    found, norms = model.log_probs(contexts, torch.from_numpy(node), torch.from_numpy(word))
    assert np.abs(found.numpy() - reference[node, word]).max() < 1e-12
    again, _ = model.log_probs(contexts, torch.from_numpy(node), torch.from_numpy(word), norms)
    assert np.abs(again.numpy() - reference[node, word]).max() < 1e-12
    log_prob, log_norm = model(contexts[:4], torch.tensor([2, 0, 1, 9]))
    assert np.abs(log_prob.numpy() - reference[range(4), [2, 0, 1, 9]]).max() < 1e-12
    taken = torch.full((4,), 0.25, dtype=log_norm.dtype)
    raw, _ = model.log_probs(contexts[:4], torch.arange(4), torch.tensor([2, 0, 1, 9]), taken)
    assert torch.allclose(raw + 0.25 - log_norm, log_prob, atol=1e-12)


def test_dropout_acts_in_training_only() -> None:
    model, dropping = network(), network(replace(CONFIG, dropout=0.5))
    assert torch.equal(model.hidden(CONTEXTS), dropping.hidden(CONTEXTS))
    dropping.train()
    assert not torch.equal(dropping.hidden(CONTEXTS), dropping.hidden(CONTEXTS))


def test_dropout_acts_on_word_vectors_and_both_hidden_layers() -> None:
    model, sizes = network(replace(CONFIG, dropout=0.5)).train(), list[int]()
    model.dropout.register_forward_hook(lambda module, given, output: sizes.append(given[0].shape[-1]))
    model.hidden(CONTEXTS)
    assert model.dropout.p == 0.5
    assert sizes == [CONFIG.embedding, CONFIG.first_hidden, CONFIG.second_hidden]


def test_the_paper_s_initial_weights_are_bounded() -> None:
    model = network(replace(CONFIG, initialisation="uniform"))
    weights = torch.cat([parameter.detach().ravel() for parameter in model.parameters()])
    assert 0.0095 < float(weights.abs().max()) <= 0.01


@torch.no_grad()
@pytest.mark.parametrize(("self_normalise", "low", "high"), [(0.0, 2.0, 5.0), (0.1, -0.5, 0.5)])
def test_self_normalised_training_starts_near_one(self_normalise: float, low: float, high: float) -> None:
    _, log_norm = network(replace(CONFIG, self_normalise=self_normalise))(CONTEXTS, torch.zeros(4, dtype=torch.long))
    assert bool(((log_norm > low) & (log_norm < high)).all())
