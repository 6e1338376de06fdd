"""A full disk is reported in one sentence that names the file and the fix.

A limit on the size of files stands in for the full disk.
"""

from __future__ import annotations

import re

import pytest

from tests.faults.commands import COMMANDS
from tests.faults.oracle import wrong_end
from tests.faults.world import World

_SENTENCE = re.compile(
    r"^phrasescore\S*( \S+)*: (\S+|a temporary file in \S+): cannot be written \(File too large\); free space or "
)
WRITING = [name for name, command in COMMANDS.items() if command.writes]
# A larger limit makes a later file fail. Under smaller limits the messages do not fit either.
LIMITS = [(name, 1500) for name in WRITING] + [("build", limit) for limit in (2500, 4000, 8192, 16384, 30000)]


@pytest.mark.parametrize(("name", "limit"), LIMITS)
def test_a_file_that_does_not_fit_is_named(world: World, name: str, limit: int) -> None:
    command = COMMANDS[name]
    world.renew()
    done = world.run(command.argv, largest_file=limit)
    assert not list(wrong_end(done, command))
    if not done.code:
        # Everything fitted.
        assert not list(command.sound(world.folder, done.out))
    else:
        found = _SENTENCE.match(done.err.decode())
        assert found, done.err.decode()
        assert found[2] not in command.reads or found[2].startswith(command.writes)
