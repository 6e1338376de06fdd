"""Phrase and reordering tables in memory: only what the input can use.

A table of millions of lines is read once, as a stream; a line is kept, as bytes, if its source phrase occurs in the
sentences to translate. Numbers are parsed when a phrase is first looked up.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from pathlib import Path

from moses_integration.decoder.phrases import TargetPhrase, Words, words_of
from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, compressed_form, open_input, open_output
from phrasescore.number import single
from phrasescore.table.entry import (
    LOWEST_LOG,
    SEPARATOR,
    Entry,
    LineFault,
    fault_of_the_whole,
    parse_alignment,
    parse_line,
    parse_scores,
    without_end,
)
from phrasescore.table.factors import describe_factors
from phrasescore.text import counted
from phrasescore.words import join_words

_SPARSE = 2
"""Place of the sparse features among the fields after the scores."""


class PhraseTable:
    """Translations of the source phrases that occur in the input."""

    def __init__(self, path: Path, width: int, wanted: Set[bytes], target_factors: int = 1) -> None:
        """Read the lines whose source is in `wanted`; target words have so many factors."""
        self.path, self.width, self._target_factors = path, width, target_factors
        self._lines: dict[bytes, list[tuple[int, bytes]]] = {}
        for row, source, line in wanted_lines(path, wanted, join_words):
            self._lines.setdefault(source, []).append((row, line))

    def lookup(self, source: Words) -> list[TargetPhrase]:
        """Return the translations of a phrase, in the table's order."""
        return [self._parse(row, line) for row, line in self._lines.get(b" ".join(source), ())]

    def lines(self, source: Words) -> list[bytes]:
        """Return the lines of those translations, with their ends."""
        return [line for _, line in self._lines.get(b" ".join(source), ())]

    def _parse(self, row: int, line: bytes) -> TargetPhrase:
        try:
            entry = parse_line(line)
            if entry.factors() not in ((1, self._target_factors), (1, 0)):
                raise _unexpected_factors(entry)
            fields = entry.other_fields()
            if len(fields) > _SPARSE and fields[_SPARSE]:
                raise LineFault(
                    "field 6 (sparse features)", "is not empty", "empty it, for Moses alone knows such features"
                )
            logs = _floored_logs(entry.scores, self.width, f"moses.ini says num-features={self.width}")
            return TargetPhrase(words_of(entry.target), logs, parse_alignment(fields[0]) if fields else ())
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault


class ReorderingTable:
    """Logarithms of orientation probabilities by phrase pair. Key and values: `f ||| e ||| p ...` or `f ||| p ...`.

    Moses takes the phrases as they stand there, without the blanks at the ends: with two blanks between words, or tabs,
    none is ever found (moses/FF/LexicalReordering/LexicalReorderingTable.cpp).
    """

    def __init__(self, path: Path, width: int, has_target: bool, wanted: Set[bytes]) -> None:
        """Read the lines whose source is in `wanted`; `path` or, failing that, `path.gz`, as Moses does."""
        zipped = Path(f"{path}.gz")
        self.path = path if path.exists() or not zipped.exists() else zipped
        self.width, self.has_target = width, has_target
        self._lines: dict[bytes, tuple[int, bytes]] = {}
        for row, source, line in wanted_lines(self.path, wanted, _without_outer_blanks):
            _, *fields = without_end(line).split(SEPARATOR)
            if len(fields) < 1 + has_target:
                raise _error(self.path, row, fault_of_the_whole(line))
            target = _without_outer_blanks(fields[0]) if has_target else b""
            self._lines[source + SEPARATOR + target] = (row, fields[has_target])

    def lookup(self, source: Words, target: Words) -> tuple[float, ...] | None:
        """Return max(ln p, -100) of each column, None for a pair that is not in the table."""
        found = self._find(source, target)
        if found is None:
            return None
        row, scores = found
        try:
            return _floored_logs(scores, self.width, f"the model's type needs {self.width}")
        except LineFault as fault:
            raise _error(self.path, row, fault) from fault

    def scores(self, source: Words, target: Words) -> bytes | None:
        """Return the field of the scores as it stands in the table, None for a pair that is not in it."""
        found = self._find(source, target)
        return found and found[1]

    def _find(self, source: Words, target: Words) -> tuple[int, bytes] | None:
        return self._lines.get(b" ".join(source) + SEPARATOR + (b" ".join(target) if self.has_target else b""))


def _without_outer_blanks(phrase: bytes) -> bytes:
    return phrase.strip(b" ")


def filter_table(path: Path, wanted: Set[bytes], filtered: Path, *, is_for_reordering: bool) -> None:
    """Write the lines of a table whose source phrase is wanted, as they are."""
    phrase_of = _without_outer_blanks if is_for_reordering else join_words
    with open_output(filtered) as stream:
        stream.writelines(line.rstrip(b"\n") + b"\n" for _, _, line in wanted_lines(path, wanted, phrase_of))


def wanted_lines(
    path: Path, wanted: Set[bytes], phrase_of: Callable[[bytes], bytes]
) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield row, source phrase and line, of the lines whose source phrase is wanted.

    Which phrase a field has is asked once for the lines that follow one another with it.
    """
    if not path.exists():
        compressed = compressed_form(path)
        remedy = f"name {compressed}, which is there" if compressed else "mend the line"
        raise UserError(f"{path}: is not there, but the ini names it; {remedy}")
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


def _unexpected_factors(entry: Entry) -> LineFault:
    """Return what is wrong with a line whose words have other factors than the ini says."""
    found = describe_factors(*entry.factors())
    return LineFault("line", f"has {found}, which are others than moses.ini says", "mend output-factor= in the ini")


def _floored_logs(scores: bytes, width: int, promise: str) -> tuple[float, ...]:
    """Return max(ln p, -100) for each score, as Moses makes feature values of probabilities: in 32 bit.

    Raises:
        LineFault: one is no probability, or there are more or fewer than `promise` says.
    """
    probabilities = parse_scores(scores, "scores")
    if len(probabilities) != width:
        reason = f"has {counted(len(probabilities), 'score')} where {promise}"
        raise LineFault("line", reason, "`phrasescore check` tells what is wrong with the table")
    return tuple(max(single(math.log(p)), LOWEST_LOG) if p > 0 else LOWEST_LOG for p in probabilities)


def _error(path: Path, row: int, fault: LineFault) -> UserError:
    """Return the error for a line of a table that cannot be used."""
    return UserError(f"{path}: line {row}: {str(fault).removeprefix('line: ')}")
