"""Phrase pairs as word ids on disk.

A table is read once, into flat memory-mapped files of ids. Memory holds every word of the table and per line two
offsets, the index of a distinct pair and its rank in an epoch (8 bytes each); during reading also a hash of the pair,
its sorted copy and two lengths. A hundred million pairs need about four gigabytes.
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

from phrasescore.configuration import option, setting
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import display_name, full_disk_as_error
from phrasescore.phrases import Ids, Phrases, hash_pairs, hash_phrases, offsets_of
from phrasescore.table.entry import SURFACE, Factors
from phrasescore.table.reader import TableReader
from phrasescore.text import Log, ProgressCallback, counted, no_log, no_progress
from phrasescore.vocabulary import Vocabulary, count_words
from phrasescore.words import split_words

T = TypeVar("T")
Direction = Literal["target-given-source", "source-given-target"]

_REMAP_IDS = 1 << 22


@dataclass(frozen=True)
class DataConfig:
    """How a phrase table becomes training data."""

    vocabulary: int = option(15_000, "size of each vocabulary, the most frequent words of its side", minimum=1)
    source_vocabulary: int | None = setting(None, "size of the source vocabulary, if it differs", minimum=1)
    target_vocabulary: int | None = setting(None, "size of the target vocabulary, if it differs", minimum=1)
    source_corpus: Path | None = setting(None, "count source words in this tokenised text, not in the table")
    target_corpus: Path | None = setting(None, "count target words in this tokenised text, not in the table")
    direction: Direction = option("target-given-source", "which side is predicted from which")
    factor: str = option("0", "factors of a factored table that form the words of the network, as in 0 or 0,1")
    held_out: float = setting(
        0.01,
        "share of the pairs excluded from training and used to measure the loss; none of parallel text with validation "
        "text",
        minimum=0,
        maximum=1,
    )
    held_out_limit: int = setting(
        10_000, "maximum number of held-out pairs (in context, sentences), and of pairs measured", minimum=0
    )

    def __post_init__(self) -> None:
        try:
            Factors.parse(self.factor)
        except ValueError as error:
            raise UsageError(f"{arg_name('factor')}: {error}") from None

    @property
    def vocabularies(self) -> tuple[int, int]:
        return self.source_vocabulary or self.vocabulary, self.target_vocabulary or self.vocabulary

    @property
    def factors(self) -> Factors:
        return Factors.parse(self.factor)

    def held_out_of(self, pairs: int) -> int:
        return min(int(pairs * self.held_out), self.held_out_limit)


@dataclass(frozen=True)
class PhrasePairs:
    """Pairs of phrases as ids, without end symbols. The arrays may be memory-mapped."""

    source: Phrases
    target: Phrases
    alignment: Phrases | None = None
    """For training in context: the alignment points of each sentence, source and target word alternating, from 0."""

    def __len__(self) -> int:
        return len(self.source)

    def take(self, indices: NDArray[np.integer]) -> PhrasePairs:
        alignment = None if self.alignment is None else self.alignment.take(indices)
        return PhrasePairs(self.source.take(indices), self.target.take(indices), alignment)


class PhraseFile:
    """Lists of ids, appended to an anonymous temporary file."""

    def __init__(self, folder: Path) -> None:
        # The system frees the space with the last memory map, however the process ends.
        self._stream = cast(BinaryIO, TemporaryFile(dir=folder))  # noqa: SIM115
        self._lengths: list[NDArray[np.uint32]] = []

    def append(self, phrases: Phrases) -> None:
        self._stream.write(phrases.ids.tobytes())
        self._lengths.append(phrases.lengths.astype(np.uint32))

    def phrases(self) -> Phrases:
        self._stream.flush()
        ids: Ids = np.memmap(self._stream, np.int32, "r+") if self._stream.tell() else np.zeros(0, np.int32)
        return Phrases(ids, offsets_of(np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.uint32)))

    def close(self) -> None:
        """Close the file; its memory maps stay valid."""
        self._stream.close()


class Side(PhraseFile):
    """One side of the pairs during reading: provisional ids by first occurrence, and word counts."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.ids: defaultdict[bytes, int] = defaultdict(count().__next__)
        self.counts: NDArray[np.float64] = np.zeros(0)

    def add(self, phrases: list[bytes], weight: NDArray[np.float32]) -> NDArray[np.uint64]:
        """Append phrases with the weights of their words' counts; return a hash of each phrase."""
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
        return Counter(dict(zip(self.ids, self.counts.tolist(), strict=True)))

    def finish(self, vocabulary: Vocabulary) -> Phrases:
        """Convert the ids to those of the vocabulary; return the memory-mapped phrases."""
        encoded = vocabulary.encode(list(self.ids))
        found, known = self.phrases(), encoded.ids
        if np.any(encoded.lengths != 1):
            # A word has several pieces.
            pieces = encoded.take(found.ids)
            return Phrases(pieces.ids, pieces.offsets[found.offsets])
        for start in range(0, len(found.ids), _REMAP_IDS):
            found.ids[start : start + _REMAP_IDS] = known[found.ids[start : start + _REMAP_IDS]]
        return found


