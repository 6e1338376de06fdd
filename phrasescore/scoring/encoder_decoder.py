"""The encoder-decoder as a scorer: exact log-probabilities of phrase pairs without redundant computations.

Occurrences are divided into batches of neighbours. In each batch every distinct source phrase is encoded once, every
distinct prefix of source and target takes one step of its network, computations that depend only on the source are
hoisted out of the decoder, and there is no padding; see `nn/prefix_tree.py` and `nn/softmax.py`.

Legend: N occurrences, P pairs in the order of their ids, K columns, M networks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device, Precision, choose_device, fetch, on_device
from phrasescore.errors import UserError
from phrasescore.model_files import require_finite, require_log_probs
from phrasescore.model_folder import TrainedModel, load_model
from phrasescore.nn.batch import PairBatch
from phrasescore.pairs import input_and_output
from phrasescore.phrases import Phrases, PhrasesInSentences, offsets_of
from phrasescore.scoring.columns import PER_WORD, SCORE, UNKNOWN_TARGET, UNNORMALISED, Column
from phrasescore.scoring.occurrences import Context, Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores, fingerprint_of
from phrasescore.table.entry import SURFACE
from phrasescore.vocabulary import UNKNOWN, WordCounts

_BATCH_PAIRS = {"cpu": 4096, "cuda": 65536}
_SYMBOLS_A_PAIR = 12
"""Symbols of a batch per pair of its maximum size. Phrase pairs have fewer; batches of longer pairs are smaller."""
_SYMBOL_UNITS = {"cpu": 1 << 25, "cuda": 1 << 29}
"""Maximum of symbols of a batch times hidden units; each takes about 30 bytes."""
_BYTES_A_SYMBOL_UNIT = 128
"""GPU memory per symbol and hidden unit, so that a batch takes a quarter of the memory."""


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids, with equal sources adjacent."""

    sources: Phrases | PhrasesInSentences
    """The distinct sources, or their positions in sentences, as the input of the network."""
    source_of_pair: NDArray[np.int64]
    targets: Phrases
    order: NDArray[np.int64] | None
    """The input index of each pair; None if the order is unchanged."""

    def __len__(self) -> int:
        return len(self.targets)

    def unknown_sources(self) -> NDArray[np.int64]:
        """Return the number of source words of each pair that are not in the vocabulary."""
        alone = self.sources.alone() if isinstance(self.sources, PhrasesInSentences) else self.sources
        return _count_unknown(alone)[self.source_of_pair]


