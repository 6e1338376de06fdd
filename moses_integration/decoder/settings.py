"""Search settings from a moses.ini, by Moses' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from moses_integration.ini import IGNORED, MosesIni, parse_truth, quote_text, split_fields
from phrasescore.errors import UserError
from phrasescore.words import parse_number

CUBE_PRUNING = 1
"""Moses' number of the algorithm; 0 is its normal search."""
MOSES_POP_LIMIT = 1000

_USED = {
    "feature",
    "weight",
    "stack",
    "beam-threshold",
    "distortion-limit",
    "max-phrase-length",
    "search-algorithm",
    "cube-pruning-pop-limit",
    "drop-unknown",
    "input-factors",
    "output-factors",
    "mapping",
}
SHORT_NAMES = {
    "f": "config",
    "i": "input-file",
    "v": "verbose",
    "dl": "distortion-limit",
    "s": "stack",
    "b": "beam-threshold",
    "t": "report-segmentation",
    "T": "translation-details",
    "th": "threads",
    "cbp": "cube-pruning-pop-limit",
    "du": "drop-unknown",
    "wf": "weight-file",
}
"""Moses' short names of switches.

mert-moses.pl writes decoder flags as sections under the names given; Moses accepts sections with short names but
ignores them.
"""
# Settings of memory, messages, threads or rejected features, which do not affect translations.
_HARMLESS = {
    "threads",
    "verbose",
    "no-cache",
    "clean-lm-cache",
    "minphr-memory",
    "minlexr-memory",
    "description",
    "text-type",
    "mbr-size",
    "mbr-scale",
    "lmbr-p",
    "lmbr-r",
    "lmbr-thetas",
    "lmbr-map-weight",
    "lmbr-pruning-factor",
    "lattice-hypo-set",
    "unknown-word-prefix",
    "unknown-word-suffix",
    *SHORT_NAMES,
}
# Moses' defaults (moses/parameters/); any other value would change translations or output.
_OFF = {
    "consensus-decoding",
    "cube-pruning-deterministic-search",
    "cube-pruning-lazy-scoring",
    "early-distortion-cost",
    "lminimum-bayes-risk",
    "mark-unknown",
    "minimum-bayes-risk",
    "monotone-at-punctuation",
}
_DEFAULTS = {
    "cube-pruning-diversity": "0",
    "decoding-graph-backoff": "0",
    "factor-delimiter": "|",
    "inputtype": "0",
    "max-trans-opt-per-coverage": "5000",
    "stack-diversity": "0",
    "xml-input": "pass-through",
    **dict.fromkeys(_OFF, "false"),
}
_SUPPORTED = {
    "input-factors": ([["0"]], "factors"),
    "output-factors": ([["0"]], "factors"),
    # Both forms of a single decoding path (StaticData.cpp, LoadDecodeGraphs).
    "mapping": ([["0", "T", "0"], ["T", "0"]], "factors, or several tables or decoding paths"),
}
"""Supported values of some sections, and what other values ask for."""
# Sections besides [feature] and [weight] that change scores (moses/Parameter.cpp, moses/StaticData.cpp).
_CHANGES_SCORES = {
    "alternate-weight-setting",
    "feature-add",
    "feature-name-overwrite",
    "feature-overwrite",
    "weight-add",
    "weight-file",
    "weight-overwrite",
}


class UnsupportedError(UserError):
    """The embedded decoder does not support something that Moses may support."""

    def __init__(self, fault: str, remedy: str = "give a system without it") -> None:
        super().__init__(f"{fault}; {remedy}, or use Moses")
        self._fault, self._remedy = fault, remedy

    def __reduce__(self) -> tuple[type[UnsupportedError], tuple[str, str]]:
        """Pickle the arguments, because the default would pass the whole message as `fault`."""
        return type(self), (self._fault, self._remedy)

    @property
    def for_any_toolkit(self) -> str:
        """The message where another decoder is no remedy."""
        return (
            f"{self._fault}; {self._remedy}, because per-text phrase tables contain only what the embedded decoder "
            "supports, whatever decodes with them"
        )


MOST = 10**9
"""The largest value of a setting."""


class OutOfRange(ValueError):
    """A setting is out of range; the reader of settings adds where it is."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(reason)
        self.name = name
        """Moses' name of the setting."""


@dataclass(frozen=True)
class SearchSettings:
    """Limits of the search. Defaults are those of Moses, except for the pop limit.

    Raises:
        OutOfRange: a value is invalid.
    """

    stack: int = 200
    """Hypotheses kept per stack; 0: all."""
    beam_threshold: float = 1e-5
    """Drop hypotheses with exp(score) below this fraction of the best one of their stack; 0: none."""
    pop_limit: int = 500
    """Candidates scored exactly per stack; 0: all."""
    distortion_limit: int = -1
    """Longest jump, and longest distance from the first gap; negative: no limit."""
    longest_phrase: int = 20
    """Longest source phrase in words."""

    def __post_init__(self) -> None:
        whole = {
            "stack": self.stack,
            "cube-pruning-pop-limit": self.pop_limit,
            "distortion-limit": self.distortion_limit,
            "max-phrase-length": self.longest_phrase,
        }
        for name, number in whole.items():
            if abs(number) > MOST:
                raise OutOfRange(name, f"is out of range; give at most {MOST:,}")
        if self.stack < 0:
            raise OutOfRange("stack", f"{self.stack} is negative; give a size, 0 for no limit")
        if self.pop_limit < 0:
            raise OutOfRange("cube-pruning-pop-limit", f"{self.pop_limit} is negative; give a number, 0 for no limit")
        if self.longest_phrase < 1:
            raise OutOfRange("max-phrase-length", f"{self.longest_phrase} leaves no phrase; give 1 or more")
        if not 0 <= self.beam_threshold < 1:
            raise OutOfRange(
                "beam-threshold", f"{self.beam_threshold:g} is not at least 0 and below 1; give 0 for no threshold"
            )


