"""The search finds the same derivations and scores as a real Moses. Needs MOSES_HOME; run with `-m moses`."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from moses_integration.decoder.pool import nbest_entry
from moses_integration.nbest import NbestEntry, Segment, read_nbest, segments_of
from tests.moses_integration.decoder.searching import UNLIMITED, decode
from tests.moses_integration.decoder.small_system import random_system

LONGEST_LIST = 5000
Derivations = list[tuple[list[Segment], list[float]]]


def derivations(entries: Iterator[NbestEntry]) -> Derivations:
    """The phrases of each, with the values of all features and the total, in an order that is not by score."""
    found = [
        (segments_of(one), [float(one.total), *(value for values in one.features().values() for value in values)])
        for one in entries
    ]
    return sorted(found)


@pytest.mark.moses
@pytest.mark.parametrize("first", range(0, 300, 30))
def test_without_limits_the_lists_are_those_of_moses(
    moses_home: Path, language_models: list[Path], tmp_path: Path, first: int
) -> None:
    """Without limits, n-best lists have the same derivations and values as in Moses.

    With limits they differ, because Moses prunes while a stack fills.
    """
    compared = 0
    for seed in range(first, first + 30):
        system, sentence = random_system(random.Random(seed), language_models)
        system = replace(system, settings=UNLIMITED)
        system.write(tmp_path)
        command: list[str | Path] = [moses_home / "bin/moses", "-f", tmp_path / "moses.ini"]
        command += ["-n-best-list", tmp_path / "list", str(LONGEST_LIST), "-include-segmentation-in-n-best", "true"]
        subprocess.run(command, input=b" ".join(sentence) + b"\n", check=True, capture_output=True)
        expected = derivations(read_nbest(tmp_path / "list"))
        model, graph = decode(system, sentence)
        listed = graph.n_best(LONGEST_LIST, distinct=False)
        found = derivations(nbest_entry(model, 0, one) for one in listed)
        if len(expected) == LONGEST_LIST:
            continue
        assert [one for one, _ in found] == [one for one, _ in expected], seed
        for (_, mine), (_, its) in zip(found, expected, strict=True):
            assert mine == pytest.approx(its, rel=1e-4, abs=2e-3), seed
        compared += len(found)
    assert compared > 1000