class EncoderDecoderScorer(PhraseScorer):
    """A trained encoder-decoder, or the mean of several; in context, a lone phrase is its own sentence."""

    def __init__(self, model: TrainedModel, device: Device, others: Sequence[TrainedModel] = ()) -> None:
        """Move the networks to the device; a score is the mean ln p of `model` and `others`, which must match it."""
        self.model = model
        self.models = (model, *others)
        super().__init__([one.folder for one in self.models], device)
        self.direction = model.direction
        self.networks = [one.network.to(device.torch_device) for one in self.models]
        self.in_context = all(network.config.in_context for network in self.networks)
        self.columns = (SCORE, PER_WORD, UNKNOWN_TARGET)
        if all(network.config.self_normalise for network in self.networks):
            self.columns += (UNNORMALISED,)
        self.unit = model.unit
        self.factors = model.factors
        self._multiply_in(device.product_dtype)
        self.batch_pairs = _BATCH_PAIRS[device.torch_device.type]
        widest = max(network.config.hidden for network in self.networks)
        most = _SYMBOL_UNITS[device.torch_device.type]
        if device.torch_device.type == "cuda":
            memory: int = torch.cuda.get_device_properties(device.torch_device).total_memory
            most = min(most, memory // _BYTES_A_SYMBOL_UNIT)
        self._most_symbols = most // widest

    @classmethod
    def load(cls, folders: Sequence[Path], device: str = "auto", precision: Precision = "auto") -> Self:
        chosen = choose_device(device, precision).of_this_process()
        models = [load_model(folder) for folder in folders]
        _require_compatible(models)
        return cls(models[0], chosen, models[1:])

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([model.weights_digest for model in self.models])

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        pairs, columns = self.encode(occurrences), columns or self.columns[:1]
        source_N, target_N = input_and_output((pairs.unknown_sources(), _count_unknown(pairs.targets)), self.direction)
        values: dict[Column, NDArray[Any]] = {UNKNOWN_TARGET: target_N}
        if UNNORMALISED in columns:
            values[UNNORMALISED] = self._scores_of(pairs, unnormalised=True)
        if not values.keys() >= {*columns}:
            log_prob_N = self._scores_of(pairs)
            values |= {SCORE: log_prob_N, PER_WORD: log_prob_N / (pairs.targets.lengths + 1)}
        values_NK = np.stack([values[column] for column in columns], axis=1).astype(np.float64)
        words = input_and_output(
            (int(pairs.sources.lengths[pairs.source_of_pair].sum()), int(pairs.targets.lengths.sum())), self.direction
        )
        counts = WordCounts(words[0], int(source_N.sum()), words[1], int(target_N.sum()))
        if pairs.order is not None:
            values_NK[pairs.order] = values_NK.copy()
        return Scores(values_NK, counts)

    def encode(self, occurrences: Occurrences) -> EncodedPairs:
        """Return the word ids of occurrences, with equal sources adjacent."""
        if occurrences.context is not None and self.in_context:
            return self._encode_in_context(occurrences.targets, occurrences.context)
        sources, targets = map(list, input_and_output((occurrences.sources, occurrences.targets), self.direction))
        order = None
        distinct, sizes = _runs(sources)
        if len(set(distinct)) < len(distinct):
            # The table is not grouped by source, so sort the sources.
            order = np.array(sorted(range(len(sources)), key=sources.__getitem__), np.int64)
            sources, targets = [sources[i] for i in order], [targets[i] for i in order]
            distinct, sizes = _runs(sources)
        return EncodedPairs(
            sources=self.model.source_vocabulary.encode(distinct),
            source_of_pair=np.repeat(np.arange(len(distinct)), sizes),
            targets=self.model.target_vocabulary.encode(targets),
            order=order,
        )

    def _encode_in_context(self, targets: Sequence[bytes], context: Context) -> EncodedPairs:
        """Return the word ids of occurrences in sentences; neighbours at the same position share it."""
        place_N3 = np.stack([context.sentence_N, context.start_N, context.end_N], axis=1)
        is_first_N = np.any(np.diff(place_N3, axis=0, prepend=-1) != 0, axis=1)
        place_P3 = place_N3[is_first_N]
        return EncodedPairs(
            sources=PhrasesInSentences(self.model.source_vocabulary.encode(context.sentences), *place_P3.T),
            source_of_pair=np.cumsum(is_first_N) - 1,
            targets=self.model.target_vocabulary.encode(targets),
            order=None,
        )

    def _scores_of(self, pairs: EncodedPairs, *, unnormalised: bool = False) -> NDArray[np.float64]:
        """Return ln p or the unnormalised score of each pair, the end symbol included, in the order of the ids."""
        while True:
            try:
                return np.concatenate([np.zeros(0), *self._scored(self.batches(pairs), unnormalised)])
            except torch.OutOfMemoryError:
                if self.batch_pairs == 1:
                    raise
                self.batch_pairs //= 2

    def _scored(self, batches: Iterable[PairBatch], unnormalised: bool) -> Iterator[NDArray[np.float64]]:
        """Yield the scores of the pairs of each batch; the CPU prepares the next batch while a GPU computes."""
        started: deque[Callable[[], NDArray[np.float64]]] = deque()
        for batch in batches:
            started.append(self._start(batch, unnormalised))
            if len(started) > 1:
                yield started.popleft()()
        while started:
            yield started.popleft()()

    def batches(self, pairs: EncodedPairs) -> Iterator[PairBatch]:
        """Yield batches of neighbouring pairs, ready for transfer to the device."""
        start = 0
        while start < len(pairs):
            source_of_pair = pairs.source_of_pair[start : start + self._batch_size(pairs, start)]
            first, last = source_of_pair[0], source_of_pair[-1]
            batch = PairBatch.sharing(
                pairs.sources.take(np.arange(first, last + 1)),
                source_of_pair - first,
                pairs.targets.take(np.arange(start, start + len(source_of_pair))),
            )
            for network in self.networks:
                network.prepare(batch)
            yield batch
            start += len(source_of_pair)

    def _batch_size(self, pairs: EncodedPairs, start: int) -> int:
        """Return the number of pairs of the batch at `start`, limited by the memory for phrases or whole sentences."""
        source_P = pairs.source_of_pair[start : start + self.batch_pairs]
        targets = np.cumsum(pairs.targets.lengths[start : start + self.batch_pairs] + 1)
        # Attention pads the sources to the length of the longest.
        longest = np.maximum.accumulate(pairs.sources.lengths[source_P] + 1)
        read_S = pairs.sources.read_with[source_P[0] : source_P[-1] + 1].cumsum()
        symbols = targets + (source_P - source_P[0] + 1) * longest + read_S[source_P - source_P[0]]
        most = min(_SYMBOLS_A_PAIR * self.batch_pairs, self._most_symbols)
        return max(1, int(np.searchsorted(symbols, most, side="right")))

    # Not inference mode, in which autocast converts the weights again in each step.
    @torch.no_grad()
    def _start(self, batch: PairBatch, unnormalised: bool) -> Callable[[], NDArray[np.float64]]:
        """Start to compute the score of each pair, in 64-bit sums; return a function that waits for the result."""
        placed = on_device(batch, self.device.torch_device)
        fetched = fetch(self._scores(placed, unnormalised))

        @torch.inference_mode()
        def finish() -> NDArray[np.float64]:
            scores_MP = fetched()
            if self.device.product_dtype is not None and not bool(scores_MP.isfinite().all()):
                # On a GPU `nn/softmax.py` recomputes a limited number of rows whose Z overflows. Recompute the batch
                # with 32-bit products if there are more.
                self._multiply_in(None)
                scores_MP = self._scores(placed, unnormalised).cpu()
                self._multiply_in(self.device.product_dtype)
            symbols_P = np.bincount(batch.pair_I.numpy(), minlength=batch.pairs)
            for model, scores_P in zip(self.models, scores_MP.numpy(), strict=True):
                if unnormalised:
                    require_finite(scores_P, model.folder)
                else:
                    require_log_probs(scores_P, model.folder, symbols_P)
            scores: NDArray[np.float64] = scores_MP.mean(dim=0).numpy()
            return scores

        return finish

    def _scores(self, batch: PairBatch, unnormalised: bool) -> Tensor:
        with self.device.products():
            return torch.stack([network.pair_scores(batch, unnormalised=unnormalised) for network in self.networks])

    def _multiply_in(self, dtype: torch.dtype | None) -> None:
        for network in self.networks:
            network.softmax.product_dtype = dtype


def _require_compatible(models: Sequence[TrainedModel]) -> None:
    first = models[0]
    for model in models:
        for name, one, other in (
            ("direction", model.direction, first.direction),
            ("kind of training data", model.network.config.in_context, first.network.config.in_context),
            ("choice of factors", model.factors or SURFACE, first.factors or SURFACE),
            ("vocabulary", model.vocabulary_digests, first.vocabulary_digests),
        ):
            if one != other:
                raise UserError(
                    f"{model.folder}: has another {name} than {first.folder}; average only networks of one direction "
                    "that were trained on the same data"
                )


def _runs(phrases: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Return the phrases without adjacent duplicates, and the length of each run."""
    runs = [(phrase, len(list(run))) for phrase, run in groupby(phrases)]
    return [phrase for phrase, _ in runs], [size for _, size in runs]


def _count_unknown(phrases: Phrases) -> NDArray[np.int64]:
    unknown = offsets_of(phrases.ids == UNKNOWN)
    counts: NDArray[np.int64] = unknown[phrases.offsets[1:]] - unknown[phrases.offsets[:-1]]
    return counts
