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
from phrasescore.files import open_input, read_bytes, real_path, write_atomically
from phrasescore.number import parse_number
from phrasescore.table.entry import LONGEST_LINE, LineFault, cut_line

# What Moses trims from lines, and what it splits words at (moses/Util.h).
_TRIMMED = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_HEADER = re.compile(r"\[([^\]]*)\]")
_DEFAULT_WEIGHT = 1.0
_TRUTHS = {**dict.fromkeys(("true", "yes", "y", "1"), True), **dict.fromkeys(("false", "no", "n", "0"), False)}
_PATHS = {"path", "backoff", "cache"}
"""Arguments that are files or folders."""

Weights = Mapping[str, Sequence[float]]
"""Weights of features by label."""

LABEL = re.compile(r"[A-Za-z][0-9A-Za-z]*")
"""Labels that mert-moses.pl can read back from an n-best list; one with `_` is a sparse feature to it."""


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

    @property
    def is_phrase_table(self) -> bool:
        """Whether it is a phrase table, text or binary."""
        return self.kind.startswith("PhraseDictionary") or self.kind == "ProbingPT"


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
        lines = [line for line in re.split(r"(?<=\n)", text) if line]
        return cls(lines, str(path), path.resolve().parent)

    def to_bytes(self) -> bytes:
        """Return the file."""
        return "".join(self.lines).encode("utf-8", "surrogateescape")

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; relative paths become absolute if the folder changes.

        Raises:
            UserError: it cannot be written, or a moses.ini cannot hold one of the absolute paths.
        """
        write_atomically(path, self._for(path).to_bytes())

    def require_placeable(self, path: Path) -> None:
        """Check that a moses.ini at `path` could hold the paths, before long work that ends with writing it.

        Raises:
            UserError: it could not.
        """
        self._for(path)

    def _for(self, path: Path) -> MosesIni:
        return self if real_path(path).parent == self.folder.resolve() else self.with_absolute_paths()

    def copy(self) -> MosesIni:
        """Return a copy that can be edited without changing this one."""
        return MosesIni(self.lines, self.name, self.folder)

    def without_comments(self) -> MosesIni:
        """Return a copy without comments."""
        return MosesIni([_without_comment(line) + "\n" for line in self.lines], self.name, self.folder)

    # Reading

    def values(self, section: str) -> list[str]:
        """Return the lines of a section, without comments, blanks around them and empty lines."""
        return [value for _, value in self._rows(section)]

    def sections(self) -> list[str]:
        """Return the names of the sections, each once, in their order."""
        texts = map(_without_comment, self.lines)
        return list(dict.fromkeys(header[1] for text in texts if (header := _HEADER.match(text))))

    def number(self, section: str, default: float) -> float:
        """Return the number of a section, of several the first, as in Moses; or the default if there is none.

        Raises:
            UserError: it is no number.
        """
        rows = self._rows(section)
        if not rows:
            return default
        row, value = rows[0]
        try:
            return parse_number(value)
        except ValueError as error:
            raise self._fault(row, f"[{section}] is no number", "mend the line") from error

    def features(self) -> list[FeatureLine]:
        """Return the feature lines in their order, which is the order of the score vector.

        Raises:
            UserError: an argument is not `key=value`, stands twice, num-features is no whole number, or two features
                have the same label.
        """
        unnamed: Counter[str] = Counter()
        features: dict[str, FeatureLine] = {}
        for row, value in self._rows("feature"):
            kind, *pairs = _words(value)
            arguments: dict[str, str] = {}
            for pair in pairs:
                key, equals, argument = pair.partition("=")
                if not equals or key in arguments:
                    raise self._fault(row, f"`{pair}` is not one key=value", "Moses refuses the line; mend it")
                arguments[key] = argument
            if not re.fullmatch("[0-9]+", arguments.get("num-features", "1")):
                raise self._fault(row, "num-features is not a whole number", "mend the line")
            label = arguments.get("name", "")
            if not label:
                label = f"{kind}{unnamed[kind]}"
                unnamed[kind] += 1
            if label in features:
                raise self._fault(row, f"a second feature is called {label}", "give it another name=")
            features[label] = FeatureLine(kind, label, arguments, row)
        return list(features.values())

    def feature(self, label: str) -> FeatureLine:
        """Return the feature of this label.

        Raises:
            UserError: there is none.
        """
        for feature in self.features():
            if feature.label == label:
                return feature
        known = ", ".join(feature.label for feature in self.features())
        remedy = f"give one of {known}" if known else "add it to [feature]"
        raise UserError(f"{self.name}: has no feature `{label}`; {remedy}")

    def phrase_table(self) -> FeatureLine:
        """Return the one phrase table.

        Raises:
            UserError: there is none, or more than one.
        """
        tables = [feature for feature in self.features() if feature.is_phrase_table]
        if len(tables) != 1:
            found = ", ".join(f"{table.label} in line {table.row + 1}" for table in tables) or "none"
            remedy = "choose by --feature (add-column), or use Moses (tune, decode)" if tables else "add its line"
            raise UserError(f"{self.name}: one phrase table is expected in [feature], found {found}; {remedy}")
        return tables[0]

    def language_model(self) -> Path:
        """Return the file of the first KENLM feature.

        Raises:
            UserError: there is none.
        """
        for feature in self.features():
            if feature.kind == "KENLM":
                return self.path_of(feature)
        raise UserError(f"{self.name}: has no KENLM feature to take the n-gram model from; give one by --backoff")

    def path_of(self, feature: FeatureLine, key: str = "path") -> Path:
        """Return the file a feature is loaded from, or another that its line names.

        Raises:
            UserError: the line names none.
        """
        if key not in feature.arguments:
            raise self._fault(feature.row, f"{feature.label} has no {key}=", "add it")
        return self.folder / feature.arguments[key]

    def weights(self) -> dict[str, list[float]]:
        """Return the weights by label; a later line of a label replaces the earlier one, as in Moses.

        Raises:
            UserError: a weight is no number.
        """
        weights = {}
        for row, value in self._rows("weight"):
            label, *numbers = _words(value)
            if not label.endswith("=") or not numbers:
                raise self._fault(row, f"`{value}` is not `Label= number ...`", "mend the line")
            try:
                weights[label[:-1]] = [parse_number(number) for number in numbers]
            except ValueError as error:
                raise self._fault(row, f"a weight of {label[:-1]} is no number", "mend the line") from error
        return weights

    def weights_of_features(self) -> dict[str, list[float]]:
        """Return the weights of all features by label; those of a feature without a line are 1, as in Moses.

        Raises:
            UserError: a weight is no number, or a feature line is malformed.
        """
        given = self.weights()
        return {one.label: given.get(one.label, [_DEFAULT_WEIGHT] * one.width) for one in self.features()}

    def place(self, section: str, start: str = "") -> str:
        """Return file and line of the value of a section that counts, for messages; else the file alone.

        It is the last one that begins with `start`, as of weights with their label, or the first one without that.
        """
        rows = [row for row, value in self._rows(section) if value.startswith(start)]
        return f"{self.name}: line {rows[-1 if start else 0] + 1}" if rows else self.name

    # Editing

    def set_value(self, section: str, value: str) -> None:
        """Give a section one value, in the place of those it has."""
        for row, _ in reversed(self._rows(section)):
            del self.lines[row]
        self._append(section, value)

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of these labels; a label without a line gets one."""
        rows = {_words(value)[0][:-1]: row for row, value in self._rows("weight")}
        for label, numbers in weights.items():
            text = " ".join(f"{number:.6g}" for number in numbers)
            if label in rows:
                self._replace(rows[label], rf"=[ \t].*?(?=[{_TRIMMED}]*$)", f"= {text}")
            else:
                self._append("weight", f"{label}= {text}")

    def set_argument(self, label: str, key: str, value: str) -> None:
        """Give a feature's argument another value, or add the argument.

        Raises:
            UserError: there is no such feature, or the value has a character that ends values in a moses.ini.
        """
        feature = self.feature(label)
        if re.search(rf"[#{_TRIMMED}]", value):
            raise self._fault(
                feature.row,
                f"{key}={value!r} cannot be written, for in a moses.ini a blank ends a value and # begins a comment",
                "give the file or folder another name",
            )
        if key in feature.arguments:
            self._replace(feature.row, rf"(?<=[ \t]){re.escape(key)}=[^{_TRIMMED}]*", f"{key}={value}")
        elif "path" in feature.arguments:
            # Where train-model.perl puts it.
            self._replace(feature.row, r"(?<=[ \t])(?=path=)", f"{key}={value} ")
        else:
            self._replace(feature.row, rf"(?=[{_TRIMMED}]*$)", f" {key}={value}")

    def remove_argument(self, label: str, key: str) -> None:
        """Take an argument from a feature's line, if it has it.

        Raises:
            UserError: there is no such feature.
        """
        self._replace(self.feature(label).row, rf"[ \t]+{re.escape(key)}=[^{_TRIMMED}]*", "")

    def set_kind(self, label: str, kind: str) -> None:
        """Let a feature be of another class of Moses.

        Raises:
            UserError: there is no such feature.
        """
        feature = self.feature(label)
        self._replace(feature.row, rf"(?<![^ \t]){re.escape(feature.kind)}(?=[ \t]|[{_TRIMMED}]*$)", kind)

    def add_columns(self, label: str, table: Path, columns: int, weight: float = 0.2) -> None:
        """Let a phrase table be another file that has `columns` more scores: three numbers move together.

        Path, num-features and weights change in one step, after everything was checked. A table without a line of
        weights has weights of 1, as in Moses; the new columns get `weight`.

        Raises:
            UserError: the feature is no text table, the file has another number of scores than the ini would say, the
                weights do not fit the feature, or a label or path is one that Moses' programs cannot read.
        """
        feature = self.feature(label)
        if not feature.is_phrase_table:
            raise self._fault(feature.row, f"{label} is a {feature.kind}", "give the label of a phrase table")
        if feature.kind != "PhraseDictionaryMemory":
            raise self._fault(
                feature.row,
                f"{label} is a {feature.kind}, whose columns are inside a binary file",
                "name the text table in a PhraseDictionaryMemory line, and make the wider table binary again",
            )
        if "tuneable-components" in feature.arguments:
            raise self._fault(
                feature.row, "tuneable-components= has a value for each column", "remove it, or add the column by hand"
            )
        self.check_label(feature)
        weights = self.weights_of_features()[label]
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
        self.set_argument(label, "path", self._path_to(table, feature.arguments.get("path", "")))
        self.set_argument(label, "num-features", str(found))
        self.set_weights({label: [*weights, *[weight] * columns]})

    def add_feature(self, kind: str, label: str, arguments: Mapping[str, str | Path], weights: Sequence[float]) -> None:
        """Add a feature, last, with its weights; files and folders among the arguments are given as paths.

        Raises:
            UserError: there is a feature of this label, mert-moses.pl could not read it, or a value cannot be written.
        """
        if not LABEL.fullmatch(label):
            raise UserError(f"{label}: is a label that mert-moses.pl cannot tune; use letters and digits only")
        if any(feature.label == label for feature in self.features()):
            raise UserError(f"{self.name}: has a feature {label} already; give another label")
        ini = self.copy()
        ini._append("feature", f"{kind} name={label}")
        for key, value in arguments.items():
            ini.set_argument(label, key, value if isinstance(value, str) else ini._path_to(value, ""))
        ini.set_weights({label: weights})
        self.lines = ini.lines

    def without_feature(self, label: str) -> MosesIni:
        """Return a copy that lacks a feature and its weights.

        Raises:
            UserError: there is no such feature.
        """
        rows = {self.feature(label).row}
        rows |= {row for row, value in self._rows("weight") if _words(value)[0] == f"{label}="}
        kept = [line for row, line in enumerate(self.lines) if row not in rows]
        return MosesIni(kept, self.name, self.folder)

    def with_absolute_paths(self) -> MosesIni:
        """Return a copy that can stand anywhere: Moses takes relative paths from its working directory."""
        ini = self.copy()
        for feature in self.features():
            for key in _PATHS & feature.arguments.keys():
                if not Path(feature.arguments[key]).is_absolute():
                    ini.set_argument(feature.label, key, str(_absolute(self.path_of(feature, key))))
        return ini

    def check_label(self, feature: FeatureLine) -> None:
        """Check that mert-moses.pl can read a feature's label back from an n-best list.

        Raises:
            UserError: it cannot.
        """
        if not LABEL.fullmatch(feature.label):
            raise self._fault(
                feature.row,
                f"mert-moses.pl cannot tune a feature called `{feature.label}`",
                "use letters and digits only",
            )

    def _path_to(self, path: Path, before: str) -> str:
        """Return a path relative to the ini's folder if it lies there and what it replaces was relative too."""
        path, folder = _absolute(path), self.folder.resolve()
        inside = path.is_relative_to(folder) and not Path(before).is_absolute()
        return str(path.relative_to(folder) if inside else path)

    def _rows(self, section: str) -> list[tuple[int, str]]:
        """Return where the values of a section are, and the values (moses/Parameter.cpp)."""
        current, rows = None, []
        for row, line in enumerate(self.lines):
            text = _without_comment(line)
            if text.startswith("["):
                header = _HEADER.match(text)
                current = header[1] if header else current
            elif text and current == section:
                rows.append((row, text))
        return rows

    def _replace(self, row: int, pattern: str, replacement: str) -> None:
        # The comment is no place for a match.
        line, hash_, comment = self.lines[row].partition("#")
        self.lines[row] = re.sub(pattern, lambda match: replacement, line, count=1) + hash_ + comment

    def _append(self, section: str, text: str) -> None:
        """Add a line after the last one of a section, or a new section at the end."""
        rows = [row for row, _ in self._rows(section)] or [
            row
            for row, line in enumerate(self.lines)
            if (header := _HEADER.match(_without_comment(line))) and header[1] == section
        ]
        place = rows[-1] + 1 if rows else len(self.lines)
        new = [text] if rows else ["", f"[{section}]", text]
        end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        if place and not self.lines[place - 1].endswith("\n"):
            self.lines[place - 1] += end
        self.lines[place:place] = [line + end for line in new]

    def _fault(self, row: int, reason: str, remedy: str) -> UserError:
        return UserError(f"{self.name}: line {row + 1}: {reason}; {remedy}")


def _without_comment(line: str) -> str:
    return line.partition("#")[0].strip(_TRIMMED)


def _words(text: str) -> list[str]:
    return [word for word in _BLANKS.split(text) if word]


def parse_truth(text: str) -> bool:
    """Parse what Moses takes for true or false (Scan<bool>, moses/Util.cpp).

    Raises:
        ValueError: it is neither.
    """
    if text.lower() not in _TRUTHS:
        raise ValueError(f"`{text}` is neither true nor false")
    return _TRUTHS[text.lower()]


def _absolute(path: Path) -> Path:
    """Return an absolute path. A link to a file keeps its name: Moses tells compressed files by their suffix."""
    return path.parent.resolve() / path.name


def score_count(table: Path) -> int:
    """Return how many scores the first line of a text phrase table has.

    Raises:
        UserError: the table cannot be read, is empty, or its first line is malformed.
    """
    with open_input(table) as source:
        line = source.stream.readline(LONGEST_LINE)
    if not line:
        raise UserError(f"{table}: is empty; give the annotated table")
    try:
        return cut_line(line).score_count()
    except LineFault as fault:
        raise UserError(f"{table}: line 1: {str(fault).removeprefix('line: ')}") from fault
