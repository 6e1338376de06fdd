"""The scoring engine: exact log-probabilities of phrase pairs, each distinct computation once.

A chunk of pairs is cut into batches of neighbours. In each batch every distinct source phrase is encoded once,
every distinct prefix of source and target costs one step of its network, what depends on the source alone is
hoisted out of the decoder, and there is no padding; see `nn/prefix_tree.py` and `nn/softmax.py`.

Legend: P pairs, M networks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Generic, Literal, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from phrasescore.device import Device, Precision, choose_device, settle_memory
from phrasescore.errors import UserError
from phrasescore.log_probs import require_log_probs
from phrasescore.model_folder import KIND, TrainedModel, load_again, load_model
from phrasescore.nn.batch import PairBatch
from phrasescore.pairs import Direction, orient
from phrasescore.phrases import Phrases, PlacedPhrases, offsets_of
from phrasescore.plugins import load_plugins, loaded_plugins
from phrasescore.scoring.given_pairs import GivenPairs, clean_pairs, clean_places, clean_sentence
from phrasescore.scoring.scores import Scores
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.text import chunks
from phrasescore.transfer import fetch
from phrasescore.vocabulary import UNKNOWN
from phrasescore.workers import Shared, Stored

T = TypeVar("T", bound=np.generic)
ScorerT = TypeVar("ScorerT", bound="Scorer")

_PAIRS_AT_ONCE = 8192
_BATCH_PAIRS = {"cpu": 4096, "cuda": 65536}
_SYMBOLS_A_PAIR = 12
"""Symbols of a batch for each pair it may have. Phrase pairs have fewer; of longer pairs a batch has fewer."""
_SYMBOL_UNITS = {"cpu": 1 << 25, "cuda": 1 << 29}
"""Symbols of a batch times hidden units, at most: each takes some 30 bytes."""
_BYTES_A_SYMBOL_UNIT = 128
"""What a GPU must have for each, so that a batch takes a quarter of it."""


@dataclass(frozen=True)
class EncodedPairs:
    """Pairs as ids, equal sources next to each other."""

    sources: Phrases | PlacedPhrases
    """The distinct sources, or their places, as the network sees them."""
    source_of_pair: NDArray[np.int64]
    targets: Phrases
    order: NDArray[np.int64] | None
    """Where each pair stood in the input; None if they were not moved."""

    def __len__(self) -> int:
        return len(self.targets)


@dataclass(frozen=True)
class Loading(Generic[ScorerT]):
    """How to load a scorer where another process is."""

    kind: type[ScorerT]
    networks: tuple[Stored, ...]
    device: str
    precision: Literal["fp32", "bf16"]
    plugins: tuple[Path, ...]

    def __call__(self) -> ScorerT:
        """Load it.

        Raises:
            UserError: a network is not to be seen from there, or is another one now.
        """
        settle_memory()
        load_plugins(self.plugins)
        models = [load_again(network, load_model) for network in self.networks]
        device = choose_device(self.device, self.precision).of_this_process()
        return self.kind(models[0], device, models[1:])


class Scorer:
    """Scores phrase pairs with a trained network, or with several: then a score is the mean of theirs."""

    kind = KIND

    def __init__(self, model: TrainedModel, device: Device, others: Sequence[TrainedModel] = ()) -> None:
        """Move the networks to the device.

        Args:
            model: a trained network.
            device: where and how precisely to compute.
            others: networks with the same vocabularies and direction, to take the mean ln p of all.
        """
        self._loading: Loading[Self] | None = None
        self.model = model
        self.models = (model, *others)
        self.device = device
        self.networks = [one.network.to(device.torch_device) for one in self.models]
        self._multiply_in(device.product_dtype)
        self.batch_pairs = _BATCH_PAIRS[device.torch_device.type]
        widest = max(network.config.hidden for network in self.networks)
        self._most_symbols = _symbol_units(device.torch_device) // widest

    @classmethod
    def load(
        cls,
        *folders: str | Path,
        device: str = "auto",
        precision: Precision = "auto",
        direction: Direction | None = None,
    ) -> Self:
        """Load a trained network, or several: then a score is the mean of theirs.

        Args:
            folders: that `train` wrote.
            device: `auto`, `cpu`, `cuda` or `cuda:N`.
            precision: of matrix products.
            direction: that the networks must have been trained for; None for any.

        Raises:
            UserError: no folder is given, one holds no network that can be used, is of another direction or knows
                other words than the first, or the device does not exist.
        """
        if not folders:
            raise UserError("Scorer.load(): no model folder is given; give one that `phrasescore train` wrote")
        chosen = choose_device(device, precision)
        models = [load_model(Path(folder)) for folder in folders]
        _require_alike(models, direction)
        scorer = cls(models[0], chosen, models[1:])
        scorer._loading = Loading(
            cls,
            tuple(model.stored for model in models),
            str(chosen.torch_device),
            chosen.precision,
            tuple(Path(path) for path in loaded_plugins()),
        )
        return scorer

    @property
    def factors(self) -> Factors:
        """Which factors of a table's words make the words of the networks."""
        return self.model.factors or SURFACE

    def shared(self) -> Shared[Self]:
        """Return what a task takes of it: networks are loaded again where the task is done.

        That holds for one that was loaded from folders. Another one is sent as it is.
        """
        return Shared(self, self._loading)

    @property
    def note(self) -> str | None:
        """What to say before phrases are scored, or texts translated, without sentences that they stand in."""
        if not any(network.config.in_context for network in self.networks):
            return None
        return (
            f"{self.origin}: was trained on phrases in their sentences, and sees them alone here; "
            "`phrasescore-smt tune --in-context` shows it the sentences"
        )

    @property
    def origin(self) -> str:
        """What to call the networks in messages."""
        return ", ".join(str(model.folder) for model in self.models)

    def score(self, pairs: GivenPairs) -> NDArray[np.float64]:
        """Return ln p(target | source), end symbol included, of each pair, a source and a target phrase.

        A natural logarithm; [P]. Of a pandas DataFrame the columns `source` and `target` are the pairs. Blanks separate
        words, as they are in the table that the network was trained on; of factored words the factors count that it was
        trained on. Of networks for source-given-target it is ln p(source | target). Networks that were trained on
        phrases in their sentences see the phrase alone.

        Raises:
            TypeError: they are no pairs of texts.
            UserError: a text cannot be a phrase, a source has no words, or a network is damaged.
        """
        found = [np.zeros(0)]
        for some in chunks(clean_pairs(pairs, self.model.factors), max(_PAIRS_AT_ONCE, self.batch_pairs)):
            scores = self.score_encoded(self.encode([source for source, _ in some], [target for _, target in some]))
            found.append(scores.log_prob)
        return np.concatenate(found)

    def score_in_context(
        self, sentence: str | bytes, phrases: Sequence[tuple[tuple[int, int], str | bytes]]
    ) -> NDArray[np.float64]:
        """Return ln p(target | source phrase, its sentence), end symbol included, of each phrase of a sentence, [P].

        A natural logarithm.

        Args:
            sentence: blanks separate words.
            phrases: where a phrase begins and, exclusively, ends in it, counted in words from 0; and its translation.

        Raises:
            TypeError: sentence or phrases are no texts, or a place is not two whole numbers.
            UserError: a phrase has no words or is not in the sentence, a text cannot be a phrase, or a network is
                damaged or was trained on phrases alone.
        """
        self.require_in_context()
        words = clean_sentence(sentence)
        length = words.count(b" ") + 1 if words else 0
        placed = list(clean_places(phrases, length))
        spans = np.array([span for span, _ in placed], np.int64).reshape(-1, 2)
        places = np.zeros(len(placed), np.int64), spans[:, 0], spans[:, 1]
        targets = [target for _, target in placed]
        return self.score_encoded(self.encode_places([words], places, np.arange(len(placed)), targets)).log_prob

    def require_in_context(self) -> None:
        """Check that the networks read sentences.

        Raises:
            UserError: one was not trained to.
        """
        for model in self.models:
            if not model.network.config.in_context:
                raise UserError(
                    f"{model.folder}: was trained on phrases alone, and what it would say of them in sentences means "
                    "nothing; give a network that `phrasescore train --alignment` trained"
                )

    def encode(self, sources: list[bytes], targets: list[bytes]) -> EncodedPairs:
        """Turn the phrases of a table into ids; cheap, and safe to do in another thread."""
        sources, targets = orient((sources, targets), self.model.direction)
        order = None
        distinct, sizes = _runs(sources)
        if len(set(distinct)) < len(distinct):
            # The table is not grouped by source: bring equal sources together.
            order = np.array(sorted(range(len(sources)), key=sources.__getitem__), np.int64)
            sources, targets = [sources[i] for i in order], [targets[i] for i in order]
            distinct, sizes = _runs(sources)
        return EncodedPairs(
            sources=self.model.source_vocabulary.encode(distinct),
            source_of_pair=np.repeat(np.arange(len(distinct)), sizes),
            targets=self.model.target_vocabulary.encode(targets),
            order=order,
        )

    def encode_places(
        self,
        sentences: Sequence[bytes],
        places: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]],
        place_of_pair: NDArray[np.int64],
        targets: list[bytes],
    ) -> EncodedPairs:
        """Turn phrases that stand in sentences, and translations of them, into ids.

        Args:
            sentences: tokenised, with one blank between words.
            places: of each phrase the sentence, and where in it it begins and ends, from 0; sentence by sentence.
            place_of_pair: for each translation the phrase that it translates, in rising order.
            targets: the translations.
        """
        return EncodedPairs(
            sources=PlacedPhrases(self.model.source_vocabulary.encode(sentences), *places),
            source_of_pair=place_of_pair,
            targets=self.model.target_vocabulary.encode(targets),
            order=None,
        )

    def score_encoded(self, pairs: EncodedPairs) -> Scores:
        """Score encoded pairs.

        Raises:
            UserError: a network gives a score that is no log-probability.
        """
        return replace(self.count_encoded(pairs), log_prob=_put_back(self._score_all(pairs), pairs.order))

    def count_encoded(self, pairs: EncodedPairs) -> Scores:
        """Return what is known of encoded pairs without asking a network."""
        words = int(pairs.sources.lengths[pairs.source_of_pair].sum()), int(pairs.targets.lengths.sum())
        return Scores(
            log_prob=np.full(len(pairs), np.nan),
            symbols=_put_back(pairs.targets.lengths + 1, pairs.order),
            unknown_source=_put_back(_count_unknown(pairs.sources)[pairs.source_of_pair], pairs.order),
            unknown_target=_put_back(_count_unknown(pairs.targets), pairs.order),
            direction=self.model.direction,
            words=orient(words, self.model.direction),
        )

    def _score_all(self, pairs: EncodedPairs) -> NDArray[np.float64]:
        while True:
            try:
                return np.concatenate([np.zeros(0), *self._scored(self.batches(pairs))])
            except torch.OutOfMemoryError:
                if self.batch_pairs == 1:
                    raise
                self.batch_pairs //= 2

    def _scored(self, batches: Iterable[PairBatch]) -> Iterator[NDArray[np.float64]]:
        """Yield ln p of the pairs of each batch.

        While a GPU computes one batch the next one is made; only then are the scores of the first waited for.
        """
        started: deque[Callable[[], NDArray[np.float64]]] = deque()
        for batch in batches:
            started.append(self._start(batch))
            if len(started) > 1:
                yield started.popleft()()
        while started:
            yield started.popleft()()

    def batches(self, pairs: EncodedPairs) -> Iterator[PairBatch]:
        """Yield the pairs in batches of neighbours, ready to go to the device."""
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
        """Return how many pairs from one on make a batch: what memory holds of phrases, or of whole sentences."""
        source_P = pairs.source_of_pair[start : start + self.batch_pairs]
        targets = np.cumsum(pairs.targets.lengths[start : start + self.batch_pairs] + 1)
        # Attention wants the sources side by side, each as long as the longest.
        longest = np.maximum.accumulate(pairs.sources.lengths[source_P] + 1)
        read_S = pairs.sources.read_with[source_P[0] : source_P[-1] + 1].cumsum()
        symbols = targets + (source_P - source_P[0] + 1) * longest + read_S[source_P - source_P[0]]
        most = min(_SYMBOLS_A_PAIR * self.batch_pairs, self._most_symbols)
        return max(1, int(np.searchsorted(symbols, most, side="right")))

    # Not in inference mode, where autocast narrows the weights anew for each step.
    @torch.no_grad()
    def _start(self, batch: PairBatch) -> Callable[[], NDArray[np.float64]]:
        """Begin to compute ln p of each pair of a batch, in 64-bit sums; return what waits for them.

        That raises a UserError if a network gives a score that is no log-probability.
        """
        placed = batch.to(self.device.torch_device)
        fetched = fetch(self._log_probs(placed))

        @torch.inference_mode()
        def finish() -> NDArray[np.float64]:
            scores_MP = fetched()
            if self.device.product_dtype is not None and not bool(scores_MP.isfinite().all()):
                # A GPU can do so many vectors again whose probabilities are nearly 0; see `nn/softmax.py`.
                self._multiply_in(None)
                scores_MP = self._log_probs(placed).cpu()
                self._multiply_in(self.device.product_dtype)
            symbols_P = np.bincount(batch.pair_I.numpy(), minlength=batch.pairs)
            for model, scores_P in zip(self.models, scores_MP.numpy(), strict=True):
                require_log_probs(scores_P, model.folder, symbols_P)
            scores: NDArray[np.float64] = scores_MP.mean(dim=0).numpy()
            return scores

        return finish

    def _log_probs(self, batch: PairBatch) -> Tensor:
        """Return ln p of each pair of a batch by each network, [M, P]."""
        with self.device.products():
            return torch.stack([network.pair_scores(batch) for network in self.networks])

    def _multiply_in(self, dtype: torch.dtype | None) -> None:
        for network in self.networks:
            network.multiply_in(dtype)


