"""The bridge: initial states of the decoder's layers from the last states of the encoder.

Legend: S source phrases, X any rows, n hidden size of the decoder, m of one direction of the encoder, s state size,
d context size, g = s times the layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder import EncodedSource, Encoder
from phrasescore.nn.units import RecurrentUnit


class ContextBridge(nn.Linear):
    """h'_0 = tanh(V' v), where v is the context c (Cho et al. 2014) or the last backward state (Bahdanau et al. 2015).

    V' has rows for all layers and their cells.
    """

    def __init__(self, inputs: int, state: int, layers: int, *, from_backward: bool, bias: bool) -> None:
        super().__init__(inputs, layers * state, bias=bias)
        self.state = state
        self.from_backward = from_backward

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        """Return h'_0 of each layer, [S, s]."""
        v_Sd = encoded.summary_Sk
        if self.from_backward:
            v_Sd = encoded.last_states[-1][1][:, : self.in_features]
        # Under autocast states keep the precision of the weights.
        h_Sg: Tensor = torch.tanh(self(v_Sd)).to(self.weight.dtype)
        return tuple(h_Sg.split(self.state, dim=1))


class LastStateBridge(nn.Module):
    """h'_0 = h_N with its cell, layer by layer: of the forward direction, or the `halves` of both, concatenated."""

    def __init__(self, layers: int, parts: int, *, halves: bool) -> None:
        super().__init__()
        self.layers, self.parts = layers, parts
        self.halves = halves

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        """Return h'_0 of each layer, [S, s]."""
        return tuple(self._join(directions) for directions in encoded.last_states[-self.layers :])

    def _join(self, directions: tuple[Tensor, ...]) -> Tensor:
        if not self.halves:
            return directions[0]
        parts = (state.chunk(self.parts, dim=1) for state in directions)
        return torch.cat([half for part in zip(*parts, strict=True) for half in part], dim=1)


class BothDirectionsBridge(nn.ModuleList):
    """h'_0 = W [h_N; h_1], optionally with a tanh, from the last forward and backward states.

    Each layer and each cell has its own W.
    """

    def __init__(self, direction: int, hidden: int, layers: int, parts: int, *, tanh: bool, bias: bool) -> None:
        super().__init__(nn.Linear(2 * direction, hidden, bias=bias) for _ in range(layers * parts))
        self.layers, self.parts = layers, parts
        self.tanh = tanh

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        """Return h'_0 of each layer, [S, s]."""
        states = []
        for layer, directions in enumerate(encoded.last_states[-self.layers :]):
            ends = zip(*(state.chunk(self.parts, dim=1) for state in directions), strict=True)
            parts = [self._through(layer * self.parts + part, torch.cat(pair, dim=1)) for part, pair in enumerate(ends)]
            states.append(torch.cat(parts, dim=1) if self.parts > 1 else parts[0])
        return tuple(states)

    def merge(self, h_X2m: Tensor) -> Tensor:
        """Return W [h; h] of the top layer for other states, [X, n]."""
        return self._through((self.layers - 1) * self.parts, h_X2m)

    def _through(self, index: int, h_X2m: Tensor) -> Tensor:
        h_Xn: Tensor = self[index](h_X2m)
        # Under autocast states keep their precision.
        return (torch.tanh(h_Xn) if self.tanh else h_Xn).to(h_X2m.dtype)


Bridge = ContextBridge | LastStateBridge | BothDirectionsBridge


def make_bridge(config: ModelConfig, encoder: Encoder, unit: RecurrentUnit) -> Bridge:
    """Build the bridge to a decoder of this unit.

    Raises:
        UserError: the encoder lacks a direction, a layer or a cell that the bridge needs.
    """
    form, layers, bias = config.bridge, config.decoder_layers, config.biases != "none"
    if form == "context":
        return ContextBridge(encoder.context, unit.state, layers, from_backward=False, bias=bias)
    if form != "last" and len(encoder.directions) == 1:
        raise UserError(f"bridge `{form}` needs an encoder in two directions; set `directions` to both or halves")
    direction, hidden, parts = encoder.unit.hidden, unit.hidden, unit.state // unit.hidden
    if form == "first-backward":
        return ContextBridge(direction, unit.state, layers, from_backward=True, bias=bias)
    if layers > encoder.layers or encoder.unit.state != direction * parts:
        raise UserError(
            f"bridge `{form}` takes the state of each decoder layer from the encoder; give the encoder at least as "
            "many layers as the decoder, and units with as many states, or set `bridge` to context"
        )
    if form == "last":
        return LastStateBridge(layers, parts, halves=direction < hidden)
    return BothDirectionsBridge(direction, hidden, layers, parts, tanh=form == "both-tanh", bias=bias)
