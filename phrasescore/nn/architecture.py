"""Configurations of the networks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from phrasescore.configuration import option, setting
from phrasescore.errors import UserError

Directions = Literal["forward", "both", "halves"]
Bridge = Literal["context", "last", "both", "first-backward"]
Readout = Literal["maxout", "state", "word-state-context", "attentional"]
AttentionOrder = Literal["before", "after"]
Biases = Literal["authors", "all"]
Initialisation = Literal["cho2014", "scaled"]
NeuralLmInitialisation = Literal["uniform", "scaled"]

NO_ATTENTION = "none"

_WIDEST, _DEEPEST = 1 << 16, 64
"""Limits of layer sizes and of the number of layers."""
_SELF_NORMALISE = (
    "weight of (ln Z)^2 in the loss, which drives the softmax's Z to 1, so that scoring needs no sum over the "
    "vocabulary (Devlin et al. 2014, with 0.1)"
)


@dataclass(frozen=True)
class ModelConfig:
    """The encoder-decoder. The defaults are the paper's, with the biases of the authors' code."""

    hidden: int = option(1000, "units in the state of the encoder and of the decoder", minimum=1, maximum=_WIDEST)
    embedding: int = setting(100, "size of a word vector, the rank of the input factor", minimum=1, maximum=_WIDEST)
    maxout: int = setting(
        500, "outputs of the maxout readout, each the larger of two units", minimum=1, maximum=_WIDEST
    )
    output_rank: int = setting(100, "rank of the softmax matrix; 0 does not factor it", minimum=0, maximum=_WIDEST)
    encoder: str = setting("recurrent", "type of the encoder: recurrent, transformer, or one that a plugin registers")
    decoder: str = setting("recurrent", "type of the decoder: recurrent, transformer, or one that a plugin registers")
    heads: int = setting(4, "attention heads of a Transformer", minimum=1, maximum=_WIDEST)
    feed_forward: int = setting(
        256, "units between the two layers of a Transformer's feed-forward network", minimum=1, maximum=_WIDEST
    )
    tied_embeddings: bool = setting(
        False, "one matrix for the word vectors of both sides and the softmax; needs `subwords`"
    )
    encoder_unit: str = setting(
        "gru-paper", "rnn, gru-paper (Eq. 8: reset before the product), gru (as in torch), gru-appendix, lstm"
    )
    decoder_unit: str = setting(
        "gru-appendix",
        "unit of the decoder; gru-appendix is the paper's: reset after the product, and of the context too",
    )
    encoder_layers: int = setting(1, "units stacked in the encoder", minimum=1, maximum=_DEEPEST)
    decoder_layers: int = setting(1, "units stacked in the decoder", minimum=1, maximum=_DEEPEST)
    directions: Directions = setting(
        "forward", "the encoder reads forward, in both directions, or in both with half the units each"
    )
    in_context: bool = False
    """The encoder reads the whole source sentence, and the decoder the states of the source phrase in it. Training on
    word-aligned text sets it; a user cannot."""
    reverse_source: bool = setting(False, "read the source words from last to first")
    summary: bool = setting(True, "c = tanh(V h_N) as in the appendix, not c = h_N as in the authors' code")
    bridge: Bridge = setting(
        "context",
        "the decoder's initial state: tanh(V' c) (context), the encoder's last state (last), a linear layer over the "
        "last states of both directions (both), or tanh(W h) of the backward one (first-backward)",
    )
    feed_context: bool = setting(True, "feed c to every step and to the readout, not only to the initial state")
    feed_word: bool = setting(True, "feed the previous word to every step and to the readout")
    attention: str = setting(
        NO_ATTENTION,
        "none, dot, general, scaled or concat: with attention, c is a weighted mean of the states of the encoder",
    )
    attention_order: AttentionOrder = setting(
        "after", "attention queries with the new state, after the step (Luong), or the old one, before it (Bahdanau)"
    )
    input_feeding: bool = setting(False, "feed the attentional vector of each step to the next step")
    readout: Readout = setting(
        "maxout",
        "input of the softmax: maxout; the state (not with attention after the step, which it would ignore); "
        "[word; state; context]; or attentional: tanh(W [state; context])",
    )
    share_units: bool = setting(False, "share the recurrent weights of encoder and decoder")
    biases: Biases = setting("authors", "which layers have biases: those of the authors' code, or all")
    initialisation: Initialisation = setting(
        "cho2014",
        "Gaussian of 0.01 and orthogonal recurrent matrices (cho2014), or scaled by layer size, with the softmax "
        "biases set to the log frequencies of the words",
    )
    dropout: float = option(
        0.0,
        "dropout rate of word vectors, outputs of stacked units, the summary (not if `summary` is false) and the input "
        "of the softmax (not with `readout` word-state-context); auto: by the size of the data",
        minimum=0,
        maximum=0.9,
        auto=True,
    )
    self_normalise: float = option(0.0, _SELF_NORMALISE, minimum=0, maximum=1000)

    @property
    def has_attention(self) -> bool:
        """Whether the decoder has the attention of `attention`, whose weights it returns."""
        return self.attention != NO_ATTENTION and self.decoder != "transformer"

    @property
    def attends_before_step(self) -> bool:
        return self.has_attention and self.attention_order == "before"

    @property
    def feeds_summary(self) -> bool:
        """Whether every step reads c, not the attention context."""
        return self.feed_context and not self.attends_before_step

    @property
    def uses_summary(self) -> bool:
        """Whether any step, or the initial state, depends on c."""
        return self.feeds_summary or self.bridge == "context"

    def check_compatible(self) -> None:
        if self.has_attention and not self.attends_before_step and self.readout == "state":
            raise UserError(
                f"attention `{self.attention}` after the step enters only the readout, and readout `state` ignores it; "
                "set `readout` to attentional, or `attention_order` to before"
            )
        if not self.has_attention and self.attention_order == "before":
            raise UserError(
                "attention order `before` has no effect without attention; set `attention`, or leave "
                "`attention_order` out"
            )
        if self.in_context and self.reverse_source:
            raise UserError("in context the encoder reads sentences in their order; leave `reverse_source` out")


@dataclass(frozen=True)
class NeuralLmConfig:
    """The neural language model. The defaults are the paper's (section 4.1.2)."""

    order: int = option(7, "length n of the n-grams, the predicted word included", minimum=2, maximum=_DEEPEST)
    window: int = setting(
        5,
        "with --source: source words that the network reads on either side of the affiliated one",
        minimum=0,
        maximum=_DEEPEST,
    )
    embedding: int = setting(512, "size of a word vector", minimum=1, maximum=_WIDEST)
    first_hidden: int = setting(1536, "rectified units in the first hidden layer", minimum=1, maximum=_WIDEST)
    second_hidden: int = setting(1024, "rectified units in the second hidden layer", minimum=1, maximum=_WIDEST)
    initialisation: NeuralLmInitialisation = setting(
        "uniform", "all weights uniform between -0.01 and 0.01, or scaled by layer size"
    )
    dropout: float = option(0.0, "dropout rate of word vectors and hidden units", minimum=0, maximum=0.9)
    self_normalise: float = option(0.0, _SELF_NORMALISE, minimum=0, maximum=1000)