def _symbol_units(device: torch.device) -> int:
    """Return how many symbols times hidden units a batch may have, which depends on the device alone."""
    most = _SYMBOL_UNITS[device.type]
    if device.type == "cuda":
        most = min(most, torch.cuda.get_device_properties(device).total_memory // _BYTES_A_SYMBOL_UNIT)
    return most


def _require_alike(models: Sequence[TrainedModel], direction: Direction | None) -> None:
    """Check that networks are of a direction, or all of the same, and know the same words."""
    first = models[0]
    for model in models:
        if direction is not None and direction != model.direction:
            raise UserError(
                f"{model.folder}: was trained for {model.direction}; give that as the direction, or a network "
                f"trained for {direction}"
            )
        if model.direction != first.direction:
            raise UserError(
                f"{model.folder}: was trained for {model.direction}, {first.folder} for {first.direction}; average "
                "networks of one direction only"
            )
        if (model.factors or SURFACE) != (first.factors or SURFACE):
            raise UserError(
                f"{model.folder}: was trained with --factor {model.factors or SURFACE}, {first.folder} with "
                f"{first.factors or SURFACE}; average networks of the same factors only"
            )
        if model.vocabulary_digests != first.vocabulary_digests:
            raise UserError(
                f"{model.folder}: knows other words than {first.folder}; average networks trained on the same table "
                "only"
            )


def _runs(phrases: list[bytes]) -> tuple[list[bytes], list[int]]:
    """Return the phrases without repetitions of neighbours, and how often each stood there."""
    runs = [(phrase, len(list(run))) for phrase, run in groupby(phrases)]
    return [phrase for phrase, _ in runs], [size for _, size in runs]


def _count_unknown(phrases: Phrases | PlacedPhrases) -> NDArray[np.int64]:
    if isinstance(phrases, PlacedPhrases):
        phrases = phrases.alone()
    unknown = offsets_of(phrases.ids == UNKNOWN)
    counts: NDArray[np.int64] = unknown[phrases.offsets[1:]] - unknown[phrases.offsets[:-1]]
    return counts


def _put_back(column: NDArray[T], order: NDArray[np.int64] | None) -> NDArray[T]:
    """Return a column in the order of the input."""
    if order is None:
        return column
    restored = np.empty_like(column)
    restored[order] = column
    return restored
