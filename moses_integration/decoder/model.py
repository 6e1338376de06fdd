"""The log-linear model: features, weights, and the translations of a source phrase.

A score is the sum of weight times value over the components of all features. Values of probabilities are natural logs.
Components have Moses' output order: stateful features (distortion, reordering, language models) first, then the
others, each group in the order of moses.ini.

Shapes: T translations of one source phrase, F components of all features, K components of one feature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from moses_integration.decoder.language_models import LanguageModelFeature
from moses_integration.decoder.phrases import Feature, Floats, PhraseFeature, TargetPhrase, Words
from moses_integration.decoder.reordering import JumpFeature
from moses_integration.decoder.tables import PhraseTable
from moses_integration.ini import Weights
from phrasescore.errors import UserError

DEFAULT_TABLE_LIMIT = 20


@dataclass(frozen=True)
class Translations:
    """The translations of a source phrase, with all values that do not depend on the sentence or the weights."""

    targets: list[TargetPhrase]
    values_TF: Floats
    """Values without context: phrase features, and n-grams inside the phrase."""
    estimate_TF: Floats
    """Estimates of what the context adds to the language models."""
    rows: dict[str, Floats]
    """Label of a jump feature -> its rows [T, any width]."""

    def take(self, indices: Sequence[int]) -> Translations:
        index = np.array(indices, np.int64)
        return Translations(
            [self.targets[i] for i in indices],
            self.values_TF[index],
            self.estimate_TF[index],
            {label: rows[index] for label, rows in self.rows.items()},
        )


class LogLinearModel:
    """Features and weights."""

    def __init__(self, features: Sequence[Feature]) -> None:
        """Take features in the order of moses.ini, with weights of 1, as in Moses."""
        self.phrase_features = [one for one in features if isinstance(one, PhraseFeature)]
        self.jump_features = [one for one in features if isinstance(one, JumpFeature)]
        self.language_models = [one for one in features if isinstance(one, LanguageModelFeature)]
        stateful = [one for one in features if not isinstance(one, PhraseFeature)]
        self.features: list[Feature] = [*stateful, *self.phrase_features]
        widths = [feature.width for feature in self.features]
        self.width = sum(widths)
        self.columns = {
            feature.label: slice(end - feature.width, end)
            for feature, end in zip(self.features, accumulate(widths), strict=True)
        }
        self.tuneable_F = np.repeat([feature.tuneable for feature in self.features], widths)
        """Whether each component is tuned and printed in n-best lists [F]."""
        is_lm_F = np.repeat([isinstance(feature, LanguageModelFeature) for feature in self.features], widths)
        self.lm_columns = np.flatnonzero(is_lm_F)
        """Indices of the language models' components [X]."""
        self.weights_F = np.ones(self.width)
        self.table: PhraseTable | None = None
        self.table_limit = DEFAULT_TABLE_LIMIT
        self.drop_unknown = False
        self._translations: dict[Words, Translations] = {}
        self._pruned: dict[Words, Translations] = {}

    @property
    def lm_weights(self) -> Floats:
        weights_X: Floats = self.weights_F[self.lm_columns]
        return weights_X

    def set_weights(self, weights: Weights, origin: str = "weights") -> None:
        """Set the weights of some features; messages start with `origin`."""
        for label, numbers in weights.items():
            if label not in self.columns:
                raise UserError(f"{origin}: the weights of `{label}` have no feature; correct the label or remove them")
            width = len(self.weights_F[self.columns[label]])
            if len(numbers) != width:
                raise UserError(f"{origin}: {label} has {width} features but {len(numbers)} weights; give one for each")
            # Moses stores them in 32 bits.
            if not (np.abs(numbers) <= np.finfo(np.float32).max).all():
                raise UserError(f"{origin}: a weight of {label} is not a finite 32-bit number; fix it")
            self.weights_F[self.columns[label]] = numbers
        self._pruned = {}

    # Translations of source phrases

    def translations(self, source: Words) -> Translations | None:
        """Return the best `table_limit` translations of a source phrase, None if there are none.

        Like Moses, rank them by the score without context plus the estimates of the language models, under the current
        weights (moses/TargetPhrase.cpp). A single word without translation is copied.
        """
        found = self._pruned.pop(source, None)
        if found is None and (every := self.all_translations(source)):
            found = every.take(self.best(every))
        if found is not None:
            # The most recently used is last, see `limit_cache`.
            self._pruned[source] = found
        return found

    def limit_cache(self, phrases: int) -> None:
        """Forget the translations of all but the most recently used source phrases."""
        self._translations = {}
        forget_oldest(self._pruned, phrases)

    def best(self, translations: Translations) -> list[int]:
        """Return the indices of the best `table_limit` translations, best first; 0 is no limit."""
        best: list[int] = np.argsort(-self.rank_scores(translations), kind="stable").tolist()
        return best[: self.table_limit] if self.table_limit else best

    def selected(self, translations: Translations) -> list[int]:
        """Return the indices of the best ones in ascending order, so that equal scores keep the table's order."""
        return sorted(self.best(translations))

    def rank_scores(self, translations: Translations) -> Floats:
        """Return the scores [T] that rank translations."""
        score_T: Floats = (translations.values_TF + translations.estimate_TF) @ self.weights_F
        return score_T

    def joined(self, parts: Sequence[Translations]) -> Translations:
        """Return the translations of several source phrases."""
        none = np.zeros((0, self.width))
        return Translations(
            [target for one in parts for target in one.targets],
            np.concatenate([none, *(one.values_TF for one in parts)]),
            np.concatenate([none, *(one.estimate_TF for one in parts)]),
            {
                jump.label: np.concatenate([jump.rows((), ()), *(one.rows[jump.label] for one in parts)])
                for jump in self.jump_features
            },
        )

    def all_translations(self, source: Words) -> Translations | None:
        """Return all translations of the table, or the copy of an unknown word."""
        if source not in self._translations:
            assert self.table is not None
            targets = self.table.lookup(source)
            if not targets and len(source) == 1:
                is_dropped = self.drop_unknown and not re.search(rb"[0-9]", source[0])
                targets = [TargetPhrase(()) if is_dropped else TargetPhrase(source, None, ((0, 0),))]
            if targets:
                self._translations[source] = self._evaluate(source, targets)
        return self._translations.get(source)

    def _evaluate(self, source: Words, targets: list[TargetPhrase]) -> Translations:
        values_TF, estimate_TF = np.zeros((2, len(targets), self.width))
        for feature in self.phrase_features:
            values_TF[:, self.columns[feature.label]] = feature.values(source, targets)
        for lm in self.language_models:
            columns = self.columns[lm.label]
            words = [lm.words_of(target) for target in targets]
            values_TF[:, columns], estimate_TF[:, columns] = lm.alone(words)
        rows = {jump.label: jump.rows(source, targets) for jump in self.jump_features}
        return Translations(targets, values_TF, estimate_TF, rows)


def forget_oldest(cache: dict[Words, Any], size: int) -> None:
    """Remove the oldest entries of a cache beyond its size."""
    for source in list(cache)[: max(0, len(cache) - size)]:
        del cache[source]
