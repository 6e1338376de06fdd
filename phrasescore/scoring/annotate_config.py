"""The options of annotating a phrase table; the command line and the Python function derive from these fields."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from phrasescore.configuration import Section, option
from phrasescore.errors import UsageError, spelled
from phrasescore.table.selection import Shard, require_table_file

if TYPE_CHECKING:
    from phrasescore.scoring.columns import Column
    from phrasescore.scoring.scorer import PhraseScorer


@dataclass(frozen=True)
class AnnotateConfig(Section):
    """Columns to append, lines to process, and workers."""

    columns: tuple[str, ...] | None = option(
        None,
        "columns to append, in this order. An encoder-decoder has score (ln p), per-word (ln p divided by the number "
        "of predicted words plus one, the end symbol), and unknown-target, unknown-source and unknown-both (numbers of "
        "unknown words); a phrase-pair model has expected-bleu (default: the first)",
        metavar="NAME",
    )
    replace_last: str | None = option(
        None,
        "replace the last score of each line, which must be this text, such as the 2.718 of Moses' --PhraseCount",
        metavar="SCORE",
    )
    only_sources_in: tuple[Path, ...] = option(
        (), "keep only lines whose source phrase occurs in these tokenised texts", metavar="FILE"
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
        """Return the shard, None for the whole table."""
        try:
            return None if self.shard is None else Shard.parse(self.shard)
        except ValueError as error:
            raise UsageError(f"{spelled('shard')}: {error}") from None

    def check(self, table: str | Path) -> None:
        """Raise a UsageError if options conflict with each other or with a table."""
        if self.processes is not None and self.scheduler is not None:
            raise UsageError(f"{spelled('processes')} and {spelled('scheduler')}: are both given; leave one out")
        if self.replace_last is not None and self.on_error == "keep":
            raise UsageError(
                f"{spelled('replace_last')}: does not go with {spelled('on_error', 'keep')}, because a faulty line may "
                "have no last score; leave one out"
            )
        if self.parsed_shard() is not None:
            require_table_file(table, "shard")

    def columns_of(self, scorer: PhraseScorer) -> tuple[Column, ...]:
        """Return the columns to append."""
        if self.columns is None:
            return scorer.columns[:1]
        if len({*self.columns}) < max(1, len(self.columns)):
            raise UsageError(f"{spelled('columns')}: must be one or more different names; give each column once")
        return tuple(map(scorer.column, self.columns))
