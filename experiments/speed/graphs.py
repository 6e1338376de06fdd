"""Updates as CUDA graphs: a training on phrase pairs whose batches are padded, so that a few shapes are all there are.

A GPU waits for the launches of an update's kernels, some hundreds for each. A graph is launched as a whole, but its
shapes are fixed: there is one for each pair of longest source and longest target. Nothing here is used by `train`.

Legend: P pairs, S and T words of the longest source and target, I predicted symbols, n pairs that are real.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.encoder import Encoder
from phrasescore.nn.prefix_tree import keep_apart
from phrasescore.nn.sources import Reading, SourceBatch
from phrasescore.pairs import PhrasePairs
from phrasescore.phrases import Phrases
from phrasescore.structures import with_each
from phrasescore.training.loop import Trainer
from phrasescore.training.phrase_pairs import PhrasePairTask
from phrasescore.training.task import Examples
from phrasescore.transfer import on_device, pack, unpack
from phrasescore.vocabulary import END

_EAGER = 3
"""Updates that are made without a graph first, in which libraries and the optimiser take the memory they want."""


@dataclass(frozen=True)
class PaddedBatch:
    """Pairs that all have as many words; what was added weighs nothing."""

    pairs: PairBatch
    weight_I: Tensor
    """The weight of each symbol's pair, divided by n; 0 for padding."""

    @classmethod
    def of(cls, pairs: PhrasePairs, rows: int, encoder: Encoder) -> PaddedBatch:
        """Pad pairs to the longest of each side, and to a number of pairs.

        Args:
            pairs: in any order.
            rows: P, at least as many as there are pairs.
            encoder: which is to read the sources.
        """
        sources, targets = (_side_by_side(side, rows) for side in (pairs.source, pairs.target))
        batch = PairBatch.apart(sources, targets)
        lengths_P = np.pad(pairs.source.lengths, (0, rows - len(pairs)))
        _read_padded(batch.sources, lengths_P + 1, encoder)
        # Each target is followed by the end symbol, and that by more of them.
        is_real_PI = np.arange(targets.lengths[0] + 1) <= pairs.target.lengths[:, None]
        weight_PI = np.zeros((rows, is_real_PI.shape[1]))
        weight_PI[: len(pairs)] = is_real_PI * (pairs.weight[:, None] / np.float64(len(pairs)))
        dtype = encoder.embedding.words.weight.dtype
        return cls(batch, torch.from_numpy(weight_PI.ravel()).to(dtype))


def _side_by_side(phrases: Phrases, rows: int) -> Phrases:
    """Return phrases that are as long as the longest, and so many, filled up with end symbols."""
    longest = int(phrases.lengths.max())
    ids = np.full((rows, longest), END, np.int32)
    ids[: len(phrases)][np.arange(longest) < phrases.lengths[:, None]] = phrases.ids
    return Phrases(ids.ravel(), np.arange(rows + 1) * longest)


def _read_padded(sources: SourceBatch, lengths_P: NDArray[np.int64], encoder: Encoder) -> None:
    """Let sources be read in the orders of an encoder, with the padding behind what is real, end symbol included."""
    rows, longest = len(sources), int(sources.closed.lengths[0])
    length_P1, place_1L = lengths_P[:, None], np.arange(longest)[None]
    symbol_PL = np.arange(rows * longest).reshape(rows, longest)
    is_real_PL = place_1L < length_P1
    for backward in (False, True)[: len(encoder.directions)]:
        place_PL = np.where(is_real_PL, length_P1 - 1 - place_1L, place_1L) if backward else place_1L
        if encoder.reverse:
            place_PL = np.where(place_PL < length_P1 - 1, length_P1 - 2 - place_PL, place_PL)
        read_I = (np.arange(rows)[:, None] * longest + place_PL).ravel()
        tree = keep_apart(Phrases(sources.closed.ids[read_I], sources.closed.offsets))
        path_I = tree.path_I.numpy()
        node_I, symbol_N = np.empty_like(path_I), np.empty_like(path_I)
        node_I[read_I], symbol_N[path_I - rows] = path_I, read_I
        end_P = path_I[np.arange(rows) * longest + lengths_P - 1]
        reading = Reading(tree, rows, *map(torch.from_numpy, (node_I, end_P, symbol_N)))
        sources.made[encoder.reverse, backward, False] = reading
    if encoder.annotate:
        sources.made["grid"] = torch.from_numpy(symbol_PL), torch.from_numpy(is_real_PL)


