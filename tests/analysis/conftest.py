"""A network that has learnt a little of the mini corpus."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from phrasescore.device import choose_device
from phrasescore.model_folder import load_model
from phrasescore.scoring.engine import Scorer
from tests.conftest import DATA

Weights = dict[str, NDArray[np.float64]]


@pytest.fixture(scope="session")
def scorer() -> Scorer:
    return Scorer(load_model(DATA / "stored-model"), choose_device("cpu", "fp32"))


@pytest.fixture(scope="session")
def weights(scorer: Scorer) -> Weights:
    return {name: tensor.double().numpy() for name, tensor in scorer.model.network.state_dict().items()}
