"""The lines of a moses.ini: sections, values and comments, and the lines of the section [feature].

An edit replaces characters inside one line, so comments, order, unknown sections and spacing survive.
Grammar: moses/Parameter.cpp. Text is UTF-8; invalid bytes are kept as surrogates, because paths may hold any byte.

The `type=` of a reordering model, for instance `wbe-msd-bidirectional-fe`, is that of Koehn et al. 2005; see
moses/FF/LexicalReordering/LexicalReordering.cpp and LRModel.h.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import open_input
from phrasescore.words import quote

TRIMMED = " \t\r\n"
"""Characters that Moses trims from lines (moses/Util.h)."""
_HEADER = re.compile(r"\[([^\]]*)\]")
_TRUTHS = {**dict.fromkeys(("true", "yes", "y", "1"), True), **dict.fromkeys(("false", "no", "n", "0"), False)}
IGNORED = frozenset(
    {
        # The input is that of our command.
        *("input-file",),
        # Annotations of the output.
        *("print-id", "print-passthrough", "print-alignment-info", "output-hypo-score", "report-segmentation"),
        *("report-segmentation-enriched", "report-all-factors", "sort-word-alignment", "start-translation-id"),
        *("show-weights", "recover-input-path"),
        # N-best lists.
        *("n-best-list", "lattice-samples", "n-best-factor", "labeled-n-best-list", "n-best-trees"),
        *("include-segmentation-in-n-best", "print-alignment-info-in-n-best", "report-all-factors-in-n-best"),
        *("print-passthrough-in-n-best",),
        # Reports in separate files.
        *("translation-details", "translation-all-details", "tree-translation-details", "alignment-output-file"),
        *("output-unknowns", "output-word-graph", "output-search-graph", "output-search-graph-extended"),
        *("output-search-graph-slf", "output-search-graph-hypergraph", "output-search-graph-pb"),
        *("unpruned-search-graph", "include-lhs-in-search-graph", "print-all-derivations"),
        # The server.
        *("server", "daemon", "serial", "server-port", "server-log", "server-timeout", "server-maxconn"),
        *("server-maxconn-backlog", "server-keepalive-maxconn", "server-keepalive-timeout", "session-timeout"),
        *("session-cache-size",),
    }
)
"""Sections that change only Moses' input, output or server (moses/Parameter.cpp)."""
_LARGEST = 1 << 20
"""Bytes of a file, far more than any real moses.ini has."""
IN_CONTEXT = "in-context"
"""Argument of a phrase table: the number of columns that each per-text table has in addition to the named file.

Moses and moses2 stop at the unknown argument, so no decoder takes the ini for a complete system.
"""

_CLASSES = {
    # The class of each relation: monotone, swap, left, right (LR/LRModel.h).
    "msd": (0, 1, 2, 2),
    "mslr": (0, 1, 2, 3),
    "monotonicity": (0, 1, 1, 1),
    "leftright": (0, 1, 1, 0),
}


@dataclass(frozen=True)
class ReorderingType:
    """The orientation classes of a reordering model and what they are conditioned on."""

    classes: tuple[int, int, int, int]
    backward: bool
    """Whether it scores the orientation towards the previous phrase."""
    forward: bool
    """Whether it scores the orientation towards the next phrase; these scores follow the backward ones."""
    has_target: bool

    @classmethod
    def parse(cls, text: str) -> ReorderingType:
        parts = set(text.split("-"))
        classes = parts & _CLASSES.keys()
        conditions = parts & {"f", "fe"}
        directions = parts & {"backward", "unidirectional", "forward", "bidirectional"}
        unknown = parts - classes - conditions - directions - {"wbe", "phrase", "allff"}
        # Moses takes the last of several, and reads uninitialised memory if there is no condition. The default
        # direction is backward.
        if unknown or len(classes) != 1 or len(conditions) != 1 or len(directions) > 1:
            raise ValueError(
                f"the reordering type `{text}` is not supported; use one of {', '.join(_CLASSES)}, word-based (wbe), "
                "one of backward, forward and bidirectional, and f or fe, without hier and collapseff"
            )
        return cls(
            classes=_CLASSES[classes.pop()],
            backward="forward" not in parts,
            forward=bool(parts & {"forward", "bidirectional"}),
            has_target="fe" in conditions,
        )

    @property
    def count(self) -> int:
        return max(self.classes) + 1

    @property
    def width(self) -> int:
        return self.count * (self.backward + self.forward)


@dataclass(frozen=True)
class FeatureLine:
    """One line of the section `[feature]`: `Class key=value key=value ...`."""

    kind: str
    """The class name that Moses registers."""
    label: str
    """The value of `name=`, or the class and a running number, for instance Distortion0."""
    arguments: Mapping[str, str]
    row: int
    """Index of the line in the file, from 0."""

    @property
    def width(self) -> int:
        """Number of scores by `num-features=` or the `type=` of a reordering model; 1 by default."""
        given = self.arguments.get("num-features")
        if given is not None:
            return int(given)
        if self.kind == "LexicalReordering":
            with suppress(ValueError):
                return ReorderingType.parse(self.arguments.get("type", "")).width
        return 1

    @property
    def weight_count(self) -> int:
        """Number of weights: one for each score and each column in context."""
        return self.width + int(self.arguments.get(IN_CONTEXT, "0"))

    @property
    def is_phrase_table(self) -> bool:
        return self.kind.startswith("PhraseDictionary") or self.kind == "ProbingPT"


