"""Rows of target words that grow word by word, read by one network or several.

Legend: S source sentences, B rows of one step, V words, T target symbols (words and the end symbol), L source symbols
(likewise).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device
from phrasescore.log_probs import require_log_probs
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.sources import SourceBatch
from phrasescore.phrases import Phrases
from phrasescore.vocabulary import UNKNOWN

Numbers = NDArray[np.int64]
Looks = NDArray[np.float32]
"""Shares of attention, [T, L]."""


@dataclass(frozen=True)
class _Step:
    """What there was before one target symbol."""

    parent_B: Numbers
    """The row of the step before that each row comes from; of the first step the source sentence."""
    words_B: Numbers
    """The word that each row has read; of the first step nothing."""
    attention_BL: Looks | None


class Walk:
    """Several rows on their way through the words of their targets; it remembers how each came about.

    With several networks ln p is the mean of theirs, as in `Scorer`.
    """

    def __init__(
        self, networks: Sequence[EncoderDecoder], device: Device, sources: Phrases, origin: str = "network"
    ) -> None:
        """Encode the sources and start one row for each.

        Args:
            networks: on the device, in evaluation mode.
            device: where and how precisely to compute.
            sources: the source sentences, without end symbols.
            origin: what to call the networks in messages.
        """
        self.origin = origin
        self._networks, self._device = networks, device
        batch = SourceBatch.of(sources)
        with torch.inference_mode(), device.products():
            self._states = [network.start(network.encode(batch)) for network in networks]
        self.source_words_S: Numbers = sources.lengths
        """Words of each source sentence."""
        self.source_B: Numbers = np.arange(len(sources))
        """The source sentence of each row."""
        self._steps: list[_Step] = []
        self._parent_B, self._words_B = self.source_B, np.empty(0, np.int64)

    @torch.inference_mode()
    def step(self, *, forbid_unknown: bool) -> Tensor:
        """Return ln p of what comes next in each row, [B, V], in 32 bits or more; minus infinity if it is forbidden.

        They may be no log-probabilities; `to_cpu` checks those that are used.
        """
        read = torch.from_numpy(self._words_B).to(self._device.torch_device) if self._steps else None
        with self._device.products():
            found = [network.step(state, read) for network, state in zip(self._networks, self._states, strict=True)]
        self._states = [state for _, state, _ in found]
        looks = [attention_BL for _, _, attention_BL in found if attention_BL is not None]
        attention_BL = None
        if len(looks) == len(found):
            attention_BL = torch.stack(looks).mean(dim=0).float().cpu().numpy()
        self._steps.append(_Step(self._parent_B, self._words_B, attention_BL))
        some = [log_prob_BV for log_prob_BV, _, _ in found]
        log_prob_BV = some[0] if len(some) == 1 else torch.stack(some).mean(dim=0)
        if forbid_unknown:
            # The others keep their ln p, so that a score is that of the pair.
            log_prob_BV[:, UNKNOWN] = -torch.inf
        return log_prob_BV

    def to_cpu(self, log_prob: Tensor) -> NDArray[np.float64]:
        """Return ln p of some beginnings on the CPU, in 64 bits; one row [..., C] may hold a few that are forbidden.

        Raises:
            UserError: the networks do not give log-probabilities.
        """
        values = log_prob.double().cpu().numpy()
        # The best is NaN if one is.
        require_log_probs(values.max(axis=-1), self.origin, len(self._steps))
        return values

    @torch.inference_mode()
    def go_on(self, rows_B: Numbers, words_B: Numbers) -> None:
        """Let some rows of the last step read a word each; a row may be there several times, or not at all."""
        rows = torch.from_numpy(rows_B).to(self._device.torch_device)
        self._states = [state.take(rows) for state in self._states]
        self.source_B = self.source_B[rows_B]
        self._parent_B, self._words_B = rows_B, words_B

    def path(self, row: int) -> tuple[tuple[int, ...], Looks | None]:
        """Return the words that a row of the last step has read, and where attention looked before each symbol.

        Attention is [T, L] for the words and the symbol that comes next, and the words of the source and its end.
        """
        words: list[int] = []
        looks: list[NDArray[np.float32]] = []
        symbols = int(self.source_words_S[self.source_B[row]]) + 1
        for step in reversed(self._steps):
            if step.attention_BL is not None:
                looks.append(step.attention_BL[row, :symbols])
            if len(step.words_B):
                words.append(int(step.words_B[row]))
            row = int(step.parent_B[row])
        return tuple(reversed(words)), np.stack(looks[::-1]) if looks else None
