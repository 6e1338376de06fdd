"""An encoder-decoder with any registered encoder and decoder: ln p of target phrases given their source phrases.

Legend: S source phrases, P pairs, I predicted symbols, A decoder nodes, B rows of one step, T steps but the first,
L symbols of the longest source phrase, r input size of the softmax, V words.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn import transformer  # noqa: F401  (it registers its parts)
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch, SourceBatch
from phrasescore.nn.decoder import DECODERS, Prediction
from phrasescore.nn.encoder import ENCODERS
from phrasescore.nn.softmax import TiedWords, WordSoftmax
from phrasescore.nn.weights import initialise


class EncoderDecoder(nn.Module):
    """Encoder, decoder and softmax over the target words (Cho et al. 2014, section 2.2)."""

    def __init__(self, config: ModelConfig, source_words: int, target_words: int) -> None:
        """Build with random weights from torch's global generator; the vocabulary sizes include the symbols."""
        super().__init__()
        config.check_compatible()
        self.config = config
        self.encoder = ENCODERS[config.encoder](source_words, config)
        self.decoder = DECODERS[config.decoder](target_words, config, self.encoder)
        self.softmax = WordSoftmax(target_words, self.decoder.size)
        initialise(self, config.initialisation)
        if config.self_normalise:
            # Z starts near 1 (Devlin et al. 2014).
            nn.init.constant_(self.softmax.words.bias, -math.log(target_words))
        if config.tied_embeddings:
            self._tie_embeddings()

    def _tie_embeddings(self) -> None:
        """Use one matrix for the words of both sides and the softmax (Press and Wolf 2017)."""
        words, embedding = self.encoder.embedding.words, self.decoder.embedding
        shape = words.weight.shape
        if embedding is None or not shape == embedding.words.weight.shape == self.softmax.words.weight.shape:
            raise UserError(
                "`tied_embeddings` needs a joint vocabulary, and word vectors of the size of the input of the softmax; "
                "set `subwords`, `embedding` to `hidden` and `output_rank` to 0, or leave `tied_embeddings` out"
            )
        self.softmax.words = TiedWords(words, self.softmax.words.bias)
        # Not registered, so that the weights are saved and trained once, as the encoder's.
        del self.decoder.embedding
        self.decoder.__dict__["embedding"] = self.encoder.embedding

    def prepare(self, batch: PairBatch) -> None:
        """Do the preparation of a batch that runs on the CPU, before the batch is copied to a device."""
        self.encoder.prepare(batch.sources)
        if self.config.has_attention:
            batch.rows_of_nodes()

    def forward(
        self, batch: PairBatch, teacher_forcing: float = 1.0, label_smoothing: float = 0.0, r_drop: float = 0.0
    ) -> Tensor:
        """Return ln p(y_t | y_<t, x) of every predicted symbol of the batch, [I]; Eq. 4 is the mean of their sums.

        `teacher_forcing` is the share of steps that read the target words. The others read the network's own most
        probable words; 0 gives the free-running loss of the PyTorch tutorials. Less than 1 needs a batch of
        `PairBatch.apart`. `label_smoothing` is the weight of the mean of ln p over all words, which replaces a part of
        ln p of the predicted symbol (Szegedy et al. 2016). In training, `config.self_normalise` times (ln Z)^2 is
        subtracted from each (Devlin et al. 2014). With `r_drop`, a weight, pairs 2k and 2k + 1 of a batch of
        `PairBatch.apart` are the same pair with different dropout masks, and half of that weight times the divergence
        of their predictions is subtracted (R-Drop, Liang et al. 2021).
        """
        free: list[bool] = []
        if teacher_forcing < 1:
            free = (torch.rand(len(batch.target.sizes)) >= teacher_forcing).tolist()
        s_Ar = self.decoder(batch, self.encoder(batch.sources), free, self._best_word)
        log_prob_I, log_norm_A = self.softmax.log_probs(s_Ar, batch.node_I, batch.symbol_I)
        if label_smoothing:
            mean_A = self.softmax.mean_log_probs(s_Ar, log_norm_A)
            log_prob_I = torch.lerp(log_prob_I, mean_A[batch.node_I], label_smoothing)
        if r_drop:
            log_prob_I = log_prob_I - 0.5 * r_drop * self.softmax.divergences(s_Ar)[batch.node_I // 2]
        if self.training and self.config.self_normalise:
            log_prob_I = log_prob_I - self.config.self_normalise * log_norm_A.square()[batch.node_I]
        return log_prob_I

    def pair_scores(self, batch: PairBatch, *, unnormalised: bool = False) -> Tensor:
        """Return ln p(target | source) of every pair (Eq. 3), end symbol included, summed in 64 bits, [P].

        With `unnormalised`, the logits take the place of ln p: a network that was trained with `self_normalise` has
        ln Z near 0.
        """
        if unnormalised:
            s_Ar = self.decoder(batch, self.encoder(batch.sources))
            score_I = self.softmax.logit(s_Ar, batch.node_I, batch.symbol_I).double()
        else:
            score_I = self(batch).double()
        return score_I.new_zeros(batch.pairs).index_add_(0, batch.pair_I, score_I)

    def start(self, sources: SourceBatch) -> Any:
        """Encode source phrases; return the initial state of a search, see `Decoder.start`."""
        return self.decoder.start(self.encoder(sources))

    def step(self, state: Any, words_B: Tensor | None) -> Prediction:
        """Read the previous word of each row, None first; return ln p [B, V], the next state, and attention [B, L]."""
        s_Br, state, attention_BL = self.decoder.step(state, words_B)
        return torch.log_softmax(self._logits(s_Br), dim=1), state, attention_BL

    @torch.no_grad()
    def _best_word(self, s_Br: Tensor) -> Tensor:
        return torch.argmax(self._logits(s_Br), dim=1)

    def _logits(self, s_Br: Tensor) -> Tensor:
        """Return the logits [B, V] in 32 bits or more; shorter logits are too coarse to rank words."""
        with torch.autocast(s_Br.device.type, enabled=False):
            # Not by the layer, which would multiply 8-bit integers in that precision.
            G_Vr, b_V = self.softmax.words.weight, self.softmax.words.bias
            return torch.addmm(b_V, s_Br.to(G_Vr.dtype), G_Vr.t())