@contextmanager
def open_sides(folder: Path) -> Iterator[tuple[Side, Side]]:
    """Open a source and a target side with temporary files in a folder."""
    place = f"a temporary file in {folder}"
    with full_disk_as_error(place), closing(Side(folder)) as source_side, closing(Side(folder)) as target_side:
        yield source_side, target_side


@dataclass(frozen=True)
class PairData:
    """A phrase table, or parallel text, ready for training."""

    pairs: PhrasePairs
    distinct: NDArray[np.int64]
    """The first line of each distinct pair; every line of parallel text."""
    source_vocabulary: Vocabulary
    target_vocabulary: Vocabulary
    digest: str
    """Depends on the pairs and their order."""
    summary: dict[str, Any]
    """Lines, pairs and coverage of the vocabularies, for the report."""


def read_table(
    table: str | Path,
    folder: Path,
    config: DataConfig,
    vocabularies: tuple[Vocabulary, Vocabulary] | None = None,
    progress: ProgressCallback = no_progress,
    log: Log = no_log,
) -> PairData:
    """Read a phrase table as ids.

    "Source" and "target" are the network's input and output: with the direction `source-given-target` they are the
    table's target and source. `folder` gets anonymous files of ids. Without the vocabularies of an existing network
    they are chosen from the data.
    """
    digest = hashlib.sha256()
    with open_sides(folder) as sides:
        pair_hashes, has_counts = _read_lines(table, sides, config, digest, progress)
        vocabularies = vocabularies or choose_vocabularies(sides, config, log=log)
        source, target, words = finish_sides(sides, vocabularies, digest)
    distinct = _first_of_each(pair_hashes)
    summary = {"lines": len(source), "distinct_pairs": len(distinct), "counts_in_table": has_counts, **words}
    return PairData(PhrasePairs(source, target), distinct, *vocabularies, digest.hexdigest(), summary)


def _read_lines(
    table: str | Path, sides: tuple[Side, Side], config: DataConfig, digest: hashlib._Hash, progress: ProgressCallback
) -> tuple[NDArray[np.uint64], bool]:
    """Read a table into both sides; return a hash of each pair, and whether all have a joint count."""
    hashes: list[NDArray[np.uint64]] = []
    lines, has_counts = 0, True
    reader = TableReader(table, factors=config.factors)
    for chunk in reader:
        counts = [entry.occurrences("pair") for entry in chunk.entries]
        has_counts = has_counts and None not in counts
        joint = np.array([1.0 if value is None else value for value in counts], np.float32)
        phrases = config.factors.network_phrases(chunk.entries)
        source_hash, target_hash = (
            side.add(texts, joint)
            for side, texts in zip(sides, input_and_output(phrases, config.direction), strict=True)
        )
        hashes.append(hash_pairs(source_hash, target_hash))
        digest.update(hashes[-1].tobytes())
        lines += len(chunk.lines)
        progress(chunk.share_read, counted(lines, "line"))
    if not lines:
        raise UserError(f"{display_name(table)}: contains no phrase pairs; give a phrase table of at least one line")
    if config.factors != SURFACE and max(reader.shape.factors) < 2:
        raise UserError(
            f"{display_name(table)}: has no factors; leave {arg_name('factor')} out, or give a factored table"
        )
    return np.concatenate(hashes), has_counts


def input_and_output(sides: tuple[T, T], direction: Direction) -> tuple[T, T]:
    """Return the table's (source, target) as the network's (input, output)."""
    return sides if direction == "target-given-source" else (sides[1], sides[0])


def choose_vocabularies(
    sides: tuple[Side, Side], config: DataConfig, min_count: int = 0, log: Log = no_log
) -> tuple[Vocabulary, Vocabulary]:
    """Return the vocabularies of the network's input and output: the most frequent words of the data or texts."""
    corpora = input_and_output((config.source_corpus, config.target_corpus), config.direction)
    sizes = input_and_output(config.vocabularies, config.direction)
    source, target = (
        Vocabulary.most_frequent(count_words(corpus, log) if corpus else side.word_counts(), size, min_count)
        for side, corpus, size in zip(sides, corpora, sizes, strict=True)
    )
    return source, target


def finish_sides(
    sides: tuple[Side, Side], vocabularies: tuple[Vocabulary, Vocabulary], digest: hashlib._Hash
) -> tuple[Phrases, Phrases, dict[str, Any]]:
    """Return both sides as ids of their vocabularies, and word statistics; add the words to the digest."""
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


def _first_of_each(pair_hashes: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Return the first line of each distinct pair."""
    ordered = np.sort(pair_hashes)
    if not np.any(ordered[1:] == ordered[:-1]):
        return np.arange(len(pair_hashes))
    return np.sort(np.unique(pair_hashes, return_index=True)[1])
