"""A moses.ini: its features, their weights, and the files that they name.

Grammar: moses/Parameter.cpp (weights), moses/FF/FeatureFunction.cpp (feature lines).
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from moses_integration.ini.lines import (
    IGNORED,
    IN_CONTEXT,
    TRIMMED,
    FeatureLine,
    IniLines,
    quote_text,
    read_lines,
    split_fields,
    without_comment,
)
from phrasescore.errors import UserError, arg_name
from phrasescore.files import real_path, write_atomically
from phrasescore.words import parse_number

_DEFAULT_WEIGHT = 1.0
_MODELS = ("path", "backoff")
"""Arguments that name files or folders of models."""
PATHS = (
    *_MODELS,
    *("file", "source-path", "target-path", "deseg-path", "path_head_lm", "path_label_lm", "cblm-file", "cbtm-file"),
    *("source-vocabulary", "target-vocabulary", "source_vocab", "target_vocab", "source-word-list", "target-word-list"),
    *("label-set-file", "unknown-word-labels-file", "input-vocab-file", "output-vocab-file"),
)
"""Arguments that name files or folders: models, and files of rare Moses features."""
_ENDINGS = ("", ".gz", ".minphr", ".minlexr", ".binphr.idx", ".binlexr.idx")
"""Suffixes that Moses appends to a path (LexicalReorderingTable.cpp, PhraseDictionaryCompact.cpp, PDTAimp.cpp)."""
_BEFORE_2013 = (
    *("ttable-file", "lmodel-file", "distortion-file", "generation-file"),
    *("weight-t", "weight-l", "weight-d", "weight-w", "weight-p", "weight-u", "weight-i", "weight-generation"),
)
"""Sections of models and weights in the format that [feature] and [weight] replaced (moses/Parameter.cpp)."""

LABEL = re.compile(r"[A-Za-z][0-9A-Za-z]*")
"""Labels that mert-moses.pl can read back from an n-best list; it takes a label with `_` for a sparse feature."""

Weights = Mapping[str, Sequence[float]]


class MosesIni(IniLines):
    """A moses.ini. Relative paths in it start at `folder`."""

    def __init__(self, lines: Iterable[str], name: str = "moses.ini", folder: Path | None = None) -> None:
        super().__init__(lines, name)
        self.folder = folder if folder is not None else Path()
        self.notes: list[str] = []
        """Messages for the user about how the file was read."""

    @classmethod
    def read(cls, path: Path) -> MosesIni:
        """Read a file.

        Relative paths start at its folder, or, if none of them exists there but one does in the working directory, at
        the working directory, as in Moses.
        """
        ini = cls(read_lines(path), str(path), real_path(path).parent)
        for section in _BEFORE_2013:
            for row, _ in ini.rows(section):
                remedy = "convert the file with Moses' `scripts/training/convert-moses-ini-to-v2.perl < OLD > NEW`"
                if ini.values("weight-p"):
                    remedy += ", and add the weight of [weight-p], which the script drops"
                raise ini.fault(row, f"[{section}] belongs to the format before 2013", remedy)
        ignored = [name for name in ini.sections() if name in IGNORED and ini.values(name)]
        if ignored:
            names = ", ".join(f"[{section}]" for section in ignored)
            ini.notes.append(f"{path}: ignores sections that affect only Moses' input, output or server: {names}")
        relative = [*ini._relative_paths()]
        if not any(_exists(ini.folder / one) for one in relative) and any(_exists(Path(one)) for one in relative):
            ini.folder = Path.cwd()
            ini.notes.append(
                f"{path}: relative paths start at the working directory, {ini.folder}, as in Moses, because none of "
                "them exists in the folder of the file"
            )
        return ini

    def write(self, path: Path) -> None:
        """Write the file atomically; in another folder, relative paths become absolute."""
        write_atomically(path, self._moved_to(path).to_bytes())

    def copy(self) -> MosesIni:
        copied = MosesIni([], self.name, self.folder)
        copied.take_lines_of(self)
        return copied

    def without_comments(self) -> MosesIni:
        bare = self.copy()
        bare.lines = [without_comment(line) + "\n" for line in self.lines]
        return bare

    # Features

    def features(self) -> list[FeatureLine]:
        """Return the feature lines in their order, which is that of the score vector."""
        unnamed: Counter[str] = Counter()
        features: dict[str, FeatureLine] = {}
        for row, value in self.rows("feature"):
            kind, *pairs = split_fields(value)
            arguments = self._arguments(row, pairs)
            label = arguments.get("name", "")
            if not label:
                label = f"{kind}{unnamed[kind]}"
                unnamed[kind] += 1
            if label in features:
                raise self.fault(row, f"a second feature has the label {label}", "give it another name=")
            features[label] = FeatureLine(kind, label, arguments, row)
        return list(features.values())

    def _arguments(self, row: int, pairs: Iterable[str]) -> dict[str, str]:
        arguments: dict[str, str] = {}
        for pair in pairs:
            key, equals, argument = pair.partition("=")
            if not equals or key in arguments:
                reason = f"`{quote_text(pair)}` is not key=value, or repeats a key"
                raise self.fault(row, reason, "Moses rejects the line; fix it")
            arguments[key] = argument
        for key in ("num-features", IN_CONTEXT):
            if not re.fullmatch("[0-9]{1,3}", arguments.get(key, "1")):
                raise self.fault(row, f"{key} is not a whole number below 1000", "fix the line")
        return arguments

    def feature(self, label: str) -> FeatureLine:
        features = {feature.label: feature for feature in self.features()}
        if label not in features:
            remedy = f"give one of {', '.join(features)}" if features else "add it to [feature]"
            raise UserError(f"{self.name}: has no feature `{label}`; {remedy}")
        return features[label]

    def phrase_table(self) -> FeatureLine:
        tables = [feature for feature in self.features() if feature.is_phrase_table]
        if len(tables) != 1:
            found = ", ".join(f"{table.label} in line {self.number_of(table.row)}" for table in tables) or "none"
            remedy = (
                f"choose one with {arg_name('feature')} (add-column), or decode with Moses (not possible with +CTX)"
                if tables
                else "add its line"
            )
            raise UserError(f"{self.name}: one phrase table is expected in [feature], found {found}; {remedy}")
        return tables[0]

    def language_model(self) -> Path:
        for feature in self.features():
            # The n-gram model of another factor has other words.
            if feature.kind == "KENLM" and feature.arguments.get("factor", "0") == "0":
                return self.path_of(feature)
        raise UserError(f"{self.name}: has no KENLM feature with an n-gram model; give one by {arg_name('backoff')}")

    def set_argument(self, label: str, key: str, value: str) -> None:
        feature = self.feature(label)
        if re.search(rf"[#{TRIMMED}]", value):
            reason = f"{key}={value!r} cannot be written, because a space ends a value and # starts a comment"
            raise self.fault(feature.row, reason, "rename the file or folder")
        if key in feature.arguments:
            self.replace(feature.row, rf"(?<=[ \t]){re.escape(key)}=[^{TRIMMED}]*", f"{key}={value}")
        elif "path" in feature.arguments:
            # The position that train-model.perl uses.
            self.replace(feature.row, r"(?<=[ \t])(?=path=)", f"{key}={value} ")
        else:
            self.replace(feature.row, rf"(?=[{TRIMMED}]*$)", f" {key}={value}")

    def remove_argument(self, label: str, key: str) -> None:
        self.replace(self.feature(label).row, rf"[ \t]+{re.escape(key)}=[^{TRIMMED}]*", "")

    def check_label(self, feature: FeatureLine) -> None:
        """Raise an error if mert-moses.pl cannot read the feature's label back from an n-best list."""
        if not LABEL.fullmatch(feature.label):
            reason = f"mert-moses.pl cannot tune a feature called `{feature.label}`"
            raise self.fault(feature.row, reason, "use letters and digits only")

    # Weights

    def weights(self, section: str = "weight") -> dict[str, list[float]]:
        """Return the weights of a section by label; as in Moses, the last line of a label counts."""
        weights = {}
        for row, value in self.rows(section):
            label, *numbers = split_fields(value)
            if not label.endswith("=") or not numbers:
                raise self.fault(row, f"`{quote_text(value)}` is not `Label= number ...`", "fix the line")
            try:
                weights[label[:-1]] = [parse_number(number) for number in numbers]
            except ValueError as error:
                reason = f"a weight of {quote_text(label[:-1])} is not a number"
                raise self.fault(row, reason, "fix the line") from error
        return weights

    def weights_of_features(self) -> dict[str, list[float]]:
        """Return the weights of all features by label; as in Moses, they are 1 for a feature without weights."""
        given = self.weights()
        return {one.label: given.get(one.label, [_DEFAULT_WEIGHT] * one.weight_count) for one in self.features()}

    def without_weights(self) -> list[str]:
        """Return the labels of tuned features without weights in an ini that has weights; Moses warns of them."""
        given = {split_fields(value)[0][:-1] for name in ("weight", "weight-overwrite") for _, value in self.rows(name)}
        features = [one.label for one in self.features() if one.kind != "UnknownWordPenalty"]
        return [label for label in features if label not in given] if given else []

    def weights_of_table(self, feature: FeatureLine) -> list[float]:
        """Return the weights of a phrase table and check their number."""
        weights = self.weights_of_features()[feature.label]
        if len(weights) != feature.weight_count:
            reason = f"{feature.label} has {feature.weight_count} features but {len(weights)} weights"
            raise self.fault(feature.row, reason, "fix one of them first")
        return weights

    def set_weights(self, weights: Weights) -> None:
        rows = {split_fields(value)[0][:-1]: row for row, value in self.rows("weight")}
        for label, numbers in weights.items():
            text = " ".join(f"{number:.6g}" for number in numbers)
            if label in rows:
                self.replace(rows[label], rf"=[ \t].*?(?=[{TRIMMED}]*$)", f"= {text}")
            else:
                self.append("weight", f"{label}= {text}")

    def require_effective_weights(self) -> None:
        """Raise an error if a section overrides [weight], before long work that ends with writing weights there."""
        for row, _ in self.rows("weight-overwrite"):
            raise self.fault(row, "[weight-overwrite] overrides [weight]", "move its weights there")

    def require_some_weight(self) -> None:
        """Raise an error if all weights of tuned features are 0."""
        if not self.features():
            raise UserError(
                f"{self.name}: has no feature in [feature]; give a moses.ini, as UTF-8 text with line feeds"
            )
        if self.rows("weight-overwrite"):
            return
        weights = self.weights_of_features()
        if not any(any(weights[one.label]) for one in self.features() if one.kind != "UnknownWordPenalty"):
            raise UserError(
                f"{self.name}: all weights except that of UnknownWordPenalty are 0, so all translations are equally "
                "good; give a tuned moses.ini"
            )

    # Files

    def path_of(self, feature: FeatureLine, key: str = "path") -> Path:
        if key not in feature.arguments:
            raise self.fault(feature.row, f"{feature.label} has no {key}=", "add it")
        return self.folder / feature.arguments[key]

    def model_files(self) -> list[Path]:
        return [file for feature, key in self._named_models() for file in files_at(self.path_of(feature, key))]

    def _named_models(self) -> list[tuple[FeatureLine, str]]:
        return [(feature, key) for feature in self.features() for key in _MODELS if key in feature.arguments]

    def require_files(self) -> None:
        """Raise an error if a model file does not exist, with or without a suffix that Moses appends."""
        for feature, key in self._named_models():
            if not _exists(self.path_of(feature, key)):
                path, where, remedy = feature.arguments[key], "", "fix the path"
                if not Path(path).is_absolute():
                    where = f", relative to {self.folder}"
                    remedy = "move the ini back to where it was written, or start this command where Moses is started"
                raise self.fault(feature.row, f"{key}={path} does not exist{where}", remedy)

    def require_valid_at(self, path: Path) -> None:
        """Raise an error if the ini could not be written to `path`, before long work that ends with writing it."""
        self._moved_to(path)
        self.require_files()

    def with_absolute_paths(self) -> MosesIni:
        """Return a copy with absolute paths, because Moses' relative paths start at its working directory."""
        ini = self.copy()
        for feature in self.features():
            for key in PATHS:
                if key in feature.arguments and not Path(feature.arguments[key]).is_absolute():
                    ini.set_argument(feature.label, key, str(_absolute(self.path_of(feature, key))))
        return ini

    def path_to(self, path: Path, before: str) -> str:
        """Return a path as a feature line should name it: relative inside the folder, unless `before` is absolute."""
        path, folder = _absolute(path), self.folder.resolve()
        inside = path.is_relative_to(folder) and not Path(before).is_absolute()
        return str(path.relative_to(folder) if inside else path)

    def _moved_to(self, path: Path) -> MosesIni:
        if real_path(path).parent == self.folder.resolve():
            return self
        moved = self.with_absolute_paths()
        self.require_files()
        return moved

    def _relative_paths(self) -> Iterator[str]:
        # The lines may be malformed, so features() is of no use.
        for _, value in self.rows("feature"):
            for key, _, argument in (word.partition("=") for word in split_fields(value)):
                if key in _MODELS and argument and not Path(argument).is_absolute():
                    yield argument


def files_at(path: Path) -> list[Path]:
    """Return the files of a model: those in a folder, or the path itself and with the suffixes that Moses appends."""
    if path.is_dir():
        return sorted(file for file in path.iterdir() if file.is_file())
    return [file for ending in _ENDINGS if (file := Path(f"{path}{ending}")).is_file()]


def _exists(path: Path) -> bool:
    # Path.exists raises where a name is too long.
    return any(os.path.exists(f"{path}{ending}") for ending in _ENDINGS)  # noqa: PTH110


def _absolute(path: Path) -> Path:
    # A link to a file keeps its name, because Moses recognises compressed files by their suffix.
    return real_path(path.parent) / path.name
