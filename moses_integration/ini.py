"""moses.ini: read, edit without touching anything else, write.

The file is kept as its lines; an edit replaces characters inside one line, so comments, order, unknown sections
and spacing survive. Grammar: moses/Parameter.cpp (sections, comments, weights), moses/FF/FeatureFunction.cpp
(feature lines). Text is UTF-8 with bytes that are not kept as surrogates, since paths may hold any byte.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import read_bytes, write_atomically
from phrasescore.table.entry import LineFault, cut_line

_HEADER = re.compile(r"\s*\[([^\]]*)\]")
# What mert-moses.pl can read back from an n-best list; a label with `_` is a sparse feature to it.
_LABEL = re.compile(r"[A-Za-z][0-9A-Za-z]*")


@dataclass(frozen=True)
class FeatureLine:
    """One line of the section `[feature]`: `Class key=value key=value ...`."""

    kind: str
    """The class that Moses registers it under."""
    label: str
    """`name=`, or the class and a running number: Distortion0."""
    arguments: Mapping[str, str]
    row: int
    """Index of the line in the file, from 0."""

    @property
    def width(self) -> int:
        """How many numbers the line says the feature has; 1 if it says nothing."""
        return int(self.arguments.get("num-features", "1"))


class MosesIni:
    """A moses.ini. `folder` is where it stands: relative paths in it are taken from there."""

    def __init__(self, lines: Iterable[str], name: str = "moses.ini", folder: Path | None = None) -> None:
        self.lines = list(lines)
        self.name = name
        self.folder = folder if folder is not None else Path()

    @classmethod
    def read(cls, path: Path) -> MosesIni:
        """Read a file.

        Raises:
            UserError: it cannot be read.
        """
        text = read_bytes(path).decode("utf-8", "surrogateescape")
        return cls(text.splitlines(keepends=True) if "\n" in text else [text], str(path), path.resolve().parent)

    def to_bytes(self) -> bytes:
        """Return the file."""
        return "".join(self.lines).encode("utf-8", "surrogateescape")

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; relative paths become absolute if the folder changes."""
        here = path.resolve().parent
        ini = self if here == self.folder.resolve() else self.with_absolute_paths()
        write_atomically(path, ini.to_bytes())

    def copy(self) -> MosesIni:
        """Return a copy that can be edited without changing this one."""
        return MosesIni(self.lines, self.name, self.folder)

    # Reading

    def values(self, section: str) -> list[str]:
        """Return the lines of a section, without comments, blanks around them and empty lines."""
        return [value for _, value in self._rows(section)]

    def sections(self) -> list[str]:
        """Return the names of the sections, each once, in their order."""
        texts = (line.partition("#")[0] for line in self.lines)
        return list(dict.fromkeys(header[1] for text in texts if (header := _HEADER.match(text))))

    def number(self, section: str, default: float) -> float:
        """Return the one number of a section, or the default if the section is missing.

        Raises:
            UserError: it is no number.
        """
        values = self.values(section)
        try:
            return float(values[-1]) if values else default
        except ValueError as error:
            raise self._fault(self._rows(section)[-1][0], f"[{section}] is no number", "mend the line") from error

    def features(self) -> list[FeatureLine]:
        """Return the feature lines in their order, which is the order of the score vector.

        Raises:
            UserError: an argument is not `key=value`, stands twice, or num-features is no positive number.
        """
        seen: Counter[str] = Counter()
        features = []
        for row, value in self._rows("feature"):
            kind, *pairs = value.split()
            arguments: dict[str, str] = {}
            for pair in pairs:
                key, equals, argument = pair.partition("=")
                if not equals or key in arguments:
                    raise self._fault(row, f"`{pair}` is not one key=value", "Moses refuses the line; mend it")
                arguments[key] = argument
            if not arguments.get("num-features", "1").isdecimal():
                raise self._fault(row, "num-features is not a whole number", "mend the line")
            label = arguments.get("name", f"{kind}{seen[kind]}")
            seen[kind] += 1
            features.append(FeatureLine(kind, label, arguments, row))
        return features

    def feature(self, label: str) -> FeatureLine:
        """Return the feature of this label.

        Raises:
            UserError: there is none.
        """
        for feature in self.features():
            if feature.label == label:
                return feature
        known = ", ".join(feature.label for feature in self.features())
        raise UserError(f"{self.name}: has no feature `{label}`; it has {known or 'none'}")

    def phrase_table(self) -> FeatureLine:
        """Return the one phrase table.

        Raises:
            UserError: there is none, or more than one.
        """
        tables = [f for f in self.features() if f.kind.startswith("PhraseDictionary") or f.kind == "ProbingPT"]
        if len(tables) != 1:
            found = ", ".join(table.label for table in tables) or "none"
            raise UserError(f"{self.name}: one phrase table is expected in [feature], found {found}")
        return tables[0]

    def path_of(self, feature: FeatureLine) -> Path:
        """Return the file a feature is loaded from.

        Raises:
            UserError: the line names none.
        """
        if "path" not in feature.arguments:
            raise self._fault(feature.row, f"{feature.label} has no path=", "add it")
        return self.folder / feature.arguments["path"]

    def weights(self) -> dict[str, list[float]]:
        """Return the weights by label; a later line of a label replaces the earlier one, as in Moses.

        Raises:
            UserError: a weight is no number.
        """
        weights = {}
        for row, value in self._rows("weight"):
            label, *numbers = value.split()
            if not label.endswith("=") or not numbers:
                raise self._fault(row, f"`{value}` is not `Label= number ...`", "mend the line")
            try:
                weights[label[:-1]] = [float(number) for number in numbers]
            except ValueError as error:
                raise self._fault(row, f"a weight of {label[:-1]} is no number", "mend the line") from error
        return weights

    # Editing

    def set_weights(self, weights: Mapping[str, Sequence[float]]) -> None:
        """Replace the weights of these labels; a label without a line gets one."""
        rows = {value.split()[0][:-1]: row for row, value in self._rows("weight")}
        for label, numbers in weights.items():
            text = " ".join(f"{number:.6g}" for number in numbers)
            if label in rows:
                self._replace(rows[label], r"(=)(\s+).*?(\s*)(?=#|$)", rf"\g<1> {text}\g<3>")
            else:
                self._append("weight", f"{label}= {text}")

    def set_argument(self, label: str, key: str, value: str) -> None:
        """Give a feature's argument another value, or add the argument."""
        feature = self.feature(label)
        if key in feature.arguments:
            self._replace(feature.row, rf"(?<=\s){re.escape(key)}=\S*", f"{key}={_literal(value)}")
        else:
            # Before `path=`, where train-model.perl puts it, or at the end.
            pattern = r"(?=(?<=\s)path=)" if "path" in feature.arguments else r"(?=\s*(#|$))"
            text = f"{key}={value} " if "path" in feature.arguments else f" {key}={value}"
            self._replace(feature.row, pattern, _literal(text))

    def add_columns(self, label: str, table: Path, columns: int, weight: float = 0.2) -> None:
        """Let a phrase table be another file that has `columns` more scores: three numbers move together.

        Path, num-features and weights change in one step, after everything was checked.

        Raises:
            UserError: the table has another number of scores, or the weights do not fit the feature.
        """
        feature = self.feature(label)
        if feature.kind != "PhraseDictionaryMemory":
            raise self._fault(
                feature.row,
                f"{label} is a {feature.kind}, whose columns are inside a binary file",
                "name the text table in a PhraseDictionaryMemory line, and make the wider table binary again",
            )
        if not _LABEL.fullmatch(label):
            raise self._fault(
                feature.row, f"mert-moses.pl cannot tune a feature called `{label}`", "use letters and digits"
            )
        weights = self.weights().get(label, [weight] * feature.width)
        if len(weights) != feature.width:
            raise self._fault(
                feature.row,
                f"{label} has {feature.width} features but {len(weights)} weights",
                "mend one of them first",
            )
        found = score_count(table)
        if found != feature.width + columns:
            raise UserError(
                f"{table}: has {found} scores a line, but {self.name} has num-features={feature.width} and "
                f"{columns} more are to be added; annotate the table that {self.name} names, or give --columns"
            )
        self.set_argument(label, "path", self._relative(table))
        self.set_argument(label, "num-features", str(found))
        self.set_weights({label: [*weights, *[weight] * columns]})

    def with_absolute_paths(self) -> MosesIni:
        """Return a copy that can stand anywhere: Moses takes relative paths from its working directory."""
        ini = self.copy()
        for feature in self.features():
            path = feature.arguments.get("path")
            if path is not None and not Path(path).is_absolute():
                ini.set_argument(feature.label, "path", str((self.folder / path).resolve()))
        return ini

    def _relative(self, path: Path) -> str:
        """Return a path as seen from the ini's folder if it lies in it, absolute otherwise."""
        path, folder = path.resolve(), self.folder.resolve()
        return str(path.relative_to(folder) if path.is_relative_to(folder) else path)

    def _rows(self, section: str) -> list[tuple[int, str]]:
        current, rows = None, []
        for row, line in enumerate(self.lines):
            text = line.partition("#")[0].strip()
            header = _HEADER.match(text)
            if header:
                current = header[1]
            elif text and current == section:
                rows.append((row, text))
        return rows

    def _replace(self, row: int, pattern: str, replacement: str) -> None:
        # The comment is no place for a match.
        line, hash_, comment = self.lines[row].partition("#")
        self.lines[row] = re.sub(pattern, replacement, line, count=1) + hash_ + comment

    def _append(self, section: str, text: str) -> None:
        """Add a line after the last one of a section, or a new section at the end."""
        rows = self._rows(section)
        if rows:
            last = rows[-1][0]
            self.lines[last] = self.lines[last].rstrip("\r\n") + "\n"
            self.lines.insert(last + 1, text + "\n")
            return
        headers = [r for r, line in enumerate(self.lines) if (match := _HEADER.match(line)) and match[1] == section]
        if headers:
            self.lines.insert(headers[-1] + 1, text + "\n")
        else:
            self.lines += [f"\n[{section}]\n", text + "\n"]

    def _fault(self, row: int, reason: str, remedy: str) -> UserError:
        return UserError(f"{self.name}: line {row + 1}: {reason}; {remedy}")


def _literal(text: str) -> str:
    """Return a text as a replacement in which re.sub finds no escapes."""
    return text.replace("\\", r"\\")


def score_count(table: Path) -> int:
    """Return how many scores the first line of a text phrase table has.

    Raises:
        UserError: the table cannot be read, is empty, or its first line is malformed.
    """
    from phrasescore.files import read_lines

    for line in read_lines(table):
        try:
            return cut_line(line).score_count()
        except LineFault as fault:
            raise UserError(f"{table}: line 1: {fault}") from fault
    raise UserError(f"{table}: is empty; give the annotated table")
