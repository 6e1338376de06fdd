"""Numeric comparison of alignments equals Moses' comparison of lists of sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moses_integration.building.pair_alignment import number_alignments, print_alignment, transpose_alignments

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
