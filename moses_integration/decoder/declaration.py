"""The log-linear model that a moses.ini declares, and the registry of its features.

A new feature is a class (of a phrase pair in `phrases.py`, of a jump in `reordering.py`, of the target context in
`context.py`) and a record in `KINDS`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from moses_integration.decoder.context import LanguageModel
from moses_integration.decoder.cslm import NeuralLanguageModelFeature
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
from moses_integration.decoder.tables import PhraseTable
from moses_integration.ini import FeatureLine, MosesIni, parse_truth, quote_text
from phrasescore.errors import UserError
from phrasescore.table.factors import Factors
from phrasescore.words import phrases_of

Arguments = Mapping[str, tuple[str, ...]]
"""Names of arguments with their supported values; `ANYTHING` for all values."""

ANYTHING: tuple[str, ...] = ()
_OF_ALL: Arguments = dict.fromkeys(("name", "num-features", "tuneable", "filterable", "verbosity"), ANYTHING)
"""Arguments of all features, which are read elsewhere or change no score."""
_FACTORS: Arguments = dict.fromkeys(("input-factor", "output-factor", "factor"), ("0",))


@dataclass(frozen=True)
class FeatureKind:
    """A feature class of moses.ini."""

    name: str
    make: Callable[[MosesIni, FeatureLine], Feature]
    """Makes the feature without loading any file; raises ValueError for a faulty line."""
    arguments: Arguments = field(default_factory=dict)
    """Supported arguments besides those of all features."""
    required: tuple[str, ...] = ()
    """Arguments without which Moses crashes."""
    is_single: bool = False
    """Whether Moses rejects a second one (moses/FF/WordPenaltyProducer.cpp, UnknownWordPenaltyProducer.cpp)."""
    is_of_moses: bool = True
    """Whether Moses has it, too."""

    def accepts(self, key: str, value: str) -> bool:
        """Return whether the argument is supported."""
        known = {**_OF_ALL, **self.arguments}
        return key in known and (known[key] == ANYTHING or value in known[key])


def _language_model(ini: MosesIni, line: FeatureLine) -> Feature:
    return LanguageModel(line.label, ini.path_of(line))


def _lexical_reordering(ini: MosesIni, line: FeatureLine) -> Feature:
    kind, has_target = line.arguments.get("type", ""), "output-factor" in line.arguments
    return LexicalReordering(line.label, kind, ini.path_of(line), has_target)


def _neural_language_model(ini: MosesIni, line: FeatureLine) -> Feature:
    return NeuralLanguageModelFeature(
        line.label,
        ini.path_of(line),
        ini.path_of(line, "backoff"),
        unnormalised=line.arguments.get("unnormalised") == "true",
        cache=ini.path_of(line, "cache") if "cache" in line.arguments else None,
    )


def _with_factors(*names: str) -> Arguments:
    """Return arguments of any value, and the single factor."""
    return {**_FACTORS, **dict.fromkeys(names, ANYTHING)}


KINDS = {
    kind.name: kind
    for kind in (
        FeatureKind("WordPenalty", lambda _, line: WordPenalty(line.label), is_single=True),
        FeatureKind("UnknownWordPenalty", lambda _, line: UnknownWordPenalty(line.label), is_single=True),
        FeatureKind("PhrasePenalty", lambda _, line: PhrasePenalty(line.label)),
        FeatureKind("Distortion", lambda _, line: Distortion(line.label)),
        FeatureKind(
            "PhraseDictionaryMemory",
            lambda _, line: TableScores(line.label, line.width),
            _with_factors("path", "table-limit", "cache-size"),
            required=("input-factor", "output-factor"),
        ),
        FeatureKind(
            "LexicalReordering", _lexical_reordering, _with_factors("path", "type"), required=("input-factor",)
        ),
        # How KenLM loads a model changes no score, but Moses rejects unknown values (moses/LM/Ken.cpp).
        FeatureKind(
            "KENLM",
            _language_model,
            {
                **_with_factors("path", "order"),
                "lazyken": ("0", "1", "false", "true"),
                "load": ("lazy", "populate_or_lazy", "populate_or_read", "populate", "read", "parallel_read"),
            },
        ),
        FeatureKind(
            "CSLM",
            _neural_language_model,
            {**_with_factors("path", "backoff", "cache"), "unnormalised": ("true", "false")},
            is_of_moses=False,
        ),
    )
}
"""Features by class name."""

_BINARY_TABLES = ("PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "PhraseDictionaryBinary", "ProbingPT")
_OTHER_LANGUAGE_MODELS = ("SRILM", "IRSTLM")
"""Libraries that read ARPA files as KenLM does."""


def load_model(
    ini: MosesIni, sentences: Iterable[Words], settings: DecoderSettings, *, factored_targets: bool = False
) -> LogLinearModel:
    """Load the model that `declare_model` declares, with the table lines that these sentences need."""
    wanted = {phrase for sentence in sentences for phrase in phrases_of(sentence, settings.search.longest_phrase)}
    model = declare_model(ini, factored_targets=factored_targets)
    table = ini.phrase_table()
    target_factors = len(_target_factors(ini, is_factored=factored_targets))
    model.table = PhraseTable(ini.path_of(table), table.width, wanted, target_factors)
    model.table_limit = table_limit(ini)
    model.drop_unknown = settings.drop_unknown
    for feature in model.features:
        feature.load(wanted)
    return model


def declare_model(ini: MosesIni, *, factored_targets: bool = False) -> LogLinearModel:
    """Return the features and weights of a moses.ini without loading any file.

    With `factored_targets`, target words of the phrase table may have several factors. Such a model ranks the
    translations of a phrase, but the search cannot write factored translations.
    """
    ini.phrase_table()
    lines = ini.features()
    _check_kinds(ini, lines)
    target_factors = _target_factors(ini, is_factored=factored_targets)
    features = [_declare(ini, line, target_factors) for line in lines]
    if not any(isinstance(feature, UnknownWordPenalty) for feature in features):
        raise UserError(f"{ini.name}: has no UnknownWordPenalty, which Moses needs; add it to [feature]")
    model = LogLinearModel(features)
    for label, numbers in ini.weights().items():
        model.set_weights({label: numbers}, ini.location("weight", f"{label}="))
    return model


def _check_kinds(ini: MosesIni, lines: Iterable[FeatureLine]) -> None:
    seen: set[str] = set()
    for line in lines:
        if line.kind in _BINARY_TABLES:
            raise UnsupportedError(
                f"{ini.at(line.row)}: the embedded decoder reads text tables, not {line.kind}",
                "name the text table in a PhraseDictionaryMemory line",
            )
        if line.kind in _OTHER_LANGUAGE_MODELS:
            raise UnsupportedError(
                f"{ini.at(line.row)}: the embedded decoder does not support {line.kind}",
                "if its file is in the ARPA format, name the feature KENLM, which gives the same scores",
            )
        if line.kind not in KINDS:
            raise UnsupportedError(
                f"{ini.at(line.row)}: the embedded decoder does not support {quote_text(line.kind)}",
                "remove it",
            )
        if line.kind in seen and KINDS[line.kind].is_single:
            raise _fault(ini, line, f"is a second {line.kind}, which Moses rejects; remove one with its weights")
        seen.add(line.kind)


def _target_factors(ini: MosesIni, *, is_factored: bool) -> list[str]:
    """Return the factors of target words in the order of the phrase table."""
    named = ini.phrase_table().arguments.get("output-factor", "0")
    return named.split(",") if is_factored and re.fullmatch("0(,[1-9])+", named) else ["0"]


def _declare(ini: MosesIni, line: FeatureLine, target_factors: list[str]) -> Feature:
    kind = KINDS[line.kind]
    if "path" in kind.arguments:
        # Report a missing path before any unknown argument, which may be meant instead of it.
        ini.path_of(line)
    of_target = [("output-factor", ",".join(target_factors))] if line.kind == "PhraseDictionaryMemory" else []
    of_target += [("factor", factor) for factor in target_factors]
    for key, value in line.arguments.items():
        if not kind.accepts(key, value) and (key, value) not in of_target:
            shown = quote_text(f"{key}={value}")
            raise UnsupportedError(
                f"{ini.at(line.row)}: the embedded decoder does not support `{shown}` of {kind.name}", "remove it"
            )
    for key in kind.required:
        if key not in line.arguments:
            raise _fault(ini, line, f"{kind.name} has no {key}=, without which Moses crashes; add {key}=0")
    try:
        feature = kind.make(ini, line)
    except ValueError as fault:
        raise _fault(ini, line, str(fault)) from fault
    feature.factors = Factors((target_factors.index(line.arguments.get("factor", "0")),))
    if "num-features" in line.arguments and line.width != feature.width:
        raise _fault(ini, line, f"num-features is {line.width} where {kind.name} has {feature.width}; fix the line")
    if "tuneable" in line.arguments:
        try:
            feature.tuneable = parse_truth(line.arguments["tuneable"])
        except ValueError as fault:
            raise _fault(ini, line, f"tuneable= {fault}; fix the line") from fault
    return feature


def table_limit(ini: MosesIni) -> int:
    """Return the number of translations of a phrase that a decoder uses; 0 is no limit."""
    table = ini.phrase_table()
    limit = table.arguments.get("table-limit", str(DEFAULT_TABLE_LIMIT))
    # int() limits the number of digits.
    number = int(limit) if re.fullmatch("[0-9]{1,10}", limit) else MOST + 1
    if number > MOST:
        raise _fault(ini, table, f"table-limit is not a whole number from 0 to {MOST:,}; fix the line")
    return number


def _fault(ini: MosesIni, line: FeatureLine, problem: str) -> UserError:
    return UserError(f"{ini.at(line.row)}: {problem}")
