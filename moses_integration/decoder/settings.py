"""Search settings from a moses.ini, by Moses' names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from moses_integration.decoder.beyond import BeyondDecoderError
from moses_integration.decoder.search import OutOfRange, SearchSettings
from moses_integration.ini import IGNORED, MosesIni, parse_truth, quote_text, split_fields
from phrasescore.errors import UserError
from phrasescore.number import parse_number

CUBE_PRUNING = 1
"""Moses' number of that search algorithm; 0 is its normal search."""
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

mert-moses.pl makes sections of decoder flags under the names that they have; Moses lets short ones pass and reads none.
"""
# They concern memory, messages, threads or features that are rejected, not what is translated how.
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
# Moses' defaults (moses/parameters/); any other value of these sections would change what is translated or written.
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
# Both forms in which Moses takes that the first table alone is asked (StaticData.cpp, LoadDecodeGraphs).
_ONE_TABLE = (["0", "T", "0"], ["T", "0"])
_SIMPLE = {
    "input-factors": ((["0"],), "factors"),
    "output-factors": ((["0"],), "factors"),
    "mapping": (_ONE_TABLE, "factors, or several tables or decoding paths"),
}
"""What sections can say to a decoder that knows words and one table, and what they ask for otherwise."""
# They give a derivation other scores than [feature] and [weight] say (moses/Parameter.cpp, moses/StaticData.cpp).
_CHANGES_SCORES = {
    "alternate-weight-setting",
    "feature-add",
    "feature-name-overwrite",
    "feature-overwrite",
    "weight-add",
    "weight-file",
    "weight-overwrite",
}


@dataclass(frozen=True)
class DecoderSettings:
    """What a moses.ini or the command line says of decoding, besides features and weights."""

    search: SearchSettings = field(default_factory=SearchSettings)
    drop_unknown: bool = False
    """Leave unknown words out instead of copying them, unless they contain a digit."""


def read_settings(ini: MosesIni) -> DecoderSettings:
    """Return the settings of a moses.ini; what it does not say is Moses' default, or ours for the search."""
    _refuse_others(ini)
    for name, (allowed, others) in _SIMPLE.items():
        values = ini.values(name)
        if values and (len(values) > 1 or split_fields(values[0]) not in allowed):
            raise BeyondDecoderError(
                f"{ini.location(name)}: [{name}] asks for {others}; the embedded decoder knows words and one table only"
            )
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
        # Unlike a switch, a section without a value says nothing.
        return DecoderSettings(search, is_on(ini.values("drop-unknown") or ["false"]))
    except ValueError as fault:
        raise UserError(f"{ini.location('drop-unknown')}: [drop-unknown] {fault}; mend the line") from fault


def _refuse_others(ini: MosesIni) -> None:
    """Let those sections pass that are read here, change nothing, say what Moses does anyway, or say nothing."""
    if ini.values(""):
        raise UserError(f"{ini.location('')}: stands before the first section, which Moses refuses; remove the line")
    for name in ini.sections():
        values, place, shown = ini.values(name), ini.location(name), quote_text(name)
        if not values or name in _USED | _HARMLESS | IGNORED.keys() or values == [_DEFAULTS.get(name)]:
            continue
        if name in _CHANGES_SCORES:
            raise BeyondDecoderError(
                f"{place}: [{shown}] changes the scores, and the embedded decoder does not know it",
                "say it in [feature] and [weight]",
            )
        raise BeyondDecoderError(
            f"{place}: the embedded decoder does not know [{shown}], which may change what is translated or written",
            "remove it or mend its name",
        )


def is_on(values: Sequence[str]) -> bool:
    """Return whether the values of a switch or of a section switch it on; without any it is (moses/Parameter.cpp).

    Raises:
        ValueError: it is neither true nor false, or there are several values, of which Moses would heed none.
    """
    if len(values) > 1:
        raise ValueError("has more than one value")
    return not values or parse_truth(values[0])


def parse_whole(text: str) -> int:
    """Parse a whole number, also with zeros behind a point. Moses would read 1e2 as 1 (Scan, moses/Util.h).

    Raises:
        ValueError: it is none.
    """
    if not re.fullmatch(r"[+-]?[0-9]+(\.0+)?", text):
        raise ValueError("is no whole number")
    return int(parse_number(text))


def search_algorithm(ini: MosesIni) -> int | None:
    """Return Moses' number of the search algorithm that a moses.ini asks for, None if it asks for none."""
    return _whole(ini, "search-algorithm", CUBE_PRUNING) if ini.values("search-algorithm") else None


def cube_pruning_limit(ini: MosesIni, algorithm: int | None) -> int:
    """Return the pop limit that a moses.ini gives; else Moses' if a search algorithm is asked for, or else ours."""
    return _whole(ini, "cube-pruning-pop-limit", SearchSettings().pop_limit if algorithm is None else MOSES_POP_LIMIT)


def pop_limit(algorithm: int | None, limit: int, name: str) -> int:
    """Return the pop limit that a search algorithm of Moses means here: normal search scores every candidate.

    Where no algorithm is asked for, 0 stands for every candidate, too. Cube pruning would score none.
    """
    if algorithm not in (None, 0, CUBE_PRUNING):
        raise BeyondDecoderError(f"{name}: search algorithm {algorithm} is neither 0 (normal) nor 1 (cube pruning)")
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
        raise UserError(f"{ini.location(section)}: [{section}] is no whole number; mend the line") from fault
