"""Independent readers of the input and output formats, which share no code with the readers under test.

The rules for Moses' files follow its source: moses/TranslationModel/RuleTable/LoaderStandard.cpp, moses/Parameter.cpp,
moses/FF/FeatureFunction.cpp.
"""

from __future__ import annotations

import gzip
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from xopen import xopen

_MAGIC = {b"\x1f\x8b": "gz", b"\x28\xb5\x2f\xfd": "zst"}
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


class RefusedError(ValueError):
    """Moses, or another reader of the format, rejects the file."""


def read(path: Path) -> bytes:
    """Return the content of a file, decompressed."""
    if not path.is_file():
        raise RefusedError(f"{path.name} is no file")
    try:
        with _opened(path) as stream:
            return stream.read(1 << 27)
    except Exception as error:
        raise RefusedError(f"{path.name}: {error}") from error


def _opened(path: Path) -> BinaryIO:
    """Open a file; its first bytes, not its name, decide whether it is compressed."""
    with path.open("rb") as file:
        head = file.read(4)
    compression = next((name for magic, name in _MAGIC.items() if head.startswith(magic)), None)
    return xopen(path, "rb", threads=0, format=compression) if compression else path.open("rb")


def first_line(path: Path) -> bytes:
    """Return the first line of a file, decompressed; the rest of the file may be damaged."""
    try:
        with _opened(path) as stream:
            return stream.readline(1 << 20).removesuffix(b"\n").removesuffix(b"\r")
    except Exception as error:
        raise RefusedError(f"{path.name}: {error}") from error


def lines_of(content: bytes) -> list[bytes]:
    """Split at line feeds; the last one is optional, and a carriage return before a line feed is removed."""
    lines = content.split(b"\n")
    if not lines[-1]:
        del lines[-1]
    return [line.removesuffix(b"\r") for line in lines]


# Phrase tables


@dataclass(frozen=True)
class Pair:
    source: tuple[bytes, ...]
    target: tuple[bytes, ...]
    scores: tuple[bytes, ...]
    others: tuple[bytes, ...]
    """The other fields, stripped of spaces."""

    def to_line(self) -> bytes:
        """Return the line in canonical form."""
        phrases = (b" ".join(words) for words in (self.source, self.target, self.scores))
        return b" ||| ".join((*phrases, *self.others))

    def factors(self) -> tuple[set[int], set[int]]:
        """Return the numbers of factors of the words on each side."""
        source, target = ({word.count(b"|") + 1 for word in words} for words in (self.source, self.target))
        return source, target

    def values(self) -> list[float]:
        return [float(score) for score in self.scores]


def tokens(text: bytes) -> tuple[bytes, ...]:
    """Split at spaces and tabs, as Moses does."""
    return tuple(token for token in re.split(rb"[ \t]", text) if token)


def read_pair(line: bytes) -> Pair | None:
    """Read a line of a phrase table by Moses' rules; return None for a line without a source, which Moses skips.

    Raises RefusedError if Moses stops at the line or reads a score as NaN or infinite. The same applies to labels and
    to different numbers of factors on one side.
    """
    source, target, scores, *others = (*line.split(b"|||"), None, None, None)[: max(3, line.count(b"|||") + 1)]
    if source is None or target is None or scores is None:
        raise RefusedError("has fewer than three fields")
    if b"\0" in line:
        raise RefusedError("holds a NUL byte")
    pair = Pair(tokens(source), tokens(target), tokens(scores), tuple(field.strip(b" \t") for field in others if field))
    for word in (*pair.source, *pair.target):
        if b"" in word.split(b"|") or (len(word) > 1 and word.startswith(b"[") and word.endswith(b"]")):
            raise RefusedError("holds an empty factor or a label")
    if any(len(numbers) > 1 for numbers in pair.factors()):
        raise RefusedError("mixes numbers of factors")
    for score in pair.scores:
        if not _NUMBER.fullmatch(score):
            raise RefusedError("has a score that is no number")
        if not 0 <= np.float32(float(score)) < math.inf:
            raise RefusedError("has a score below 0, or too large")
    if not pair.scores:
        raise RefusedError("has no scores")
    return pair if pair.source else None


