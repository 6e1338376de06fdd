"""Phrase pairs as word ids on disk.

A table is read once. The ids lie in flat memory-mapped files. In memory are, of each line, where its two phrases begin,
its number among the distinct pairs and in the order of a pass (8 bytes each, and 4 of a weight by count); while the
table is read, a hash of the pair, its sorted copy and two lengths; and every word of the table. So a hundred million
pairs take about four gigabytes, and the pages in use.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import option
from phrasescore.errors import UsageError, UserError
from phrasescore.files import display_name, full_disk_told
from phrasescore.phrases import Ids, Phrases, offsets_of
from phrasescore.table.factors import SURFACE, Factors
from phrasescore.table.reader import TableReader
from phrasescore.text import Say, Show, counted, silently, unseen
from phrasescore.vocabulary import Vocabulary, count_words
from phrasescore.words import split_words

T = TypeVar("T")
Direction = Literal["target-given-source", "source-given-target"]
Weights = NDArray[np.float32]

_REMAP_IDS = 1 << 22
_HASHED_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class DataConfig:
    """What is read from a phrase table and how it becomes training data."""

    source_vocabulary: int = option(15_000, "most frequent source words the network knows", minimum=1)
    target_vocabulary: int = option(15_000, "most frequent target words the network knows", minimum=1)
    source_corpus: Path | None = option(None, "tokenised text to count the source words in, not the table")
    target_corpus: Path | None = option(None, "tokenised text to count the target words in, not the table")
    direction: Direction = option("target-given-source", "which side is predicted from which")
    weight_by_count: bool = option(
        False, "weight a pair by its joint count instead of counting each distinct pair once"
    )
    factor: str = option("0", "factors of a factored table's words that make a word of the network, as 0 or 0,1")
    held_out: float = option(0.01, "share of the pairs kept from training to measure the loss", minimum=0, maximum=1)
    held_out_limit: int = option(
        10_000, "the most pairs held out or, in context, sentences; and the most that are measured", minimum=0
    )

    def __post_init__(self) -> None:
        """Check the factors.

        Raises:
            UsageError: they are not a list of positions.
        """
        try:
            Factors.parse(self.factor)
        except ValueError as error:
            raise UsageError(f"--factor: {error}") from None

    @property
    def factors(self) -> Factors:
        """Which factors of a table's words make the words of the network."""
        return Factors.parse(self.factor)

    def held_out_of(self, pairs: int) -> int:
        """Return how many of some pairs are kept from training."""
        return min(int(pairs * self.held_out), self.held_out_limit)


@dataclass(frozen=True)
class PhrasePairs:
    """Pairs of phrases as ids, without end symbols. The arrays may be memory-mapped."""

    source: Phrases
    target: Phrases
    weight: Weights
    """How much each pair counts in the loss; 1 on average."""
    alignment: Phrases | None = None
    """Of sentences whose phrase pairs are learnt: the alignment points, source and target word by turns, from 0."""

    def __len__(self) -> int:
        return len(self.source)

    def take(self, indices: NDArray[np.integer]) -> PhrasePairs:
        """Return some pairs, in memory."""
        alignment = None if self.alignment is None else self.alignment.take(indices)
        return PhrasePairs(self.source.take(indices), self.target.take(indices), self.weight[indices], alignment)


class PhraseFile:
    """Phrases, or other lists of numbers, while they are read: in a file without a name."""

    def __init__(self, folder: Path) -> None:
        # Its space is freed with the last map of it, however the process ends.
        self._stream = cast(BinaryIO, TemporaryFile(dir=folder))  # noqa: SIM115
        self._lengths: list[NDArray[np.uint32]] = []

    def append(self, phrases: Phrases) -> None:
        """Write phrases behind those that are there."""
        self._stream.write(phrases.ids.tobytes())
        self._lengths.append(phrases.lengths.astype(np.uint32))

    def phrases(self) -> Phrases:
        """Return all of them, memory-mapped."""
        self._stream.flush()
        ids: Ids = np.memmap(self._stream, np.int32, "r+") if self._stream.tell() else np.zeros(0, np.int32)
        return Phrases(ids, offsets_of(np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.uint32)))

    def close(self) -> None:
        """Close the file; what is mapped of it stays."""
        self._stream.close()


