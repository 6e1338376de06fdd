"""Configurations of experiments: TOML files, with changes from the command line, and options of commands in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