class PaddedUpdates:
    """The updates of a trainer that is alone, without dropout and with full teacher forcing, from padded batches."""

    def __init__(self, trainer: Trainer[PhrasePairTask]) -> None:
        """Take over a trainer's network and optimiser."""
        self.task, self.config, self.optimiser = trainer.task, trainer.config, trainer.optimiser
        self.device = trainer.device

    def batch(self, examples: Examples) -> PaddedBatch:
        """Return some examples as a batch on the CPU."""
        return PaddedBatch.of(self.task.pairs.take(examples), self.config.batch_size, self.task.network.encoder)

    def update(self, batch: PaddedBatch) -> Tensor:
        """Follow the gradient of the mean loss of a batch on the device; return that loss."""
        self.optimiser.zero_grad(set_to_none=True)
        with self.device.products():
            loss = -(self.task.network(batch.pairs) * batch.weight_I).sum()
            loss.backward()  # type: ignore[no-untyped-call]
            if self.config.clip:
                torch.nn.utils.clip_grad_norm_(self.task.network.parameters(), self.config.clip, foreach=True)
            self.optimiser.step()
        return loss.detach()


class GraphedUpdates(PaddedUpdates):
    """The same on a GPU, each shape captured as a graph. Never run yet: no GPU was at hand."""

    def __init__(self, trainer: Trainer[PhrasePairTask]) -> None:
        """Take over a trainer's network and optimiser, whose learning rate stays as it is."""
        super().__init__(trainer)
        for group in self.optimiser.param_groups:
            group["capturable"] = True
            group["lr"] = torch.tensor(self.config.learning_rate, device=self.device.torch_device)
        self._graphs: dict[tuple[int, int], tuple[torch.cuda.CUDAGraph, Tensor, Tensor]] = {}
        self._pool = torch.cuda.graph_pool_handle()
        self._eager = 0

    def __call__(self, examples: Examples) -> Tensor:
        """Update from some examples; return their mean loss, which the next update of the same shape overwrites."""
        batch = self.batch(examples)
        if self._eager < _EAGER:
            self._eager += 1
            return self._aside(on_device(batch, self.device.torch_device))
        tensors: list[Tensor] = []
        with_each(Tensor, tensors.append, batch)
        packed = pack(tensors)
        shape = int(batch.pairs.sources.closed.lengths[0]), len(batch.weight_I)
        if shape not in self._graphs:
            self._graphs[shape] = self._captured(batch, tensors, packed)
        graph, inputs, loss = self._graphs[shape]
        inputs.copy_(packed, non_blocking=True)
        graph.replay()
        return loss

    def _aside(self, batch: PaddedBatch) -> Tensor:
        """Update without a graph, in a stream of its own as capturing wants it."""
        stream = torch.cuda.Stream(self.device.torch_device)
        stream.wait_stream(torch.cuda.current_stream(self.device.torch_device))
        with torch.cuda.stream(stream):
            loss = self.update(batch)
        torch.cuda.current_stream(self.device.torch_device).wait_stream(stream)
        return loss

    def _captured(
        self, batch: PaddedBatch, tensors: list[Tensor], packed: Tensor
    ) -> tuple[torch.cuda.CUDAGraph, Tensor, Tensor]:
        """Return the graph of an update, the bytes that it reads the batch from, and the loss that it writes."""
        inputs = packed.to(self.device.torch_device)
        placed = iter(unpack(inputs, tensors))
        there: PaddedBatch = with_each(Tensor, lambda tensor: next(placed), batch)
        self.optimiser.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            loss = self.update(there)
        return graph, inputs, loss
