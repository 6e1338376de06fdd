"""The lines of a moses.ini: sections, values and comments, read and edited without touching anything else.

The file is kept as its lines; an edit replaces characters inside one line, so comments, order, unknown sections
and spacing survive. Grammar: moses/Parameter.cpp (sections, comments). Text is UTF-8 with bytes that are not kept as
surrogates, since paths may hold any byte.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import open_input
from phrasescore.number import parse_number
from phrasescore.words import quote

# What Moses trims from lines, and what it splits words at (moses/Util.h).
TRIMMED = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_HEADER = re.compile(r"\[([^\]]*)\]")
_TRUTHS = {**dict.fromkeys(("true", "yes", "y", "1"), True), **dict.fromkeys(("false", "no", "n", "0"), False)}

# No moses.ini that works comes near these; one that goes beyond would fill memory or the screen.
_LARGEST = 1 << 20
_LONGEST_LINE = 1 << 14


class IniLines:
    """A file of sections, without what Moses takes their values for.

    Messages name lines by their numbers in the file that was read, whatever has been inserted or removed since.
    """

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self.lines = list(lines)
        self.name = name
        self._numbers: list[int] = [*range(1, len(self.lines) + 1)]

    @property
    def _end(self) -> str:
        """What its lines end with."""
        return "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"

    def to_bytes(self) -> bytes:
        """Return the file."""
        return "".join(self.lines).encode("utf-8", "surrogateescape")

    def values(self, section: str) -> list[str]:
        """Return the lines of a section, without comments, blanks around them and empty lines."""
        return [value for _, value in self.rows(section)]

    def sections(self) -> list[str]:
        """Return the names of the sections, each once, in their order."""
        texts = map(without_comment, self.lines)
        return list(dict.fromkeys(header[1] for text in texts if (header := _HEADER.match(text))))

    def number(self, section: str, default: float) -> float:
        """Return the number of a section, of several the first, as in Moses; or the default if there is none.

        Raises:
            UserError: it is no number.
        """
        rows = self.rows(section)
        if not rows:
            return default
        row, value = rows[0]
        try:
            return parse_number(value)
        except ValueError as error:
            raise self.fault(row, f"[{section}] is no number", "mend the line") from error

    def place(self, section: str, start: str = "") -> str:
        """Return file and line of the value of a section that counts, for messages; else the file alone.

        It is the last one that begins with `start`, as of weights with their label, or the first one without that.
        """
        rows = [row for row, value in self.rows(section) if value.startswith(start)]
        return self.at(rows[-1 if start else 0]) if rows else self.name

    def at(self, row: int) -> str:
        """Return file and line of a row, for messages."""
        return f"{self.name}: line {self.number_of(row)}"

    def number_of(self, row: int) -> int:
        """Return the number that a row has in the file that was read; an inserted row has that of the row before it."""
        return self._numbers[row]

    def rows(self, section: str) -> list[tuple[int, str]]:
        """Return where the values of a section are, and the values (moses/Parameter.cpp).

        Those before the first section are of one without a name.
        """
        current, rows = "", []
        for row, line in enumerate(self.lines):
            text = without_comment(line)
            if text.startswith("["):
                header = _HEADER.match(text)
                current = header[1] if header else current
            elif text and current == section:
                rows.append((row, text))
        return rows

    def set_value(self, section: str, value: str) -> None:
        """Replace the values of a section by one value."""
        self.set_values(section, [value])

    def set_values(self, section: str, values: Sequence[str]) -> None:
        """Replace the values of a section; without values the section is removed.

        Raises:
            UserError: Moses' format cannot hold a value.
        """
        for value in values:
            if value != value.strip(TRIMMED) or {"\r", "\n", "#"} & {*value} or value.startswith("["):
                raise UserError(f"{value!r}: [{section}] of {self.name} cannot hold this value; use another name")
        kept = [] if values else self._rows_of_headers(section)
        for row in sorted([*kept, *(row for row, _ in self.rows(section))], reverse=True):
            self._splice(row, row + 1, [])
        for value in values:
            self.append(section, value)

    def append(self, section: str, text: str) -> None:
        """Add a line after the last one of a section, or a new section at the end."""
        rows = [row for row, _ in self.rows(section)] or self._rows_of_headers(section)
        if rows:
            self._insert(rows[-1] + 1, [text])
        else:
            self.append_section(section, [text])

    def append_section(self, section: str, texts: Sequence[str]) -> None:
        """Add a section at the end, even if the file has one of this name."""
        self._insert(len(self.lines), ["", f"[{section}]", *texts])

    def rename_section(self, section: str, name: str) -> None:
        """Rename a section; if the file has one of the new name, the values of both become one section's."""
        for row in self._rows_of_headers(section):
            self.replace(row, _HEADER.pattern, f"[{name}]")

    def take_lines_of(self, other: IniLines) -> None:
        """Become what an edited copy of this file is."""
        self.lines, self._numbers = [*other.lines], [*other._numbers]

    def _rows_of_headers(self, section: str) -> list[int]:
        """Return where a section begins."""
        headers = ((row, _HEADER.match(without_comment(line))) for row, line in enumerate(self.lines))
        return [row for row, header in headers if header and header[1] == section]

    def _insert(self, place: int, texts: Sequence[str]) -> None:
        if place and not self.lines[place - 1].endswith("\n"):
            self.lines[place - 1] += self._end
        self._splice(place, place, [text + self._end for text in texts])

    def _splice(self, start: int, end: int, lines: Sequence[str]) -> None:
        """Replace some lines by others."""
        before = self._numbers[start - 1] if start else 1
        self.lines[start:end] = lines
        self._numbers[start:end] = [before] * len(lines)

    def sort_values(self, section: str, key: Callable[[str], int]) -> None:
        """Sort the values of a section; they share the lines that they have, and keep their numbers in messages."""
        rows = [row for row, _ in self.rows(section)]
        values = sorted(self.rows(section), key=lambda one: key(one[1]))
        moved = [(self.lines[row], self._numbers[row]) for row, _ in values]
        for row, (line, number) in zip(rows, moved, strict=True):
            self.lines[row], self._numbers[row] = line, number

    def replace(self, row: int, pattern: str, replacement: str) -> None:
        """Put a text in the place of what matches first in a line, before its comment."""
        line, hash_, comment = self.lines[row].partition("#")
        self.lines[row] = re.sub(pattern, lambda match: replacement, line, count=1) + hash_ + comment

    def replace_value(self, row: int, value: str) -> None:
        """Replace the value of a line, before its comment."""
        self.replace(row, rf"[^{TRIMMED}].*?(?=[{TRIMMED}]*$)", value)

    def fault(self, row: int, reason: str, remedy: str) -> UserError:
        """Return the error that says what is wrong with a line."""
        return UserError(f"{self.at(row)}: {reason}; {remedy}")


