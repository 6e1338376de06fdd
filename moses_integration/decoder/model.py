"""The log-linear model of a moses.ini: features, weights, tables.

A score is the sum of weight times value over the components of all features; values that stand for probabilities are
natural logs. Components are ordered as Moses prints them: first the features with a state (distortion, reordering,
language models), then the others, each group in the order of moses.ini.

Shapes: T translations of one source phrase, F components of all features, K components of one feature.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.context import ContextFeature, LanguageModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import (
    Feature,
    Floats,
    PhraseFeature,
    PhrasePenalty,
    TableScores,
    TargetPhrase,
    UnknownWordPenalty,
    WordPenalty,
    Words,
)
from moses_integration.decoder.reordering import Distortion, JumpFeature, LexicalReordering
from moses_integration.decoder.tables import PhraseTable, phrases_of
from moses_integration.ini import FeatureLine, MosesIni, Weights, parse_truth
from phrasescore.errors import UserError

_BINARY_TABLES = ("PhraseDictionaryCompact", "PhraseDictionaryOnDisk", "PhraseDictionaryBinary", "ProbingPT")
_SINGLE = {"WordPenalty", "UnknownWordPenalty"}
"""Features that Moses refuses to have twice (moses/FF/WordPenaltyProducer.cpp, UnknownWordPenaltyProducer.cpp)."""
DEFAULT_TABLE_LIMIT = 20

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


@dataclass(frozen=True)
class Translations:
    """What the table gives for one source phrase, with everything that does not depend on the sentence or weights."""

    targets: list[TargetPhrase]
    values_TF: Floats
    """Values of the phrase alone: phrase features, and the inside of language models."""
    estimate_TF: Floats
    """What context features expect their context to add."""
    rows: dict[str, Floats]
    """Label of a jump feature -> its rows [T, any width]."""

    def take(self, indices: Sequence[int]) -> Translations:
        """Return some of them."""
        index = np.array(indices, np.int64)
        return Translations(
            [self.targets[i] for i in indices],
            self.values_TF[index],
            self.estimate_TF[index],
            {label: rows[index] for label, rows in self.rows.items()},
        )


class LogLinearModel:
    """Features and weights."""

    def __init__(
        self,
        phrase_features: Sequence[PhraseFeature],
        jump_features: Sequence[JumpFeature],
        context_features: Sequence[ContextFeature],
        order: Sequence[str],
    ) -> None:
        """Put features together, with weights of 1, as in Moses; `order` is that of moses.ini."""
        self.phrase_features, self.jump_features = list(phrase_features), list(jump_features)
        self.context_features = list(context_features)
        with_state: list[Feature] = [*self.jump_features, *self.context_features]
        without_state: list[Feature] = list(self.phrase_features)
        self.features: list[Feature] = [
            *sorted(with_state, key=lambda feature: order.index(feature.label)),
            *sorted(without_state, key=lambda feature: order.index(feature.label)),
        ]
        self.columns: dict[str, slice] = {}
        width = 0
        for feature in self.features:
            self.columns[feature.label] = slice(width, width + feature.width)
            width += feature.width
        self.width = width
        contexts = (np.arange(width)[self.columns[feature.label]] for feature in self.context_features)
        self.context_columns = np.concatenate([np.zeros(0, np.int64), *contexts])
        """Components of the context features, one feature after another."""
        self.weights_F = np.ones(width)
        self.table: PhraseTable | None = None
        self.table_limit = DEFAULT_TABLE_LIMIT
        self.drop_unknown = False
        self._translations: dict[Words, Translations] = {}
        self._pruned: dict[Words, Translations] = {}

    @property
    def tuneable_F(self) -> NDArray[np.bool_]:
        """Whether each component is tuned and printed [F]."""
        return np.concatenate([np.full(f.width, f.tuneable) for f in self.features])

    @property
    def context_weights(self) -> Floats:
        """Weights of the context features' components [X]."""
        weights_X: Floats = self.weights_F[self.context_columns]
        return weights_X

    def set_weights(self, weights: Weights, origin: str = "weights") -> None:
        """Set the weights of some features; `origin` says where they come from, in messages.

        Raises:
            UserError: a label is unknown, has another number of weights than its feature, or one that is not finite.
        """
        for label, numbers in weights.items():
            if label not in self.columns:
                raise UserError(f"{origin}: the weights of `{label}` have no feature; correct the label or remove them")
            columns = self.columns[label]
            width = columns.stop - columns.start
            if len(numbers) != width:
                raise UserError(
                    f"{origin}: {label} has {width} features but {len(numbers)} weights; give as many of both"
                )
            # Moses has them in 32 bit.
            if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
                raise UserError(f"{origin}: a weight of {label} is no finite number of 32 bit; give one")
            self.weights_F[columns] = numbers
        self._pruned = {}

    def weights(self) -> dict[str, list[float]]:
        """Return the weights by label."""
        return {label: self.weights_F[columns].tolist() for label, columns in self.columns.items()}

    # Translations of source phrases

    def translations(self, source: Words) -> Translations | None:
        """Return the best `table_limit` translations of a source phrase, None if there are none.

        They are ranked by the weighted score of the phrase alone plus the estimates of the language models, as Moses
        does (moses/TargetPhrase.cpp), with the weights now in force. A single word without any is copied.
        """
        if source not in self._pruned:
            every = self.every_translation(source)
            if every is None:
                return None
            score_T = (every.values_TF + every.estimate_TF) @ self.weights_F
            best = np.argsort(-score_T, kind="stable")
            self._pruned[source] = every.take((best[: self.table_limit] if self.table_limit else best).tolist())
        return self._pruned[source]

    def every_translation(self, source: Words) -> Translations | None:
        """Return all translations that the table has, or the copy of an unknown word."""
        if source not in self._translations:
            assert self.table is not None
            targets = self.table.lookup(source)
            if not targets and len(source) == 1:
                targets = [self._copy(source)]
            if not targets:
                return None
            self._translations[source] = self._evaluate(source, targets)
        return self._translations[source]

    def _copy(self, word: Words) -> TargetPhrase:
        """Return what becomes of an unknown word."""
        if self.drop_unknown and not re.search(rb"[0-9]", word[0]):
            return TargetPhrase((), None)
        return TargetPhrase(word, None, ((0, 0),))

    def _evaluate(self, source: Words, targets: list[TargetPhrase]) -> Translations:
        values_TF = np.zeros((len(targets), self.width))
        estimate_TF = np.zeros((len(targets), self.width))
        for feature in self.phrase_features:
            values_TF[:, self.columns[feature.label]] = feature.values(source, targets)
        words = [target.words for target in targets]
        for context in self.context_features:
            columns = self.columns[context.label]
            values_TF[:, columns], estimate_TF[:, columns] = context.alone(words)
        rows = {jump.label: jump.rows(source, targets) for jump in self.jump_features}
        return Translations(targets, values_TF, estimate_TF, rows)


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
    kinds: set[str] = set()
    for line in ini.features():
        _check_arguments(ini, line)
        if line.kind in kinds & _SINGLE:
            raise UserError(
                f"{ini.name}: line {line.row + 1}: is a second {line.kind}, which Moses refuses; remove one with its "
                "weights"
            )
        kinds.add(line.kind)
        _declare(ini, line, phrase, jump, context)
    for feature in (*phrase, *jump, *context):
        _check_width(ini, feature)
        _set_tuneable(ini, feature)
    if not any(isinstance(feature, UnknownWordPenalty) for feature in phrase):
        raise UserError(f"{ini.name}: has no UnknownWordPenalty; Moses cannot do without, add it to [feature]")
    model = LogLinearModel(phrase, jump, context, [line.label for line in ini.features()])
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
            raise UserError(
                f"{ini.name}: line {line.row + 1}: the embedded decoder does not know `{key}={value}` of {line.kind}; "
                "remove it, or use Moses"
            )


def _set_tuneable(ini: MosesIni, feature: Feature) -> None:
    line = ini.feature(feature.label)
    if "tuneable" in line.arguments:
        try:
            feature.tuneable = parse_truth(line.arguments["tuneable"])
        except ValueError as fault:
            raise UserError(f"{ini.name}: line {line.row + 1}: tuneable= {fault}; mend the line") from fault


def _check_width(ini: MosesIni, feature: Feature) -> None:
    line = ini.feature(feature.label)
    if "num-features" in line.arguments and line.width != feature.width:
        raise UserError(
            f"{ini.name}: line {line.row + 1}: num-features is {line.width} where {line.kind} has {feature.width}; "
            "mend the line"
        )


def _table_limit(ini: MosesIni, table: FeatureLine) -> int:
    limit = table.arguments.get("table-limit", str(DEFAULT_TABLE_LIMIT))
    if not limit.isdecimal():
        raise UserError(f"{ini.name}: line {table.row + 1}: table-limit is no whole number; mend the line")
    return int(limit)


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
                f"{ini.name}: line {line.row + 1}: the embedded decoder has no feature {kind}; remove it, or use Moses"
            )
