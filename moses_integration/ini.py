"""moses.ini: read, edit without touching anything else, write.

The file is kept as its lines; an edit replaces characters inside one line, so comments, order, unknown sections
and spacing survive. Grammar: moses/Parameter.cpp (sections, comments, weights), moses/FF/FeatureFunction.cpp
(feature lines). Text is UTF-8 with bytes that are not kept as surrogates, since paths may hold any byte.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import LONGEST_LINE, open_input, real_path, write_atomically
from phrasescore.number import parse_number
from phrasescore.table.entry import LineFault, cut_line
from phrasescore.words import quote

# What Moses trims from lines, and what it splits words at (moses/Util.h).
_TRIMMED = " \t\r\n"
_BLANKS = re.compile(r"[ \t]+")
_HEADER = re.compile(r"\[([^\]]*)\]")
_DEFAULT_WEIGHT = 1.0
NEW_WEIGHT = 0.2
"""What tuning begins with for a column or a feature that is added."""
_TRUTHS = {**dict.fromkeys(("true", "yes", "y", "1"), True), **dict.fromkeys(("false", "no", "n", "0"), False)}
_MODELS = ("path", "backoff")
"""Arguments that are files or folders of models."""
_PATHS = (
    *_MODELS,
    "cache",
    *("file", "source-path", "target-path", "deseg-path", "path_head_lm", "path_label_lm", "cblm-file", "cbtm-file"),
    *("source-vocabulary", "target-vocabulary", "source_vocab", "target_vocab", "source-word-list", "target-word-list"),
    *("label-set-file", "unknown-word-labels-file", "input-vocab-file", "output-vocab-file"),
)
"""Arguments that are files or folders: a cache, which need not be there, and others of rarer features of Moses."""
_ENDINGS = ("", ".gz", ".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx")
"""What Moses tries behind a path (LexicalReorderingTable.cpp, PhraseDictionaryCompact.cpp, PDTAimp.cpp)."""
_OLD_SECTIONS = {"ttable-file", "lmodel-file", "distortion-file", "generation-file", "global-lexical-file"}
_OTHER_WEIGHTS = ("weight-add", "weight-overwrite", "alternate-weight-setting")
"""Sections that give dense weights to features besides [weight] (moses/Parameter.cpp, moses/StaticData.cpp)."""

# No moses.ini that works comes near these; one that goes beyond would fill memory, the screen, or a day.
_LARGEST = 1 << 20
_LONGEST_LINE = 1 << 14
_LONGEST_LABEL = 100
_MOST_FEATURES = 500
_WIDEST = 1000

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
    """A moses.ini. Relative paths in it are taken from `folder`."""

    note = ""
    """What to tell who works with it: where the paths are taken from, if not from where the file stands."""

    def __init__(self, lines: Iterable[str], name: str = "moses.ini", folder: Path | None = None) -> None:
        self.lines = list(lines)
        self.name = name
        self.folder = folder if folder is not None else Path()

    @classmethod
    def read(cls, path: Path) -> MosesIni:
        """Read a file.

        Relative paths are taken from its folder, where `build` puts what it names. If none of them is there, but one
        is in the working directory, they are all taken from that, as Moses does.

        Raises:
            UserError: it cannot be read, is no regular file, is larger than any moses.ini, or of Moses' old format.
        """
        ini = cls(_read_lines(path), str(path), real_path(path).parent)
        ini._refuse_old_format()
        relative = [*ini._relative_paths()]
        if not any(_is_there(ini.folder / one) for one in relative) and any(_is_there(Path(one)) for one in relative):
            ini.folder = Path.cwd()
            ini.note = (
                f"{path}: its relative paths are taken from the working directory, {ini.folder}, as Moses takes them, "
                "for none of them is in its own folder"
            )
        return ini

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
            UserError: it could not, or what they name is not there.
        """
        self._for(path)
        self.require_files()

    def require_files(self) -> None:
        """Check that what the features name is there, under a name that Moses tries.

        Raises:
            UserError: it is not.
        """
        for feature in self.features():
            for key in _MODELS:
                if key in feature.arguments and not _is_there(self.path_of(feature, key)):
                    named = f"{key}={feature.arguments[key]}"
                    if Path(feature.arguments[key]).is_absolute():
                        raise self._fault(feature.row, f"{named} is not there", "mend the path")
                    raise self._fault(
                        feature.row,
                        f"{named} is not there, relative to {self.folder}",
                        "an ini that was moved needs the files that it names beside it, so give it where it was "
                        "written, run this where Moses is run, or make its paths absolute",
                    )

    def _for(self, path: Path) -> MosesIni:
        if real_path(path).parent == self.folder.resolve():
            return self
        moved = self.with_absolute_paths()
        self.require_files()
        return moved

    def _relative_paths(self) -> Iterator[str]:
        """Yield the relative paths of feature lines, which may be malformed."""
        for _, value in self._rows("feature"):
            for key, _, argument in (word.partition("=") for word in split_blanks(value)):
                if key in _MODELS and argument and not Path(argument).is_absolute():
                    yield argument

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
            UserError: an argument is not `key=value`, stands twice, num-features is no whole number, two features have
                the same label, or something is beyond all bounds.
        """
        unnamed: Counter[str] = Counter()
        features: dict[str, FeatureLine] = {}
        for row, value in self._rows("feature"):
            kind, *pairs = split_blanks(value)
            arguments: dict[str, str] = {}
            for pair in pairs:
                key, equals, argument = pair.partition("=")
                if not equals or key in arguments:
                    shown = quote_text(pair)
                    raise self._fault(row, f"`{shown}` is not one key=value", "Moses refuses the line; mend it")
                arguments[key] = argument
            width = arguments.get("num-features", "1")
            if not re.fullmatch("[0-9]+", width):
                raise self._fault(row, "num-features is not a whole number", "mend the line")
            # Python makes numbers of so many digits only.
            if len(width) > len(str(_WIDEST)) or int(width) > _WIDEST:
                raise self._fault(row, f"num-features is beyond {_WIDEST}", "mend the line")
            label = arguments.get("name", "")
            if not label:
                label = f"{kind}{unnamed[kind]}"
                unnamed[kind] += 1
            if len(label) > _LONGEST_LABEL:
                raise self._fault(
                    row, f"`{quote_text(label)}` is a label of {len(label)} characters", "give a short one"
                )
            if label in features:
                raise self._fault(row, f"a second feature is called {label}", "give it another name=")
            if len(features) == _MOST_FEATURES:
                raise self._fault(row, f"is a feature beyond {_MOST_FEATURES}", "remove what is not needed")
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
            label, *numbers = split_blanks(value)
            if not label.endswith("=") or not numbers:
                raise self._fault(row, f"`{quote_text(value)}` is not `Label= number ...`", "mend the line")
            try:
                weights[label[:-1]] = [parse_number(number) for number in numbers]
            except ValueError as error:
                raise self._fault(row, f"a weight of {quote_text(label[:-1])} is no number", "mend the line") from error
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
        rows = {split_blanks(value)[0][:-1]: row for row, value in self._rows("weight")}
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

    def add_columns(self, label: str, table: Path, columns: int, weight: float = NEW_WEIGHT) -> None:
        """Let a phrase table be another file that has `columns` more scores: three numbers move together.

        Path, num-features and weights change in one step, after everything was checked. A table without a line of
        weights has weights of 1, as in Moses; the new columns get `weight`.

        Raises:
            UserError: see `widen`, or the file has another number of scores than the ini would say.
        """
        widened = self.copy()
        widened.widen(label, columns, weight)
        before, after = self.feature(label), widened.feature(label)
        found = score_count(table)
        if found != after.width:
            raise UserError(
                f"{table}: has {found} scores a line, but {self.name} has num-features={before.width} and "
                f"{columns} more are to be added; annotate the table that {self.name} names, or give --columns"
            )
        widened.set_argument(label, "path", self._path_to(table, before.arguments.get("path", "")))
        self.lines = widened.lines

    def widen(self, label: str, columns: int, weight: float = NEW_WEIGHT) -> None:
        """Let a phrase table have `columns` more scores, with num-features and weights to match.

        Raises:
            UserError: the feature is no text table, the weights do not fit it, another line says something of it that
                would be wrong then, or a label or path is one that Moses' programs cannot read.
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
        self._refuse_parallel_paths(label)
        self._refuse_mentions(feature.label, feature.kind)
        weights = self._weights_of_table(feature)
        self.set_argument(label, "num-features", str(feature.width + columns))
        self.set_weights({label: [*weights, *[weight] * columns]})

    def narrow(self, label: str, columns: int) -> None:
        """Let a phrase table have `columns` fewer scores: the last ones and their weights go."""
        feature = self.feature(label)
        weights = self._weights_of_table(feature)
        self.set_argument(label, "num-features", str(feature.width - columns))
        self.set_weights({label: weights[: len(weights) - columns]})

    def remarks(self, name: str) -> list[str]:
        """Return what comments of a name say, which are for us alone."""
        start = f"# phrasescore {name}: "
        return [line[len(start) :].strip(_TRIMMED) for line in self.lines if line.startswith(start)]

    def set_remarks(self, name: str, values: Sequence[str]) -> None:
        """Let the comments of a name, before everything else, say these things, each in a line.

        Raises:
            UserError: a comment would not say the same when it is read.
        """
        for value in values:
            if value != value.strip(_TRIMMED) or {"\r", "\n"} & {*value}:
                raise UserError(f"{value!r}: is a name that a comment of {self.name} cannot hold; give another name")
        start = f"# phrasescore {name}: "
        end = "\r\n" if self.lines and self.lines[0].endswith("\r\n") else "\n"
        others = [line for line in self.lines if not line.startswith(start)]
        self.lines = [*(f"{start}{value}{end}" for value in values), *others]

    def add_feature(self, kind: str, label: str, arguments: Mapping[str, str | Path], weights: Sequence[float]) -> None:
        """Add a feature, last, with its weights; files and folders among the arguments are given as paths.

        Raises:
            UserError: there is a feature of this label, another line speaks of one, mert-moses.pl could not read
                the label, a value cannot be written, or weights are no numbers or do not fit their table.
        """
        if not LABEL.fullmatch(label):
            raise UserError(f"{label}: is a label that mert-moses.pl cannot tune; use letters and digits only")
        if any(feature.label == label for feature in self.features()):
            raise UserError(f"{self.name}: has a feature {label} already; give another label")
        self._refuse_mentions(label, kind)
        for feature in self.features():
            if feature.is_phrase_table:
                self._weights_of_table(feature)
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
        # The sparse ones, too: Moses refuses weights without a feature.
        rows |= {
            row for row, value in self._rows("weight") if split_blanks(value)[0].startswith((f"{label}=", f"{label}_"))
        }
        kept = [line for row, line in enumerate(self.lines) if row not in rows]
        return MosesIni(kept, self.name, self.folder)

    def with_absolute_paths(self) -> MosesIni:
        """Return a copy that can stand anywhere: Moses takes relative paths from its working directory."""
        ini = self.copy()
        for feature in self.features():
            for key in _PATHS:
                if key in feature.arguments and not Path(feature.arguments[key]).is_absolute():
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

    def require_effective_weights(self) -> None:
        """Check that no section overrides [weight], before long work that ends with writing weights there.

        Raises:
            UserError: one does.
        """
        for row, _ in self._rows("weight-overwrite"):
            raise self._fault(row, "[weight-overwrite] overrides [weight]", "move its weights there")

    def _weights_of_table(self, feature: FeatureLine) -> list[float]:
        """Return the weights of a phrase table.

        Raises:
            UserError: they are not as many as its features, or a weight of any feature is no number.
        """
        weights = self.weights_of_features()[feature.label]
        if len(weights) != feature.width:
            raise self._fault(
                feature.row,
                f"{feature.label} has {feature.width} features but {len(weights)} weights",
                "mend one of them first",
            )
        return weights

    def _refuse_parallel_paths(self, label: str) -> None:
        """Refuse to add scores to a table where not every phrase gets its scores (StaticData.cpp, LoadDecodeGraphs)."""
        steps = [(row, split_blanks(value)) for row, value in self._rows("mapping")]
        # `T 0` stands for `0 T 0`.
        others = [row for row, words in steps if words[0] not in {"0", "T", "G"}]
        if others:
            raise self._fault(
                others[0],
                f"[mapping] has several decoding paths, and phrases of other paths than {label}'s would have the "
                "best score there is in the new column, ln 1",
                "add columns to all tables, by hand",
            )

    def _refuse_mentions(self, label: str, kind: str) -> None:
        """Refuse to change or add a feature of which another line says what would be wrong then, or hides it."""
        for section in ("feature", "feature-add", "feature-overwrite", "feature-name-overwrite", *_OTHER_WEIGHTS):
            for row, value in self._rows(section):
                mention = _mention(section, split_blanks(value), label, kind)
                if mention:
                    raise self._fault(
                        row,
                        f"[{section}] has `{quote_text(mention)}`, which would not go with the new {label}",
                        "remove it, or make the change by hand in both places",
                    )

    def _refuse_old_format(self) -> None:
        for name in self.sections():
            is_weight = name.startswith("weight-") and name not in (*_OTHER_WEIGHTS, "weight-file")
            if name in _OLD_SECTIONS or is_weight:
                raise UserError(
                    f"{self.name}: [{quote_text(name)}] is of the old format of Moses; convert it with "
                    "`scripts/training/convert-moses-ini-to-v2.perl < OLD > NEW` of Moses"
                )

    def _path_to(self, path: Path, before: str) -> str:
        """Return a path relative to the folder of paths if it lies there and what it replaces was relative too."""
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


