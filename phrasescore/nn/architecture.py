"""The architectures of the networks, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from phrasescore.configuration import check_values, option
from phrasescore.errors import UserError

Directions = Literal["forward", "both", "halves"]
Bridge = Literal["context", "last", "both", "both-tanh", "first-backward"]
Readout = Literal["maxout", "state", "state-context", "word-state-context", "attentional"]
Annotations = Literal["states", "bridged"]
AttentionOrder = Literal["before", "after"]
Biases = Literal["none", "authors", "all"]
"""Which layers have biases: none (a literal reading of the equations), those where the authors' code learns
them, or every layer."""
Initialisation = Literal["cho2014", "scaled"]
NeuralLmInitialisation = Literal["uniform", "scaled"]

NO_ATTENTION = "none"

_WIDEST, _DEEPEST = 1 << 16, 64
"""More units side by side, and more layers, than any network has that was worth its time."""


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and forms of the encoder-decoder. The defaults are the paper's, with the biases of its authors' code."""

    hidden: int = option(1000, "units in the state of the encoder and of the decoder", minimum=1, maximum=_WIDEST)
    embedding: int = option(100, "size of a word vector, the rank of the input factor", minimum=1, maximum=_WIDEST)
    maxout: int = option(500, "outputs of the maxout readout, each the larger of two units", minimum=1, maximum=_WIDEST)
    output_rank: int = option(100, "rank of the softmax matrix; 0 leaves it whole", minimum=0, maximum=_WIDEST)
    encoder_unit: str = option(
        "gru-paper", "rnn, gru-paper (Eq. 8: reset before the product), gru (as in torch), gru-appendix, lstm"
    )
    decoder_unit: str = option(
        "gru-appendix", "the same in the decoder; gru-appendix is the paper's: reset after the product, context inside"
    )
    encoder_layers: int = option(1, "units stacked in the encoder", minimum=1, maximum=_DEEPEST)
    decoder_layers: int = option(1, "units stacked in the decoder", minimum=1, maximum=_DEEPEST)
    directions: Directions = option(
        "forward", "the encoder reads forward, in both directions, or in both with half of the units each"
    )
    in_context: bool = option(
        False,
        "the encoder reads the sentence that a source phrase stands in, of which the decoder sees the phrase: for "
        "--source, --target and --alignment",
    )
    reverse_source: bool = option(False, "read the source words from last to first")
    summary: bool = option(True, "c = tanh(V h_N) as in the appendix, not c = h_N as in the authors' code")
    bridge: Bridge = option(
        "context",
        "the decoder's first state: tanh(V' c) (context), the encoder's last state, a linear layer over the last "
        "states of both directions (both; both-tanh with a tanh), or tanh(W h) of the backward one (first-backward)",
    )
    feed_context: bool = option(True, "give c to every step and to the readout, not to the first state only")
    feed_word: bool = option(True, "give the word before to every step and to the readout")
    attention: str = option(
        NO_ATTENTION, "dot, general, scaled or concat: c becomes a mean of the encoder's states, another at each step"
    )
    attention_order: AttentionOrder = option(
        "after", "attention from the new state, after the step (Luong), or from the old one, before it (Bahdanau)"
    )
    annotations: Annotations = option(
        "states", "what attention looks at: the encoder's states, or the states through the layer of the bridge"
    )
    input_feeding: bool = option(False, "give the attentional vector of the last step to the next one")
    readout: Readout = option(
        "maxout",
        "what the softmax reads: maxout; the state (not with attention after the step, which it would leave out); "
        "[state; context]; [word; state; context]; or attentional: tanh(W [state; context])",
    )
    share_embeddings: bool = option(
        False, "the same word vectors on both sides; for the same vocabulary on both, counted in one text of both"
    )
    share_units: bool = option(False, "the same recurrent weights in the encoder and the decoder")
    biases: Biases = option("authors", "none, those the authors' code learns, or in all layers")
    initialisation: Initialisation = option(
        "cho2014",
        "Gaussian of 0.01 and orthogonal recurrent matrices (cho2014), or scaled by layer size, the biases of the "
        "softmax by the words' frequencies",
    )
    dropout: float = option(
        0.0,
        "share dropped in training of the elements of word vectors, of outputs of stacked units, of the summary (not "
        "with --no-summary) and of what the softmax reads (of [state; context] only the state, of [word; state; "
        "context] nothing more)",
        minimum=0,
        maximum=0.9,
    )

    @property
    def has_attention(self) -> bool:
        """Whether the decoder looks at what the encoder made of each symbol."""
        return self.attention != NO_ATTENTION

    @property
    def looks_before(self) -> bool:
        """Whether attention, if there is one, has its say before the step."""
        return self.has_attention and self.attention_order == "before"

    @property
    def uses_attention(self) -> bool:
        """Whether there is attention, and what it finds goes into the step or into the readout."""
        return self.looks_before or (self.has_attention and self.readout != "state")

    @property
    def feeds_summary(self) -> bool:
        """Whether c goes into every step, and not what attention found."""
        return self.feed_context and not self.looks_before

    @property
    def uses_summary(self) -> bool:
        """Whether c goes anywhere: into every step, or into the first state."""
        return self.feeds_summary or self.bridge == "context"

    def check_effect(self) -> None:
        """Check that what is chosen about attention changes something, which in networks of older folders it may not.

        Raises:
            UserError: it does not.
        """
        if self.has_attention and not self.uses_attention:
            raise UserError(
                f"attention `{self.attention}` after the step goes into the readout, and readout `state` takes nothing "
                "but the state; give --readout attentional or state-context, or --attention-order before"
            )
        if not self.has_attention and self.attention_order == "before":
            raise UserError(
                "attention order `before` is when attention looks, and there is none; give --attention, or leave "
                "--attention-order out"
            )
        if self.share_embeddings and not self.feed_word:
            raise UserError(
                "the embedding of words is not shared with a decoder that is fed none; leave --share-embeddings or "
                "--no-feed-word out"
            )
        if self.in_context and self.reverse_source:
            raise UserError("in context the encoder reads sentences as they are written; leave --reverse-source out")
        if not self.has_attention and self.annotations == "bridged":
            raise UserError(
                "annotations `bridged` are what attention looks at, and there is none; give --attention, or leave "
                "--annotations out"
            )


