"""Drop the less useful lines of a phrase table, and of its reordering table.

The first pass gives each line a value, in chunks that worker processes share; an interrupted run resumes it. The values
are on disk. The second pass copies the lines to keep.

Shapes: N lines of the table or of a chunk.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from itertools import compress as selected
from itertools import groupby, islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile, gettempdir
from typing import Any, BinaryIO, Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.configuration import Section, option
from phrasescore.errors import InputError, UsageError, UserError, arg_name
from phrasescore.files import (
    bounded_lines,
    compress,
    compression_for,
    display_name,
    full_disk_as_error,
    is_stream,
    open_input,
    open_output,
    require_rereadable,
    sha256_of_input,
)
from phrasescore.files.resumable import resumable_output
from phrasescore.table.criteria import EPSILON, ColumnValue, Criterion, JointCount, RelativeEntropy, Significance
from phrasescore.table.entry import SEPARATOR, Entry
from phrasescore.table.reader import CHUNK_LINES, Chunk, LineChecker, read_chunks
from phrasescore.text import Log, ProgressCallback, no_log, no_progress
from phrasescore.words import hash_word, join_words, parse_number, quote
from phrasescore.workers import run_ordered

_ALPHA = {"alpha+epsilon": EPSILON, "alpha-epsilon": -EPSILON}
_LINE = np.dtype([("value", "<f8"), ("words", "<u2"), ("tie", "<f8"), ("source", "<u8")])
"""What the first pass records of a line: its value, what decides between equals, and a hash of the source phrase."""
_MOST_WORDS = 65535
_WINDOW = 1 << 20
"""Lines that are in memory at once."""

_NAMED: dict[str, Callable[..., Criterion]] = {kind.name: kind for kind in (Significance, RelativeEntropy, JointCount)}

Bools = NDArray[np.bool_]
Lines = NDArray[np.void]


@dataclass(frozen=True)
class PruneConfig(Section):
    """The criterion, and how many lines to keep."""

    by: str | None = option(
        None,
        "criterion: significance, entropy, count, or the number of a column from 1 (default: the score of the model "
        "if there is one, else count)",
        metavar="CRITERION",
    )
    keep: float | None = option(None, "keep this fraction of the lines, such as 0.2", minimum=0, maximum=1)
    threshold: str | None = option(
        None, "keep lines with at least this value: a number, alpha+epsilon or alpha-epsilon", metavar="X"
    )
    top: int | None = option(
        None,
        "keep at most the best N lines of each source phrase, whose lines must be together, as Moses writes them",
        minimum=1,
    )
    on_error: Literal["stop", "keep"] = option("stop", "at a faulty line: stop, or keep the line")
    restart: bool = option(False, "discard the work of an interrupted run; do not resume it", is_switch=True)
    processes: int | None = option(None, "number of processes (default: all cores; on GPUs, one per GPU)", minimum=1)

    def check(self, table: str | Path, *, has_model: bool) -> None:
        if self.keep is None and self.threshold is None and self.top is None:
            raise UsageError(f"{arg_name('keep')}: is missing; give it, {arg_name('threshold')} or {arg_name('top')}")
        if self.keep is not None and self.threshold is not None:
            raise UsageError(f"{arg_name('keep')} and {arg_name('threshold')}: are both given; leave one out")
        if self.by is not None and has_model:
            raise UsageError(f"{arg_name('by')}: does not go with a model, whose score is the criterion; leave one out")
        if self.by is not None and self.by not in _NAMED and not (self.by.isdecimal() and int(self.by) >= 1):
            raise UsageError(f"{arg_name('by')}: `{self.by}` is not {', '.join(_NAMED)} or the number of a column")
        if self.threshold in _ALPHA and self.by != "significance":
            raise UsageError(f"{arg_name('threshold')}: {self.threshold} needs {arg_name('by', 'significance')}")
        if self.threshold is not None and self.threshold not in _ALPHA:
            try:
                parse_number(self.threshold)
            except ValueError as error:
                raise UsageError(f"{arg_name('threshold')}: {error}") from None
        require_rereadable(table, why="pruning reads the table twice")

    def criterion(self, table: str | Path) -> Criterion:
        """Return the criterion; significance reads the table, because it depends on the number of extracted pairs."""
        if self.by == "significance":
            return Significance(max(1.0, sum(_results(_count_pairs, read_chunks(table), self.processes))))
        by = self.by or "count"
        return _NAMED[by]() if by in _NAMED else ColumnValue(int(by))

    def least(self, criterion: Criterion) -> float | None:
        if isinstance(criterion, Significance) and self.threshold in _ALPHA:
            return criterion.alpha + _ALPHA[self.threshold]
        return None if self.threshold is None else parse_number(self.threshold)


@dataclass
class Pruned:
    """Counts of lines."""

    lines_read: int = 0
    lines_written: int = 0
    faulty_lines: int = 0
    first_fault: str | None = None


def prune(
    table: str | Path,
    output: str | Path,
    config: PruneConfig,
    criterion: Criterion,
    *,
    reordering: tuple[str | Path, str | Path] | None = None,
    chunk_lines: int = CHUNK_LINES,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
) -> Pruned:
    """Copy the best lines of a phrase table, and those of a reordering table (input, output) with the same pairs."""
    least = config.least(criterion)
    fingerprint = {
        "table": sha256_of_input(table),
        **criterion.fingerprint(),
        "on-error": config.on_error,
        "lines of a chunk": chunk_lines,
    }
    with ExitStack() as stack:
        beside = Path(stack.enter_context(TemporaryDirectory())) / "output" if is_stream(output) else Path(output)
        place = beside.with_name(f".{beside.name}.values")
        # A complete run leaves no values; an interrupted one leaves them beside the output, for the next.
        stack.callback(place.unlink, missing_ok=True)
        values = stack.enter_context(resumable_output(place, fingerprint, restart=config.restart, name=output))
        if values.note:
            log(values.note)
        chunks = partial(read_chunks, table, chunk_lines=chunk_lines)
        task = _Valuing(str(table), criterion, config.on_error == "keep")
        for chunk, facts, share in _results(task, islice(chunks(), len(values.chunks), None), config.processes):
            values.append(chunk, facts)
            progress(share, "giving each line a value")
        counts = _counts(table, values.chunks)
        kept_N = _choose(np.memmap(values.file, _LINE, "r"), config, least, display_name(table))
        counts.lines_written = int(kept_N.sum())
        if not counts.lines_written:
            raise UserError(f"{arg_name('threshold')}: no line has a value of at least {least:g}; give a lower one")
        # Both outputs appear when both are complete.
        stream = stack.enter_context(open_output(output, is_compressed=True))
        copying = _Copying(compression_for(output))
        for lines, share in _results(copying, _with_marks(chunks(), kept_N), config.processes):
            stream.write(lines)
            progress(share, "copying lines")
        if reordering is not None:
            marked = _with_marks(chunks(), kept_N)
            kept = (line for chunk, marks in marked for line in selected(io.BytesIO(chunk.data), marks))
            stream = stack.enter_context(open_output(reordering[1]))
            try:
                _prune_reordering(reordering[0], kept, stream)
            except UserError as error:
                # An invalid input leaves no values.
                raise InputError(str(error)) from error
    return counts


def _results(task: Callable[[Any], Any], items: Iterable[Any], processes: int | None) -> Iterator[Any]:
    with closing(run_ordered(task, items, "pruning", processes)) as results:
        yield from results


def _count_pairs(chunk: Chunk) -> float:
    """Return the number of extracted pairs of a chunk. The pass after this one reports faulty lines."""
    entries = LineChecker("", keep_faulty=True, shape=chunk.shape).check(chunk).entries
    return sum(entry.occurrences("pair") or 0.0 for entry in entries)


# The first pass


@dataclass(frozen=True)
class _Valuing:
    table: str
    criterion: Criterion
    keep_faulty: bool

    def __call__(self, chunk: Chunk) -> tuple[bytes, dict[str, Any], float | None]:
        """Return the records of the lines, the counts of lines, and `share_read` of the chunk."""
        numbers: list[tuple[float, ...]] = []
        checker = LineChecker(
            self.table,
            keep_faulty=self.keep_faulty,
            shape=chunk.shape,
            factors=self.criterion.factors,
            check_entry=lambda entry: numbers.append(self.criterion.read(entry)),
        )
        checked = checker.check(chunk)
        first_fault, lines = checker.first_fault(checked), np.zeros(len(checked.lines), _LINE)
        is_valid_N = np.array([isinstance(line, Entry) for line in checked.lines], bool)
        # A faulty line has no value; keep it.
        lines["value"] = np.inf
        if numbers:
            numbers_NK = np.array(numbers, np.float64)
            lines["value"][is_valid_N] = self.criterion.values(checked.entries, numbers_NK)
            lines["tie"][is_valid_N] = self.criterion.tie_breakers(numbers_NK)
        if np.isnan(lines["value"]).any():
            raise ValueError("a value is not a number")
        sources = [line.source or b"" for line in checked.lines]
        lines["words"] = [min(source.count(b" "), _MOST_WORDS) for source in sources]
        lines["source"] = list(map(hash_word, sources))
        facts = {"lines": len(lines), "faulty": len(checked.faulty), "first_fault": first_fault}
        return lines.tobytes(), facts, chunk.share_read


def _counts(table: str | Path, chunks: Sequence[dict[str, Any]]) -> Pruned:
    counts = Pruned(
        lines_read=sum(facts["lines"] for facts in chunks),
        faulty_lines=sum(facts["faulty"] for facts in chunks),
        first_fault=next((facts["first_fault"] for facts in chunks if facts["first_fault"]), None),
    )
    if not counts.lines_read:
        raise InputError(f"{display_name(table)}: has no line; check that it is the table meant")
    if counts.lines_read == counts.faulty_lines:
        raise InputError(f"{counts.first_fault}; all {counts.lines_read:,} lines are faulty")
    return counts


# Choosing lines


def _choose(lines_N: Lines, config: PruneConfig, least: float | None, table: str) -> Bools:
    kept_N = np.ones(len(lines_N), bool)
    if config.top is not None:
        # Faulty lines are kept, and belong to no source phrase.
        valid_N = lines_N["value"] < np.inf
        kept_N[valid_N] = _best_of_sources(lines_N if valid_N.all() else lines_N[valid_N], config.top, table)
    if least is not None:
        kept_N &= lines_N["value"] >= least
    if config.keep is not None:
        keys = lines_N["value"], -lines_N["words"].astype(np.int32), lines_N["tie"]
        kept_N = _best(kept_N, keys, max(1, round(config.keep * len(lines_N))))
    return kept_N


def _best_of_sources(lines_N: Lines, top: int, table: str) -> Bools:
    """Return which lines are among the `top` best with their source; of equals, the first are.

    Raises:
        InputError: the lines of a source phrase are not consecutive.
    """
    is_first_N = np.append(True, lines_N["source"][1:] != lines_N["source"][:-1])
    firsts, kept_N = np.flatnonzero(is_first_N), np.zeros(len(lines_N), bool)
    if len(np.unique(lines_N["source"][firsts])) < len(firsts):
        raise InputError(
            f"{table}: the lines of a source phrase are not together, as {arg_name('top')} needs them; sort the table "
            "by `LC_ALL=C sort`"
        )
    cuts = firsts[np.searchsorted(firsts, np.arange(0, firsts[-1] + 1, _WINDOW))]
    for begin, end in pairwise([*np.unique(cuts), len(lines_N)]):
        source_N = np.cumsum(is_first_N[begin:end]) - 1
        order_N = np.lexsort((-lines_N["value"][begin:end], source_N))
        rank_N = np.arange(end - begin) - np.flatnonzero(is_first_N[begin:end])[source_N]
        kept_N[begin + order_N] = rank_N < top
    return kept_N


def _best(among_N: Bools, keys: Sequence[NDArray[Any]], count: int) -> Bools:
    """Return which lines are the best `count`; the next key decides between equals, then the order of the table."""
    if np.count_nonzero(among_N) <= count:
        return among_N
    least = _nth_largest(keys[0], among_N, count)
    better_N: Bools = among_N & (keys[0] > least)
    equal_N: Bools = among_N & (keys[0] == least)
    left = count - int(np.count_nonzero(better_N))
    if keys[1:]:
        equal_N = _best(equal_N, keys[1:], left)
    else:
        equal_N[np.flatnonzero(equal_N)[left:]] = False
    best_N: Bools = better_N | equal_N
    return best_N


def _nth_largest(key_N: NDArray[Any], among_N: Bools, count: int) -> Any:
    """Return the `count`-th largest of some keys, which are partitioned in a temporary file."""
    with TemporaryFile() as file, full_disk_as_error(f"a temporary file in {gettempdir()}"):
        for begin in range(0, len(key_N), _WINDOW):
            part = slice(begin, begin + _WINDOW)
            file.write(key_N[part][among_N[part]].tobytes())
        file.flush()
        ordered = np.memmap(file, key_N.dtype, "r+")
        ordered.partition(len(ordered) - count)
        return ordered[-count]


# The second pass


def _with_marks(chunks: Iterable[Chunk], kept_N: Bools) -> Iterator[tuple[Chunk, Bools]]:
    first = 0
    for chunk in chunks:
        # The continuation of a line has its mark.
        begin = first if chunk.lines else first - 1
        first += chunk.lines
        yield chunk, kept_N[begin:first]


@dataclass(frozen=True)
class _Copying:
    compression: str | None

    def __call__(self, item: tuple[Chunk, Bools]) -> tuple[bytes, float | None]:
        chunk, kept_N = item
        lines = list(selected(io.BytesIO(chunk.data), kept_N))
        return compress(lines, self.compression) if lines else b"", chunk.share_read


# The reordering table


def _prune_reordering(reordering: str | Path, kept: Iterable[bytes], output: BinaryIO) -> None:
    """Copy the lines with the phrase pairs of other lines, in the same order; type `f` has only source phrases."""
    with open_input(reordering) as source:
        lines = bounded_lines(source.stream, display_name(reordering))
        _, line = next(lines, (0, b""))
        fields = 1 if line.count(SEPARATOR) == 1 else 2
        keys = (key for key, _ in groupby(_key(line, fields) for line in kept if line.count(SEPARATOR) >= 2))
        last, wanted = None, next(keys, None)
        while line:
            key = _key(line, fields)
            if key == wanted:
                last, wanted = wanted, next(keys, None)
            if key == last:
                output.write(line)
            _, line = next(lines, (0, b""))
        if wanted is not None:
            raise UserError(
                f"{reordering}: lacks `{quote(b' ||| '.join(wanted))}` of the phrase table, or has another order; give "
                "the reordering table that was built with it, with the same factors of words"
            )


def _key(line: bytes, fields: int) -> tuple[bytes, ...]:
    return tuple(map(join_words, line.split(SEPARATOR, fields)[:fields]))
