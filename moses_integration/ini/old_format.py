"""The old format of moses.ini, converted to the current one as Moses does when it reads it.

The old format names models in sections of their own ([ttable-file], [lmodel-file] ...) and their weights, one a line,
in others ([weight-t], [weight-l] ...). Source: moses/Parameter.cpp, ConvertWeightArgs.

The conversion replaces line by line, so that messages name the lines of the user's file, and comments stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from moses_integration.ini.lines import IniLines, split_blanks
from phrasescore.errors import UserError
from phrasescore.number import parse_number

_Model = tuple[str, int, str]
"""Class, number of scores, and arguments of a feature."""

_TABLES = {
    "0": "PhraseDictionaryMemory",
    "1": "PhraseDictionaryBinary",
    "2": "PhraseDictionaryOnDisk",
    "12": "PhraseDictionaryCompact",
}
_LANGUAGE_MODELS = {"0": "SRILM", "1": "IRSTLM", "8": "KENLM", "9": "KENLM"}
_ORDER = {
    **dict.fromkeys(_LANGUAGE_MODELS.values(), 0),
    "Generation": 1,
    "Distortion": 2,
    "LexicalReordering": 3,
    "PhrasePenalty": 4,
    "WordPenalty": 5,
    "UnknownWordPenalty": 6,
    **dict.fromkeys(_TABLES.values(), 7),
}
"""The order in which Moses adds the features."""
_SINGLE = {"weight-u": "UnknownWordPenalty", "weight-w": "WordPenalty", "weight-p": "PhrasePenalty"}
"""Features that have one weight and no model."""
_UNKNOWN = {
    *("weight-i", "weight-slm", "weight-bl", "weight-dlm", "weight-lr", "weight-lex", "weight-glm", "weight-wt"),
    *("weight-pp", "weight-pb", "weight-e", "dlm-model", "global-lexical-file", "glm-feature", "slmodel-file"),
    *("phrase-pair-feature", "phrase-boundary-source-feature", "phrase-boundary-target-feature"),
    *("phrase-length-feature", "target-word-insertion-feature", "source-word-deletion-feature"),
    "word-translation-feature",
}
"""Sections of rare features, and of input that is not text."""


def _table(fields: Sequence[str]) -> _Model:
    # Moses ignores what follows, such as `sparse`.
    implementation, source, target, scores, path = fields[:5]
    return _TABLES[implementation], int(scores), f"path={path} input-factor={source} output-factor={target}"


def _language_model(fields: Sequence[str]) -> _Model:
    implementation, factor, order, path = fields
    lazy = "load=lazy " if implementation == "9" else ""
    return _LANGUAGE_MODELS[implementation], 1, f"{lazy}path={path} factor={factor} order={order}"


def _reordering(fields: Sequence[str]) -> _Model:
    factors, kind, scores, path = fields
    source, target = factors.split("-")
    return "LexicalReordering", int(scores), f"type={kind} path={path} input-factor={source} output-factor={target}"


def _generation(fields: Sequence[str]) -> _Model:
    source, target, scores, path = fields
    return "Generation", int(scores), f"path={path} input-factor={source} output-factor={target}"


_MODELS: dict[str, tuple[str, Callable[[Sequence[str]], _Model]]] = {
    "ttable-file": ("weight-t", _table),
    "lmodel-file": ("weight-l", _language_model),
    "distortion-file": ("weight-d", _reordering),
    "generation-file": ("weight-generation", _generation),
}
"""Sections of models: the section of their weights, and what reads a line."""


def convert_old_format(ini: IniLines) -> bool:
    """Convert an ini of the old format; return whether it was one.

    Raises:
        UserError: a line is malformed, a section has more or fewer weights than its models have scores, or the
            conversion does not know a section.
    """
    of_models = {name for section, (weights, _) in _MODELS.items() for name in (section, weights)}
    old = [name for name in ini.sections() if name in of_models | _SINGLE.keys() | _UNKNOWN and ini.rows(name)]
    if not old:
        return False
    _refuse(ini, old)
    # Features without a line of their own. Moses adds the two penalties on words in any case.
    added = [kind for section, kind in _SINGLE.items() if section != "weight-p" or section in old]
    for section, kind in _SINGLE.items():
        weights = _Weights(ini, section)
        if section in old:
            weights.give(f"{kind}0", 1)
        weights.check_used()
    if "weight-d" in old:
        added.append("Distortion")
    for section, (of_weights, parse) in _MODELS.items():
        weights = _Weights(ini, of_weights)
        if of_weights == "weight-d" in old:
            weights.give("Distortion0", 1)
        _convert_models(ini, section, parse, weights)
        weights.check_used()
    for section in ("ttable-limit", "lmodel-oov-feature"):
        ini.set_values(section, [])
    ini.append_section("feature", added)
    ini.sort_values("feature", lambda feature: _ORDER[split_blanks(feature)[0]])
    return True


def _refuse(ini: IniLines, old: Sequence[str]) -> None:
    """Reject what Moses rejects, and what the conversion does not know."""
    for section in ("feature", "weight"):
        for row, _ in ini.rows(section):
            raise ini.fault(
                row, f"[{section}] is of the current format of Moses, [{old[0]}] of the old one", "use only one of them"
            )
    for section in old:
        if section in _UNKNOWN:
            raise ini.fault(
                ini.rows(section)[0][0],
                f"[{section}] is of the old format of Moses and cannot be converted here",
                "convert the file with `scripts/training/convert-moses-ini-to-v2.perl < OLD > NEW` of Moses",
            )
    for row, value in ini.rows("search-algorithm")[:1]:
        if value not in ("0", "1"):
            raise ini.fault(row, "a system of the old format is not phrase-based", "give a phrase-based system")


def _convert_models(ini: IniLines, section: str, parse: Callable[[Sequence[str]], _Model], weights: _Weights) -> None:
    """Turn the models of a section into feature lines, and hand them their weights."""
    counts = Counter[str]()
    rows = ini.rows(section)
    limits = _limits(ini, len(rows)) if section == "ttable-file" else []
    # A language model may have one more score, for unknown words.
    of_unknown = [value == "1" for value in ini.values("lmodel-oov-feature")] if section == "lmodel-file" else []
    for index, (row, value) in enumerate(rows):
        try:
            kind, scores, arguments = parse(split_blanks(value))
        except (ValueError, LookupError) as error:
            raise ini.fault(
                row,
                f"is not a model of [{section}] that can be converted here",
                "fix the line, or write the file in the current format of Moses",
            ) from error
        if index < len(limits):
            arguments += f" table-limit={limits[index]}"
        if index < len(of_unknown) and of_unknown[index]:
            scores, arguments = scores + 1, f"{arguments} oov-feature=1"
        label = f"{kind}{counts[kind]}"
        counts[kind] += 1
        ini.replace_value(row, f"{kind} name={label} num-features={scores} {arguments}")
        weights.give(label, scores)
    ini.rename_section(section, "feature")


def _limits(ini: IniLines, tables: int) -> list[str]:
    """Return the limits of the tables; one limit is for all of them, and those beyond the tables are for none.

    Raises:
        UserError: there are fewer than tables.
    """
    limits = ini.values("ttable-limit")
    if len(limits) == 1:
        return limits * tables
    if 0 < len(limits) < tables:
        place = ini.place("ttable-limit")
        raise UserError(
            f"{place}: [ttable-limit] has {len(limits)} limits for {tables} tables; give one for each table"
        )
    return limits[:tables]


class _Weights:
    """The weights of an old section, one a line; the first line of each feature's becomes its line of [weight]."""

    def __init__(self, ini: IniLines, section: str) -> None:
        self._ini, self._section = ini, section
        self._left = ini.rows(section)
        ini.rename_section(section, "weight")

    def give(self, label: str, count: int) -> None:
        """Give a feature the next weights.

        Raises:
            UserError: there are too few, or one is not a number.
        """
        taken, self._left = self._left[:count], self._left[count:]
        if len(taken) < count:
            raise UserError(
                f"{self._ini.name}: [{self._section}] has {len(taken)} weights for the {count} scores of {label}; give "
                "one for each score, each on a line of its own"
            )
        line = f"{label}= {' '.join(weight for _, weight in taken)}"
        for index, (row, weight) in enumerate(taken):
            try:
                parse_number(weight)
            except ValueError as error:
                raise self._ini.fault(row, f"[{self._section}] is not a number", "fix the line") from error
            self._ini.replace_value(row, "" if index else line)

    def check_used(self) -> None:
        """Check that no weight is left.

        Raises:
            UserError: one is.
        """
        for row, _ in self._left[:1]:
            raise self._ini.fault(
                row, f"[{self._section}] has more weights than its models have scores", "remove the line"
            )
