"""The world that damaged inputs are tried in."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.faults.forked import Forker
from tests.faults.world import World


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A world of valid files, made once."""
    with Forker() as forker:
        yield World(tmp_path_factory.mktemp("faults"), forker)
