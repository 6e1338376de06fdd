"""Phrase extraction matches the definition of a consistent phrase pair, tested on every pair of spans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.building.aligned_corpus import AlignedCorpus
from moses_integration.building.extraction import (
    DISCONTINUOUS,
    MONOTONE,
    SWAP,
    Instances,
    extract_phrase_pairs,
    number_alignments,
    print_alignment,
    transpose_alignments,
)
from phrasescore import aligned_phrases
from tests.moses_integration.building.corpora import corpus_of

Points = frozenset[tuple[int, int]]


class Sentence(NamedTuple):
    """The lengths and the alignment of a sentence pair."""

    source_length: int
    target_length: int
    points: Points


class Pair(NamedTuple):
    """A phrase pair in context: word ranges, internal alignment and orientations."""

    source: tuple[int, int]
    target: tuple[int, int]
    alignment: bytes
    previous: int
    following: int


def to_corpus(sentences: list[Sentence]) -> AlignedCorpus:
    return corpus_of(
        (b"s " * source, b"t " * target, b" ".join(b"%d-%d" % point for point in points))
        for source, target, points in sentences
    )


def extracted(corpus: AlignedCorpus, longest: int = 7) -> Counter[Pair]:
    """Return the phrase pairs of all batches."""
    found: Counter[Pair] = Counter()
    for batch in corpus.aligned.batches():
        found.update(pairs_of(extract_phrase_pairs(corpus.aligned, *batch, longest)))
    return found


def pairs_of(instances: Instances) -> Counter[Pair]:
    return Counter(
        Pair(
            (source, source + source_length - 1),
            (target, target + target_length - 1),
            print_alignment(alignment),
            *divmod(orientation, 3),
        )
        for source, source_length, target, target_length, alignment, orientation in instances.tolist()
    )


def orientation(points: Points, straight: tuple[int, int], crossed: tuple[int, int]) -> int:
    if (straight in points) == (crossed in points):
        return DISCONTINUOUS
    return MONOTONE if straight in points else SWAP


def consistent_pairs(sentence: Sentence, longest: int) -> Iterable[Pair]:
    """Return all phrase pairs of a sentence pair, by definition."""
    points = sentence.points
    with_corners = points | {(-1, -1), (sentence.source_length, sentence.target_length)}
    spans = (
        [(i, j) for i, j in combinations_with_replacement(range(length), 2) if j - i < longest]
        for length in sentence[:2]
    )
    for (s0, s1), (t0, t1) in product(*spans):
        inside = [(s, t) for s, t in points if s0 <= s <= s1 and t0 <= t <= t1]
        touching = [(s, t) for s, t in points if s0 <= s <= s1 or t0 <= t <= t1]
        if inside and len(inside) == len(touching):
            yield Pair(
                (s0, s1),
                (t0, t1),
                b" ".join(b"%d-%d" % (s - s0, t - t0) for s, t in sorted(inside, key=lambda point: point[::-1])),
                orientation(with_corners, (s0 - 1, t0 - 1), (s1 + 1, t0 - 1)),
                orientation(with_corners, (s1 + 1, t1 + 1), (s0 - 1, t1 + 1)),
            )


@st.composite
def sentence_pairs(draw: st.DrawFn) -> Sentence:
    source_length, target_length = draw(st.integers(0, 9)), draw(st.integers(0, 9))
    if not source_length or not target_length:
        return Sentence(source_length, target_length, frozenset())
    point = st.tuples(st.integers(0, source_length - 1), st.integers(0, target_length - 1))
    return Sentence(source_length, target_length, draw(st.frozensets(point, max_size=12)))


@given(st.lists(sentence_pairs(), min_size=1, max_size=4), st.integers(1, 7), st.sampled_from([1, 100, 1 << 22]))
def test_the_pairs_are_those_of_the_definition(sentences: list[Sentence], longest: int, batch_cells: int) -> None:
    expected: Counter[Pair] = Counter()
    source_base = target_base = 0
    for sentence in sentences:
        for pair in consistent_pairs(sentence, longest):
            source, target = pair.source, pair.target
            moved = pair._replace(
                source=(source_base + source[0], source_base + source[1]),
                target=(target_base + target[0], target_base + target[1]),
            )
            expected[moved] += 1
        source_base += sentence.source_length
        target_base += sentence.target_length
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(aligned_phrases, "_BATCH_CELLS", batch_cells)
        assert extracted(to_corpus(sentences), longest) == expected


def test_unaligned_words_extend_a_phrase_on_both_sides() -> None:
    pairs = extracted(to_corpus([Sentence(3, 2, frozenset({(1, 0)}))]))
    assert {(pair.source, pair.target) for pair in pairs} == set(
        product([(0, 1), (0, 2), (1, 1), (1, 2)], [(0, 0), (0, 1)])
    )
    assert {pair.alignment for pair in pairs} == {b"0-0", b"1-0"}


def test_a_phrase_has_at_most_seven_words() -> None:
    pairs = extracted(to_corpus([Sentence(9, 9, frozenset({(0, 0)}))]))
    assert len(pairs) == 49
    # Two points seven words apart allow only phrases around one of them.
    apart = to_corpus([Sentence(8, 1, frozenset({(0, 0), (7, 0)}))])
    assert not extracted(apart)


@pytest.mark.parametrize(
    ("points", "source", "target", "previous", "following"),
    [
        # The corners of the sentence pair count as aligned.
        ({(0, 0), (1, 1)}, (0, 0), (0, 0), MONOTONE, MONOTONE),
        ({(0, 0), (1, 1)}, (0, 1), (0, 1), MONOTONE, MONOTONE),
        ({(0, 1), (1, 0)}, (1, 1), (0, 0), DISCONTINUOUS, SWAP),
        ({(0, 1), (1, 0)}, (0, 0), (1, 1), SWAP, DISCONTINUOUS),
        ({(0, 1), (1, 0)}, (0, 1), (0, 1), MONOTONE, MONOTONE),
        # The previous word is aligned, but not next to the phrase.
        ({(0, 0), (2, 1)}, (2, 2), (1, 1), DISCONTINUOUS, MONOTONE),
        # Points at both corners contradict each other.
        ({(0, 0), (2, 0), (1, 1)}, (1, 1), (1, 1), DISCONTINUOUS, DISCONTINUOUS),
    ],
)
def test_orientation(
    points: set[tuple[int, int]], source: tuple[int, int], target: tuple[int, int], previous: int, following: int
) -> None:
    sentence = Sentence(1 + max(s for s, _ in points), 1 + max(t for _, t in points), frozenset(points))
    pairs = extracted(to_corpus([sentence]))
    assert [pair[3:] for pair in pairs if pair[:2] == (source, target)] == [(previous, following)]


SETS = st.lists(st.frozensets(st.integers(0, 6), max_size=3), min_size=7, max_size=7)


def number(sets: list[frozenset[int]]) -> int:
    bits = np.array([[sum(1 << place for place in places) for places in sets]], np.uint8)
    return int(number_alignments(bits)[0])


@given(SETS, SETS)
def test_numbers_compare_as_lists_of_sorted_sets(left: list[frozenset[int]], right: list[frozenset[int]]) -> None:
    def compared(sets: list[frozenset[int]]) -> list[list[int]]:
        return [sorted(places) for places in sets]

    assert (number(left) < number(right)) == (compared(left) < compared(right))


@given(SETS)
def test_print_and_transpose(sets: list[frozenset[int]]) -> None:
    points = [(source, target) for target, places in enumerate(sets) for source in sorted(places)]
    assert print_alignment(number(sets)) == b" ".join(b"%d-%d" % point for point in points)
    transposed = sorted((target, source) for source, target in points)
    transposed.sort(key=lambda point: point[1])
    inverse = int(transpose_alignments(np.array([number(sets)]))[0])
    assert print_alignment(inverse) == b" ".join(b"%d-%d" % point for point in transposed)
