"""The world that damaged inputs are tried in."""

from __future__ import annotations

import pytest

from tests.faults.world import World
from tests.forked import shared_forker


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A world of valid files, made once."""
    return World(tmp_path_factory.mktemp("faults"), shared_forker())
