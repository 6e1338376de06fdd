"""Stream a phrase table and append the network's scores to each line."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import display_name, open_output
from phrasescore.pairs import orient
from phrasescore.scoring.background import read_ahead, write_behind
from phrasescore.scoring.columns import count_column, score_column
from phrasescore.scoring.engine import EncodedPairs, Scorer, Scores
from phrasescore.table.entry import Entry, LineFault, cut_line
from phrasescore.table.reader import Chunk, TableReader
from phrasescore.words import quote, split_words

UnknownSide = Literal["target", "source", "both"]
NEUTRAL = b"1"
"""What a faulty line gets in each new column when it is kept: ln 1 = 0 adds nothing to a translation's score."""


@dataclass(frozen=True)
class Columns:
    """Which columns to append."""

    per_word: bool = False
    """Divide the score by the number of predicted symbols."""
    unknown_words: UnknownSide | None = None
    """Also append exp(number of words the network does not know) of this side of the table."""
    replaced: str | None = None
    """The last score of every line, which makes room for the new ones."""

    @property
    def number(self) -> int:
        """How many columns are appended."""
        return 1 if self.unknown_words is None else 2


@dataclass
class Counts:
    """What happened to the lines of a table."""

    lines_read: int = 0
    lines_written: int = 0
    lines_filtered_out: int = 0
    faulty_lines: int = 0
    faulty_lines_kept: int = 0
    pairs_clipped: int = 0
    """Scores below the floor."""
    source_words: int = 0
    source_words_unknown: int = 0
    target_words: int = 0
    target_words_unknown: int = 0
    log_prob_sum: float = 0.0
    columns_before: int | None = None
    columns_after: int | None = None
    seconds: float = 0.0
    first_fault: str | None = None


def annotate(
    reader: TableReader,
    output: str | Path | None,
    scorer: Scorer,
    columns: Columns,
    only_sources: frozenset[bytes] | None = None,
    progress: Callable[[Counts, float | None], None] = lambda counts, share: None,
) -> Counts:
    """Append columns to every line of a table, in order; every other byte passes through.

    Reading and writing run in threads of their own.

    Args:
        reader: the table.
        output: where to write, `-` for standard output; None scores without writing.
        scorer: the scoring engine.
        columns: which columns to append.
        only_sources: keep only lines with these source phrases.
        progress: called after each chunk with the counts so far and the share of the input read.

    Raises:
        UserError: the table is empty, faulty or cannot be read, the network is damaged, or the output cannot be
            written; then there is no output, and an old one is as it was.
    """
    if output is None:
        return _run(reader, lambda lines: None, scorer, columns, only_sources, progress)
    with open_output(output) as stream:
        return _run(reader, stream.writelines, scorer, columns, only_sources, progress)


