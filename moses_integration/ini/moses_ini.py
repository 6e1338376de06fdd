"""A moses.ini: its features, their weights, and the files that they name.

Grammar: moses/Parameter.cpp (weights), moses/FF/FeatureFunction.cpp (feature lines).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from moses_integration.ini.ignored import ignored_sections
from moses_integration.ini.lines import TRIMMED, IniLines, quote_text, read_lines, split_blanks, without_comment
from moses_integration.ini.old_format import convert_old_format
from moses_integration.ini.reordering_type import ReorderingType
from phrasescore.errors import UserError
from phrasescore.files import real_path, write_atomically
from phrasescore.number import parse_number

_DEFAULT_WEIGHT = 1.0
_MODELS = ("path", "backoff")
"""Arguments that are files or folders of models."""
PATHS = (
    *_MODELS,
    "cache",
    *("file", "source-path", "target-path", "deseg-path", "path_head_lm", "path_label_lm", "cblm-file", "cbtm-file"),
    *("source-vocabulary", "target-vocabulary", "source_vocab", "target_vocab", "source-word-list", "target-word-list"),
    *("label-set-file", "unknown-word-labels-file", "input-vocab-file", "output-vocab-file"),
)
"""Arguments that are files or folders: a cache, which need not be there, and others of rarer features of Moses."""
_ENDINGS = ("", ".gz", ".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx")
"""What Moses tries behind a path (LexicalReorderingTable.cpp, PhraseDictionaryCompact.cpp, PDTAimp.cpp)."""
OTHER_WEIGHTS = ("weight-add", "weight-overwrite", "alternate-weight-setting")
"""Sections that give dense weights to features besides [weight] (moses/Parameter.cpp, moses/StaticData.cpp)."""

# No moses.ini that works comes near these; one that goes beyond would fill memory, the screen, or a day.
_LONGEST_LABEL = 100
_MOST_FEATURES = 500
_WIDEST = 1000

IN_CONTEXT = "in-context"
"""Argument of a phrase table: how many columns the table of each text has more than the file that the line names.

