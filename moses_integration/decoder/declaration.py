"""From a moses.ini to the log-linear model that it names: features, weights, tables."""

from __future__ import annotations

import re
from collections.abc import Iterable

from moses_integration.decoder.context import ContextFeature, LanguageModel
from moses_integration.decoder.model import DEFAULT_TABLE_LIMIT, LogLinearModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import (
    Feature,
    PhraseFeature,
    PhrasePenalty,
    TableScores,
    UnknownWordPenalty,
    WordPenalty,
    Words,
)
from moses_integration.decoder.reordering import Distortion, JumpFeature, LexicalReordering
from moses_integration.decoder.search import MOST
from moses_integration.decoder.tables import PhraseTable, phrases_of
from moses_integration.ini import FeatureLine, MosesIni, parse_truth, quote_text
from phrasescore.errors import UserError

_BINARY_TABLES = ("PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "PhraseDictionaryBinary", "ProbingPT")
_SINGLE = {"WordPenalty", "UnknownWordPenalty"}
"""Features that Moses refuses to have twice (moses/FF/WordPenaltyProducer.cpp, UnknownWordPenaltyProducer.cpp)."""

_FACTORS = {"input-factor", "output-factor", "factor"}
# What feature lines may say here: what is used, and what changes no score.
_OF_ALL = {"name", "num-features", "tuneable", "filterable", "verbosity"}
_ARGUMENTS: dict[str, set[str]] = {
    "UnknownWordPenalty": set(),
    "WordPenalty": set(),
    "PhrasePenalty": set(),
    "Distortion": set(),
    "PhraseDictionaryMemory": _FACTORS | {"path", "table-limit", "cache-size"},
    "LexicalReordering": _FACTORS | {"path", "type"},
    "KENLM": _FACTORS | {"path", "order", "lazyken", "load"},
    "CSLM": _FACTORS | {"path", "backoff", "cache", "unnormalised"},
}
_ALLOWED = {**dict.fromkeys(_FACTORS, ("0",)), "unnormalised": ("true", "false")}
"""What those may be that may not be anything."""


def load_model(ini: MosesIni, sentences: Iterable[Words], longest_phrase: int) -> LogLinearModel:
    """Load what a moses.ini names, as far as these sentences need it.

    Raises:
        UserError: a feature is not supported, or a file is missing, malformed or of another width.
    """
    wanted = phrases_of(sentences, longest_phrase)
    model = declare_model(ini)
    table = ini.phrase_table()
    model.table = PhraseTable(ini.path_of(table), table.width, wanted)
    model.table_limit = _table_limit(ini, table)
    for feature in model.features:
        if isinstance(feature, LexicalReordering):
            feature.load(wanted)
        elif isinstance(feature, LanguageModel | NeuralLanguageModelFeature):
            feature.load()
    return model


def declare_model(ini: MosesIni) -> LogLinearModel:
    """Return features and weights of a moses.ini without loading any file, as for `-show-weights`.

    Raises:
        UserError: a feature is not supported, or features and weights do not match.
    """
    ini.phrase_table()
    phrase: list[PhraseFeature] = []
    jump: list[JumpFeature] = []
    context: list[ContextFeature] = []
    lines = {line.label: line for line in ini.features()}
    kinds: set[str] = set()
    for line in lines.values():
        _check_arguments(ini, line)
        if line.kind in kinds & _SINGLE:
            raise UserError(
                f"{ini.name}: line {line.row + 1}: is a second {line.kind}, which Moses refuses; remove one with its "
                "weights"
            )
        kinds.add(line.kind)
        _declare(ini, line, phrase, jump, context)
    for feature in (*phrase, *jump, *context):
        _check_width(ini, lines[feature.label], feature)
        _set_tuneable(ini, lines[feature.label], feature)
    if not any(isinstance(feature, UnknownWordPenalty) for feature in phrase):
        raise UserError(f"{ini.name}: has no UnknownWordPenalty; Moses cannot do without, add it to [feature]")
    model = LogLinearModel(phrase, jump, context, [*lines])
    for label, numbers in ini.weights().items():
        model.set_weights({label: numbers}, ini.place("weight", f"{label}="))
    return model


def _check_arguments(ini: MosesIni, line: FeatureLine) -> None:
    if line.kind not in _ARGUMENTS:
        # It is refused by its name.
        return
    known = _OF_ALL | _ARGUMENTS[line.kind]
    for key, value in line.arguments.items():
        if key not in known or value not in _ALLOWED.get(key, (value,)):
            shown = quote_text(f"{key}={value}")
            raise UserError(
                f"{ini.name}: line {line.row + 1}: the embedded decoder does not know `{shown}` of {line.kind}; "
                "remove it, or use Moses"
            )


def _set_tuneable(ini: MosesIni, line: FeatureLine, feature: Feature) -> None:
    if "tuneable" in line.arguments:
        try:
            feature.tuneable = parse_truth(line.arguments["tuneable"])
        except ValueError as fault:
            raise UserError(f"{ini.name}: line {line.row + 1}: tuneable= {fault}; mend the line") from fault


def _check_width(ini: MosesIni, line: FeatureLine, feature: Feature) -> None:
    if "num-features" in line.arguments and line.width != feature.width:
        raise UserError(
            f"{ini.name}: line {line.row + 1}: num-features is {line.width} where {line.kind} has {feature.width}; "
            "mend the line"
        )


def _table_limit(ini: MosesIni, table: FeatureLine) -> int:
    limit = table.arguments.get("table-limit", str(DEFAULT_TABLE_LIMIT))
    # Python makes numbers of so many digits only.
    number = int(limit) if re.fullmatch("[0-9]{1,10}", limit) else MOST + 1
    if number > MOST:
        raise UserError(
            f"{ini.name}: line {table.row + 1}: table-limit is no whole number from 0 to {MOST:,}; mend the line"
        )
    return number


def _declare(
    ini: MosesIni,
    line: FeatureLine,
    phrase: list[PhraseFeature],
    jump: list[JumpFeature],
    context: list[ContextFeature],
) -> None:
    match line.kind:
        case "WordPenalty":
            phrase.append(WordPenalty(line.label))
        case "PhrasePenalty":
            phrase.append(PhrasePenalty(line.label))
        case "UnknownWordPenalty":
            phrase.append(UnknownWordPenalty(line.label))
        case "PhraseDictionaryMemory":
            phrase.append(TableScores(line.label, line.width))
        case "Distortion":
            jump.append(Distortion(line.label))
        case "LexicalReordering":
            try:
                jump.append(LexicalReordering(line.label, line.arguments.get("type", ""), ini.path_of(line)))
            except ValueError as fault:
                raise UserError(f"{ini.name}: line {line.row + 1}: {fault}") from fault
        case "KENLM":
            context.append(LanguageModel(line.label, ini.path_of(line)))
        case "CSLM":
            files = ini.path_of(line), ini.path_of(line, "backoff")
            cache = ini.path_of(line, "cache") if "cache" in line.arguments else None
            unnormalised = line.arguments.get("unnormalised") == "true"
            feature = NeuralLanguageModelFeature(line.label, *files, unnormalised=unnormalised, cache=cache)
            context.append(feature)
        case kind if kind in _BINARY_TABLES:
            raise UserError(
                f"{ini.name}: line {line.row + 1}: the embedded decoder reads text tables, not {kind}; name the text "
                "table in a PhraseDictionaryMemory line, or use Moses"
            )
        case kind:
            raise UserError(
                f"{ini.name}: line {line.row + 1}: the embedded decoder has no feature {quote_text(kind)}; "
                "remove it, or use Moses"
            )