def _run(
    reader: TableReader,
    write: Callable[[list[bytes]], object],
    scorer: Scorer,
    columns: Columns,
    only_sources: frozenset[bytes] | None,
    progress: Callable[[Counts, float | None], None],
) -> Counts:
    started = time.monotonic()
    counts = Counts()

    def encoded() -> Iterator[tuple[Chunk, EncodedPairs]]:
        for chunk in reader:
            counts.lines_read += chunk.lines_read
            counts.faulty_lines += len(chunk.faulty)
            for faulty in chunk.faulty.values():
                if faulty.fault.is_about_the_table:
                    raise reader.error(faulty.number, faulty.fault)
                counts.first_fault = counts.first_fault or str(reader.error(faulty.number, faulty.fault))
            if columns.replaced is not None:
                numbered = enumerate(chunk.entries, counts.lines_read - chunk.lines_read + 1)
                entries = [_without(entry, columns.replaced, reader, number) for number, entry in numbered]
                chunk = replace(chunk, entries=entries)
            if only_sources is not None:
                chunk = chunk.keep_sources(only_sources)
            entries = chunk.entries
            yield chunk, scorer.encode([entry.source for entry in entries], [entry.target for entry in entries])

    def write_chunk(scored: tuple[Chunk, Scores]) -> None:
        chunk, scores = scored
        texts, clipped = _new_columns(scores, columns, scorer)
        write(_annotated_lines(chunk, texts, columns))
        counts.pairs_clipped += clipped
        _count(chunk, scores, scorer, counts)
        counts.seconds = time.monotonic() - started
        progress(counts, chunk.share_read)

    with (
        write_behind(write_chunk) as hand_over,
        contextlib.closing(read_ahead(encoded(), while_waiting=hand_over.check)) as chunks,
    ):
        for chunk, pairs in chunks:
            hand_over((chunk, scorer.score(pairs)))
    if not counts.lines_read:
        # As the output of a command that failed is: it is not to take the place of a good table.
        raise UserError(f"{display_name(reader.path)}: has no line; check that it is the table meant")
    if not counts.lines_written:
        raise UserError(
            f"{display_name(reader.path)}: has no line with a source that occurs in the texts of --only-sources-in; "
            "check that they are tokenised as the table is"
        )
    counts.lines_filtered_out = counts.lines_read - counts.lines_written
    counts.columns_before = reader.columns
    if reader.columns is not None:
        counts.columns_after = reader.columns + columns.number - (columns.replaced is not None)
    return counts


def _without(entry: Entry, last: str, reader: TableReader, number: int) -> Entry:
    """Return the entry of a line without its last score, which must be the one expected."""
    score = entry.scores.rpartition(b" ")[2]
    if score != last.encode():
        fault = LineFault(
            "field 3 (scores)",
            f"ends in {quote(score)} where {last} is to be replaced",
            "give --replace-last what ends every line: 2.718 if the table was made with Moses' --PhraseCount",
        )
        raise reader.error(number, fault)
    return entry.without_last_score()


def _new_columns(scores: Scores, columns: Columns, scorer: Scorer) -> tuple[list[bytes], int]:
    """Return the text to append to each line, its columns separated by blanks, and how many scores were clipped."""
    texts, clipped = score_column(scores.values(per_word=columns.per_word))
    if columns.unknown_words is not None:
        unknown = count_column(_unknown_words(scores, columns.unknown_words, scorer))
        texts = [b"%b %b" % both for both in zip(texts, unknown, strict=True)]
    return texts, clipped


def _unknown_words(scores: Scores, side: UnknownSide, scorer: Scorer) -> NDArray[np.int64]:
    """Return the number of unknown words of each pair on a side of the table."""
    both = (scores.unknown_source, scores.unknown_target)
    source, target = orient(both, scorer.model.direction)
    return {"source": source, "target": target, "both": source + target}[side]


def _annotated_lines(chunk: Chunk, texts: list[bytes], columns: Columns) -> list[bytes]:
    """Return the lines of a chunk with the new columns.

    A faulty line gets neutral columns if it has a score field, and is passed on as it is if not, or if it is too long.
    """
    lines = [entry.with_columns(text) for entry, text in zip(chunk.entries, texts, strict=True)]
    neutral = b" ".join([NEUTRAL] * columns.number)
    for index in sorted(chunk.faulty):
        line = chunk.faulty[index].line
        with contextlib.suppress(LineFault):
            line = cut_line(line).with_columns(neutral)
        lines.insert(index, line)
    return [*lines, chunk.continued]


def _count(chunk: Chunk, scores: Scores, scorer: Scorer, counts: Counts) -> None:
    counts.lines_written += len(chunk.entries) + len(chunk.faulty)
    counts.faulty_lines_kept += len(chunk.faulty)
    counts.source_words += sum(len(split_words(entry.source)) for entry in chunk.entries)
    counts.target_words += sum(len(split_words(entry.target)) for entry in chunk.entries)
    counts.source_words_unknown += int(_unknown_words(scores, "source", scorer).sum())
    counts.target_words_unknown += int(_unknown_words(scores, "target", scorer).sum())
    counts.log_prob_sum += float(scores.log_prob.sum())
