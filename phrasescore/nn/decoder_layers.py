"""The layers around the units of the recurrent decoder: bridge and readout.

The bridge computes the initial states of the units from the output of the encoder. The readout computes the input of
the softmax from some of e(y_{t-1}), the state h_t and the context c; terms of size 0 are left out. The softmax matrix
can be factored, G = G_l G_r of a given rank. G_r is defined here, G_l in `softmax.py`.

Legend: S source phrases, B rows, N the last of them that have a previous word, m embedding size (in the bridge, hidden
size of one direction of the encoder), n hidden size, d context size, q size of the context's term, s outputs (in the
bridge, state size), g state size times the layers, r output rank.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder import EncodedSource, Encoder, RecurrentEncoder
from phrasescore.nn.units import RecurrentUnit
from phrasescore.nn.weights import Dropout


class Readout(nn.Module):
    """The interface of a readout."""

    def __init__(self, config: ModelConfig, outputs: int, *, uses_context: bool) -> None:
        super().__init__()
        self.uses_context = uses_context
        self.dropout = Dropout(config.dropout)
        self.outputs = outputs
        self.size = config.output_rank or outputs
        """Input size of the softmax: the rank, or s."""
        self.factor: nn.Linear | None = None

    def project_context(self, c_Bd: Tensor) -> Tensor:
        """Return the term that depends on the context alone, [B, q]."""
        return c_Bd

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bq: Tensor | None) -> Tensor:
        """Return s [B, s]; e(y_{t-1}) of all but the last N rows is zero."""
        raise NotImplementedError

    def shrink(self, s_Bs: Tensor) -> Tensor:
        """Return G_r s [B, r], or s for rank 0."""
        return s_Bs if self.factor is None else self.factor(s_Bs)


class MaxoutReadout(Readout):
    """s'_t = O_h h'_t + O_y e(y_{t-1}) + O_c c;  s_{t,i} = max(s'_{t,2i-1}, s'_{t,2i}) (appendix A.1.2)."""

    def __init__(self, config: ModelConfig, embedding: int, context: int) -> None:
        super().__init__(config, config.maxout, uses_context=context > 0)
        rows = 2 * config.maxout
        self.state = nn.Linear(config.hidden, rows)
        self.word = nn.Linear(embedding, rows, bias=False) if embedding else None
        self.context = nn.Linear(context, rows, bias=False) if context else None

    def project_context(self, c_Bd: Tensor) -> Tensor:
        return c_Bd if self.context is None else self.context(c_Bd)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_B2s: Tensor | None) -> Tensor:
        s_B2s = self.state(h_Bn)
        if context_B2s is not None:
            s_B2s = s_B2s + context_B2s
        if self.word is not None:
            s_B2s = s_B2s + self.word(_below_zeros(e_Nm, len(h_Bn)))
        return self.dropout(torch.amax(s_B2s.unflatten(1, (-1, 2)), dim=2))


class StateReadout(Readout):
    """The state alone."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config, config.hidden, uses_context=False)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bq: Tensor | None) -> Tensor:
        return self.dropout(h_Bn)


class ConcatenatedReadout(Readout):
    """[e(y_{t-1}); h_t; c] without a layer. It has no dropout, because the word vector has had dropout already."""

    def __init__(self, config: ModelConfig, embedding: int, context: int) -> None:
        super().__init__(config, embedding + config.hidden + context, uses_context=True)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bd: Tensor | None) -> Tensor:
        assert context_Bd is not None
        return torch.cat((_below_zeros(e_Nm, len(h_Bn)), h_Bn, context_Bd), dim=1)


class AttentionalReadout(Readout):
    """h~_t = tanh(W [h_t; c_t]) (Luong et al. 2015, Eq. 5), which input feeding gives to the next step."""

    def __init__(self, config: ModelConfig, context: int) -> None:
        super().__init__(config, config.hidden, uses_context=True)
        self.state = nn.Linear(config.hidden, config.hidden, bias=config.biases == "all")
        self.context = nn.Linear(context, config.hidden, bias=False)

    def project_context(self, c_Bd: Tensor) -> Tensor:
        return self.context(c_Bd)

    def forward(self, h_Bn: Tensor, e_Nm: Tensor, context_Bn: Tensor | None) -> Tensor:
        return self.dropout(torch.tanh(self.state(h_Bn) + context_Bn).to(h_Bn.dtype))


def _below_zeros(word_Nx: Tensor, rows: int) -> Tensor:
    """Return `rows` rows, with zeros above those given."""
    return nn.functional.pad(word_Nx, (0, 0, rows - len(word_Nx), 0))


