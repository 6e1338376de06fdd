"""Phrase and reordering tables, filtered to the source phrases of the input.

A table is read once, as a stream. A line is kept as bytes if its source phrase occurs in the sentences to translate,
and parsed when the phrase is looked up. See `table_lines.py` for where it is kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from moses_integration.decoder.phrases import TargetPhrase, Words, words_of
from moses_integration.decoder.table_lines import KeyedLines, Line, Wanted, keep_lines
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, compressed_form, open_input, open_output
from phrasescore.table.entry import (
    LOWEST_LOG,
    SEPARATOR,
    LineFault,
    describe_factors,
    fault_of_the_whole,
    parse_alignment,
    parse_line,
    parse_scores,
    without_end,
)
from phrasescore.text import counted
from phrasescore.words import join_words, single


class PhraseTable:
    """Translations of source phrases."""

    def __init__(self, path: Path, width: int, wanted: Wanted, target_factors: int = 1) -> None:
        """Read the lines whose source phrase is in `wanted`."""
        self.path, self.width, self._target_factors = path, width, target_factors

        def read() -> KeyedLines:
            return ((source, (row, without_end(line))) for row, source, line in wanted_lines(path, wanted, join_words))

        self._lines = keep_lines(wanted, f"{path.resolve()}", read)

    def lookup(self, source: Words) -> list[TargetPhrase]:
        """Return the translations of a phrase in the order of the table."""
        return [self._parse(row, line) for row, line in self._lines.get(b" ".join(source)) or ()]

    def lines(self, source: Words) -> list[bytes]:
        """Return the lines of a phrase, without line ends."""
        return [line for _, line in self._lines.get(b" ".join(source)) or ()]

    def _parse(self, row: int, line: bytes) -> TargetPhrase:
        try:
            entry = parse_line(line)
            if entry.factors() not in ((1, self._target_factors), (1, 0)):
                found = describe_factors(*entry.factors())
                raise LineFault("line", f"has {found}, unlike moses.ini", "fix output-factor= in the ini")
            fields = entry.other_fields()
            # Alignment, counts, sparse features.
            if len(fields) > 2 and fields[2]:
                raise LineFault(
                    "field 6 (sparse features)", "is not empty", "empty it, because only Moses supports such features"
                )
            logs = _floored_logs(entry.scores, self.width, f"moses.ini says num-features={self.width}")
            return TargetPhrase(words_of(entry.target), logs, parse_alignment(fields[0]) if fields else ())
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault


class ReorderingTable:
    """Log-probabilities of orientations by phrase pair, `f ||| e ||| p ...`, or by source phrase, `f ||| p ...`.

    Moses only trims spaces from the phrases, so it never finds a phrase with two spaces or a tab between words
    (moses/FF/LexicalReordering/LexicalReorderingTable.cpp).
    """

    def __init__(self, path: Path, width: int, has_target: bool, wanted: Wanted) -> None:
        """Read the lines whose source phrase is in `wanted`, from `path.gz` if there is no `path`, like Moses."""
        zipped = Path(f"{path}.gz")
        self.path = path if path.exists() or not zipped.exists() else zipped
        self.width, self.has_target = width, has_target
        self._lines = keep_lines(wanted, f"{self.path.resolve()} {has_target}", lambda: self._read(wanted))

    def _read(self, wanted: Wanted) -> KeyedLines:
        """Yield the scores by phrase pair or source phrase."""
        for row, source, line in wanted_lines(self.path, wanted, _trim):
            _, *fields = without_end(line).split(SEPARATOR)
            if len(fields) < 1 + self.has_target:
                raise _error(self.path, row, fault_of_the_whole(line))
            target = _trim(fields[0]) if self.has_target else b""
            yield source + SEPARATOR + target, (row, fields[self.has_target])

    def lookup(self, source: Words, target: Words) -> tuple[float, ...] | None:
        """Return max(ln p, -100) of each column, None for a pair outside the table."""
        found = self._find(source, target)
        if found is None:
            return None
        row, scores = found
        try:
            return _floored_logs(scores, self.width, f"the model's type needs {self.width}")
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault

    def scores(self, source: Words, target: Words) -> bytes | None:
        """Return the field of the scores as bytes, None for a pair outside the table."""
        found = self._find(source, target)
        return found and found[1]

    def _find(self, source: Words, target: Words) -> Line | None:
        found = self._lines.get(b" ".join(source) + SEPARATOR + (b" ".join(target) if self.has_target else b""))
        return found[-1] if found else None


def _trim(phrase: bytes) -> bytes:
    return phrase.strip(b" ")


def filter_table(path: Path, wanted: Set[bytes], filtered: Path, *, is_for_reordering: bool) -> None:
    """Write the lines of a table whose source phrase is in `wanted`, unchanged."""
    phrase_of = _trim if is_for_reordering else join_words
    with open_output(filtered) as stream:
        stream.writelines(line.rstrip(b"\n") + b"\n" for _, _, line in wanted_lines(path, wanted, phrase_of))


def wanted_lines(path: Path, wanted: Wanted, phrase_of: Callable[[bytes], bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield line number, source phrase and line of the lines whose source phrase is in `wanted`.

    `phrase_of` normalises the first field; it is called once for adjacent lines with equal fields.
    """
    if not path.exists():
        compressed = compressed_form(path)
        remedy = f"name {compressed}, which exists" if compressed else "fix the line"
        raise UserError(f"{path}: does not exist, but the ini names it; {remedy}")
    last = phrase = b""
    with open_input(path) as source:
        for row, line in enumerate(iter(lambda: source.stream.readline(LONGEST_LINE), b""), 1):
            field, separator, _ = line.partition(SEPARATOR)
            if not separator or len(line) == LONGEST_LINE:
                raise _error(path, row, fault_of_the_whole(line))
            if field != last:
                last, phrase = field, phrase_of(field)
            if phrase in wanted:
                yield row, phrase, line


def _floored_logs(scores: bytes, width: int, promise: str) -> tuple[float, ...]:
    """Return max(ln p, -100) of each score in 32 bits, like Moses; `promise` explains the width."""
    probabilities = parse_scores(scores, "scores")
    if len(probabilities) != width:
        reason = f"has {counted(len(probabilities), 'score')} where {promise}"
        raise LineFault("line", reason, "run `phrasescore check` on the table")
    return tuple(max(single(math.log(p)), LOWEST_LOG) if p > 0 else LOWEST_LOG for p in probabilities)


def _error(path: Path, row: int, fault: LineFault) -> UserError:
    return UserError(f"{path}: line {row}: {str(fault).removeprefix('line: ')}")
