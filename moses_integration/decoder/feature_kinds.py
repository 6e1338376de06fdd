"""The kinds of features: all that the decoder knows of a feature line of moses.ini, one record a kind.

A new feature is a class (of a phrase pair, `phrases.py`; of a jump, `reordering.py`; of the words before,
`context.py`) and a record here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from moses_integration.decoder.context import LanguageModel
from moses_integration.decoder.neural_lm import NeuralLanguageModelFeature
from moses_integration.decoder.phrases import Feature, PhrasePenalty, TableScores, UnknownWordPenalty, WordPenalty
from moses_integration.decoder.reordering import Distortion, LexicalReordering
from moses_integration.ini import FeatureLine, MosesIni

Arguments = Mapping[str, tuple[str, ...]]
"""Names of arguments, and what each may be; anything, if nothing is said."""

ANYTHING: tuple[str, ...] = ()
_OF_ALL: Arguments = dict.fromkeys(("name", "num-features", "tuneable", "filterable", "verbosity"), ANYTHING)
"""What every line may have: what is read elsewhere, and what changes no score."""
_FACTORS: Arguments = dict.fromkeys(("input-factor", "output-factor", "factor"), ("0",))


@dataclass(frozen=True)
class FeatureKind:
    """What a feature line's first word stands for."""

    name: str
    make: Callable[[MosesIni, FeatureLine], Feature]
    """Makes the feature without loading any file; a ValueError says what is wrong with the line."""
    arguments: Arguments = field(default_factory=dict)
    """That change scores, or are known to change none; beside those of all kinds."""
    required: tuple[str, ...] = ()
    """Arguments without which Moses crashes."""
    is_single: bool = False
    """Whether Moses refuses to have two (moses/FF/WordPenaltyProducer.cpp, UnknownWordPenaltyProducer.cpp)."""
    is_of_moses: bool = True
    """Whether Moses' own decoder has it, too."""

    def accepts(self, key: str, value: str) -> bool:
        """Whether a line may have this argument."""
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
    """Return the arguments of a model, which may be anything, and those of factors, of which there is one."""
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
        # How KenLM loads a model changes no score, but Moses refuses what it does not know (moses/LM/Ken.cpp).
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
"""By their names."""
