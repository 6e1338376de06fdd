"""Inputs that are well-formed but probably unintended give a warning or an error in every command."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from tests.faults.commands import COMMANDS, TEXTS, Command
from tests.faults.oracle import wrong_end
from tests.faults.world import COLUMN_INI, LM_INI, World

_NOT_PAIRED = {"lm-train", "lm-score", "translate", "decode", "decode-lm", "text-table", "rescore"}
_TRANSLATING = {"translate", "decode", "decode-lm"}


def loud(command: Command) -> tuple[str, ...]:
    """Return the arguments without the option that suppresses messages."""
    return tuple(argument for argument in command.argv if argument != "-q")


@dataclass(frozen=True)
class Kind:
    """A kind of probable mistake in an input."""

    change: Callable[[bytes], bytes]
    says: str
    """Regular expression for one line of standard error, a warning or an error message."""


def _each(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return lambda content: b"".join(change(line) + b"\n" for line in content.splitlines())


def _empty_lines(content: bytes) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(b"\n" if number % 3 == 1 else line for number, line in enumerate(lines))


TEXT_KINDS = {
    "empty lines on one side": Kind(_empty_lines, "empty on one side only"),
    "sentence marks": Kind(_each(lambda line: b"<s> " + line + b" </s>"), "<s>"),
    "source and target": Kind(_each(lambda line: line + b" ||| " + line), r"\|"),
    "another language": Kind(_each(lambda line: line[::-1]), "unknown"),
}


def _texts() -> Iterator[tuple[str, str, str]]:
    for name, command in COMMANDS.items():
        for path in sorted(TEXTS & {*command.reads}):
            yield name, path, "sentence marks"
            yield name, path, "source and target"
            if name not in _NOT_PAIRED:
                yield name, path, "empty lines on one side"
            if name in _TRANSLATING:
                yield name, path, "another language"


def judge(world: World, name: str, path: str, kind: Kind, *more: str) -> None:
    """Apply a mistake to an input; one of the command's messages must name it."""
    world.renew()
    place = world.folder / path
    place.write_bytes(kind.change(place.read_bytes()))
    command = COMMANDS[name]
    done = world.run((*loud(command), *more))
    assert not list(wrong_end(done, command))
    said = done.err.decode()
    assert sum(re.search(kind.says, line) is not None for line in said.splitlines()) == 1, (done.code, said)


@pytest.mark.parametrize(("name", "path", "kind"), list(_texts()))
def test_a_text_with_few_usable_lines(world: World, name: str, path: str, kind: str) -> None:
    judge(world, name, path, TEXT_KINDS[kind])


LABEL = Kind(_each(lambda line: line + b" [X]"), r"\[X\]")
ZERO = Kind(
    lambda content: re.sub(rb"(?m)^(\w+=)((?: -?[0-9.]+)+)$", lambda m: m[1] + b" 0" * len(m[2].split()), content),
    "weight",
)


def test_a_word_that_moses_takes_for_a_label(world: World) -> None:
    """`text-table` warns of words that Moses reads as labels if the text is not escaped."""
    judge(world, "text-table", "dev.en", LABEL, "--prepared")


@pytest.mark.parametrize("name", ["decode", "decode-lm", "text-table"])
def test_weights_that_are_all_zero(world: World, name: str) -> None:
    judge(world, name, LM_INI if name == "decode-lm" else COLUMN_INI, ZERO)
