"""Search settings from a moses.ini, by Moses' names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from moses_integration.decoder.search import OutOfRange, SearchSettings
from moses_integration.ini import MosesIni, parse_truth, split_blanks
from phrasescore.errors import UserError

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
# They concern memory, messages or threads, not what is translated how.
_HARMLESS = {"threads", "verbose", "cache", "no-cache", "n-best-list"}
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
    "early-distortion-cost",
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
    """Return the settings of a moses.ini; what it does not say is Moses' default, or ours for the search.

    Raises:
        UserError: a number is none or out of range, the system has factors or several decoding paths, or a section
            changes scores in a way that the embedded decoder does not know.
    """
    for name in ini.sections():
        if name in _CHANGES_SCORES:
            raise UserError(
                f"{ini.name}: [{name}] changes the scores, and the embedded decoder does not know it; say it in "
                "[feature] and [weight], or use Moses"
            )
    for name, (allowed, others) in _SIMPLE.items():
        values = ini.values(name)
        if values and (len(values) > 1 or split_blanks(values[0]) not in allowed):
            raise UserError(
                f"{ini.place(name)}: [{name}] asks for {others}; the embedded decoder knows words and one table only, "
                "use Moses"
            )
    default = SearchSettings()
    algorithm = search_algorithm(ini)
    try:
        search = SearchSettings(
            stack=_whole(ini, "stack", default.stack),
            beam_threshold=ini.number("beam-threshold", default.beam_threshold),
            distortion_limit=_whole(ini, "distortion-limit", default.distortion_limit),
            longest_phrase=_whole(ini, "max-phrase-length", default.longest_phrase),
            pop_limit=pop_limit(algorithm, cube_pruning_limit(ini, algorithm), ini.place("search-algorithm")),
        )
    except OutOfRange as fault:
        raise UserError(f"{ini.place(fault.name)}: [{fault.name}] {fault}") from fault
    try:
        return DecoderSettings(search, "drop-unknown" in ini.sections() and is_on(ini.values("drop-unknown")))
    except ValueError as fault:
        raise UserError(f"{ini.place('drop-unknown')}: [drop-unknown] {fault}; mend the line") from fault


def is_on(values: Sequence[str]) -> bool:
    """Return whether the values of a switch or of a section switch it on; without any it is (moses/Parameter.cpp).

    As of all repeated values the first one counts (moses/Parameter.h).

    Raises:
        ValueError: it is neither true nor false.
    """
    return not values or parse_truth(values[0])


def search_algorithm(ini: MosesIni) -> int | None:
    """Return Moses' number of the search algorithm that a moses.ini asks for, None if it asks for none."""
    return _whole(ini, "search-algorithm", CUBE_PRUNING) if ini.values("search-algorithm") else None


def cube_pruning_limit(ini: MosesIni, algorithm: int | None) -> int:
    """Return the pop limit that a moses.ini gives; else Moses' if a search algorithm is asked for, or else ours."""
    return _whole(ini, "cube-pruning-pop-limit", SearchSettings().pop_limit if algorithm is None else MOSES_POP_LIMIT)


def pop_limit(algorithm: int | None, limit: int, name: str) -> int:
    """Return the pop limit that a search algorithm of Moses means here: normal search scores every candidate.

    Where no algorithm is asked for, 0 stands for every candidate, too. Cube pruning would score none.

    Raises:
        UserError: it is another algorithm, or cube pruning without candidates.
    """
    if algorithm not in (None, 0, CUBE_PRUNING):
        raise UserError(f"{name}: search algorithm {algorithm} is neither 0 (normal) nor 1 (cube pruning); use Moses")
    if algorithm == CUBE_PRUNING and limit == 0:
        raise UserError(
            f"{name}: cube pruning with a pop limit of 0 translates nothing; give another limit, or search algorithm 0"
        )
    return 0 if algorithm == 0 else limit


def _whole(ini: MosesIni, section: str, default: int) -> int:
    number = float(ini.number(section, default))
    if not number.is_integer():
        raise UserError(f"{ini.place(section)}: [{section}] is no whole number; mend the line")
    return int(number)


def ignored_sections(ini: MosesIni) -> list[str]:
    """Return the sections that may change what Moses finds and that the embedded decoder passes over, not refuses."""
    return [name for name in ini.sections() if name not in _USED | _HARMLESS | _CHANGES_SCORES]
