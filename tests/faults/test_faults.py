"""Random damaged inputs and kills; `FAULTS=5000 pytest -m slow tests/faults` sets their number.

`python -m tests.faults SEED` shows one case.
"""

from __future__ import annotations

import os

import pytest

from tests.faults.commands import COMMANDS
from tests.faults.kills import Kill, faults_after
from tests.faults.oracle import Case, Oracle, wrong_end
from tests.faults.world import World

_BLOCKS, _CASES, _KILLS = 10, 20, 4
"""Number of tests and cases per test, so that pytest processes can share them."""
FIRST = int(os.environ.get("FAULTS_FROM", "1000000"))
COUNT = int(os.environ.get("FAULTS", "5000"))


def judge(world: World, seeds: range) -> None:
    """Run cases; fail with a list of all faulty ones."""
    oracle = Oracle(world)
    verdicts = [oracle.judge(Case.of(seed)) for seed in seeds]
    assert not any(verdict.faults for verdict in verdicts), "\n\n".join(
        str(verdict) for verdict in verdicts if verdict.faults
    )


def kill(world: World, seeds: range) -> None:
    """Kill commands; fail with a list of all that leave faults."""
    finished: dict[str, tuple[object, float]] = {}
    kills = [Kill.of(seed) for seed in seeds]
    faults = {one: found for one in kills if (found := faults_after(world, one, finished))}
    assert not faults


@pytest.mark.parametrize("name", COMMANDS)
def test_an_undamaged_world_has_no_fault(world: World, name: str) -> None:
    command = COMMANDS[name]
    world.renew()
    done = world.run(command.argv)
    assert done.code == 0, done.err.decode()
    assert not list(wrong_end(done, command))
    assert not list(command.sound(world.folder, done.out))
    again, result = world.run(command.argv), command.result(world.folder, done.out)
    if not any(place.endswith("/") for place in command.writes):
        assert command.result(world.folder, again.out) == result


@pytest.mark.parametrize("block", range(_BLOCKS))
def test_damaged_inputs(world: World, block: int) -> None:
    judge(world, range(block * _CASES, (block + 1) * _CASES))


@pytest.mark.parametrize("block", range(3))
def test_kills(world: World, block: int) -> None:
    kill(world, range(block * _KILLS, (block + 1) * _KILLS))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_damaged_inputs(world: World) -> None:
    judge(world, range(FIRST, FIRST + COUNT))


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_many_kills(world: World) -> None:
    kill(world, range(FIRST, FIRST + COUNT // 10))