@dataclass(frozen=True)
class NeuralLmConfig:
    """Sizes and forms of the neural language model. The defaults are the paper's (section 4.1.2)."""

    order: int = option(7, "words of an n-gram: the predicted one and those before it", minimum=2, maximum=_DEEPEST)
    embedding: int = option(512, "size of a word vector", minimum=1, maximum=_WIDEST)
    first_hidden: int = option(1536, "rectified units in the first hidden layer", minimum=1, maximum=_WIDEST)
    second_hidden: int = option(1024, "rectified units in the second hidden layer", minimum=1, maximum=_WIDEST)
    initialisation: NeuralLmInitialisation = option(
        "uniform", "all weights uniform between -0.01 and 0.01, or scaled by layer size"
    )
    dropout: float = option(
        0.0, "share of word vectors' elements and of hidden units dropped in training", minimum=0, maximum=0.9
    )
    self_normalise: float = option(
        0.0,
        "weight of (ln Z)^2 in the loss, which drives the softmax's Z to 1, so that a score needs no sum over the "
        "words (Devlin et al. 2014, who took 0.1)",
        minimum=0,
        maximum=1000,
    )


_UNITS_BY_RESET = {"before": "gru-paper", "after": "gru-appendix"}


def read_model_config(values: Mapping[str, Any], place: str) -> ModelConfig:
    """Return the configuration of a stored network; `place` says where the values come from.

    Folders without `encoder_unit` have one kind of unit, and say where its reset gate is.

    Raises:
        UserError: an unknown key or a wrong value.
    """
    current = dict(values)
    for side in ("encoder", "decoder"):
        if current.get(f"{side}_reset") in _UNITS_BY_RESET:
            current[f"{side}_unit"] = _UNITS_BY_RESET[current.pop(f"{side}_reset")]
    return ModelConfig(**check_values(ModelConfig, current, place))
