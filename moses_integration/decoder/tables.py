"""Phrase and reordering tables in memory: only what the input can use.

A table of millions of lines is read once, as a stream; a line is kept, as bytes, if its source phrase occurs in the
sentences to translate. Numbers are parsed when a phrase is first looked up.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from moses_integration.decoder.phrases import LOWEST_SCORE, TargetPhrase, Words, words_of
from moses_integration.number import parse_number
from phrasescore.errors import UserError
from phrasescore.files import open_input
from phrasescore.table.entry import SEPARATOR, LineFault, check_phrases

_SINGLE = struct.Struct("f")
_SPARSE = 4
"""Place of the sparse features, counted from the target."""


def phrases_of(sentences: Iterable[Words], longest: int) -> set[bytes]:
    """Return every sequence of at most `longest` words of the sentences, words joined by a blank."""
    return {
        b" ".join(sentence[start:end])
        for sentence in sentences
        for start in range(len(sentence))
        for end in range(start + 1, min(start + longest, len(sentence)) + 1)
    }


class PhraseTable:
    """Translations of the source phrases that occur in the input."""

    def __init__(self, path: Path, width: int, wanted: set[bytes]) -> None:
        """Read the lines whose source is in `wanted`.

        Raises:
            UserError: the table cannot be read or has a malformed line.
        """
        self.path, self.width = path, width
        self._lines: dict[bytes, list[tuple[int, bytes]]] = {}
        for row, source, rest in _wanted_lines(path, wanted):
            self._lines.setdefault(source, []).append((row, rest))

    def lookup(self, source: Words) -> list[TargetPhrase]:
        """Return the translations of a phrase, in the table's order.

        Raises:
            UserError: one of the lines is malformed, has factors or labels of a hierarchical rule, another number of
                scores than the feature, or a score that is no probability.
        """
        phrase = b" ".join(source)
        return [self._parse(row, phrase, rest) for row, rest in self._lines.get(phrase, ())]

    def _parse(self, row: int, source: bytes, rest: bytes) -> TargetPhrase:
        # The separator is three bars; blanks around it are split off with the words (LoaderStandard.cpp).
        fields = rest.split(b"|||")
        if len(fields) < 2:
            raise _fault(self.path, row, "has fewer than three fields")
        tokens = words_of(fields[1])
        if len(fields) > _SPARSE and words_of(fields[_SPARSE]):
            raise UserError(
                f"{self.path}: line {row}: has sparse features, which the embedded decoder does not know; use Moses"
            )
        if len(tokens) != self.width:
            raise _fault(self.path, row, f"has {len(tokens)} scores where moses.ini says num-features={self.width}")
        try:
            words = words_of(fields[0])
            check_phrases(source, b" ".join(words))
            alignment = _parse_alignment(fields[2]) if len(fields) > 2 else ()
            return TargetPhrase(words, _floored_logs(tokens), alignment)
        except LineFault as fault:
            raise _fault(self.path, row, f"{fault.field}: {fault.reason}") from fault
        except ValueError as error:
            raise _fault(self.path, row, str(error)) from error


class ReorderingTable:
    """Logarithms of orientation probabilities by phrase pair. Key and values: `f ||| e ||| p ...` or `f ||| p ...`."""

    def __init__(self, path: Path, width: int, has_target: bool, wanted: set[bytes]) -> None:
        """Read the lines whose source is in `wanted`; `path` or, failing that, `path.gz`, as Moses does.

        Raises:
            UserError: the table cannot be read or has a malformed line.
        """
        zipped = path.with_name(path.name + ".gz")
        self.path = path if path.exists() or not zipped.exists() else zipped
        self.width, self._has_target = width, has_target
        self._lines: dict[bytes, tuple[int, bytes]] = {}
        for row, source, rest in _wanted_lines(self.path, wanted):
            target, separator, scores = rest.rpartition(b"|||") if has_target else (b"", b"|||", rest)
            if not separator:
                raise _fault(self.path, row, "has no target field")
            self._lines[source + b"|||" + b" ".join(words_of(target))] = (row, scores)

    def lookup(self, source: Words, target: Words) -> tuple[float, ...] | None:
        """Return max(ln p, -100) of each column, None for a pair that is not in the table.

        Raises:
            UserError: the line has another number of scores than the model's type, or one is no probability.
        """
        key = b" ".join(source) + b"|||" + (b" ".join(target) if self._has_target else b"")
        found = self._lines.get(key)
        if found is None:
            return None
        row, scores = found
        tokens = words_of(scores)
        if len(tokens) != self.width:
            raise _fault(self.path, row, f"has {len(tokens)} scores where the model's type needs {self.width}")
        try:
            return _floored_logs(tokens)
        except ValueError as error:
            raise _fault(self.path, row, str(error)) from error


def _wanted_lines(path: Path, wanted: set[bytes]) -> Iterator[tuple[int, bytes, bytes]]:
    """Yield row, source phrase and the bytes after it, of the lines whose source phrase is wanted.

    Moses splits phrases at blanks and tabs, however many. Few tables have others than single blanks; whether a phrase
    has is asked once for the lines that follow one another with it.
    """
    if not path.exists():
        raise UserError(f"{path}: is not there, but the ini names it; mend the line")
    last = phrase = b""
    with open_input(path) as source:
        for row, line in enumerate(source.stream, 1):
            field, separator, rest = line.partition(SEPARATOR)
            if not separator:
                raise _fault(path, row, "has no ` ||| `")
            if field != last:
                last = field
                # Python splits at more than that, which does no harm in a question.
                phrase = field if b" ".join(field.split()) == field else b" ".join(words_of(field))
            if phrase in wanted:
                yield row, phrase, rest.rstrip(b"\r\n")


def _floored_logs(scores: Iterable[bytes]) -> tuple[float, ...]:
    """Return max(ln p, -100) for each token, as Moses makes feature values of probabilities: in 32 bit.

    Raises:
        ValueError: a token is no finite number, or a negative one, of which Moses would make a NaN.
    """
    values = []
    for token in scores:
        try:
            probability = _single(parse_number(token))
        except (ValueError, OverflowError):
            probability = math.nan
        if not 0 <= probability < math.inf:
            raise ValueError(f"the score `{token.decode(errors='replace')}` is no probability")
        values.append(max(_single(math.log(probability)), LOWEST_SCORE) if probability > 0 else LOWEST_SCORE)
    return tuple(values)


def _single(number: float) -> float:
    """Return the nearest number of 32 bit."""
    rounded: float = _SINGLE.unpack(_SINGLE.pack(number))[0]
    return rounded


def _parse_alignment(field: bytes) -> tuple[tuple[int, int], ...]:
    """Parse `s-t s-t`.

    Raises:
        ValueError: a token is no link.
    """
    links = []
    for token in field.split(b" "):
        if token:
            source, _, target = token.partition(b"-")
            if not (source.isdigit() and target.isdigit()):
                raise ValueError(f"the alignment has `{token.decode(errors='replace')}` in the place of a link 0-0")
            links.append((int(source), int(target)))
    return tuple(links)


def _fault(path: object, row: int, reason: str) -> UserError:
    """Return the error for a line of a table that cannot be used."""
    return UserError(f"{path}: line {row}: {reason}; `phrasescore check` tells what is wrong with the table")
