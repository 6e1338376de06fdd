"""Conversion of Moses' old ini format to the current one.

The old format has a section for each kind of model ([ttable-file], [lmodel-file] ...) and one for its weights, one a
line ([weight-t], [weight-l] ...). Source: moses/Parameter.cpp, ConvertWeightArgs.

New lines keep the line numbers of the lines that they come from, for messages.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence

from moses_integration.ini.lines import IniLines, split_fields
from phrasescore.errors import UserError
from phrasescore.words import parse_number

_Model = tuple[str, int, str]

_TABLES = {
    "0": "PhraseDictionaryMemory",
    "1": "PhraseDictionaryBinary",
    "2": "PhraseDictionaryOnDisk",
    "12": "PhraseDictionaryCompact",
}
_LANGUAGE_MODELS = {"0": "SRILM", "1": "IRSTLM", "8": "KENLM", "9": "KENLM"}
_ORDER = {
    **dict.fromkeys(_LANGUAGE_MODELS.values(), 0),
    "Distortion": 2,
    "LexicalReordering": 3,
    "PhrasePenalty": 4,
    "WordPenalty": 5,
    "UnknownWordPenalty": 6,
    **dict.fromkeys(_TABLES.values(), 7),
}
"""The order in which Moses adds the features."""
_SINGLE = {"weight-u": "UnknownWordPenalty", "weight-w": "WordPenalty", "weight-p": "PhrasePenalty"}
"""Features with one weight and no model."""
_CURRENT = {"weight-file", "weight-add", "weight-overwrite"}
"""Sections of the current format whose names resemble those of the old one."""


def _table(fields: Sequence[str]) -> _Model:
    # Moses ignores further fields, such as `sparse`.
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


_MODELS: dict[str, tuple[str, Callable[[Sequence[str]], _Model]]] = {
    "ttable-file": ("weight-t", _table),
    "lmodel-file": ("weight-l", _language_model),
    "distortion-file": ("weight-d", _reordering),
}
"""Sections of models: the section of their weights, and the parser of a line."""


def convert_old_format(ini: IniLines) -> bool:
    """Convert an ini of the old format; return whether it had that format."""
    of_models = {name for section, (weights, _) in _MODELS.items() for name in (section, weights)}
    known = of_models | _SINGLE.keys()
    # Rare features, and input other than text.
    rare = {name for name in ini.sections() if name.startswith(("weight-", "generation-", "lmodel-oov"))}
    rare -= known | _CURRENT
    old = [name for name in ini.sections() if name in known | rare and ini.rows(name)]
    if not old:
        return False
    for section in ("feature", "weight"):
        for row, _ in ini.rows(section):
            reason = f"[{section}] has Moses' current format, [{old[0]}] the old one"
            raise ini.fault(row, reason, "use only one of the formats")
    for section in (name for name in old if name in rare):
        reason = f"[{section}] has Moses' old format, and its conversion is not supported"
        remedy = "convert the file with `scripts/training/convert-moses-ini-to-v2.perl < OLD > NEW`"
        raise ini.fault(ini.rows(section)[0][0], reason, remedy)
    features: list[tuple[str, int | None]] = []
    weights: list[tuple[str, int]] = []
    # Features without a model. Moses always adds the two word penalties.
    for section, kind in _SINGLE.items():
        if section != "weight-p" or section in old:
            features.append((kind, None))
        if section in old:
            weights += _give_weights(ini, section, [(f"{kind}0", 1)])
    if "weight-d" in old:
        features.append(("Distortion", None))
    for section, (of_weights, parse) in _MODELS.items():
        widths = [("Distortion0", 1)] if of_weights == "weight-d" in old else []
        for label, scores, line, number in _models(ini, section, parse):
            features.append((line, number))
            widths.append((label, scores))
        weights += _give_weights(ini, of_weights, widths)
    for section in (*of_models, *_SINGLE, "ttable-limit"):
        ini.set_values(section, [])
    for feature in sorted(features, key=lambda one: _ORDER[split_fields(one[0])[0]]):
        ini.append("feature", *feature)
    for weight_line in weights:
        ini.append("weight", *weight_line)
    return True


def _models(
    ini: IniLines, section: str, parse: Callable[[Sequence[str]], _Model]
) -> Iterator[tuple[str, int, str, int]]:
    """Yield label, number of scores, feature line and line number of each model of a section."""
    counts = Counter[str]()
    rows = ini.rows(section)
    limits = _limits(ini, len(rows)) if section == "ttable-file" else []
    for index, (row, value) in enumerate(rows):
        try:
            kind, scores, arguments = parse(split_fields(value))
        except (ValueError, LookupError) as error:
            remedy = "fix the line, or convert the file to Moses' current format"
            raise ini.fault(row, f"is not a supported model of [{section}]", remedy) from error
        if index < len(limits):
            arguments += f" table-limit={limits[index]}"
        label = f"{kind}{counts[kind]}"
        counts[kind] += 1
        yield label, scores, f"{kind} name={label} num-features={scores} {arguments}", ini.number_of(row)


def _limits(ini: IniLines, tables: int) -> list[str]:
    """Return a limit for each table: a single limit applies to all of them, surplus limits to none."""
    limits = ini.values("ttable-limit")
    if len(limits) == 1:
        return limits * tables
    if 0 < len(limits) < tables:
        raise UserError(
            f"{ini.location('ttable-limit')}: [ttable-limit] has {len(limits)} limits for {tables} tables; give one "
            "for each table"
        )
    return limits[:tables]


def _give_weights(ini: IniLines, section: str, widths: Sequence[tuple[str, int]]) -> Iterator[tuple[str, int]]:
    """Yield a line of weights and its line number for each (label, number of scores), from an old section."""
    left = deque(ini.rows(section))
    for label, count in widths:
        taken = [left.popleft() for _ in range(min(count, len(left)))]
        if len(taken) < count:
            raise UserError(
                f"{ini.name}: [{section}] has {len(taken)} weights for the {count} scores of {label}; give one weight "
                "a line for each score"
            )
        for row, weight in taken:
            try:
                parse_number(weight)
            except ValueError as error:
                raise ini.fault(row, f"[{section}] is not a number", "fix the line") from error
        yield f"{label}= {' '.join(weight for _, weight in taken)}", ini.number_of(taken[0][0])
    for row, _ in left:
        raise ini.fault(row, f"[{section}] has more weights than its models have scores", "remove the line")
