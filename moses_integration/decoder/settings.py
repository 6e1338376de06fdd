"""Settings of decoding, from the sections of a moses.ini."""

from __future__ import annotations

import re
from dataclasses import dataclass

from moses_integration.ini import IGNORED, MosesIni, parse_truth, quote_text, split_fields
from phrasescore.errors import UserError
from phrasescore.words import parse_number

MOST = 10**9
"""The largest value of a setting."""
_NORMAL, _CUBE_PRUNING = 0, 1
"""Moses' numbers of search algorithms."""
_MOSES_POP_LIMIT = 1000

_USED = {
    *("feature", "weight", "stack", "beam-threshold", "distortion-limit", "max-phrase-length", "search-algorithm"),
    *("cube-pruning-pop-limit", "drop-unknown"),
}
# Settings of memory, messages and threads do not affect translations.
_HARMLESS = {
    *("threads", "verbose", "no-cache", "clean-lm-cache", "minphr-memory", "minlexr-memory"),
    *("description", "text-type"),
    # mert-moses.pl writes decoder flags as sections under the names given. Moses ignores sections with short names.
    *("f", "i", "v", "dl", "s", "b", "t", "th", "cbp", "du", "wf"),
}
_SUPPORTED = {
    # Moses' defaults (moses/parameters/); any other value would change translations or output.
    **dict.fromkeys(("cube-pruning-diversity", "decoding-graph-backoff", "inputtype", "stack-diversity"), ("0",)),
    **dict.fromkeys(("mark-unknown", "minimum-bayes-risk"), ("false",)),
    "max-trans-opt-per-coverage": ("5000",),
    "xml-input": ("pass-through",),
    # Words without factors, and both forms of a single decoding path (StaticData.cpp, LoadDecodeGraphs).
    "input-factors": ("0",),
    "output-factors": ("0",),
    "mapping": ("0 T 0", "T 0"),
}


class UnsupportedError(UserError):
    """The embedded decoder does not support something that Moses may support."""

    def __init__(self, fault: str, remedy: str = "give a system without it") -> None:
        super().__init__(fault, remedy)

    def __str__(self) -> str:
        return "{}; {}, or use Moses".format(*self.args)


@dataclass(frozen=True)
class DecoderSettings:
    """Settings besides features and weights. Defaults are those of Moses, except for the pop limit."""

    stack: int = 200
    """Hypotheses kept per stack; 0: all."""
    beam_threshold: float = 1e-5
    """Drop hypotheses with exp(score) below this fraction of the best one of their stack; 0: none."""
    pop_limit: int = 500
    """Candidates scored exactly per stack; 0: all."""
    distortion_limit: int = -1
    """Longest jump, and longest distance from the first gap; negative: no limit."""
    longest_phrase: int = 20
    drop_unknown: bool = False
    """Whether unknown words without a digit are dropped instead of copied."""


def read_settings(ini: MosesIni) -> DecoderSettings:
    """Return the settings of a moses.ini; of several values of a number the first counts, as in Moses."""
    _check_sections(ini)
    default = DecoderSettings()
    # A pop limit alone selects our search; with an algorithm, the defaults are those of Moses.
    is_ours = not ini.values("search-algorithm")
    algorithm = _whole(ini, "search-algorithm", _CUBE_PRUNING)
    if algorithm not in (_NORMAL, _CUBE_PRUNING):
        raise UnsupportedError(
            f"{_place(ini, 'search-algorithm')}: algorithm {algorithm} is neither 0 (normal) nor 1 (cube pruning)"
        )
    pop_limit = _whole(ini, "cube-pruning-pop-limit", default.pop_limit if is_ours else _MOSES_POP_LIMIT, least=0)
    if algorithm == _CUBE_PRUNING and pop_limit == 0 and not is_ours:
        place = _place(ini, "cube-pruning-pop-limit")
        raise UserError(f"{place}: cube pruning of 0 candidates translates nothing; give more")
    return DecoderSettings(
        stack=_whole(ini, "stack", default.stack, least=0),
        beam_threshold=_beam(ini, default.beam_threshold),
        pop_limit=0 if algorithm == _NORMAL else pop_limit,
        distortion_limit=_whole(ini, "distortion-limit", default.distortion_limit),
        longest_phrase=_whole(ini, "max-phrase-length", default.longest_phrase, least=1),
        drop_unknown=_drops_unknown(ini),
    )


def _place(ini: MosesIni, name: str) -> str:
    return f"{ini.location(name)}: [{name}]"


def _whole(ini: MosesIni, name: str, default: int, least: int = -MOST) -> int:
    values = ini.values(name)
    if not values:
        return default
    # Moses would read 1e2 as 1 (Scan, moses/Util.h). int() limits the number of digits.
    number = int(values[0]) if re.fullmatch(r"[+-]?[0-9]{1,10}", values[0]) else None
    if number is None or not least <= number <= MOST:
        fault = f"`{quote_text(values[0])}` is not a whole number from {least:,} to {MOST:,}"
        raise UserError(f"{_place(ini, name)}: {fault}; give one")
    return number


def _beam(ini: MosesIni, default: float) -> float:
    values = ini.values("beam-threshold")
    try:
        threshold = parse_number(values[0]) if values else default
    except ValueError:
        threshold = -1
    if not 0 <= threshold < 1:
        fault = f"`{quote_text(values[0])}` is not at least 0 and below 1"
        raise UserError(f"{_place(ini, 'beam-threshold')}: {fault}; give another")
    return threshold


def _drops_unknown(ini: MosesIni) -> bool:
    values = ini.values("drop-unknown")
    try:
        # Moses would ignore all of several values (moses/Parameter.cpp).
        if len(values) > 1:
            raise ValueError("has more than one value")
        return bool(values) and parse_truth(values[0])
    except ValueError as error:
        raise UserError(f"{_place(ini, 'drop-unknown')}: {error}; give true or false") from error


def _check_sections(ini: MosesIni) -> None:
    if ini.values(""):
        raise UserError(
            f"{ini.location('')}: precedes the first section, which Moses rejects; remove the line, or the byte order "
            "mark at its start"
        )
    for name in ini.sections():
        values = [" ".join(split_fields(value)) for value in ini.values(name)]
        supported = [[value] for value in _SUPPORTED.get(name, ())]
        if values and name not in _USED | _HARMLESS | IGNORED and values not in supported:
            shown = f"{'this ' if supported else ''}[{quote_text(name)}], which may change scores or output"
            fault = f"{ini.location(name)}: the embedded decoder does not support {shown}"
            raise UnsupportedError(fault, "fix or remove it")
