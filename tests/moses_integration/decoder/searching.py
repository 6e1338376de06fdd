"""Search a small system and enumerate the expected derivations."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from moses_integration.decoder import graph
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import TargetPhrase, Words
from moses_integration.decoder.pool import load_decoder
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.translation_options import Options
from tests.moses_integration.decoder import reference
from tests.moses_integration.decoder.small_system import SmallSystem

UNLIMITED = {"stack": "0", "beam-threshold": "0", "search-algorithm": "0"}
NARROW = {"stack": "3", "beam-threshold": "0.1", "search-algorithm": "1", "cube-pruning-pop-limit": "5"}
WEIGHTS = {"U": [1.0], "W": [-1.0], "P": [0.2], "T": [0.5], "D": [0.3]}
TOLERANCE = 1e-4
"""KenLM computes with 32-bit floats."""


@dataclass(frozen=True)
class Graph:
    """A task that returns the search graph."""

    needs_arcs: bool = True

    def __call__(
        self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph
    ) -> tuple[LogLinearModel, SearchGraph]:
        return model, graph


def decode(system: SmallSystem, sentence: Words) -> tuple[LogLinearModel, SearchGraph]:
    with tempfile.TemporaryDirectory() as folder:
        ini = system.write(Path(folder))
        return load_decoder(ini, read_settings(ini), [sentence]).run(Graph(), 0)


def options_of(phrases: Sequence[Words]) -> Options:
    """Return an option for each phrase, as a feature reads them, all for the first source word."""
    numbers = np.arange(len(phrases))
    targets = [TargetPhrase(words, alignment=((0, 0),)) for words in phrases]
    fields = {"phrases": phrases, "phrase_O": numbers, "start_O": 0 * numbers, "end_O": 0 * numbers}
    return cast(Options, SimpleNamespace(sentence=(b"a",), targets=targets, **fields))


def key(derivation: graph.Derivation) -> reference.Derivation:
    return tuple(
        reference.Phrase(step.start, step.end, step.target.words, step.target.scores, step.target.alignment)
        for step in derivation.steps
    )


def check_values(
    system: SmallSystem, sentence: Words, model: LogLinearModel, derivations: list[graph.Derivation]
) -> None:
    for derivation in derivations:
        expected = reference.values(system, sentence, key(derivation))
        for label, numbers in expected.items():
            found = derivation.values_F[model.columns[label]]
            assert found == pytest.approx(numbers, abs=TOLERANCE), label
        assert derivation.score == pytest.approx(reference.total(system, expected), abs=TOLERANCE)


def scored(system: SmallSystem, sentence: Words) -> list[tuple[float, reference.Derivation]]:
    """Return all derivations with their scores, best first."""
    every = reference.all_derivations(system, sentence)
    found = [(reference.total(system, reference.values(system, sentence, one)), one) for one in every]
    return sorted(found, key=lambda pair: -pair[0])
