"""Report the content of a phrase table, and what Moses would reject.

The rules are those of Moses' loaders: PhraseDictionaryMemory reads text tables, from which the compact table
(processPhraseTableMin), ProbingPT and the on-disk table are built.
"""

from __future__ import annotations

import math
import re
from array import array
from codecs import BOM_UTF8
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from phrasescore.errors import arg_name
from phrasescore.files import MAGIC_LENGTH, STANDARD_STREAM, detect_format
from phrasescore.table.entry import LOWEST_LOG, SEPARATOR, Entry, LineFault, describe_factors, parse_alignment
from phrasescore.table.reader import TableReader
from phrasescore.text import ProgressCallback, counted, is_text, no_progress
from phrasescore.words import split_words

_PROPERTY = re.compile(rb"\{\{(\S+) [^}]*\}\}")
_MOSES_PROPERTIES = {
    b"Counts", b"SourceLabels", b"Tree", b"SpanLength", b"NonTermContext", b"Orientation", b"TargetPreferences",
}  # fmt: skip
"""From moses/PP/Factory.cpp; the loader fails on any other key."""
_SMALLEST = math.exp(LOWEST_LOG)


@dataclass
class ColumnRange:
    """The range of one score column."""

    smallest: float = math.inf
    largest: float = -math.inf
    floored: int = 0
    """Numbers at or below exp(-100), including zero, which Moses floors at -100."""
    above_one: int = 0

    def add(self, value: float) -> None:
        self.smallest = min(self.smallest, value)
        self.largest = max(self.largest, value)
        self.floored += 0 <= value <= _SMALLEST
        self.above_one += value > 1


@dataclass
class TableReport:
    """The result of a check."""

    lines: int = 0
    columns: list[ColumnRange] = field(default_factory=list)
    fields: Counter[int] = field(default_factory=Counter)
    distinct_sources: int = 0
    repeated_pairs: int = 0
    source_lengths: Counter[int] = field(default_factory=Counter)
    target_lengths: Counter[int] = field(default_factory=Counter)
    factors: tuple[int, int] = (0, 0)
    """Number of factors of a source word and of a target word; 0 for a side without words."""
    undecodable_words: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    """What Moses would reject or misread, by kind, with the number of lines."""
    first_lines: dict[str, int] = field(default_factory=dict)
    """The first line of each problem; problems of the whole file are not included."""
    notes: list[str] = field(default_factory=list)
    """Valid properties that limit the use of the table."""


def check_table(
    path: str | Path, *, columns: int | None = None, limit: int | None = None, progress: ProgressCallback = no_progress
) -> TableReport:
    """Report the content of a table, or of its first `limit` lines; `columns` is `num-features` of moses.ini."""
    checker = _Checker(columns)
    reader = TableReader(path, keep_faulty=True, limit=limit)
    for chunk in reader:
        for line in chunk.lines:
            checker.report.lines += 1
            if isinstance(line, Entry):
                checker.add(line)
            else:
                checker.fault(line.fault)
        progress(chunk.share_read, counted(checker.report.lines, "line"))
    checker.report.factors = reader.shape.factors
    checker.finish(path)
    return checker.report


