"""The straightforward scorer, equivalent to the authors' `score.py`: the baseline of the speed measurements.

It scores 64 lines in file order, padded to the longest line, in 32 bit. It encodes each source again and computes a
full log-softmax at each position, including padding. As in `score.py`, it computes the context terms once per pair.

Legend: B pairs, T positions, m embedding size, n hidden size, V words.
"""

from __future__ import annotations

import torch
from torch import Tensor

from phrasescore.nn.decoder import RecurrentDecoder
from phrasescore.nn.decoder_layers import ContextBridge, MaxoutReadout
from phrasescore.nn.encoder import RecurrentEncoder
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import END

BATCH = 64


def padded(phrases: Phrases, device: torch.device) -> tuple[Tensor, Tensor]:
    """Return ids [B, T], padded with end symbols, and the mask of real positions [B, T]."""
    lengths = torch.from_numpy(phrases.lengths)
    real_BT = torch.arange(int(lengths.max())) < lengths[:, None]
    ids_BT = torch.full(real_BT.shape, END)
    ids_BT[real_BT] = torch.from_numpy(phrases.ids).long()
    return ids_BT.to(device), real_BT.to(device)


@torch.inference_mode()
def score(network: EncoderDecoder, sources: Phrases, targets: Phrases, device: torch.device) -> Tensor:
    """Return ln p(target | source) of each pair, [B]; phrases include end symbols."""
    (x_BT, real_source_BT), (y_BT, real_target_BT) = padded(sources, device), padded(targets, device)
    encoder, decoder = network.encoder, network.decoder
    # Only the authors' model is supported.
    assert isinstance(encoder, RecurrentEncoder)
    assert isinstance(decoder, RecurrentDecoder)
    readout = decoder.readout
    assert decoder.embedding is not None
    assert isinstance(decoder.initial, ContextBridge)
    assert isinstance(readout, MaxoutReadout)
    assert readout.word is not None
    assert readout.context is not None
    x_BTg = encoder.unit.project(encoder.embedding(x_BT))
    h_Bn = x_BTg.new_zeros(len(x_BT), encoder.hidden)
    for t in range(x_BT.shape[1]):
        h_Bn = torch.where(real_source_BT[:, t, None], encoder.unit.step(x_BTg[:, t], h_Bn), h_Bn)
    c_Bn = h_Bn if encoder.summary is None else torch.tanh(encoder.summary(h_Bn))

    context_Bg = decoder.unit.project_context(c_Bn)
    h_Bn = torch.tanh(decoder.initial(c_Bn))
    e_BTm = decoder.embedding(y_BT)
    e_BTm = torch.cat((torch.zeros_like(e_BTm[:, :1]), e_BTm[:, :-1]), dim=1)
    y_BTg = decoder.unit.project(e_BTm)
    states = []
    for t in range(y_BT.shape[1]):
        h_Bn = decoder.unit.step(y_BTg[:, t], h_Bn, context_Bg)
        states.append(h_Bn)
    h_BTn = torch.stack(states, dim=1)
    s_BTs = readout.state(h_BTn) + readout.word(e_BTm) + readout.context(c_Bn)[:, None]
    s_BTs = torch.amax(s_BTs.unflatten(2, (-1, 2)), dim=3)
    if readout.factor is not None:
        s_BTs = readout.factor(s_BTs)
    log_p_BTV = torch.log_softmax(network.softmax.words(s_BTs), dim=2)
    log_p_BT = log_p_BTV.gather(2, y_BT[:, :, None])[:, :, 0]
    return (log_p_BT * real_target_BT).sum(1)