@dataclass(frozen=True)
class DecoderSettings:
    """Settings of decoding besides features and weights."""

    search: SearchSettings = field(default_factory=SearchSettings)
    drop_unknown: bool = False
    """Whether unknown words without a digit are dropped instead of copied."""


def read_settings(ini: MosesIni) -> DecoderSettings:
    """Return the settings of a moses.ini. Defaults are those of Moses, except for our pop limit."""
    _check_sections(ini)
    default = SearchSettings()
    algorithm = search_algorithm(ini)
    try:
        search = SearchSettings(
            stack=_whole(ini, "stack", default.stack),
            beam_threshold=ini.number("beam-threshold", default.beam_threshold),
            distortion_limit=_whole(ini, "distortion-limit", default.distortion_limit),
            longest_phrase=_whole(ini, "max-phrase-length", default.longest_phrase),
            pop_limit=pop_limit(algorithm, cube_pruning_limit(ini, algorithm), ini.location("search-algorithm")),
        )
    except OutOfRange as fault:
        raise UserError(f"{ini.location(fault.name)}: [{fault.name}] {fault}") from fault
    try:
        # Unlike a switch, a section without a value has no effect.
        return DecoderSettings(search, is_on(ini.values("drop-unknown") or ["false"]))
    except ValueError as fault:
        raise UserError(f"{ini.location('drop-unknown')}: [drop-unknown] {fault}; fix the line") from fault


def _check_sections(ini: MosesIni) -> None:
    if ini.values(""):
        raise UserError(f"{ini.location('')}: precedes the first section, which Moses rejects; remove the line")
    for name in ini.sections():
        values, location, shown = ini.values(name), ini.location(name), quote_text(name)
        if not values or name in _USED | _HARMLESS | IGNORED or values == [_DEFAULTS.get(name)]:
            continue
        if name in _CHANGES_SCORES:
            raise UnsupportedError(
                f"{location}: [{shown}] changes scores, and the embedded decoder does not support it",
                "write the changes into [feature] and [weight]",
            )
        raise UnsupportedError(
            f"{location}: the embedded decoder does not support [{shown}], which may change translations or output",
            "remove it or fix its name",
        )
    for name, (supported, others) in _SUPPORTED.items():
        values = ini.values(name)
        if values and (len(values) > 1 or split_fields(values[0]) not in supported):
            raise UnsupportedError(
                f"{ini.location(name)}: [{name}] asks for {others}; the embedded decoder supports only words and one "
                "table"
            )


def is_on(values: Sequence[str]) -> bool:
    """Return whether the values of a switch turn it on; a switch without value is on (moses/Parameter.cpp).

    Raises:
        ValueError: the value is not a truth value, or there are several, all of which Moses would ignore.
    """
    if len(values) > 1:
        raise ValueError("has more than one value")
    return not values or parse_truth(values[0])


def parse_whole(text: str) -> int:
    """Parse a whole number, with or without a decimal part of zeros. Moses reads 1e2 as 1 (Scan, moses/Util.h).

    Raises:
        ValueError: the text is not such a number.
    """
    if not re.fullmatch(r"[+-]?[0-9]+(\.0+)?", text):
        raise ValueError("is not a whole number")
    return int(parse_number(text))


def search_algorithm(ini: MosesIni) -> int | None:
    """Return Moses' number of the search algorithm, None if the ini gives none."""
    return _whole(ini, "search-algorithm", CUBE_PRUNING) if ini.values("search-algorithm") else None


def cube_pruning_limit(ini: MosesIni, algorithm: int | None) -> int:
    """Return the pop limit of the ini; the default is Moses' if an algorithm is given, otherwise ours."""
    return _whole(ini, "cube-pruning-pop-limit", SearchSettings().pop_limit if algorithm is None else MOSES_POP_LIMIT)


def pop_limit(algorithm: int | None, limit: int, name: str) -> int:
    """Return our pop limit for a search algorithm of Moses: 0, no limit, for normal search."""
    if algorithm not in (None, 0, CUBE_PRUNING):
        raise UnsupportedError(f"{name}: search algorithm {algorithm} is neither 0 (normal) nor 1 (cube pruning)")
    if algorithm == CUBE_PRUNING and limit == 0:
        raise UserError(
            f"{name}: cube pruning with a pop limit of 0 translates nothing; give another limit, or search algorithm 0"
        )
    return 0 if algorithm == 0 else limit


def _whole(ini: MosesIni, section: str, default: int) -> int:
    values = ini.values(section)
    try:
        return parse_whole(values[0]) if values else default
    except ValueError as fault:
        raise UserError(f"{ini.location(section)}: [{section}] is not a whole number; fix the line") from fault
