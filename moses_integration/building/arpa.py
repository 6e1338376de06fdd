"""Write a back-off language model as ARPA text.

Shape suffix G: n-grams of one order. An n-gram is stored as its first word and the index of its suffix among the
n-grams of the order below.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 17


@dataclass(frozen=True)
class Section:
    """The n-grams of one order, in the order of the file's lines."""

    first_G: NDArray[np.int32]
    """Id of the first word."""
    suffix_G: NDArray[np.int64]
    """Index, in the section below, of the n-gram without its first word; unused in the first section."""
    log_probability_G: NDArray[np.float32]
    """log10 p(last word | the words before it)."""
    log_backoff_G: NDArray[np.float32] | None
    """log10 of the back-off weight; None in the last section."""

    def __len__(self) -> int:
        return len(self.first_G)


def write_arpa(stream: BinaryIO, words: Sequence[bytes], sections: Sequence[Section]) -> None:
    """Write a model; `words` are the words by id, `sections` the orders from 1.

    Numbers are the shortest decimals that parse to the same 32-bit float.
    """
    counts = [b"ngram %d=%d\n" % (order, len(section)) for order, section in enumerate(sections, 1)]
    stream.write(b"\\data\\\n" + b"".join(counts))
    for order in range(1, len(sections) + 1):
        stream.write(b"\n\\%d-grams:\n" % order)
        _write_section(stream, words, sections[:order])
    stream.write(b"\n\\end\\\n")


def _write_section(stream: BinaryIO, words: Sequence[bytes], sections: Sequence[Section]) -> None:
    """Write the last section; the sections below it resolve its suffixes."""
    section = sections[-1]
    has_backoff = section.log_backoff_G is not None
    before_word = np.array([word + b" " for word in words], dtype=object)
    at_end = np.array([word + (b"\t" if has_backoff else b"\n") for word in words], dtype=object)
    for start in range(0, len(section), _BLOCK):
        block = slice(start, start + _BLOCK)
        columns = [_decimals(section.log_probability_G[block], b"\t")]
        suffixes = np.arange(len(section))[block]
        for below in sections[:0:-1]:
            columns.append(before_word[below.first_G[suffixes]])
            suffixes = below.suffix_G[suffixes]
        columns.append(at_end[sections[0].first_G[suffixes]])
        if section.log_backoff_G is not None:
            columns.append(_decimals(section.log_backoff_G[block], b"\n"))
        stream.write(b"".join(np.stack(columns, axis=1).ravel().tolist()))


def _decimals(values_G: NDArray[np.float32], end: bytes) -> NDArray[np.object_]:
    """Format numbers with an end; values repeat, so each distinct one is formatted once."""
    distinct, index_G = np.unique(values_G, return_inverse=True)
    spelled: NDArray[np.object_] = np.array([text + end for text in distinct.astype("S").tolist()], dtype=object)
    return spelled[index_G]