class Side(PhraseFile):
    """One side of the pairs while they are read: ids by first appearance, words counted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ids: defaultdict[bytes, int] = defaultdict(count().__next__)
        self.counts: NDArray[np.float64] = np.zeros(0)

    def add(self, phrases: list[bytes], weight: NDArray[np.float32]) -> NDArray[np.uint64]:
        """Append phrases; return a hash of each."""
        lists = [split_words(phrase) for phrase in phrases]
        lengths = np.fromiter(map(len, lists), np.int64, len(lists))
        lookup = self.ids.__getitem__
        ids = np.fromiter((lookup(word) for words in lists for word in words), np.int32, int(lengths.sum()))
        phrases_of_ids = Phrases(ids, offsets_of(lengths))
        self.append(phrases_of_ids)
        added = np.bincount(ids, np.repeat(weight, lengths), minlength=len(self.counts)).astype(np.float64)
        added[: len(self.counts)] += self.counts
        self.counts = added
        return hash_phrases(phrases_of_ids)

    def word_counts(self) -> Counter[bytes]:
        """Return the weighted count of each word."""
        return Counter(dict(zip(self.ids, self.counts.tolist(), strict=True)))

    def finish(self, vocabulary: Vocabulary) -> Phrases:
        """Turn the ids into those of the vocabulary; return the memory-mapped phrases."""
        known = vocabulary.encode(list(self.ids)).ids if self.ids else np.zeros(0, np.int32)
        found = self.phrases()
        for start in range(0, len(found.ids), _REMAP_IDS):
            found.ids[start : start + _REMAP_IDS] = known[found.ids[start : start + _REMAP_IDS]]
        return found


@contextmanager
def open_sides(folder: Path) -> Iterator[tuple[Side, Side]]:
    """Open the source and the target side of pairs in files of a folder.

    Raises:
        UserError: its disk is full.
    """
    place = f"a temporary file in {folder}"
    with full_disk_told(place), closing(Side(folder)) as source_side, closing(Side(folder)) as target_side:
        yield source_side, target_side


def hash_phrases(phrases: Phrases) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each phrase, equal for equal phrases."""
    starts = range(0, len(phrases), _HASHED_AT_ONCE)
    pieces = (phrases.take(np.arange(start, min(start + _HASHED_AT_ONCE, len(phrases)))) for start in starts)
    return np.concatenate([np.zeros(0, np.uint64), *map(_hash, pieces)])


def _hash(phrases: Phrases) -> NDArray[np.uint64]:
    position = np.arange(len(phrases.ids)) - np.repeat(phrases.offsets[:-1], phrases.lengths)
    mixed = _mix(phrases.ids.astype(np.uint64) + (position.astype(np.uint64) << np.uint64(40)))
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum(mixed)))
    return _mix(sums[phrases.offsets[1:]] - sums[phrases.offsets[:-1]])


