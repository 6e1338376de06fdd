"""Judge how commands handle damaged inputs.

A command may fail with one sentence and exit code 1 (2 for wrong usage), leaving all files unchanged. Otherwise it must
write its outputs and nothing else, and an independent reader must agree with its result.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Protocol

from tests.faults import mutations, readers
from tests.faults.commands import COMMANDS, DECODING, FOUND, NETWORKS, SETTINGS, TABLES, TEXTS, Command
from tests.faults.world import World
from tests.forked import Finished

_OLD = b"what was there before\n"
_LONGEST_SENTENCE = 1000
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f]")
_TEMPORARY = re.compile(r"(^|/)\.[^/]*tmp$")


class Damaging(Protocol):
    """An input, its damage, and the command that reads it."""

    @property
    def name(self) -> str:
        """The name of the command."""
        ...

    @property
    def path(self) -> str:
        """The path of the input in the world."""
        ...

    def damage(self, folder: Path) -> str:
        """Damage the input in a folder; return a description of the damage."""
        ...


@dataclass(frozen=True)
class Case:
    """A case that is determined by its seed."""

    seed: int
    name: str
    """The name of the command."""
    path: str
    level: str

    @classmethod
    def of(cls, seed: int) -> Case:
        """Return the case of a seed."""
        random = Random(seed)
        name = random.choice(list(COMMANDS))
        path = random.choice(COMMANDS[name].reads)
        level = random.choice(["files", *mutations.CONTENT, *mutations.CONTENT])
        return cls(seed, name, path, level)

    def damage(self, folder: Path) -> str:
        """Damage the input in a folder, sometimes twice, and sometimes add old outputs; return a description."""
        random, path = Random(f"damage {self.seed}"), folder / self.path
        if random.random() < 0.5:
            for name in COMMANDS[self.name].writes:
                if not name.endswith("/") and not (folder / name).exists():
                    (folder / name).write_bytes(_OLD)
        if self.level == "files":
            changes = mutations.FILE if self.path in FOUND else mutations.GIVEN
            change = random.choice(changes)
            change(random, path)
            return change.__name__
        done = []
        for _ in range(random.choice((1, 1, 2))):
            mutate = random.choice(mutations.CONTENT[self.level])
            is_inside = path.suffix == ".gz" and random.random() < 0.9
            content = readers.read(path) if is_inside else path.read_bytes()
            content = mutate(random, content) if content else content
            path.write_bytes(readers.compress_like(path, content) if is_inside else content)
            done.append(mutate.__name__)
            if path.suffix == ".gz" and not is_inside:
                break
        return ", ".join(done)


@dataclass(frozen=True)
class Verdict:
    """The faults of a case."""

    case: Damaging
    damage: str
    finished: Finished
    faults: list[str]
    """Faults; each begins with its kind and a colon."""

    def __str__(self) -> str:
        case, done = self.case, self.finished
        lines = [
            f"{case}: {self.damage}",
            f"$ {' '.join(COMMANDS[case.name].argv)}",
            f"exit code {done.code} after {done.seconds:.2f} s, {done.peak >> 20} MB",
            f"standard error: {done.err[-1500:].decode(errors='backslashreplace')}",
            *(f"FAULT {fault[:600]}" for fault in self.faults),
        ]
        if isinstance(case, Case):
            lines.append(f"again, and its files: python -m tests.faults {case.seed}")
        return "\n".join(lines)


class Oracle:
    def __init__(self, world: World) -> None:
        self._world = world
        self._undamaged: dict[str, object] = {}
        """Results of the commands on undamaged input, by name."""

    def judge(self, case: Damaging) -> Verdict:
        """Damage a copy of the world, run the command, and return its faults."""
        world, command = self._world, COMMANDS[case.name]
        world.renew()
        damage = case.damage(world.folder)
        before = _snapshot(world.folder)
        done = world.run(command.argv)
        after = _snapshot(world.folder)
        faults = list(wrong_end(done, command))
        if not done.was_stopped:
            faults += _wrong_files(before, after, done.code, command)
        if case.path in SETTINGS:
            # A setting may ask for a huge network; running out of memory is then correct.
            faults = [fault for fault in faults if not fault.startswith("memory")]
        if done.code == 0 and not faults:
            try:
                faults += command.sound(world.folder, done.out)
                faults += self._wrong_result(case, command.result(world.folder, done.out))
            except readers.RefusedError as error:
                faults.append(f"accepted: what {error}")
            except (ValueError, KeyError, OSError) as error:
                faults.append(f"result: cannot be read: {error!r}")
        return Verdict(case, damage, done, faults)

    def _wrong_result(self, case: Damaging, result: object) -> Iterator[str]:
        """Compare the result with that on undamaged input or on the independent reader's interpretation."""
        if case.path in NETWORKS:
            if case.name not in self._undamaged:
                self._undamaged[case.name] = self._run_anew(case)
            if result != self._undamaged[case.name]:
                yield "network: a damaged one gives another result"
        elif case.path in TABLES | TEXTS and result is not None:
            content = readers.read(self._world.folder / case.path)
            if case.path in TEXTS:
                same = readers.same_text(content)
            elif case.name in DECODING:
                same = readers.same_table_for((self._world.folder / "dev.en").read_bytes(), content)
            else:
                same = readers.same_table(content)
            if same != content and result != self._run_anew(case, same):
                yield "read: not as the second reader does"

    def _run_anew(self, case: Damaging, content: bytes | None = None) -> object:
        """Return the command's result with other content of the input, or with the undamaged input."""
        world, path = self._world, self._world.folder / case.path
        world.renew()
        if content is not None:
            path.write_bytes(readers.compress_like(path, content))
        command = COMMANDS[case.name]
        done = world.run(command.argv)
        if done.code:
            return f"exit code {done.code}: {done.err.decode(errors='replace')}"
        return command.result(world.folder, done.out)


