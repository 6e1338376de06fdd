"""Translation with one network or an ensemble: beam search, which is greedy with a beam of one, and sampling.

Legend: S source sentences (in a beam search the unfinished ones), B rows of one step, V words, T target symbols (words
and the end symbol), L source symbols (likewise), k beam width, w prefixes per sentence (1 at first, then k), B = S w
rows of a beam search, C candidates per sentence, best first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device
from phrasescore.model_files import require_log_probs
from phrasescore.nn.batch import SourceBatch
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.phrases import Phrases
from phrasescore.search_config import SearchConfig
from phrasescore.vocabulary import END

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


@dataclass(frozen=True)
class _Step:
    """The history of each row before one target symbol."""

    parent_B: Numbers
    """The row of the previous step that each row extends; in the first step the source sentence."""
    words_B: Numbers
    """The word that each row has read; empty in the first step."""
    attention_BL: AttentionWeights | None


class Decoding:
    """Target prefixes that grow word by word, with back pointers; for several networks ln p is their mean."""

    def __init__(
        self, networks: Sequence[EncoderDecoder], device: Device, sources: Phrases, origin: str = "network"
    ) -> None:
        """Encode the sources, without end symbols, and start a row for each; messages name the networks `origin`."""
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
    def step(self) -> Tensor:
        """Return ln p of the next word in each row, [B, V], in 32 bits or more; `to_cpu` checks those that are used."""
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
        return log_probs[0] if len(log_probs) == 1 else torch.stack(log_probs).mean(dim=0)

    def to_cpu(self, log_prob: Tensor) -> NDArray[np.float64]:
        """Return valid ln p of prefixes on the CPU, in 64 bits; some of a row [..., C] may be minus infinity."""
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
        """Return the translation that ends after a row of the last step; `log_prob` includes the end symbol."""
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


class _Candidate(NamedTuple):
    row: int
    word: int
    total: float
    """ln p of the extended prefix; minus infinity where there are no more candidates."""


def beam_search(decoding: Decoding, config: SearchConfig) -> list[list[Hypothesis]]:
    """Return up to k translations of each source, best first; `decoding` is before its first step, and is consumed.

    Prefixes compete by ln p. Those of the k best candidates that end are finished hypotheses. A sentence is done when
    it has k of them, or at its maximum length, where only the end symbol may follow. Finished hypotheses are ranked by
    `Hypothesis.value`.
    """
    longest_S = config.longest(decoding.source_words_S)
    finished: list[list[Hypothesis]] = [[] for _ in longest_S]
    sentence_S, total_Sw = np.arange(len(longest_S)), np.zeros((len(longest_S), 1))
    length = 0
    while len(sentence_S):
        must_end_S = longest_S[sentence_S] == length
        unfinished: list[int] = []
        extended: list[_Candidate] = []
        for sentence, candidates in zip(
            sentence_S.tolist(), _extend(decoding, total_Sw, must_end_S, config.beam), strict=True
        ):
            ends = [one for one in candidates[: config.beam] if one.word == END and one.total > -math.inf]
            for one in ends[: config.beam - len(finished[sentence])]:
                finished[sentence].append(decoding.finish(one.row, one.total, config))
            if len(finished[sentence]) < config.beam and longest_S[sentence] > length:
                unfinished.append(sentence)
                # All sentences keep k prefixes; a finished one among them has probability 0.
                kept = sorted(candidates, key=lambda one: one.word == END)[: config.beam]
                extended += [one._replace(total=-math.inf) if one.word == END else one for one in kept]
        if not unfinished:
            break
        sentence_S = np.array(unfinished, np.int64)
        total_Sw = np.array([one.total for one in extended]).reshape(len(unfinished), -1)
        decoding.advance(*(np.array([one[column] for one in extended], np.int64) for column in (0, 1)))
        length += 1
    return [sorted(some, key=lambda one: -one.value) for some in finished]


def _extend(
    decoding: Decoding, total_Sw: NDArray[np.float64], must_end_S: NDArray[np.bool_], beam: int
) -> list[list[_Candidate]]:
    """Return the 2 k best candidates of each sentence, best first: at most k end, so at least k are left to extend."""
    log_prob_BV = decoding.step()
    (sentences, width), words = total_Sw.shape, log_prob_BV.shape[1]
    before_B1 = torch.from_numpy(total_Sw).to(log_prob_BV.device).view(-1, 1)
    total_SX = (log_prob_BV + before_B1.to(log_prob_BV.dtype)).view(sentences, width, words)
    if must_end_S.any():
        is_word_V = torch.arange(words, device=log_prob_BV.device) != END
        must_end_S11 = torch.from_numpy(must_end_S).to(log_prob_BV.device)[:, None, None]
        total_SX = total_SX.masked_fill(must_end_S11 & is_word_V, -torch.inf)
    best = total_SX.view(sentences, -1).topk(min(2 * beam, width * words))
    row_SC = best.indices // words + width * torch.arange(sentences, device=log_prob_BV.device)[:, None]
    word_SC = best.indices % words
    # The candidates are chosen in 32 bits, their scores summed in 64, as those of pairs are.
    exact_SC = before_B1[row_SC, 0] + log_prob_BV[row_SC, word_SC].double()
    total_SC = decoding.to_cpu(exact_SC.masked_fill(torch.isneginf(best.values), -torch.inf))
    columns = zip(row_SC.tolist(), word_SC.tolist(), total_SC.tolist(), strict=True)
    return [list(map(_Candidate, *column)) for column in columns]


def draw_translations(
    decoding: Decoding, config: SearchConfig, randoms: Sequence[np.random.Generator]
) -> list[list[Hypothesis]]:
    """Draw `n_best` translations of each source from p(y_t | y_<t, x); return the distinct ones, most frequent first.

    Samples with a common prefix share its computation: a multinomial draw per distinct prefix gives the number of
    samples for each next word. Each sentence has its own generator, so that its samples do not depend on the others.
    """
    longest_S = config.longest(decoding.source_words_S)
    found: list[list[Hypothesis]] = [[] for _ in longest_S]
    times, totals = [config.n_best] * len(longest_S), [0.0] * len(longest_S)
    length = 0
    while times:
        unfinished: list[tuple[int, int, int, float]] = []
        for row, log_p_V in enumerate(decoding.to_cpu(decoding.step())):
            source = int(decoding.source_B[row])
            must_end = longest_S[source] == length
            drawn_V = _draw(log_p_V, times[row], config.temperature, randoms[source], must_end=must_end)
            for word in np.flatnonzero(drawn_V).tolist():
                count, total = int(drawn_V[word]), totals[row] + float(log_p_V[word])
                if word == END:
                    found[source].append(decoding.finish(row, total, config, count))
                else:
                    unfinished.append((row, word, count, total))
        times, totals = [one[2] for one in unfinished], [one[3] for one in unfinished]
        decoding.advance(*(np.array([one[column] for one in unfinished], np.int64) for column in (0, 1)))
        length += 1
    return [sorted(some, key=lambda one: (-one.times, -one.log_prob)) for some in found]


def _draw(
    log_p_V: NDArray[np.float64], number: int, temperature: float, random: np.random.Generator, *, must_end: bool
) -> NDArray[np.int64]:
    """Return the number of samples for each next word, [V]."""
    if must_end:
        return np.where(np.arange(len(log_p_V)) == END, number, 0)
    p_V = np.exp((log_p_V - log_p_V.max()) / temperature)
    return random.multinomial(number, p_V / p_V.sum())
