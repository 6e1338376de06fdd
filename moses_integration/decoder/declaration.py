"""The log-linear model that a moses.ini declares, and the registry of its features.

A new feature is a class (of a phrase pair in `phrases.py`, of a jump in `reordering.py`, of the target context in
`language_models.py`) and a record in `KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from moses_integration.decoder.cslm import NeuralLanguageModelFeature
from moses_integration.decoder.language_models import LanguageModel
from moses_integration.decoder.model import DEFAULT_TABLE_LIMIT, LogLinearModel
from moses_integration.decoder.phrases import (
    Feature,
    PhrasePenalty,
    TableScores,
    UnknownWordPenalty,
    WordPenalty,
    Words,
)
from moses_integration.decoder.reordering import Distortion, LexicalReordering
from moses_integration.decoder.settings import MOST, DecoderSettings, UnsupportedError
from moses_integration.decoder.tables import MappedPhrases, PhraseTable, Wanted
from moses_integration.ini import FeatureLine, MosesIni, parse_truth, quote_text
from phrasescore.errors import UserError
from phrasescore.table.entry import Factors
from phrasescore.words import phrases_of


@dataclass(frozen=True)
class FeatureKind:
    """A feature class of moses.ini."""

    make: Callable[[MosesIni, FeatureLine], Feature]
    """Makes the feature without loading any file; raises ValueError for a faulty line."""
    arguments: tuple[str, ...] = ()
    """Supported arguments besides those of all features."""
    is_of_moses: bool = True


def _lexical_reordering(ini: MosesIni, line: FeatureLine) -> Feature:
    kind, has_target = line.arguments.get("type", ""), "output-factor" in line.arguments
    return LexicalReordering(line.label, kind, ini.path_of(line), has_target)


def _is_tuneable(line: FeatureLine, *, default: bool) -> bool:
    try:
        return parse_truth(line.arguments["tuneable"]) if "tuneable" in line.arguments else default
    except ValueError as fault:
        raise ValueError(f"tuneable= {fault}; fix the line") from fault


def _neural_language_model(ini: MosesIni, line: FeatureLine) -> Feature:
    return NeuralLanguageModelFeature(line.label, ini.path_of(line), ini.path_of(line, "backoff"))


_OF_ALL = ("name", "num-features", "tuneable", "filterable", "verbosity")
"""Arguments of all features, which are read elsewhere or change no score."""
KINDS = {
    "WordPenalty": FeatureKind(lambda _, line: WordPenalty(line.label)),
    "UnknownWordPenalty": FeatureKind(lambda _, line: UnknownWordPenalty(line.label)),
    "PhrasePenalty": FeatureKind(lambda _, line: PhrasePenalty(line.label)),
    "Distortion": FeatureKind(lambda _, line: Distortion(line.label)),
    "PhraseDictionaryMemory": FeatureKind(
        lambda _, line: TableScores(line.label, line.width),
        ("path", "input-factor", "output-factor", "table-limit", "cache-size"),
    ),
    "LexicalReordering": FeatureKind(_lexical_reordering, ("path", "type", "input-factor", "output-factor", "factor")),
    # How KenLM loads a model changes no score.
    "KENLM": FeatureKind(
        lambda ini, line: LanguageModel(line.label, ini.path_of(line)), ("path", "order", "factor", "lazyken", "load")
    ),
    "CSLM": FeatureKind(_neural_language_model, ("path", "order", "factor", "backoff"), is_of_moses=False),
}
_USE_TEXT = "name the text table in a PhraseDictionaryMemory line"
_USE_KENLM = "if its file is in the ARPA format, name the feature KENLM, which gives the same scores"
_REMEDIES = {
    **dict.fromkeys(("PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "PhraseDictionaryBinary"), _USE_TEXT),
    "ProbingPT": _USE_TEXT,
    "SRILM": _USE_KENLM,
    "IRSTLM": _USE_KENLM,
}


def load_model(
    ini: MosesIni,
    sentences: Iterable[Words] | MappedPhrases,
    settings: DecoderSettings,
    *,
    factored_targets: bool = False,
) -> LogLinearModel:
    """Load the model that `declare_model` declares, with the table lines that these sentences need, or mapped lines."""
    wanted: Wanted = (
        sentences if isinstance(sentences, MappedPhrases) else phrases_in(sentences, settings.longest_phrase)
    )
    model = declare_model(ini, factored_targets=factored_targets)
    table = ini.phrase_table()
    target_factors = len(_target_factors(ini, is_factored=factored_targets))
    model.table = PhraseTable(ini.path_of(table), table.width, wanted, target_factors)
    model.table_limit = _table_limit(ini, table)
    model.drop_unknown = settings.drop_unknown
    for feature in model.features:
        feature.load(wanted)
    return model


def phrases_in(sentences: Iterable[Words], longest: int) -> set[bytes]:
    """Return the phrases of sentences with at most `longest` words."""
    return {phrase for sentence in sentences for phrase in phrases_of(sentence, longest)}


def declare_model(ini: MosesIni, *, factored_targets: bool = False) -> LogLinearModel:
    """Return the features and weights of a moses.ini without loading any file.

    With `factored_targets`, target words of the phrase table may have several factors. Such a model ranks the
    translations of a phrase, but the search cannot write factored translations.
    """
    target_factors = _target_factors(ini, is_factored=factored_targets)
    model = LogLinearModel([_declare(ini, line, target_factors) for line in ini.features()])
    for label, numbers in ini.weights().items():
        model.set_weights({label: numbers}, ini.location("weight", f"{label}="))
    return model


def _target_factors(ini: MosesIni, *, is_factored: bool) -> list[str]:
    named = ini.phrase_table().arguments.get("output-factor", "0")
    return named.split(",") if is_factored and re.fullmatch("0(,[1-9])+", named) else ["0"]


def _declare(ini: MosesIni, line: FeatureLine, target_factors: Sequence[str]) -> Feature:
    kind, place = KINDS.get(line.kind), ini.at(line.row)
    if kind is None:
        remedy = _REMEDIES.get(line.kind, "remove it")
        raise UnsupportedError(f"{place}: the embedded decoder does not support {quote_text(line.kind)}", remedy)
    factors = {
        "input-factor": ["0"],
        "output-factor": [",".join(target_factors) if line.is_phrase_table else "0"],
        "factor": target_factors,
    }
    try:
        feature = kind.make(ini, line)
        feature.tuneable = _is_tuneable(line, default=feature.tuneable)
    except ValueError as error:
        raise UserError(f"{place}: {error}") from error
    for key, value in line.arguments.items():
        if key not in (*_OF_ALL, *kind.arguments) or (key in factors and value not in factors[key]):
            fault = f"the embedded decoder does not support `{quote_text(f'{key}={value}')}` of {line.kind}"
            raise UnsupportedError(f"{place}: {fault}", "remove it")
    feature.factors = Factors((target_factors.index(line.arguments.get("factor", "0")),))
    if "num-features" in line.arguments and line.width != feature.width:
        raise UserError(f"{place}: num-features is {line.width} where {line.kind} has {feature.width}; fix the line")
    return feature


def _table_limit(ini: MosesIni, table: FeatureLine) -> int:
    limit = table.arguments.get("table-limit", str(DEFAULT_TABLE_LIMIT))
    # int() limits the number of digits.
    if not re.fullmatch("[0-9]{1,10}", limit) or int(limit) > MOST:
        raise UserError(f"{ini.at(table.row)}: table-limit is not a whole number from 0 to {MOST:,}; fix the line")
    return int(limit)