def split_blanks(text: str) -> list[str]:
    """Return the words of a line, which blanks and tabs separate."""
    return [word for word in _BLANKS.split(text) if word]


def quote_text(text: str) -> str:
    """Return text of a moses.ini as it is shown in a message, cut where it gets long."""
    return quote(text.encode("utf-8", "surrogateescape"))


def parse_truth(text: str) -> bool:
    """Parse what Moses takes for true or false (Scan<bool>, moses/Util.cpp).

    Raises:
        ValueError: it is neither.
    """
    if text.lower() not in _TRUTHS:
        raise ValueError(f"`{quote_text(text)}` is neither true nor false")
    return _TRUTHS[text.lower()]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a file, with their ends.

    Raises:
        UserError: it cannot be read, is no regular file, or is larger than any moses.ini.
    """
    # Those of Path raise where a folder may not be looked into.
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        raise UserError(f"{path}: is a folder, a pipe or a device; give the moses.ini itself")
    with open_input(path) as source:
        content = source.stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UserError(f"{path}: is larger than a moses.ini can be, {_LARGEST:,} bytes; give the moses.ini itself")
    lines = [line for line in re.split(r"(?<=\n)", content.decode("utf-8", "surrogateescape")) if line]
    for row, line in enumerate(lines, 1):
        if len(line) > _LONGEST_LINE:
            raise UserError(f"{path}: line {row}: is longer than {_LONGEST_LINE:,} characters; mend the line")
    return lines


def without_comment(line: str) -> str:
    """Return what Moses reads of a line."""
    return line.partition("#")[0].strip(TRIMMED)
