from __future__ import annotations

import pytest

from tests.faults.world import World
from tests.forked import shared_forker


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """Valid input files, made once a session."""
    return World(tmp_path_factory.mktemp("faults"), shared_forker())