def wrong_end(done: Finished, command: Command) -> Iterator[str]:
    """Yield faults in the exit code and messages of a command."""
    err = done.err.decode(errors="replace")
    lines = err.rstrip("\n").split("\n")
    if done.was_stopped:
        yield f"hang: no end after {done.seconds:.0f} s"
    elif done.code not in (0, 1, 2):
        yield f"exit code: {done.code}"
    if "Traceback" in err:
        yield f"traceback: {lines[-1]}"
        return
    if found := [line for line in lines if "Warning" in line]:
        yield f"warning: {found[0]}"
    if "memory ran out" in err:
        yield f"memory: ran out; {done.peak >> 20} MB"
    if done.code in (1, 2) and not _is_verdict(done, command):
        last = lines[-1]
        if not last.startswith(command.argv[0]):
            yield f"sentence: none: {err[-300:]!r}"
        elif len(last) > _LONGEST_SENTENCE or _CONTROL.search(last):
            yield f"sentence: too long, or with control characters: {last[:300]!r}"


def _is_verdict(done: Finished, command: Command) -> bool:
    """Return whether `check` reported problems in a table, which is not a failure."""
    return done.code == 1 and command.argv[1] == "check" and b"PROBLEM " in done.out


def _wrong_files(before: dict[str, object], after: dict[str, object], code: int, command: Command) -> Iterator[str]:
    """Yield files that are left over or wrongly changed."""
    for path in sorted(before.keys() | after.keys()):
        if before.get(path) == after.get(path):
            continue
        if _TEMPORARY.search(path):
            yield f"left over: {path}"
        may_change = command.writes if code == 0 else [name for name in command.writes if name.endswith("/")]
        # On failure, training may keep its checkpoint.
        if not path.startswith(tuple(may_change)):
            yield f"changed: {path}, with exit code {code}"


def _content(path: Path, mode: int) -> bytes:
    """Return the content of one of our files, even if `mutations.unreadable` removed read permission."""
    if mode & stat.S_IRUSR:
        return path.read_bytes()
    path.chmod(stat.S_IRUSR)
    try:
        return path.read_bytes()
    finally:
        path.chmod(stat.S_IMODE(mode))


def _snapshot(folder: Path) -> dict[str, object]:
    """Map each path to its content, link target or file type."""
    found: dict[str, object] = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(parent, name)
            mode = path.lstat().st_mode
            if stat.S_ISLNK(mode):
                found[str(path.relative_to(folder))] = str(path.readlink())
            elif stat.S_ISREG(mode):
                found[str(path.relative_to(folder))] = _content(path, mode)
            elif name not in ("new",):
                found[str(path.relative_to(folder))] = stat.S_IFMT(mode)
    return found