def read_table(content: bytes) -> list[Pair]:
    """Read a phrase table by Moses' rules.

    Raises RefusedError as `read_pair` does, or if lines differ in their numbers of scores or factors.
    """
    with np.errstate(over="ignore"):
        pairs = [pair for line in lines_of(content) if (pair := read_pair(line)) is not None]
    if len(Counter(len(pair.scores) for pair in pairs)) > 1:
        raise RefusedError("has lines with different numbers of scores")
    for side in zip(*(pair.factors() for pair in pairs), strict=True):
        if len(set().union(*side)) > 1:
            raise RefusedError("has lines with different numbers of factors")
    return pairs


def same_table(content: bytes) -> bytes:
    """Return the table in canonical form, which every reader interprets in the same way."""
    return b"".join(pair.to_line() + b"\n" for pair in read_table(content))


def same_table_for(text: bytes, content: bytes) -> bytes:
    """Return the canonical table for translating a text; lines for other words are dropped and may be invalid."""
    sentences = [b" %b " % b" ".join(tokens(line)) for line in lines_of(text)]
    wanted = [
        line
        for line in lines_of(content)
        if any(b" %b " % b" ".join(tokens(line.split(b"|||")[0])) in sentence for sentence in sentences)
    ]
    return same_table(b"\n".join(wanted))


def same_text(content: bytes) -> bytes:
    """Return the text without byte order mark and without carriage returns at line ends."""
    if b"\0" in content or content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise RefusedError("is no text in UTF-8")
    return b"".join(line + b"\n" for line in lines_of(content.removeprefix(b"\xef\xbb\xbf")))


# moses.ini


def read_sections(text: str) -> dict[str, list[str]]:
    """Read a moses.ini: `#` starts a comment, and repeated sections are merged."""
    sections: dict[str, list[str]] = {}
    name = ""
    for line in text.split("\n"):
        value = line.split("#")[0].strip()
        if value.startswith("["):
            name = value[1:].split("]")[0]
        elif value:
            sections.setdefault(name, []).append(value)
    return sections


def inconsistencies(path: Path) -> Iterator[str]:
    """Yield inconsistencies within a moses.ini or with the files that it names."""
    sections = read_sections(path.read_text("utf-8", "surrogateescape"))
    weights = {line.split()[0][:-1]: line.split()[1:] for line in sections.get("weight", [])}
    counts: Counter[str] = Counter()
    for line in sections.get("feature", []):
        kind, *pairs = line.split()
        arguments = dict(pair.partition("=")[::2] for pair in pairs)
        label = arguments.get("name", f"{kind}{counts[kind]}")
        counts[kind] += 1
        own = weights.get(label, [])
        if not all(
            _NUMBER.fullmatch(weight.encode(errors="replace")) and math.isfinite(float(weight)) for weight in own
        ):
            yield f"ini: the weights of {label} are not finite numbers"
        named = {key: path.parent / value for key, value in arguments.items() if key in ("path", "backoff")}
        for key, file in named.items():
            # Opening a name that is too long raises OSError.
            if not (os.path.exists(file) or os.path.exists(f"{file}.gz")):  # noqa: PTH110
                yield f"ini: {label} has {key}={arguments[key]}, and there is no such file"
                return
        # An empty table has no columns; Moses loads it as a table without phrases.
        if kind == "PhraseDictionaryMemory" and (first := first_line(named["path"])):
            pair = read_pair(first)
            columns = len(pair.scores) if pair else 0
            if columns != int(arguments.get("num-features", "1")) or (own and columns != len(own)):
                yield f"ini: {label} has {columns} columns, {len(own)} weights: {line}"


# Networks


def read_tensors(path: Path) -> dict[str, Any]:
    """Return the 32-bit float arrays of a safetensors file."""
    content = path.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    return {
        name: np.frombuffer(content[end + one["data_offsets"][0] : end + one["data_offsets"][1]], "<f4")
        for name, one in header.items()
        if name != "__metadata__" and one["dtype"] == "F32"
    }


def compress_like(path: Path, content: bytes) -> bytes:
    """Compress the content if the path ends in `.gz`."""
    return gzip.compress(content, mtime=0) if path.suffix == ".gz" else content
