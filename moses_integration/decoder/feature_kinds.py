"""The registry of features: for each class of moses.ini, its arguments and how it is made.

A new feature is a class (of a phrase pair in `phrases.py`, of a jump in `reordering.py`, of the target context in
`context.py`) and a record here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moses_integration.decoder.context import LanguageModel
from moses_integration.decoder.cslm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import Feature, PhrasePenalty, TableScores, UnknownWordPenalty, WordPenalty
from moses_integration.decoder.reordering import Distortion, LexicalReordering
from moses_integration.ini import FeatureLine, MosesIni

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
