"""Step-by-step decoding of a batch of sentences with one network or an ensemble, and its results.

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
from phrasescore.nn.batch import SourceBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.search.search_config import SearchConfig
from phrasescore.vocabulary import UNKNOWN

Numbers = NDArray[np.int64]
AttentionWeights = NDArray[np.float32]
"""[T, L] for one translation, [B, L] for one step."""


@dataclass(frozen=True)
class Hypothesis:
    """One finished translation of a sentence."""

    words: tuple[int, ...]
    """Ids of the target words, without the end symbol."""
    log_prob: float
    """ln p(target | source), end symbol included."""
    value: float
    """The ranking score: `log_prob` with length penalty."""
    attention_TL: AttentionWeights | None
    times: int = 1
    """Number of samples."""


@dataclass(frozen=True)
class _Step:
    """The history of each row before one target symbol."""

    parent_B: Numbers
    """The row of the previous step that each row extends; in the first step the source sentence."""
    words_B: Numbers
    """The word that each row has read; empty in the first step."""
    attention_BL: AttentionWeights | None


class Decoding:
    """Target prefixes that grow word by word, with back pointers.

    For several networks ln p is their mean, as in `EncoderDecoderScorer`.
    """

    def __init__(
        self, networks: Sequence[EncoderDecoder], device: Device, sources: Phrases, origin: str = "network"
    ) -> None:
        """Encode the sources, without end symbols, and start one row for each.

        The networks are on the device, in evaluation mode; `origin` names them in messages.
        """
        self._origin = origin
        self._networks, self._device = networks, device
        batch = SourceBatch.of(sources)
        with torch.inference_mode(), device.products():
            self._states = [network.start(batch) for network in networks]
        self.source_words_S: Numbers = sources.lengths
        self.source_B: Numbers = np.arange(len(sources))
        """The source sentence of each row."""
        self._steps: list[_Step] = []
        self._parent_B, self._words_B = self.source_B, np.empty(0, np.int64)

    @torch.inference_mode()
    def step(self, *, forbid_unknown: bool) -> Tensor:
        """Return ln p of the next word in each row, [B, V], in 32 bits or more; minus infinity if it is forbidden.

        The values are unchecked; `to_cpu` checks those that are used.
        """
        read = torch.from_numpy(self._words_B).to(self._device.torch_device) if self._steps else None
        with self._device.products():
            found = [network.step(state, read) for network, state in zip(self._networks, self._states, strict=True)]
        self._states = [state for _, state, _ in found]
        weights = [attention_BL for _, _, attention_BL in found if attention_BL is not None]
        attention_BL = None
        if len(weights) == len(found):
            attention_BL = torch.stack(weights).mean(dim=0).float().cpu().numpy()
        self._steps.append(_Step(self._parent_B, self._words_B, attention_BL))
        log_probs = [log_prob_BV for log_prob_BV, _, _ in found]
        log_prob_BV = log_probs[0] if len(log_probs) == 1 else torch.stack(log_probs).mean(dim=0)
        if forbid_unknown:
            # The other words are not renormalised, so that a score stays ln p of the pair.
            log_prob_BV[:, UNKNOWN] = -torch.inf
        return log_prob_BV

    def to_cpu(self, log_prob: Tensor) -> NDArray[np.float64]:
        """Return ln p of prefixes on the CPU, in 64 bits; a row [..., C] may contain forbidden words.

        Raises:
            UserError: the network is damaged and gives no log-probabilities.
        """
        values = log_prob.double().cpu().numpy()
        # The maximum is NaN if any value is.
        require_log_probs(values.max(axis=-1), self._origin, len(self._steps))
        return values

    @torch.inference_mode()
    def advance(self, rows_B: Numbers, words_B: Numbers) -> None:
        """Extend rows of the last step by a word each; a row may be repeated or dropped."""
        rows = torch.from_numpy(rows_B).to(self._device.torch_device)
        self._states = [state.take(rows) for state in self._states]
        self.source_B = self.source_B[rows_B]
        self._parent_B, self._words_B = rows_B, words_B

    def finish(self, row: int, log_prob: float, config: SearchConfig, times: int = 1) -> Hypothesis:
        """Return the translation that ends after a row of the last step; `log_prob` includes the end symbol.

        Raises:
            UserError: the network is damaged and gives no log-probabilities.
        """
        words: list[int] = []
        weights: list[NDArray[np.float32]] = []
        symbols = int(self.source_words_S[self.source_B[row]]) + 1
        for step in reversed(self._steps):
            if step.attention_BL is not None:
                weights.append(step.attention_BL[row, :symbols])
            if len(step.words_B):
                words.append(int(step.words_B[row]))
            row = int(step.parent_B[row])
        require_log_probs(np.array(log_prob), self._origin, len(words) + 1)
        attention_TL = np.stack(weights[::-1]) if weights else None
        return Hypothesis(tuple(words[::-1]), log_prob, config.value(log_prob, len(words) + 1), attention_TL, times)
