"""The continuous-space language model: ln p of a word given the n - 1 before it (Bengio et al. 2003, Schwenk 2007).

    x = [e(w_{t-n+1}); ...; e(w_{t-1})];   h = max(0, W_1 x + b_1);   s = max(0, W_2 h + b_2);
    p(w_t = v) = softmax_v(g_v . s + b_v)

with one matrix of word vectors for all positions (sizes: Cho et al. 2014, section 4.1.2).

A joint model (Devlin et al. 2014) also reads a window of d words on either side of the source word f_a with which w_t
is affiliated: x = [e'(f_{a-d}); ...; e'(f_{a+d}); e(w_{t-n+1}); ...; e(w_{t-1})].

Id 1 is the sentence boundary: `<s>` in a context, `</s>` as a predicted word, and the words beyond a source sentence.

Legend: A contexts, c words of a context: 2d + 1 of the source, in a joint model, then n - 1; U distinct words of all
contexts, I predicted words, m size of a word vector, k of the first hidden layer, r of the last hidden layer, g = c k.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.nn.softmax import WordSoftmax
from phrasescore.nn.weights import Dropout, initialise

_UNIFORM = 0.01
"""Bound of the initial weights (paper, section 4.1.2)."""


class NeuralLanguageModel(nn.Module):
    """Word vectors, two rectified layers and the softmax over the shortlist."""

    mean_log_norm: Tensor
    """Mean ln Z on held-out text, stored with the weights and used as ln Z by unnormalised scores. Training for
    ln Z = 0 does not make it 0, because scoring has no dropout."""

    def __init__(self, config: NeuralLmConfig, words: int, source_words: int = 0) -> None:
        """Draw weights from torch's global generator; the sizes of both vocabularies include the symbols."""
        super().__init__()
        self.config = config
        self.source_window = 2 * config.window + 1 if source_words else 0
        """Source words of a context."""
        # The vectors of source words follow those of the shortlist.
        self.embedding = nn.Embedding(words + source_words, config.embedding)
        self._words = words
        self.first = nn.Linear((self.source_window + config.order - 1) * config.embedding, config.first_hidden)
        self.second = nn.Linear(config.first_hidden, config.second_hidden)
        self.dropout = Dropout(config.dropout)
        self.softmax = WordSoftmax(words, config.second_hidden)
        self.register_buffer("mean_log_norm", torch.zeros(()))
        if config.initialisation == "uniform":
            for parameter in self.parameters():
                nn.init.uniform_(parameter, -_UNIFORM, _UNIFORM)
        else:
            initialise(self, "scaled")
        if config.self_normalise:
            # Z starts near 1 (Devlin et al. 2014).
            nn.init.constant_(self.softmax.words.bias, -math.log(words))

    def hidden(self, contexts_Ac: Tensor) -> Tensor:
        h_Ak = self.dropout(torch.relu(self._first_layer(contexts_Ac)))
        return self.dropout(torch.relu(self.second(h_Ak)))

    def _first_layer(self, contexts_Ac: Tensor) -> Tensor:
        if self.source_window:
            source_Ac, history_Ac = contexts_Ac.split([self.source_window, self.config.order - 1], dim=1)
            contexts_Ac = torch.cat((source_Ac + self._words, history_Ac), dim=1)
        # In training, dropout makes the vector of a word differ between contexts.
        if not self.training:
            words_U, number_Ac = contexts_Ac.unique(return_inverse=True)
            if len(words_U) < len(contexts_Ac):
                return self._first_layer_by_words(words_U, number_Ac)
        x_Acm = self.dropout(self.embedding(contexts_Ac))
        return self.first(x_Acm.flatten(1))

    def _first_layer_by_words(self, words_U: Tensor, number_Ac: Tensor) -> Tensor:
        """Return the same by one product for each distinct word and position (after Devlin et al. 2014, 2.4)."""
        positions = number_Ac.shape[1]
        W_gm = self.first.weight.unflatten(1, (positions, -1)).transpose(0, 1).flatten(0, 1)
        added_Ug = functional.linear(self.embedding(words_U), W_gm).to(W_gm.dtype)
        row_Ac = positions * number_Ac + torch.arange(positions, device=number_Ac.device)
        return (
            functional.embedding_bag(row_Ac, added_Ug.view(-1, self.first.out_features), mode="sum") + self.first.bias
        )

    def forward(self, contexts_Ac: Tensor, words_A: Tensor) -> tuple[Tensor, Tensor]:
        """Return ln p of a word after each context, and ln Z, [A] each."""
        return self.log_probs(contexts_Ac, torch.arange(len(words_A), device=words_A.device), words_A)

    def log_probs(
        self, contexts_Ac: Tensor, node_I: Tensor, words_I: Tensor, log_norm_A: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return ln p of words [I] after the contexts `node_I`, and ln Z [A], which is not computed if it is given."""
        s_Ar = self.hidden(contexts_Ac)
        if log_norm_A is None:
            return self.softmax.log_probs(s_Ar, node_I, words_I)
        return self.softmax.logit(s_Ar, node_I, words_I) - log_norm_A[node_I], log_norm_A