No decoder knows it, so none takes the ini for a complete system: Moses and moses2 stop at an unknown argument.
"""

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
        """How many numbers the line says the feature has; 1 if it says nothing.

        A reordering model says so by its `type=`, too.
        """
        given = self.arguments.get("num-features")
        if given is not None:
            return int(given)
        if self.kind == "LexicalReordering":
            # Of a type that is not known here nothing can be said.
            with suppress(ValueError):
                return ReorderingType.parse(self.arguments.get("type", "")).width
        return 1

    @property
    def weights(self) -> int:
        """How many weights the feature has: those of its scores, and of the columns that are scored in context."""
        return self.width + int(self.arguments.get(IN_CONTEXT, "0"))

    @property
    def is_phrase_table(self) -> bool:
        """Whether it is a phrase table, text or binary."""
        return self.kind.startswith("PhraseDictionary") or self.kind == "ProbingPT"


class MosesIni(IniLines):
    """A moses.ini. Relative paths in it are taken from `folder`."""

    def __init__(self, lines: Iterable[str], name: str = "moses.ini", folder: Path | None = None) -> None:
        super().__init__(lines, name)
        self.folder = folder if folder is not None else Path()
        self.notes: list[str] = []
        """Messages for the user about how the file was read."""

    @classmethod
    def read(cls, path: Path) -> MosesIni:
        """Read a file.

        An ini of Moses' old format is converted. Relative paths are taken from its folder, where `build` puts what it
        names. If none of them is there, but one is in the working directory, they are all taken from that, as Moses
        does.

        Raises:
            UserError: it cannot be read, is no regular file, is larger than any moses.ini, or is of Moses' old format
                and cannot be converted.
        """
        ini = cls(read_lines(path), str(path), real_path(path).parent)
        if convert_old_format(ini):
            ini.notes.append(f"{path}: is of Moses' old format; its models and weights are converted as in Moses")
        ignored = ignored_sections(ini)
        if ignored:
            names = ", ".join(f"[{section}]" for section in ignored)
            ini.notes.append(f"{path}: ignored, for they concern only what Moses reads, prints or serves: {names}")
        relative = [*ini._relative_paths()]
        if not any(_is_there(ini.folder / one) for one in relative) and any(_is_there(Path(one)) for one in relative):
            ini.folder = Path.cwd()
            ini.notes.append(
                f"{path}: its relative paths are taken from the working directory, {ini.folder}, as Moses takes them, "
                "for none of them is in its own folder"
            )
        return ini

    def write(self, path: Path) -> None:
        """Write the file, whole or not at all; relative paths become absolute if the folder changes.

        Raises:
            UserError: it cannot be written, or a moses.ini cannot hold one of the absolute paths.
        """
        write_atomically(path, self._for(path).to_bytes())

    def copy(self) -> MosesIni:
        """Return a copy that can be edited without changing this one."""
        copied = MosesIni([], self.name, self.folder)
        copied.take_lines_of(self)
        return copied

    def without_comments(self) -> MosesIni:
        """Return a copy without comments."""
        bare = self.copy()
        bare.lines = [without_comment(line) + "\n" for line in self.lines]
        return bare

    def features(self) -> list[FeatureLine]:
        """Return the feature lines in their order, which is the order of the score vector.

        Raises:
            UserError: an argument is not `key=value`, stands twice, num-features is no whole number, two features have
                the same label, or something is beyond all bounds.
        """
        unnamed: Counter[str] = Counter()
        features: dict[str, FeatureLine] = {}
        for row, value in self.rows("feature"):
            kind, *pairs = split_blanks(value)
            arguments: dict[str, str] = {}
            for pair in pairs:
                key, equals, argument = pair.partition("=")
                if not equals or key in arguments:
                    shown = quote_text(pair)
                    raise self.fault(row, f"`{shown}` is not one key=value", "Moses refuses the line; mend it")
                arguments[key] = argument
            for key in ("num-features", IN_CONTEXT):
                self._check_width(row, key, arguments.get(key, "1"))
            label = arguments.get("name", "")
            if not label:
                label = f"{kind}{unnamed[kind]}"
                unnamed[kind] += 1
            if len(label) > _LONGEST_LABEL:
                raise self.fault(
                    row, f"`{quote_text(label)}` is a label of {len(label)} characters", "give a short one"
                )
            if label in features:
                raise self.fault(row, f"a second feature is called {label}", "give it another name=")
            if len(features) == _MOST_FEATURES:
                raise self.fault(row, f"is a feature beyond {_MOST_FEATURES}", "remove what is not needed")
            features[label] = FeatureLine(kind, label, arguments, row)
        return list(features.values())

    def _check_width(self, row: int, key: str, width: str) -> None:
        if not re.fullmatch("[0-9]+", width):
            raise self.fault(row, f"{key} is not a whole number", "fix the line")
        # Python's int() has a limit on digits.
        if len(width) > len(str(_WIDEST)) or int(width) > _WIDEST:
            raise self.fault(row, f"{key} is beyond {_WIDEST}", "fix the line")

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
            found = ", ".join(f"{table.label} in line {self.number_of(table.row)}" for table in tables) or "none"
            remedy = (
                "choose by --feature (add-column), or use Moses (tune, decode, without a column in context)"
                if tables
                else "add its line"
            )
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
            if "property-index" in feature.arguments:
                raise self.fault(
                    feature.row,
                    f"{feature.label} has property-index=, by which moses2 alone takes scores from the phrase table",
                    f"replace it by {key}= of a table of its own",
                )
            raise self.fault(feature.row, f"{feature.label} has no {key}=", "add it")
        return self.folder / feature.arguments[key]

    def weights(self, section: str = "weight") -> dict[str, list[float]]:
        """Return the weights of a section by label; a later line of a label replaces the earlier one, as in Moses.

        Raises:
            UserError: a weight is no number.
        """
        weights = {}
        for row, value in self.rows(section):
            label, *numbers = split_blanks(value)
            if not label.endswith("=") or not numbers:
                raise self.fault(row, f"`{quote_text(value)}` is not `Label= number ...`", "mend the line")
            try:
                weights[label[:-1]] = [parse_number(number) for number in numbers]
            except ValueError as error:
                raise self.fault(row, f"a weight of {quote_text(label[:-1])} is no number", "mend the line") from error
        return weights

    def weights_of_features(self) -> dict[str, list[float]]:
        """Return the weights of all features by label; those of a feature without a line are 1, as in Moses.

        Raises:
            UserError: a weight is no number, or a feature line is malformed.
        """
        given = self.weights()
        return {one.label: given.get(one.label, [_DEFAULT_WEIGHT] * one.weights) for one in self.features()}

    def weights_of_table(self, feature: FeatureLine) -> list[float]:
        """Return the weights of a phrase table.

        Raises:
            UserError: they are not as many as its features, or a weight of any feature is no number.
        """
        weights = self.weights_of_features()[feature.label]
        if len(weights) != feature.weights:
            raise self.fault(
                feature.row,
                f"{feature.label} has {feature.weights} features but {len(weights)} weights",
                "fix one of them first",
            )
        return weights

    def check_label(self, feature: FeatureLine) -> None:
        """Check that mert-moses.pl can read a feature's label back from an n-best list.

        Raises:
            UserError: it cannot.
        """
        if not LABEL.fullmatch(feature.label):
            raise self.fault(
                feature.row,
                f"mert-moses.pl cannot tune a feature called `{feature.label}`",
                "use letters and digits only",
            )

    def require_effective_weights(self) -> None:
        """Check that no section overrides [weight], before long work that ends with writing weights there.

        Raises:
            UserError: one does.
        """
        for row, _ in self.rows("weight-overwrite"):
            raise self.fault(row, "[weight-overwrite] overrides [weight]", "move its weights there")

    def require_some_weight(self, weights: Weights | None = None) -> None:
        """Check, before a text is translated, that not all weights are 0: any translation would be as good as another.

        Args:
            weights: of all features; None for those of [weight]. That of unknown words, which is not tuned, is no help.

        Raises:
            UserError: all are 0, or they are malformed.
        """
        if self.rows("weight-overwrite"):
            return
        weights = self.weights_of_features() if weights is None else weights
        if not any(any(weights[one.label]) for one in self.features() if one.kind != "UnknownWordPenalty"):
            raise UserError(
                f"{self.name}: all weights are 0, that of UnknownWordPenalty aside, so any translation is as good as "
                "another; give a tuned moses.ini"
            )

    def require_placeable(self, path: Path) -> None:
        """Check that a moses.ini at `path` could hold the paths, before long work that ends with writing it.

        Raises:
            UserError: it could not, or what they name is not there.
        """
        self._for(path)
        self.require_files()

    def model_files(self) -> list[Path]:
        """Return the files that the features are loaded from, as far as they are there."""
        named = [(feature, key) for feature in self.features() for key in _MODELS if key in feature.arguments]
        return [file for feature, key in named for file in files_at(self.path_of(feature, key))]

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
                        raise self.fault(feature.row, f"{named} is not there", "mend the path")
                    raise self.fault(
                        feature.row,
                        f"{named} is not there, relative to {self.folder}",
                        "an ini that was moved needs the files that it names beside it, so give it where it was "
                        "written, run this where Moses is run, or make its paths absolute",
                    )

    def set_weights(self, weights: Weights) -> None:
        """Replace the weights of these labels; a label without a line gets one."""
        rows = {split_blanks(value)[0][:-1]: row for row, value in self.rows("weight")}
        for label, numbers in weights.items():
            text = " ".join(f"{number:.6g}" for number in numbers)
            if label in rows:
                self.replace(rows[label], rf"=[ \t].*?(?=[{TRIMMED}]*$)", f"= {text}")
            else:
                self.append("weight", f"{label}= {text}")

    def set_argument(self, label: str, key: str, value: str) -> None:
        """Give a feature's argument another value, or add the argument.

        Raises:
            UserError: there is no such feature, or the value has a character that ends values in a moses.ini.
        """
        feature = self.feature(label)
        if re.search(rf"[#{TRIMMED}]", value):
            raise self.fault(
                feature.row,
                f"{key}={value!r} cannot be written, for in a moses.ini a blank ends a value and # begins a comment",
                "give the file or folder another name",
            )
        if key in feature.arguments:
            self.replace(feature.row, rf"(?<=[ \t]){re.escape(key)}=[^{TRIMMED}]*", f"{key}={value}")
        elif "path" in feature.arguments:
            # Where train-model.perl puts it.
            self.replace(feature.row, r"(?<=[ \t])(?=path=)", f"{key}={value} ")
        else:
            self.replace(feature.row, rf"(?=[{TRIMMED}]*$)", f" {key}={value}")

    def remove_argument(self, label: str, key: str) -> None:
        """Take an argument from a feature's line, if it has it.

        Raises:
            UserError: there is no such feature.
        """
        self.replace(self.feature(label).row, rf"[ \t]+{re.escape(key)}=[^{TRIMMED}]*", "")

    def set_kind(self, label: str, kind: str) -> None:
        """Let a feature be of another class of Moses.

        Raises:
            UserError: there is no such feature.
        """
        feature = self.feature(label)
        self.replace(feature.row, rf"(?<![^ \t]){re.escape(feature.kind)}(?=[ \t]|[{TRIMMED}]*$)", kind)

    def with_absolute_paths(self) -> MosesIni:
        """Return a copy that can stand anywhere: Moses takes relative paths from its working directory."""
        ini = self.copy()
        for feature in self.features():
            for key in PATHS:
                if key in feature.arguments and not Path(feature.arguments[key]).is_absolute():
                    ini.set_argument(feature.label, key, str(_absolute(self.path_of(feature, key))))
        return ini

    def path_to(self, path: Path, before: str) -> str:
        """Return a path relative to the folder of paths if it lies there and what it replaces was relative too."""
        path, folder = _absolute(path), self.folder.resolve()
        inside = path.is_relative_to(folder) and not Path(before).is_absolute()
        return str(path.relative_to(folder) if inside else path)

    def _for(self, path: Path) -> MosesIni:
        if real_path(path).parent == self.folder.resolve():
            return self
        moved = self.with_absolute_paths()
        self.require_files()
        return moved

    def _relative_paths(self) -> Iterator[str]:
        """Yield the relative paths of feature lines, which may be malformed."""
        for _, value in self.rows("feature"):
            for key, _, argument in (word.partition("=") for word in split_blanks(value)):
                if key in _MODELS and argument and not Path(argument).is_absolute():
                    yield argument


def files_at(path: Path) -> list[Path]:
    """Return the files that a feature is loaded from whose line names this: itself, or with endings that Moses tries.

    Of a folder they are those in it.
    """
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [file for ending in _ENDINGS if (file := Path(f"{path}{ending}")).is_file()]


def _is_there(path: Path) -> bool:
    # That of Path raises where a name is too long.
    return any(os.path.exists(f"{path}{ending}") for ending in _ENDINGS)  # noqa: PTH110


def _absolute(path: Path) -> Path:
    """Return an absolute path. A link to a file keeps its name: Moses tells compressed files by their suffix."""
    return real_path(path.parent) / path.name
