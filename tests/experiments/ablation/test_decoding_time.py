"""Which work counts towards the decoding time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.ablation.decoding_time import time_translating
from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.phrases import Floats
from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.positions import Positions
from phrasescore.device import choose_device
from phrasescore.scoring.columns import Column
from phrasescore.text import no_log
from tests.conftest import MINI


class Clock:
    """A clock that shows the time that was set."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


class SlowColumn(ContextColumn):
    """A column that takes two seconds a sentence."""

    column = Column("score")

    def __init__(self, clock: Clock) -> None:
        self._clock, self.log = clock, no_log

    def values(self, positions: Positions, scratch: Path) -> Floats:
        self._clock.seconds += 2.0 * len(positions.sentences)
        return np.zeros(sum(len(one.phrase.targets) for one in positions if not one.phrase.is_copied))


def test_loading_is_left_out_of_the_time_of_a_per_text_table(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()

    def slow_load(*arguments: Any, **options: Any) -> Any:
        clock.seconds += 100.0
        return load_model(*arguments, **options)

    monkeypatch.setattr("experiments.timing._cpu_seconds", clock)
    monkeypatch.setattr("moses_integration.per_text.options_in_context.load_model", slow_load)
    monkeypatch.setattr("experiments.ablation.decoding_time.choose_device", lambda *_: choose_device("cpu", "fp32"))
    ini = MosesIni.read(MINI / "moses.ini")
    add_column_in_context(ini, 0.2)
    sentences = (MINI / "dev.en").read_bytes().splitlines()[:5]
    cost = time_translating(ini, sentences, SlowColumn(clock))
    # The sentence of one word, which measures loading, is in the text, too.
    assert cost["indexing"] == pytest.approx(2.0)
    assert "loading" not in cost
    assert cost["cold"]["seconds"] == cost["warm"]["seconds"] == cost["indexing"]
