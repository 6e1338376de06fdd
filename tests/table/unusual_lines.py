"""Unusual and invalid lines of a phrase table, and how Moses' loader of text tables reads each.

All our readers and a real Moses must agree. Lines that Moses rejects or misreads silently are errors; lines that it
loads give the same words and numbers in every reader. Sources: moses/TranslationModel/RuleTable/LoaderStandard.cpp,
moses/Phrase.cpp, moses/Word.cpp, util/double-conversion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class UnusualLine:
    """A line of a table with two scores, without its line feed."""

    line: bytes
    moses: Literal["loads", "stops", "skips", "misreads"] = "loads"
    """Moses misreads a line if it silently loads NaN, an infinity or other words."""
    source: tuple[bytes, ...] = (b"a",)
    target: tuple[bytes, ...] = (b"x",)
    probabilities: tuple[float, ...] = (0.5, 0.25)
    """Scores as 32-bit floats."""
    fault: str | None = None
    """The beginning of our error message, or None if the line is valid."""


def _spelled(line: bytes, source: bytes = b"a", target: bytes = b"x") -> UnusualLine:
    return UnusualLine(line, source=tuple(source.split()), target=tuple(target.split()))


def _numbers(first: bytes, second: bytes, *probabilities: float) -> UnusualLine:
    return UnusualLine(b"a ||| x ||| %b %b ||| 0-0" % (first, second), probabilities=probabilities)


def _misread(number: bytes, fault: str) -> UnusualLine:
    return UnusualLine(b"a ||| x ||| %b 0.25 ||| 0-0" % number, "misreads", fault=f"field 3 (scores): {fault}")


def _stops_at(number: bytes) -> UnusualLine:
    fault = "field 3 (scores): has something that Moses cannot read as a number"
    return UnusualLine(b"a ||| x ||| 0.5 %b ||| 0-0" % number, "stops", fault=fault)


def _stops(line: bytes, fault: str) -> UnusualLine:
    return UnusualLine(line, "stops", fault=fault)


_EMPTY_FACTOR = "has a word with an empty factor"
_MIXED_FACTORS = "mixes words of different numbers of factors"
_LABEL = "holds what Moses reads as a label of a hierarchical rule"

UNUSUAL_LINES = [
    _spelled(b"a ||| x ||| 0.5 0.25"),
    _spelled(b"a|||x|||0.5 0.25"),
    _spelled(b"a b |||x y||| 0.5 0.25 ||| 0-0 1-1", b"a b", b"x y"),
    _spelled(b"a||| x |||0.5 0.25|||0-0"),
    _spelled(b" a  |||  x ||| 0.5  0.25  ||| 0-0"),
    _spelled(b"a  b ||| x  y ||| 0.5 0.25", b"a b", b"x y"),
    _spelled(b"\ta\tb ||| x\ty\t|||\t0.5\t0.25\t|||\t0-0\t", b"a b", b"x y"),
    _spelled(b"a ||| x ||| 0.5 0.25 ||| 0-0  |||"),
    _spelled(b"a ||| x ||| 0.5 0.25 |||"),
    _spelled(b"a ||| x ||| 0.5 0.25|||"),
    _spelled(b"a ||| x ||| 0.5 0.25\r"),
    _spelled(b"a ||| x ||| 0.5 0.25 ||| 0-0 ||| 1 1 1 ||| |||\r"),
    _spelled(b"a |||  ||| 0.5 0.25", target=b""),
    _spelled(b"a ||| ||| 0.5 0.25 ||| ||| 1 1 1", target=b""),
    _spelled(b"a |||||| 0.5 0.25", target=b""),
    _spelled(b"a ||| \t ||| 0.5 0.25", target=b""),
    UnusualLine("a ||| x\u00a0y\u2028 ||| 0.5 0.25".encode(), target=("x\u00a0y\u2028".encode(),)),
    UnusualLine(b"a ||| x\x0by\x0c\x85 \xff ||| 0.5 0.25", target=(b"x\x0by\x0c\x85", b"\xff")),
    UnusualLine(b"a ||| x\ry ||| 0.5 0.25", target=(b"x\ry",)),
    UnusualLine(b"a ||| x[1] [ ] ||| 0.5 0.25", target=(b"x[1]", b"[", b"]")),
    _numbers(b".5", b"5.", 0.5, 5),
    _numbers(b"+0.5", b"25E-2", 0.5, 0.25),
    _numbers(b"000.50", b"1e+0", 0.5, 1),
    _numbers(b"0", b"-0", 0, 0),
    _numbers(b"0.e5", b".0e5", 0, 0),
    _numbers(b"1e-46", b"-1e-46", 0, 0),
    _numbers(b"1e-99999999999", b"1e-45", 0, 1.401298464324817e-45),
    _numbers(b"0." + 400 * b"3", 400 * b"0" + b"1", 0.3333333432674408, 1),
    _numbers(b"3.4028235e38", b"0.1", 3.4028234663852886e38, 0.10000000149011612),
    _misread(b"-0.5", "has a number below 0, which Moses silently reads as NaN"),
    _misread(b"-inf", "has a number below 0, which Moses silently reads as NaN"),
    _misread(b"inf", "has a number beyond 32 bits"),
    _misread(b"+inf", "has a number beyond 32 bits"),
    _misread(b"1e39", "has a number beyond 32 bits"),
    _misread(b"1e99999999999", "has a number beyond 32 bits"),
    _misread(400 * b"9", "has a number beyond 32 bits"),
    *map(
        _stops_at, [b"nan", b"-nan", b"NaN", b"Inf", b"infinity", b"Infinity", b"x", b"0,5", b"1_0", b"0x1", b"0x1p3"]
    ),
    *map(
        _stops_at, [b"1e", b"1e+", b".", b"-", b"e5", b".e5", b"0.5f", b"0.5|", b"0..5", b"--1", b"0.5\x0b", b"\x0c1"]
    ),
    *map(_stops_at, ["\u0663".encode(), "\uff11".encode(), "0.5\u00a0".encode(), "\u2212 1".encode(), b"\xff"]),
    _stops(b"a ||| x ||| 0.5 0.25\r\r", "field 3 (scores): has something that Moses cannot read as a number"),
    _stops(b"", "line: is empty"),
    _stops(b" ", "line: is empty"),
    _stops(b"a\tx\t0.5 0.25", "line: has 1 field"),
    _stops(b"a || x || 0.5 0.25", "line: has 1 field"),
    _stops(b"a ||| x", "line: has 2 fields"),
    _stops(b"a ||| x |||", "field 3 (scores): is empty"),
    _stops(b"a ||| x |||  ||| 0-0", "field 3 (scores): is empty"),
    _stops(b"a ||| x |||\t||| 0-0", "field 3 (scores): is empty"),
    _stops(b"a ||| x |||| 0.5 0.25", "field 3 (scores): has something that Moses cannot read as a number: `|`"),
    # If the ini has no factors, Moses drops the part of a word after `|`.
    UnusualLine(b"a|N b ||| x ||| 0.5 0.25", "misreads", fault=f"field 1 (source): {_MIXED_FACTORS}"),
    UnusualLine(b"a ||| x y|N ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_MIXED_FACTORS}"),
    UnusualLine(b"a ||| x|N|s y|N ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_MIXED_FACTORS}"),
    UnusualLine(b"a ||| x| ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_EMPTY_FACTOR}"),
    UnusualLine(b"a |||| x ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_EMPTY_FACTOR}"),
    UnusualLine(b"a || b ||| x ||| 0.5 0.25", "misreads", fault=f"field 1 (source): {_EMPTY_FACTOR}"),
    _stops(b"a ||| x [y] z ||| 0.5 0.25", f"field 2 (target): {_LABEL}"),
    UnusualLine(b"a ||| x [y] ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_LABEL}"),
    UnusualLine(b"a ||| x\t[y] ||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_LABEL}"),
    UnusualLine(b"a |||[laughter]||| 0.5 0.25", "misreads", fault=f"field 2 (target): {_LABEL}"),
    UnusualLine(b" ||| x ||| 0.5 0.25", "skips", fault="field 1 (source): is empty"),
    UnusualLine(b"\t||| x ||| 0.5 0.25", "skips", fault="field 1 (source): is empty"),
    # Moses loads these lines and we reject them: valid tables have none, but damaged files do.
    UnusualLine(b"a ||| x\0 ||| 0.5 0.25", target=(b"x\0",), fault="line: holds a NUL byte"),
    UnusualLine(
        b"a ||| %b||| 0.5 0.25" % (1001 * b"x "), target=(b"x",) * 1001, fault="field 2 (target): has more than 1,000"
    ),
    UnusualLine(
        b"a ||| %b ||| 0.5 0.25" % (10_001 * b"x"), target=(10_001 * b"x",), fault="field 2 (target): has more than"
    ),
]
