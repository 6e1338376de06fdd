"""The options of `annotate`, among them the shard of one of several jobs and the sources of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Self

from phrasescore.configuration import LARGEST, Section, option
from phrasescore.errors import UsageError, arg_name
from phrasescore.files import require_rereadable
from phrasescore.table.reader import Chunk
from phrasescore.text import Log, no_log, text_lines
from phrasescore.words import phrases_of, split_words

if TYPE_CHECKING:
    from phrasescore.scoring.columns import Column
    from phrasescore.scoring.scorer import PhraseScorer


@dataclass(frozen=True)
class AnnotateConfig(Section):
    """Columns to append, lines to process, and workers."""

    columns: tuple[str, ...] | None = option(
        None,
        "columns to append, in this order. An encoder-decoder has score (ln p), per-word (ln p divided by the number "
        "of predicted words plus one, the end symbol), unknown-target (the number of unknown target words), and "
        "unnormalised after `train --self-normalise`; a phrase-pair model has expected-bleu (default: the first)",
        metavar="NAME",
    )
    replace_last: str | None = option(
        None,
        "replace the last score of each line, which must be this text, such as the 2.718 of Moses' --PhraseCount",
        metavar="SCORE",
    )
    only_sources_in: tuple[Path, ...] = option(
        (),
        "keep only lines whose source phrase has at most 20 words and occurs in these tokenised texts",
        metavar="FILE",
    )
    limit: int | None = option(None, "stop after the first N lines", minimum=1)
    on_error: Literal["stop", "keep"] = option(
        "stop",
        "at a faulty line: stop, or keep the line with 1 in each new column (unchanged if it has no scores or is "
        "longer than a megabyte)",
    )
    shard: str | None = option(
        None,
        "annotate only shard I of N of the table, as one job of an array, and describe it in FILE.shard.json; "
        "`phrasescore join` joins all shards",
        metavar="I/N",
    )
    restart: bool = option(False, "discard the work of an interrupted run; do not resume it", is_switch=True)
    processes: int | None = option(None, "number of processes (default: all cores; on GPUs, one per GPU)", minimum=1)
    scheduler: str | None = option(
        None,
        "address of a Dask scheduler, such as tcp://node1:8786, whose workers do the work; they need the same files "
        "(docs/cluster.md)",
        metavar="ADDRESS",
    )

    def parsed_shard(self) -> Shard | None:
        try:
            return None if self.shard is None else Shard.parse(self.shard)
        except ValueError as error:
            raise UsageError(f"{arg_name('shard')}: {error}") from None

    def check(self, table: str | Path) -> None:
        if self.processes is not None and self.scheduler is not None:
            raise UsageError(f"{arg_name('processes')} and {arg_name('scheduler')}: are both given; leave one out")
        if self.replace_last is not None and self.on_error == "keep":
            raise UsageError(
                f"{arg_name('replace_last')}: does not go with {arg_name('on_error', 'keep')}, because a faulty line "
                "may have no last score; leave one out"
            )
        if self.parsed_shard() is not None:
            require_rereadable(table, why=f"{arg_name('shard')} reads the table twice")

    def columns_of(self, scorer: PhraseScorer) -> tuple[Column, ...]:
        if self.columns is None:
            return scorer.columns[:1]
        if len({*self.columns}) < max(1, len(self.columns)):
            raise UsageError(f"{arg_name('columns')}: must be one or more different names; give each column once")
        return tuple(map(scorer.column, self.columns))


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
        """Parse a shard such as `3/16`; anything else is a ValueError."""
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 1 <= int(number) <= int(of) <= LARGEST):
            raise ValueError(f"{text} is not a shard and a number of shards, as 3/16; shards count from 1")
        return cls(int(number), int(of))

    def take(self, chunks: Iterable[Chunk], count: int) -> Iterator[Chunk]:
        """Yield the chunks of the shard; `count` is the number of chunks of the table without continuations."""
        first, end = (count * number // self.of for number in (self.number - 1, self.number))
        index = -1
        for chunk in chunks:
            index += chunk.lines > 0
            if index >= end:
                break
            if index >= first:
                yield replace(chunk, share_read=(index + 1 - first) / (end - first))


def phrases_in_texts(paths: Iterable[str | Path], longest: int = LONGEST_PHRASE, log: Log = no_log) -> frozenset[bytes]:
    """Return every run of 1 to `longest` words in tokenised texts, as scripts/training/filter-model-given-input.pl."""
    phrases: set[bytes] = set()
    for path in paths:
        for line in text_lines(path, log):
            phrases.update(phrases_of(split_words(line), longest))
    return frozenset(phrases)
