"""Where a choice among the options of a source can be judged: in sentences with their translation, or in phrase pairs.

Sentences need no word alignment: right is each option that occurs in the reference. Phrase pairs that were extracted
from aligned sentences have one target each.

Shapes: I instances, R options that are right in them, of all instances.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.options import Options
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.phrases import Offsets, offsets_of, ranges
from phrasescore.sentences import ParallelText, side_by_side
from phrasescore.table.reader import TableReader
from phrasescore.table.sources import LONGEST_PHRASE
from phrasescore.text import utf8_lines
from phrasescore.words import join_words, split_words

_RANGE = re.compile(rb"\|([0-9]{1,9})-([0-9]{1,9})\|")

Span = tuple[int, int]
"""Where a phrase begins in its sentence, and where what follows begins."""


@dataclass(frozen=True)
class Instances:
    """Choices to be made. In instance i these options are right, one or more: `right_R[offsets[i]:offsets[i + 1]]`."""

    source_I: NDArray[np.int64]
    """The number of the source among those of the options."""
    offsets: Offsets
    """[I + 1]"""
    right_R: NDArray[np.int64]
    """Numbers of options."""
    weight_I: NDArray[np.float64]
    """How much each counts, at most 1."""
    sentence_I: NDArray[np.int64] | None
    """Where it occurs; None for those of phrase pairs."""

    def __len__(self) -> int:
        return len(self.source_I)

    def where(self, is_taken_I: NDArray[np.bool_]) -> Instances:
        """Return the instances that are marked."""
        counts = np.diff(self.offsets)[is_taken_I]
        return Instances(
            self.source_I[is_taken_I],
            offsets_of(counts),
            self.right_R[ranges(self.offsets[:-1][is_taken_I], counts)],
            self.weight_I[is_taken_I],
            None if self.sentence_I is None else self.sentence_I[is_taken_I],
        )


@dataclass(frozen=True)
class DevText:
    """Sentences and their translations, tokenised as the table is."""

    name: str
    """What to call it in messages."""
    sources: list[list[bytes]]
    references: list[bytes]
    """Words with one blank between them."""
    used: Sequence[frozenset[Span]] | None = None
    """The spans that a decoder used of each sentence; None for all."""

    @classmethod
    def read(cls, text: ParallelText, trace: Path | None = None) -> DevText:
        """Read the sentences.

        Args:
            text: two files of the same sentences.
            trace: their translations as `moses -t` prints them, a source range `|0-2|` behind each phrase.

        Raises:
            UserError: a file cannot be read or has something that is no line of it, or they differ in length.
        """
        pairs = list(side_by_side(text))
        sources = [split_words(source) for source, _ in pairs]
        references = [join_words(reference) for _, reference in pairs]
        return cls(str(text), sources, references, None if trace is None else _read_trace(trace, sources))

    @property
    def sentences(self) -> int:
        """How many there are with words."""
        return sum(map(bool, self.sources))

    def spans(self) -> Iterator[tuple[int, bytes]]:
        """Yield the number of the sentence and the phrase of each span that can be translated at once."""
        for sentence, words in enumerate(self.sources):
            for start, end in _all_spans(len(words)) if self.used is None else sorted(self.used[sentence]):
                yield sentence, b" ".join(words[start:end])

    def phrases(self) -> frozenset[bytes]:
        """Return the source phrases."""
        return frozenset(phrase for _, phrase in self.spans())

    def instances(self, options: Options) -> Instances:
        """Return an instance for each span of which a target is in the reference: each such target is right."""
        numbers = {source: number for number, source in enumerate(options.sources)}
        padded = [b" %b " % reference for reference in self.references]
        # That nothing is said can be seen in no reference.
        targets = [b" %b " % target if target else b"\n" for target in options.targets]
        found = []
        for sentence, phrase in self.spans():
            source = numbers.get(phrase)
            if source is not None:
                of_source = range(options.offsets[source], options.offsets[source + 1])
                right = [option for option in of_source if targets[option] in padded[sentence]]
                found.append((source, right, 1.0, sentence))
        return _instances(found)


@dataclass(frozen=True)
class DevPairs:
    """Phrase pairs that were extracted from other sentences than those of the table, and how often."""

    name: str
    """What to call them in messages."""
    counts: Mapping[bytes, Mapping[bytes, float]]
    """Of each source its targets."""
    sentences = None

    @classmethod
    def read(cls, table: Path) -> DevPairs:
        """Read a phrase table of them, with or without joint counts.

        Raises:
            UserError: it cannot be read or is faulty.
        """
        counts: dict[bytes, dict[bytes, float]] = {}
        for chunk in TableReader(table):
            for entry in chunk.entries:
                counts.setdefault(entry.source, {})[entry.target] = entry.occurrences("pair", 1.0)
        return cls(display_name(table), counts)

    def phrases(self) -> frozenset[bytes]:
        """Return the source phrases."""
        return frozenset(self.counts)

    def instances(self, options: Options) -> Instances:
        """Return an instance for each pair that is among the options, which counts as often as the pair occurred."""
        found = []
        for source, phrase in enumerate(options.sources):
            of_target: dict[bytes, list[int]] = {}
            for option in range(options.offsets[source], options.offsets[source + 1]):
                of_target.setdefault(options.targets[option], []).append(option)
            for target, count in sorted(self.counts.get(phrase, {}).items()):
                if count > 0:
                    found.append((source, of_target.get(target, []), count, None))
        return _instances(found)


Dev = DevText | DevPairs


def _instances(found: Iterable[tuple[int, list[int], float, int | None]]) -> Instances:
    """Return the instances of which something is right: source, right options, weight and sentence of each."""
    some = [one for one in found if one[1]]
    # Sums of counts may be beyond what a number holds.
    most = max((weight for _, _, weight, _ in some), default=1.0)
    sentences = [sentence for *_, sentence in some if sentence is not None]
    return Instances(
        np.array([source for source, *_ in some], np.int64),
        offsets_of(np.array([len(right) for _, right, *_ in some], np.int64)),
        np.array([option for _, right, *_ in some for option in right], np.int64),
        np.array([weight / most for _, _, weight, _ in some], np.float64),
        np.array(sentences, np.int64) if sentences else None,
    )


def _all_spans(length: int) -> Iterator[Span]:
    for start in range(length):
        for end in range(start + 1, min(start + LONGEST_PHRASE, length) + 1):
            yield start, end


def _read_trace(path: Path, sources: list[list[bytes]]) -> list[frozenset[Span]]:
    """Return the spans that a decoder used of each sentence.

    Raises:
        UserError: these are not translations of the sentences with their source ranges.
    """
    used = []
    for number, line in enumerate(utf8_lines(path), 1):
        matches = map(_RANGE.fullmatch, split_words(line))
        spans = frozenset((int(match[1]), int(match[2]) + 1) for match in matches if match)
        length = len(sources[number - 1]) if number <= len(sources) else 0
        if any(not start < end <= length for start, end in spans):
            raise UserError(
                f"{path}: line {number}: has a range outside the sentence; give the translations of the same text"
            )
        used.append(spans)
    if len(used) != len(sources):
        raise UserError(
            f"{path}: has {len(used)} lines for {len(sources)} sentences; give the translations of the same text"
        )
    if not any(used):
        raise UserError(f"{path}: has no source ranges as `|0-2|`; decode with `phrasescore-decoder -t` or `moses -t`")
    return used
