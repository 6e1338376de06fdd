"""The RNN encoder-decoder: ln p of target phrases given their source phrases.

Legend: P pairs, I predicted symbols.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.config import ModelConfig
from phrasescore.nn.decoder import Decoder
from phrasescore.nn.encoder import Encoder
from phrasescore.nn.initialisation import initialise
from phrasescore.nn.softmax import WordSoftmax


class EncoderDecoder(nn.Module):
    """Encoder, decoder and softmax over the target words (Cho et al. 2014, section 2.2)."""

    def __init__(self, config: ModelConfig, source_words: int, target_words: int) -> None:
        """Build with random weights, drawn from torch's global generator.

        Args:
            config: sizes and forms.
            source_words: ids of the source vocabulary, symbols included.
            target_words: ids of the target vocabulary, symbols included.
        """
        super().__init__()
        self.config = config
        self.encoder = Encoder(
            source_words,
            config.embedding,
            config.hidden,
            reset=config.encoder_reset,
            summary=config.summary,
            biases=config.biases,
            dropout=config.dropout,
        )
        self.decoder = Decoder(
            target_words,
            config.embedding,
            config.hidden,
            reset=config.decoder_reset,
            maxout=config.maxout,
            rank=config.output_rank,
            biases=config.biases,
            dropout=config.dropout,
        )
        self.softmax = WordSoftmax(target_words, self.decoder.readout.size, bias=config.biases != "none")
        initialise(self, config.initialisation)

    def multiply_in(self, dtype: torch.dtype | None) -> None:
        """Set the type in which the softmax multiplies, None for that of the weights."""
        self.softmax.product_dtype = dtype

    def forward(self, batch: PairBatch) -> Tensor:
        """Return ln p(y_t | y_<t, x) of every predicted symbol of the batch, [I] (Eq. 2 and 4)."""
        s_Ar = self.decoder(batch, self.encoder(batch))
        return self.softmax.log_prob(s_Ar, batch.node_I, batch.symbol_I)

    def pair_scores(self, batch: PairBatch) -> Tensor:
        """Return ln p(target | source) of every pair, its end symbol included, summed in 64 bits, [P]."""
        log_prob_I: Tensor = self(batch).double()
        return log_prob_I.new_zeros(batch.pairs).index_add_(0, batch.pair_I, log_prob_I)
