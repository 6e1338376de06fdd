"""Select lines of a phrase table: a shard for one of several jobs, or the sources that occur in texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from phrasescore.configuration import LARGEST
from phrasescore.errors import UsageError, spelled
from phrasescore.files import can_be_read_only_once
from phrasescore.table.reader import Block
from phrasescore.text import Log, no_log, text_lines
from phrasescore.words import phrases_of, split_words

# Moses looks up spans of at most this many words by default (max-phrase-length).
LONGEST_PHRASE = 20


@dataclass(frozen=True)
class Shard:
    """A range of the chunks of a table, for one of several jobs."""

    number: int
    """The number of the shard, from 1."""
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a shard such as `3/16`.

        Raises:
            ValueError: the text is not a shard.
        """
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= LARGEST):
            raise ValueError(f"{text} is not a shard and a number of shards, as 3/16; shards count from 1")
        return cls(int(number), int(of))

    def take(self, blocks: Iterable[Block], count: int) -> Iterator[Block]:
        """Yield the chunks of the shard; `count` is the number of chunks of the table without continuations."""
        first, end = (count * number // self.of for number in (self.number - 1, self.number))
        index = -1
        for block in blocks:
            index += block.lines > 0
            if index >= end:
                break
            if index >= first:
                yield replace(block, share_read=(index + 1 - first) / (end - first))


def require_table_file(path: str | Path, option: str) -> None:
    """Check that a table can be read twice, as an option requires.

    Raises:
        UsageError: the table is a pipe or standard input.
    """
    if can_be_read_only_once(path):
        raise UsageError(f"{spelled(option)}: reads the table twice; give a file")


def phrases_in_texts(paths: Iterable[str | Path], longest: int = LONGEST_PHRASE, log: Log = no_log) -> frozenset[bytes]:
    """Return every run of 1 to `longest` words in the lines of tokenised texts.

    A table filtered by these sources translates the texts in the same way as the whole table
    (scripts/training/filter-model-given-input.pl). `log` is called if lines are not UTF-8.

    Raises:
        UserError: a file cannot be read, or is not a text.
    """
    phrases: set[bytes] = set()
    for path in paths:
        for line in text_lines(path, log):
            phrases.update(phrases_of(split_words(line), longest))
    return frozenset(phrases)
