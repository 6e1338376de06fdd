"""Configurations of experiments: TOML files, with changes from the command line, and options of commands in them."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

from phrasescore.cli import make_parser
from phrasescore.configuration import parse_toml
from phrasescore.errors import UserError
from phrasescore.files import read_bytes


def read_values(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read a file; `changes` are lines of TOML such as `build.aligner = "hmm"` that come after it.

    Raises:
        UserError: it cannot be read or is not TOML, or a change is none.
    """
    values = parse_toml(read_bytes(path), str(path))
    for change in changes:
        for key, value in parse_toml(change.encode(), f"--set {change}").items():
            before = values.get(key, {})
            if isinstance(value, dict) and not isinstance(before, dict):
                raise UserError(f"--set {change}: {key} is no section; give its whole value")
            values[key] = {**before, **value} if isinstance(value, dict) else value
    return values


def command_options(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return settings as options of a command: `{hidden = 3, summary = false}` is `--hidden 3 --no-summary`."""
    words: list[str] = []
    for key, value in values.items():
        name = key.replace("_", "-")
        words += [f"--{name}" if value else f"--no-{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return tuple(words)


def check_options(options: Sequence[str], command: str, place: str) -> None:
    """Check that a command has these options: an experiment must not work for an hour before it learns of a slip.

    Args:
        options: as `command_options` returns them.
        command: of `phrasescore` that they are for, `train` or `lm train`.
        place: where they come from, for errors.

    Raises:
        UserError: the command has no such option, or one does not take its value.
    """
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            make_parser().parse_args([*command.split(), "TEXT", "-o", "MODEL", *options])
    except SystemExit:
        wrong = said.getvalue().rpartition("error: ")[2].strip()
        raise UserError(f"{place}: {wrong}; `phrasescore {command} --help` has the options") from None
