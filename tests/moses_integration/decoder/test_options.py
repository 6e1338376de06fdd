"""The future cost table."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from moses_integration.decoder.options import Options, best_of_ranges


@pytest.mark.parametrize(("whole", "best"), [(-5.0, -2.0), (-1.5, -1.5)])
def test_a_range_costs_what_its_best_option_or_its_best_split_does(whole: float, best: float) -> None:
    options = SimpleNamespace(
        words=2,
        span_start_S=np.array([0, 1, 0]),
        span_end_S=np.array([0, 1, 1]),
        span_first_S=np.array([0, 2, 3, 4]),
        future_O=np.array([-1.0, -3.0, -1.0, whole]),
    )
    found = best_of_ranges(cast(Options, options))
    assert (found[0, 1], found[1, 2], found[0, 2]) == (-1.0, -1.0, best)
    assert found.diagonal().tolist() == [0.0, 0.0, 0.0]
