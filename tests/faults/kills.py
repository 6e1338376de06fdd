"""Kill commands at random moments.

No output may be half-written, and rerunning the command must give the result of an uninterrupted run.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.faults import readers
from tests.faults.commands import COMMANDS, Command
from tests.faults.world import TABLE, TRAIN, World

_KILLABLE = (
    "annotate",
    "prune",
    "train",
    "train-on",
    "lm-train",
    "tune",
    "decode",
    "rescore-tune",
    "build",
    "add-column",
)
_AGAIN = ("phrasescore", "annotate", TABLE, "-m", "model", "-o", "out.gz", "--precision", "fp32", "-q")
RESTART = Command(
    ("phrasescore", *TRAIN, "--restart", "-o", "model"),
    (),
    lambda folder, out: readers.read(folder / "model/weights.safetensors"),
    lambda folder, out: iter(()),
    ("model/",),
)


@dataclass(frozen=True)
class Kill:
    """A command, and the fraction of its running time after which it is killed."""

    seed: int
    name: str
    share: float

    @classmethod
    def of(cls, seed: int) -> Kill:
        """Return the case of a seed; consecutive ones have all commands."""
        names = (*_KILLABLE, "restart")
        return cls(seed, names[seed % len(names)], Random(f"kill {seed}").random())

    @property
    def command(self) -> Command:
        return RESTART if self.name == "restart" else COMMANDS[self.name]


def faults_after(world: World, kill: Kill, finished: dict[str, tuple[object, float]]) -> list[str]:
    """Kill a command, run it again, and return the faults.

    `finished` caches the result and the seconds of uninterrupted runs.
    """
    command, folder = kill.command, world.folder
    if kill.name not in finished:
        world.renew()
        done = world.run(command.argv)
        assert done.code == 0, done.err
        finished[kill.name] = command.result(folder, done.out), done.seconds
    expected, seconds = finished[kill.name]
    world.renew()
    outputs = [name for name in command.writes if not name.endswith("/")]
    for name in outputs:
        (folder / name).write_bytes(b"old")
    killed = world.run(command.argv, seconds=max(0.001, seconds * kill.share))
    faults = []
    for name in outputs:
        if killed.was_stopped and not _is_old_or_whole(folder / name):
            faults.append(f"half written: {name}")
    if kill.name == "train-on":
        done = world.run(_AGAIN)
        if done.code:
            faults.append(f"lost: the network cannot be used any more: {done.err.decode()}")
    if killed.was_stopped:
        done = world.run(command.argv)
        if done.code:
            faults.append(f"again: exit code {done.code}: {done.err.decode()[-300:]}")
        elif command.result(folder, done.out) != expected:
            faults.append("again: another result than that of a run never stopped")
    return faults


def _is_old_or_whole(path: Path) -> bool:
    """Return whether a file has its old content or complete new content."""
    if path.read_bytes() == b"old":
        return True
    try:
        content = readers.read(path)
    except readers.RefusedError:
        return False
    return content.endswith(b"\n")
