"""Each guarantee in docs/reliability.md names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "reliability.md").read_text()


@pytest.mark.parametrize("name", sorted(set(re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", PAGE))))
def test_a_guarantee_names_tests_that_exist(name: str) -> None:
    path, _, function = name.partition("::")
    assert (f"def {function}(" if function else "def test_") in (ROOT / path).read_text()


def test_every_guarantee_has_a_test() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| guarantee")]
    assert rows
    assert all("`tests/" in row for row in rows)