def split_blanks(text: str) -> list[str]:
    """Return the words of a line, which blanks and tabs separate."""
    return [word for word in _BLANKS.split(text) if word]


def quote_text(text: str) -> str:
    """Return text of a moses.ini as it is shown in a message, cut where it gets long."""
    return quote(text.encode("utf-8", "surrogateescape"))


def _read_lines(path: Path) -> list[str]:
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


def _is_there(path: Path) -> bool:
    # That of Path raises where a name is too long.
    return any(os.path.exists(f"{path}{ending}") for ending in _ENDINGS)  # noqa: PTH110


def files_at(path: Path) -> list[Path]:
    """Return the files that a feature is loaded from whose line names this: itself, or with endings that Moses tries.

    Of a folder they are those in it.
    """
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [file for ending in _ENDINGS if (file := Path(f"{path}{ending}")).is_file()]


def _mention(section: str, words: Sequence[str], label: str, kind: str) -> str | None:
    """Return the word of a line by which it says something of a feature, besides its own line and weights."""
    arguments = [(word, *word.partition("=")[::2]) for word in words]
    match section:
        case "feature" | "feature-add":
            # A part of a combination, as in components=A,B of PhraseDictionaryMultiModel.
            named = [(word, value) for word, key, value in arguments if key not in _PATHS and key != "name"]
            return next((word for word, value in named if label in value.split(",")), None)
        case "feature-overwrite":
            changes = [word for word, key, _ in arguments if key in {"path", "num-features", "tuneable-components"}]
            return next(iter(changes), None) if words[0] == label else None
        case "feature-name-overwrite":
            return kind if kind in words else None
        case _:
            return next((word for word in words if word == f"{label}="), None)


def parse_truth(text: str) -> bool:
    """Parse what Moses takes for true or false (Scan<bool>, moses/Util.cpp).

    Raises:
        ValueError: it is neither.
    """
    if text.lower() not in _TRUTHS:
        raise ValueError(f"`{quote_text(text)}` is neither true nor false")
    return _TRUTHS[text.lower()]


def _absolute(path: Path) -> Path:
    """Return an absolute path. A link to a file keeps its name: Moses tells compressed files by their suffix."""
    return real_path(path.parent) / path.name


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
