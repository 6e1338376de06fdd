"""The bridge: initial states of the decoder's layers from the output of the encoder.

Legend: S source phrases, n hidden size of the decoder, m of one direction of the encoder, s state size, d context size,
g = s times the layers.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder import EncodedSource, Encoder, RecurrentEncoder
from phrasescore.nn.units import RecurrentUnit


class ContextBridge(nn.Linear):
    """h'_0 = tanh(V' v), where v is the context c (Cho et al. 2014) or the last backward state (Bahdanau et al. 2015).

    V' has rows for all layers and their cells.
    """

    def __init__(self, inputs: int, state: int, layers: int, *, from_backward: bool = False) -> None:
        super().__init__(inputs, layers * state)
        self.state, self.from_backward = state, from_backward

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        """Return h'_0 of each layer, [S, s]."""
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
        """Return h'_0 of each layer, [S, s]."""
        layers = encoded.last_states[-self.layers :]
        return tuple(torch.cat(_parts(ways, self.parts), dim=1) if self.halves else ways[0] for ways in layers)


class BothDirectionsBridge(nn.ModuleList):
    """h'_0 = W [h_N; h_1] from the last forward and backward states. Each layer and each cell has its own W."""

    def __init__(self, direction: int, hidden: int, layers: int, parts: int) -> None:
        super().__init__(nn.Linear(2 * direction, hidden) for _ in range(layers * parts))
        self.layers, self.parts = layers, parts

    def first_states(self, encoded: EncodedSource) -> tuple[Tensor, ...]:
        """Return h'_0 of each layer, [S, s]."""
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
        return ContextBridge(encoder.context, unit.state, layers)
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
