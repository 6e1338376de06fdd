"""The comparisons that the goldens experiment rests on."""

from __future__ import annotations

import numpy as np
import pytest

from experiments.goldens.building import compare_arpa, count_different
from experiments.goldens.decoding import difference
from experiments.goldens.finding import Finding, as_table

ARPA = [b"\\data\\", b"ngram 1=2", b"", b"\\1-grams:", b"-1.5\ta\t-0.5", b"-2\tb", b"", b"\\end\\"]


@pytest.mark.parametrize(
    ("ours", "largest", "holds"),
    [
        ([1.0, -2.0], 0.0, True),
        ([1.0009, -2.0], 0.0009, True),
        ([1.002, -2.0], 0.002, False),
        ([1.0, -1.0], 1.0, False),
    ],
)
def test_differences_of_printed_numbers(ours: list[float], largest: float, holds: bool) -> None:
    found = difference(np.array(ours), np.array([1.0, -2.0]))
    assert found.largest == pytest.approx(largest)
    assert found.holds is holds


def test_large_numbers_may_differ_by_more() -> None:
    assert difference(np.array([12345.6]), np.array([12345.7])).holds
    assert not difference(np.array([12345.6]), np.array([12346.0])).holds
    assert difference(np.zeros((0, 3)), np.zeros((0, 3))) == (0.0, True)


def test_arpa_files() -> None:
    assert compare_arpa(ARPA, ARPA) == (2, 0, 0.0)
    near = [line.replace(b"-0.5", b"-0.500001") for line in ARPA]
    assert compare_arpa(near, ARPA).largest == pytest.approx(1e-6)
    assert compare_arpa(near, ARPA).other_lines == 0
    for other in (
        [line.replace(b"\tb", b"\tc") for line in ARPA],
        [line.replace(b"\tb", b"\tb\t0") for line in ARPA],
        [line.replace(b"1=2", b"1=3") for line in ARPA],
        [*ARPA, b"more"],
        ARPA[:-1],
    ):
        assert compare_arpa(other, ARPA).other_lines == 1


def test_lines_that_differ() -> None:
    assert count_different([b"a", b"b"], [b"a", b"b"]) == (0, 2)
    assert count_different([b"a", b"c"], [b"a", b"b", b"d"]) == (2, 3)
    assert count_different([b""], []) == (1, 1)


def test_the_table_says_what_holds() -> None:
    findings = [Finding("a", "1", "2", False), Finding("b", "3", "3", True), Finding("c", "4")]
    assert as_table(findings).splitlines()[2:] == ["| a | 1 | 2 | NO |", "| b | 3 | 3 | yes |", "| c | 4 |  |  |"]