class IniLines:
    """Lines in sections.

    Messages give the line numbers of the file that was read, whatever has been inserted or removed since.
    """

    def __init__(self, lines: Iterable[str], name: str) -> None:
        self.lines = list(lines)
        self.name = name
        self._numbers: list[int] = [*range(1, len(self.lines) + 1)]

    def to_bytes(self) -> bytes:
        return "".join(self.lines).encode("utf-8", "surrogateescape")

    def sections(self) -> list[str]:
        """Return the distinct section names in order."""
        texts = map(without_comment, self.lines)
        return list(dict.fromkeys(header[1] for text in texts if (header := _HEADER.match(text))))

    def rows(self, section: str) -> list[tuple[int, str]]:
        """Return (line index, value) of each value of a section; values before the first section belong to `""`."""
        current, rows = "", []
        for row, line in enumerate(self.lines):
            text = without_comment(line)
            if text.startswith("["):
                header = _HEADER.match(text)
                current = header[1] if header else current
            elif text and current == section:
                rows.append((row, text))
        return rows

    def values(self, section: str) -> list[str]:
        return [value for _, value in self.rows(section)]

    # Error messages

    def location(self, section: str, start: str = "") -> str:
        """Return `FILE: line N` of the effective value of a section, or the file name if there is none.

        The first value counts; with `start`, the last value that starts with it (weights of a label).
        """
        rows = [row for row, value in self.rows(section) if value.startswith(start)]
        return self.at(rows[-1 if start else 0]) if rows else self.name

    def at(self, row: int) -> str:
        return f"{self.name}: line {self.number_of(row)}"

    def number_of(self, row: int) -> int:
        """Return the line's number in the file that was read; an inserted line shares that of the line before it."""
        return self._numbers[row]

    def fault(self, row: int, reason: str, remedy: str) -> UserError:
        return UserError(f"{self.at(row)}: {reason}; {remedy}")

    # Editing

    def set_values(self, section: str, values: Sequence[str]) -> None:
        """Replace the values of a section; without values, remove the section."""
        for value in values:
            if value != value.strip(TRIMMED) or {"\r", "\n", "#"} & {*value} or value.startswith("["):
                raise UserError(f"{value!r}: [{section}] of {self.name} cannot hold this value; use another name")
        headers = [] if values else self._headers(section)
        for row in sorted([*headers, *(row for row, _ in self.rows(section))], reverse=True):
            del self.lines[row], self._numbers[row]
        for value in values:
            self.append(section, value)

    def append(self, section: str, text: str) -> None:
        """Add a line after the last one of a section, or a new section at the end."""
        rows = [row for row, _ in self.rows(section)] or self._headers(section)
        start = rows[-1] + 1 if rows else len(self.lines)
        end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        if start and not self.lines[start - 1].endswith("\n"):
            self.lines[start - 1] += end
        added = [text] if rows else ["", f"[{section}]", text]
        before = self._numbers[start - 1] if start else 1
        self.lines[start:start] = [line + end for line in added]
        self._numbers[start:start] = [before] * len(added)

    def replace(self, row: int, pattern: str, replacement: str) -> None:
        """Replace the first match of a pattern in a line, outside its comment."""
        line, hash_, comment = self.lines[row].partition("#")
        self.lines[row] = re.sub(pattern, lambda match: replacement, line, count=1) + hash_ + comment

    def _headers(self, section: str) -> list[int]:
        headers = ((row, _HEADER.match(without_comment(line))) for row, line in enumerate(self.lines))
        return [row for row, header in headers if header and header[1] == section]

    def take_lines_of(self, other: IniLines) -> None:
        self.lines, self._numbers = [*other.lines], [*other._numbers]


def without_comment(line: str) -> str:
    """Return a line without its comment and surrounding white space."""
    return line.partition("#")[0].strip(TRIMMED)


def split_fields(text: str) -> list[str]:
    """Split a value at spaces and tabs."""
    return [word for word in re.split(r"[ \t]+", text) if word]


def quote_text(text: str) -> str:
    """Return text of a moses.ini for a message: printable and truncated."""
    return quote(text.encode("utf-8", "surrogateescape"))


def parse_truth(text: str) -> bool:
    """Parse a truth value (Scan<bool>, moses/Util.cpp).

    Raises:
        ValueError: Moses rejects the text, too.
    """
    if text.lower() not in _TRUTHS:
        raise ValueError(f"`{quote_text(text)}` is neither true nor false")
    return _TRUTHS[text.lower()]


def read_lines(path: Path) -> list[str]:
    """Read the lines of a moses.ini with their line ends."""
    # The methods of Path raise where a folder may not be searched.
    if os.path.exists(path) and not os.path.isfile(path):  # noqa: PTH110, PTH113
        raise UserError(f"{path}: is a folder, a pipe or a device; give the moses.ini itself")
    with open_input(path) as source:
        content = source.stream.read(_LARGEST + 1)
    if len(content) > _LARGEST:
        raise UserError(f"{path}: has more than {_LARGEST:,} bytes; give the moses.ini itself")
    return [line for line in re.split(r"(?<=\n)", content.decode("utf-8", "surrogateescape")) if line]
