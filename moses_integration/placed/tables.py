"""Phrase and reordering table of a text, in which each line stands once for each place where it can be used.

Lines are sorted by the bytes of their source phrase, as Moses' converters to binary tables want them.
Shapes: O options of all places, one place after another, K new columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from moses_integration.decoder.phrases import Floats, Words
from moses_integration.decoder.tables import ReorderingTable
from moses_integration.placed.places import Phrase, Place
from phrasescore.phrases import offsets_of
from phrasescore.scoring.columns import FLOOR, LARGEST_COUNT
from phrasescore.table.entry import SEPARATOR, cut_line, without_end


class NamedPlaces:
    """The places of a text, by the bytes of their source phrases as the text with names has them."""

    def __init__(self, places: Sequence[Place], text: Sequence[Words]) -> None:
        """Take the places, and the text with names."""
        self._places = places
        spans = (text[place.sentence][place.start : place.end + 1] for place in places)
        self._sources = [b"%b |||" % b" ".join(words) for words in spans]
        self._order = sorted(range(len(places)), key=self._sources.__getitem__)

    def phrase_lines(self, values_OK: Floats) -> Iterator[bytes]:
        """Yield the lines of the phrase table, with more columns."""
        first = offsets_of(np.array([len(place.phrase.lines) for place in self._places], np.int64))
        cut: dict[Words, list[tuple[bytes, bytes]]] = {}
        for number in self._order:
            phrase, source = self._places[number].phrase, self._sources[number]
            if phrase.words not in cut:
                cut[phrase.words] = [_around_columns(line) for line in phrase.lines]
            columns = _column_texts(values_OK[first[number] : first[number + 1]])
            for (before, after), column in zip(cut[phrase.words], columns, strict=True):
                yield b"%b%b%b%b" % (source, before, column, after)

    def reordering_lines(self, table: ReorderingTable) -> Iterator[bytes]:
        """Yield the lines of a reordering table."""
        found: dict[Words, list[bytes]] = {}
        for number in self._order:
            phrase, source = self._places[number].phrase, self._sources[number]
            if phrase.words not in found:
                found[phrase.words] = list(_reordering_ends(table, phrase))
            yield from (source + end for end in found[phrase.words])


def _around_columns(line: bytes) -> tuple[bytes, bytes]:
    """Return what a line of a phrase table has behind its source phrase, cut where the last score ends."""
    entry = cut_line(line)
    return line[line.index(SEPARATOR) + len(SEPARATOR) : entry.end], without_end(line[entry.end :]) + b"\n"


def _column_texts(values_OK: Floats) -> Iterable[bytes]:
    """Return the text of new columns of some options, of which Moses will take the logarithm, with a blank before."""
    if not values_OK.shape[1]:
        return [b""] * len(values_OK)
    numbers_OK = np.exp(np.clip(values_OK, FLOOR, LARGEST_COUNT))
    return [b"".join(b" %.9g" % number for number in numbers_K) for numbers_K in numbers_OK.tolist()]


def _reordering_ends(table: ReorderingTable, phrase: Phrase) -> Iterator[bytes]:
    """Yield what the lines of a phrase have behind the source phrase in a reordering table."""
    for target in dict.fromkeys(phrase.targets if table.has_target else [()]):
        scores = table.scores(phrase.words, target)
        if scores is not None:
            fields = [b" ".join(target)] * table.has_target + [scores.strip(b" ")]
            yield b" " + b" ||| ".join(fields) + b"\n"