def make_readout(config: ModelConfig, embedding: int, context: int) -> Readout:
    """Build the readout; `embedding` and `context` are sizes, and 0 if absent."""
    form = config.readout
    if not context and form not in ("maxout", "state"):
        raise UserError(f"readout `{form}` needs a context; set `attention` or `feed_context`, or `readout` to state")
    readout: Readout
    if form == "maxout":
        readout = MaxoutReadout(config, embedding, context)
    elif form == "state":
        readout = StateReadout(config)
    elif form == "word-state-context":
        readout = ConcatenatedReadout(config, embedding, context)
    else:
        readout = AttentionalReadout(config, context)
    if config.output_rank:
        # The last layer, because weights are drawn, and stored for the optimiser, in the order of the layers.
        readout.factor = nn.Linear(readout.outputs, config.output_rank, bias=False)
    return readout


class ContextBridge(nn.Linear):
    """h'_0 = tanh(V' v), where v is the context c (Cho et al. 2014) or the last backward state (Bahdanau et al. 2015).

    V' has rows for all layers and their cells.
    """

    def __init__(self, inputs: int, state: int, layers: int, *, from_backward: bool = False) -> None:
        super().__init__(inputs, layers * state)
        self.state, self.from_backward = state, from_backward

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        v_Sd = encoded.last_states[-1][1][:, : self.in_features] if self.from_backward else encoded.summary_Sk
        # Under autocast states keep the precision of the weights.
        h_Sg: Tensor = torch.tanh(self(v_Sd)).to(self.weight.dtype)
        return tuple(h_Sg.split(self.state, dim=1))


class LastStateBridge(nn.Module):
    """h'_0 = h_N with its cell, layer by layer: of the forward direction, or the `halves` of both, concatenated."""

    def __init__(self, layers: int, parts: int, *, halves: bool) -> None:
        super().__init__()
        self.layers, self.parts, self.halves = layers, parts, halves

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        layers = encoded.last_states[-self.layers :]
        return tuple(torch.cat(_parts(ways, self.parts), dim=1) if self.halves else ways[0] for ways in layers)


class BothDirectionsBridge(nn.ModuleList):
    """h'_0 = W [h_N; h_1] from the last forward and backward states. Each layer and each cell has its own W."""

    def __init__(self, direction: int, hidden: int, layers: int, parts: int) -> None:
        super().__init__(nn.Linear(2 * direction, hidden) for _ in range(layers * parts))
        self.layers, self.parts = layers, parts

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        pairs = [pair for ways in encoded.last_states[-self.layers :] for pair in _parts(ways, self.parts)]
        # Under autocast states keep their precision.
        states = [W(h_S2m).to(h_S2m.dtype) for W, h_S2m in zip(self, pairs, strict=True)]
        return tuple(
            torch.cat(states[layer * self.parts : (layer + 1) * self.parts], dim=1) for layer in range(self.layers)
        )


def _parts(directions: tuple[Tensor, ...], parts: int) -> list[Tensor]:
    """Return [h_N; h_1], and of two parts that of the cells, from the states of both directions, [S, 2m] each."""
    chunks = [state.chunk(parts, dim=1) for state in directions]
    return [torch.cat(pair, dim=1) for pair in zip(*chunks, strict=True)]


Bridge = ContextBridge | LastStateBridge | BothDirectionsBridge


def make_bridge(config: ModelConfig, encoder: Encoder, unit: RecurrentUnit) -> Bridge:
    """Build the bridge to a decoder of this unit; what the encoder lacks for it is an error."""
    form, layers = config.bridge, config.decoder_layers
    if form == "context":
        return ContextBridge(encoder.summary_size, unit.state, layers)
    if not isinstance(encoder, RecurrentEncoder):
        raise UserError(f"bridge `{form}` needs the states of a recurrent encoder; set `bridge` to context")
    if form != "last" and len(encoder.directions) == 1:
        raise UserError(f"bridge `{form}` needs an encoder in two directions; set `directions` to both or halves")
    direction, hidden, parts = encoder.hidden, unit.hidden, unit.state // unit.hidden
    if form == "first-backward":
        return ContextBridge(direction, unit.state, layers, from_backward=True)
    if layers > encoder.layers or encoder.unit.state != direction * parts:
        raise UserError(
            f"bridge `{form}` takes the state of each decoder layer from the encoder; give the encoder at least as "
            "many layers as the decoder, and units with as many states, or set `bridge` to context"
        )
    if form == "last":
        return LastStateBridge(layers, parts, halves=direction < hidden)
    return BothDirectionsBridge(direction, hidden, layers, parts)