def hash_pairs(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return 64 well-mixed bits for each pair, from those of its sides."""
    return _mix(first + np.uint64(1)) ^ second


def _mix(bits: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the finaliser of SplitMix64: a bijection that spreads each bit over all others."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True)
class PairData:
    """A phrase table, or parallel text, ready for training."""

    pairs: PhrasePairs
    """The pair of every line."""
    distinct: NDArray[np.int64]
    """The lines that are the first with their pair; of parallel text all of them."""
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    digest: str
    """Changes with the pairs, their order, and the counts by which they weigh."""
    summary: dict[str, Any]
    """Lines, pairs, coverage of the vocabularies, for the report."""


def read_table(
    table: str | Path,
    folder: Path,
    config: DataConfig,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    show: Show = unseen,
    say: Say = silently,
) -> PairData:
    """Read a phrase table as ids.

    "Source" and "target" mean the network's input and output: with the direction `source-given-target` they
    are the table's target and source.

    Args:
        table: the phrase table.
        folder: where the ids go, in files without a name; it must exist.
        config: vocabulary sizes, direction, weighting.
        vocabularies: source and target vocabulary of an existing network; None to choose them here.
        show: shown how much of the file is read.
        say: told of lines of the texts for vocabularies that are not UTF-8.

    Raises:
        UserError: the table is unreadable, faulty or empty.
    """
    with open_sides(folder) as sides:
        return _read_sides(table, sides, config, vocabularies, show, say)


def _read_sides(
    table: str | Path,
    sides: tuple[Side, Side],
    config: DataConfig,
    vocabularies: tuple[Vocabulary, Vocabulary] | None,
    show: Show,
    say: Say,
) -> PairData:
    hashes: list[NDArray[np.uint64]] = []
    joint_counts: list[NDArray[np.float32]] = []
    digest = hashlib.sha256()
    lines, has_counts = 0, True
    reader = TableReader(table, factors=config.factors)
    for chunk in reader:
        counts = [entry.occurrences("pair") for entry in chunk.entries]
        has_counts = has_counts and None not in counts
        joint = np.array([1.0 if value is None else value for value in counts], np.float32)
        phrases = config.factors.network_phrases(chunk.entries)
        source_hash, target_hash = (
            side.add(texts, joint) for side, texts in zip(sides, orient(phrases, config.direction), strict=True)
        )
        hashes.append(hash_pairs(source_hash, target_hash))
        digest.update(hashes[-1].tobytes())
        if config.weight_by_count:
            joint_counts.append(joint)
            digest.update(joint.tobytes())
        lines += chunk.lines_read
        show(chunk.share_read, counted(lines, "line"))
    if config.weight_by_count and not has_counts:
        raise UserError(f"{display_name(table)}: has lines without joint counts; leave --weight-by-count out")
    if not lines:
        raise UserError(f"{display_name(table)}: holds no phrase pairs; give a phrase table of at least one line")
    if config.factors != SURFACE and max(reader.shape.factors) < 2:
        raise UserError(f"{display_name(table)}: has no factors; leave --factor out, or give a factored table")
    if vocabularies is None:
        vocabularies = choose_vocabularies(sides, config, say=say)
    source, target, words = finish_sides(sides, vocabularies, digest)
    pair_hashes = np.concatenate(hashes)
    hashes.clear()
    if config.weight_by_count:
        weight = np.concatenate(joint_counts)
        distinct = _first_of_each(pair_hashes, weight)
        if not weight.any():
            raise UserError(f"{display_name(table)}: all its joint counts are 0; leave --weight-by-count out")
        weight = weight / weight[distinct].mean()
    else:
        distinct = _first_of_each(pair_hashes)
        weight = np.broadcast_to(np.float32(1), len(pair_hashes))
    summary = {
        "lines": lines,
        "distinct_pairs": len(distinct),
        "counts_in_table": has_counts,
        **words,
    }
    return PairData(PhrasePairs(source, target, weight), distinct, *vocabularies, digest.hexdigest(), summary)


def orient(sides: tuple[T, T], direction: Direction) -> tuple[T, T]:
    """Return the table's (source, target) as the network's (input, output)."""
    return sides if direction == "target-given-source" else (sides[1], sides[0])


def choose_vocabularies(
    sides: tuple[Side, Side], config: DataConfig, min_count: int = 0, say: Say = silently
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of the network's input and output: the most frequent words of what was read."""
    corpora = orient((config.source_corpus, config.target_corpus), config.direction)
    sizes = orient((config.source_vocabulary, config.target_vocabulary), config.direction)
    source, target = (
        Vocabulary.most_frequent(count_words(corpus, say) if corpus else side.word_counts(), size, min_count)
        for side, corpus, size in zip(sides, corpora, sizes, strict=True)
    )
    return source, target


def finish_sides(
    sides: tuple[Side, Side], vocabularies: tuple[Vocabulary, Vocabulary], digest: hashlib._Hash
) -> tuple[Phrases, Phrases, dict[str, Any]]:
    """Return both sides as ids of their vocabularies, and what is to be reported of their words.

    The words enter the digest, for the hashes of the pairs know them by number only.
    """
    source, target = (side.finish(vocabulary) for side, vocabulary in zip(sides, vocabularies, strict=True))
    summary = {
        "source_words": len(sides[0].ids),
        "target_words": len(sides[1].ids),
        "source_coverage": vocabularies[0].coverage(sides[0].word_counts()),
        "target_coverage": vocabularies[1].coverage(sides[1].word_counts()),
    }
    for side in sides:
        digest.update(b"\n".join(side.ids))
    return source, target, summary


def _first_of_each(pair_hashes: NDArray[np.uint64], weight: NDArray[np.float32] | None = None) -> NDArray[np.int64]:
    """Return the first line of each distinct pair, and add the weights of the others to its own."""
    ordered = np.sort(pair_hashes)
    if not np.any(ordered[1:] == ordered[:-1]):
        return np.arange(len(pair_hashes))
    _, first, which = np.unique(pair_hashes, return_index=True, return_inverse=True)
    if weight is not None:
        weight[first] = np.bincount(which, weight)
    return np.sort(first)