class _Checker:
    def __init__(self, expected_columns: int | None) -> None:
        self.report = TableReport()
        self.expected_columns = expected_columns
        self.last_key = b""
        self.source: bytes | None = None
        # Hashes, because the sources of a large table take too much memory: of each run of lines with one source, and
        # of the targets of the current source.
        self.runs = array("q")
        self.targets: set[int] = set()
        self.is_sorted = True
        self.unusual_spacing = 0
        self.has_all_alignments = True

    def problem(self, kind: str) -> None:
        self.report.problems[kind] += 1
        self.report.first_lines.setdefault(kind, self.report.lines)

    def file_problem(self, problem: str) -> None:
        self.report.problems[f"file: {problem}"] += 1

    def fault(self, fault: LineFault) -> None:
        """Count the fault of the current line by its kind, independent of the text of the line."""
        self.problem(f"{fault.field}: {fault.reason}")

    def add(self, entry: Entry) -> None:
        report = self.report
        source, target = split_words(entry.source), split_words(entry.target)
        report.source_lengths[len(source)] += 1
        report.target_lengths[len(target)] += 1
        report.undecodable_words += sum(not is_text(word) for word in source + target)
        self._check_scores(entry.scores.split(b" "))
        fields = entry.other_fields()
        report.fields[3 + len(fields)] += 1
        alignment, _, sparse, properties = (fields + [b""] * 4)[:4]
        try:
            self._check_alignment(alignment, len(source), len(target))
        except LineFault as fault:
            self.fault(fault)
        if len(split_words(sparse)) % 2:
            self.problem("field 6 (sparse features): is not a list of names and values")
        self._check_properties(properties)
        self._check_spacing(entry)
        self._check_order(entry)

    def _check_scores(self, scores: list[bytes]) -> None:
        columns = self.report.columns
        if not columns:
            columns.extend(ColumnRange() for _ in scores)
        if self.expected_columns not in (None, len(scores)):
            self.problem(
                f"field 3 (scores): has {counted(len(scores), 'score')} where num-features promises "
                f"{self.expected_columns}"
            )
        for column, text in zip(columns, scores, strict=True):
            column.add(float(text))

    def _check_alignment(self, alignment: bytes, source: int, target: int) -> None:
        links = parse_alignment(alignment)
        self.has_all_alignments = self.has_all_alignments and bool(links)
        if any(left >= source or right >= target for left, right in links):
            self.problem("field 4 (alignment): points outside the phrase pair")

    def _check_properties(self, properties: bytes) -> None:
        if not properties:
            return
        groups = _PROPERTY.findall(properties)
        if not groups or _PROPERTY.sub(b"", properties).strip(b" "):
            self.problem("field 7 (properties): is not of the form `{{Key value}}`")
        for key in groups:
            if key not in _MOSES_PROPERTIES and not key.startswith(b"TargetConstituentBoundaries"):
                self.problem("field 7 (properties): names a property that Moses does not have")

    def _check_spacing(self, entry: Entry) -> None:
        parts = entry.source, entry.target, entry.scores
        self.unusual_spacing += entry.line[: entry.end] != b" ||| ".join(parts)
        if self.report.lines == 1 and b" " not in entry.line:
            # See moses/TranslationModel/RuleTable/LoaderFactory.cpp.
            self.problem("line: has no space; Moses takes a table whose first line has none for another format")
        if self.report.lines == 1 and entry.line.startswith(BOM_UTF8):
            self.problem("line: begins with a byte order mark, which Moses takes for a part of the first word")

    def _check_order(self, entry: Entry) -> None:
        # `sort` compares whole lines, so the key includes the separator and unusual spaces.
        key = entry.line[: entry.line.index(SEPARATOR) + len(SEPARATOR)]
        self.is_sorted = self.is_sorted and key >= self.last_key
        self.last_key = key
        if entry.source != self.source:
            self.source = entry.source
            self.runs.append(hash(entry.source))
            self.targets.clear()
        target = hash(entry.target)
        self.report.repeated_pairs += target in self.targets
        self.targets.add(target)

    def finish(self, path: str | Path) -> None:
        """Add the problems and notes that depend on the whole table."""
        report = self.report
        report.distinct_sources = len(np.unique(np.frombuffer(self.runs, np.int64)))
        if not report.lines:
            self.file_problem("is empty, so that nothing can be translated with it; check how it was made")
        if max(report.factors) > 1:
            report.notes.append(
                f"a factored table: {describe_factors(*report.factors)}; networks learn factor 0 unless "
                f"{arg_name('factor')} of `train` names others, and the embedded decoder cannot load the table"
            )
        if report.distinct_sources < len(self.runs):
            report.notes.append(
                "lines of one source are not together: ProbingPT and on-disk tables cannot be made of it"
            )
        if not self.is_sorted:
            report.notes.append("not sorted bytewise by source: processPhraseTableMin (compact tables) rejects it")
        if not self.has_all_alignments:
            report.notes.append("lines without word alignment: compact tables need `-encoding None`")
        if self.unusual_spacing:
            report.notes.append(
                f"{self.unusual_spacing} lines have not exactly one space around each `|||` and between words: "
                "ProbingPT and on-disk tables may read them otherwise"
            )
        if report.repeated_pairs:
            report.notes.append(f"pairs that occur twice: {report.repeated_pairs:,}; Moses keeps both as options")
        if str(path) != STANDARD_STREAM and (problem := compression_problem(Path(path))):
            self.file_problem(problem)


def compression_problem(path: Path) -> str | None:
    """Return why Moses cannot decompress a table, or None: it decides by the name, and supports gzip only."""
    if not path.is_file() or not path.stat().st_size:
        return None
    with path.open("rb") as stream:
        compression = detect_format(stream.read(MAGIC_LENGTH))
    if compression not in (None, "gz"):
        return f"is {compression} data, which Moses does not read in a table; compress it as .gz"
    if (compression == "gz") != (path.suffix == ".gz"):
        kind = "gzip data" if compression else "plain text"
        return f"is {kind} under the name {path.name}, and Moses goes by the name; rename it"
    return None
