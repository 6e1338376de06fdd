"""The phrase-pair model: a linear function of sparse features of a phrase pair, trained for expected BLEU (+XBLEU).

    f(source, target) = sum of the weights of the features of the pair; an unknown feature has weight 0

f is a term of a log-linear score, so exp(f) is the column of a phrase table. `moses_integration/expected_bleu` trains
the model. The features of a pair are

TARGET_WORD                 each target word
TARGET_BIGRAM               each two adjacent target words
WORD_PAIR                   each source word with each target word
FIRST_..., LAST_...         words at the phrase boundaries, of either side and of both
..._LENGTH, LENGTHS         numbers of words, of either side and of both

A feature is identified by a 64-bit hash of its kind and the bytes of its words, so no vocabulary is needed. Among a
million features a collision has a probability of 1 in 37 million.

`weights.safetensors` has `keys`, the hashes of the features in rising order, and `weights`, 32-bit floats.

Legend: P pairs, F features with weights, K features of all pairs, N words of one side of all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum, auto
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.model_files import WEIGHTS, read_description, write_description
from phrasescore.model_folder import ModelFolder, open_weights, read_weights, save_tensors
from phrasescore.phrases import Offsets, hash_pairs, offsets_of, ranges
from phrasescore.scoring.columns import EXPECTED_BLEU, Column
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores, fingerprint_of
from phrasescore.words import hash_word, split_words

KIND = "expected-bleu"

Keys = NDArray[np.uint64]
Numbers = NDArray[np.int64]


class Kind(IntEnum):
    """Kinds of features."""

    TARGET_WORD = auto()
    TARGET_BIGRAM = auto()
    WORD_PAIR = auto()
    FIRST_SOURCE_WORD = auto()
    LAST_SOURCE_WORD = auto()
    FIRST_TARGET_WORD = auto()
    LAST_TARGET_WORD = auto()
    FIRST_WORDS = auto()
    LAST_WORDS = auto()
    SOURCE_LENGTH = auto()
    TARGET_LENGTH = auto()
    LENGTHS = auto()


@dataclass(frozen=True)
class Bags:
    """Features of phrase pairs: those of pair i are `keys_K[offsets[i]:offsets[i + 1]]`, with repetitions."""

    keys_K: Keys
    offsets: Offsets

    def __len__(self) -> int:
        return len(self.offsets) - 1


def features_of(sources: Sequence[bytes], targets: Sequence[bytes]) -> Bags:
    """Return the features of phrase pairs; the order within a bag does not depend on the other pairs."""
    parts = list(_features(_Side.of(sources), _Side.of(targets)))
    keys_K, pair_K = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    order = np.argsort(pair_K, kind="stable")
    return Bags(keys_K[order], offsets_of(np.bincount(pair_K, minlength=len(sources))))


@dataclass(frozen=True)
class _Side:
    """Hashes of the words of one side of all pairs."""

    words_N: Keys
    lengths_P: Numbers

    @classmethod
    def of(cls, phrases: Sequence[bytes]) -> Self:
        lists = [split_words(phrase) for phrase in phrases]
        lengths_P = np.fromiter(map(len, lists), np.int64, len(lists))
        hashes = {word: hash_word(word) for words in lists for word in words}
        flat = (hashes[word] for words in lists for word in words)
        return cls(np.fromiter(flat, np.uint64, int(lengths_P.sum())), lengths_P)

    @property
    def starts_P(self) -> Numbers:
        return offsets_of(self.lengths_P)[:-1]

    @property
    def pair_N(self) -> Numbers:
        return np.repeat(np.arange(len(self.lengths_P)), self.lengths_P)

    def first(self, pairs: Numbers) -> Keys:
        return self.words_N[self.starts_P[pairs]]

    def last(self, pairs: Numbers) -> Keys:
        return self.words_N[offsets_of(self.lengths_P)[pairs + 1] - 1]


def _features(source: _Side, target: _Side) -> Iterator[tuple[Keys, Numbers]]:
    """Yield the features of each kind, and the pair of each feature."""
    yield _keys(Kind.TARGET_WORD, target.words_N), target.pair_N
    is_inside = np.diff(target.pair_N) == 0
    bigrams = target.words_N[:-1][is_inside], target.words_N[1:][is_inside]
    yield _keys(Kind.TARGET_BIGRAM, *bigrams), target.pair_N[1:][is_inside]
    of_each_N = target.lengths_P[source.pair_N]
    with_words = target.words_N[ranges(target.starts_P[source.pair_N], of_each_N)]
    yield _keys(Kind.WORD_PAIR, np.repeat(source.words_N, of_each_N), with_words), np.repeat(source.pair_N, of_each_N)
    has_source, has_target = source.lengths_P > 0, target.lengths_P > 0
    for first, last, side, has_words in (
        (Kind.FIRST_SOURCE_WORD, Kind.LAST_SOURCE_WORD, source, has_source),
        (Kind.FIRST_TARGET_WORD, Kind.LAST_TARGET_WORD, target, has_target),
    ):
        pairs = np.flatnonzero(has_words)
        yield _keys(first, side.first(pairs)), pairs
        yield _keys(last, side.last(pairs)), pairs
    pairs = np.flatnonzero(has_source & has_target)
    yield _keys(Kind.FIRST_WORDS, source.first(pairs), target.first(pairs)), pairs
    yield _keys(Kind.LAST_WORDS, source.last(pairs), target.last(pairs)), pairs
    source_lengths, target_lengths = source.lengths_P.astype(np.uint64), target.lengths_P.astype(np.uint64)
    every = np.arange(len(source_lengths))
    yield _keys(Kind.SOURCE_LENGTH, source_lengths), every
    yield _keys(Kind.TARGET_LENGTH, target_lengths), every
    yield _keys(Kind.LENGTHS, source_lengths, target_lengths), every


def _keys(kind: Kind, first: Keys, second: Keys | None = None) -> Keys:
    """Return the hash of each feature of a kind, from the hashes of its words or its lengths."""
    kinds = np.full(len(first), kind, np.uint64)
    return hash_pairs(hash_pairs(kinds, first), np.zeros(len(first), np.uint64) if second is None else second)


@dataclass(frozen=True)
class PhrasePairModel(ModelFolder):
    """A linear function of features of phrase pairs."""

    keys_F: Keys
    weights_F: NDArray[np.float32]

    def values(self, bags: Bags) -> NDArray[np.float64]:
        """Return f of each pair, [P], summed in the order of its bag, so that it does not depend on other pairs."""
        if not len(self.keys_F):
            return np.zeros(len(bags))
        index_K = np.minimum(np.searchsorted(self.keys_F, bags.keys_K), len(self.keys_F) - 1)
        weight_K = np.where(self.keys_F[index_K] == bags.keys_K, self.weights_F[index_K], 0)
        pair_K = np.repeat(np.arange(len(bags)), np.diff(bags.offsets))
        return np.asarray(np.bincount(pair_K, weight_K, minlength=len(bags)), np.float64)


def save_phrase_pair_model(folder: Path, model: PhrasePairModel, sections: dict[str, Any]) -> None:
    """Write a model into an existing folder; `sections` describe the training."""
    write_description(folder, KIND, {"model": {"features": len(model.keys_F)}, **sections})
    # PyTorch supports few operations on unsigned tensors.
    keys = torch.from_numpy(model.keys_F.view(np.int64))
    save_tensors(folder, {"keys": keys, "weights": torch.from_numpy(model.weights_F)})


def load_phrase_pair_model(folder: Path) -> PhrasePairModel:
    """Read a model folder; a missing, damaged or other file is a UserError."""
    description = read_description(folder, KIND)
    if not (folder / WEIGHTS).exists():
        raise UserError(f"{folder}: lacks {WEIGHTS}; copy the model folder again or train again")
    with open_weights(folder, description) as weights:
        features = description["model"]["features"]
        tensors = read_weights(folder, weights, {"keys": (features,), "weights": (features,)})
        keys_F, weights_F = tensors["keys"].numpy().view(np.uint64), tensors["weights"].numpy()
        return PhrasePairModel(keys_F, weights_F, folder=folder, weights_digest=weights.sha256)


class PhrasePairScorer(PhraseScorer):
    """Scores phrase pairs by a phrase-pair model, or by the mean of several."""

    columns = (EXPECTED_BLEU,)

    def __init__(self, models: Sequence[PhrasePairModel]) -> None:
        super().__init__([model.folder for model in models])
        self.models = tuple(models)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of([model.weights_digest for model in self.models])

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        features = features_of(occurrences.sources, occurrences.targets)
        value_N = np.mean([model.values(features) for model in self.models], axis=0)
        return Scores(np.stack([value_N for _ in columns or self.columns], axis=1))
