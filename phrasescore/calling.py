"""Call commands as Python functions. Keyword arguments are the options that the parser declares."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from phrasescore.cli.console import listening
from phrasescore.cli.options import path_or_standard_stream
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import run_with_plugins
from phrasescore.configuration import is_several, require_known
from phrasescore.files import STANDARD_STREAM
from phrasescore.text import Log, ProgressCallback

_SIGNALLED = 128
"""Higher exit codes mean that a signal has interrupted the command."""


def call(parser: CommandParser, command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback) -> None:
    """Run a command, such as `lm train`, with options by name; None omits an option, an unknown one is a TypeError.

    `log` receives each line that the command would print, `progress` the completed fraction (None if unknown) and a
    text.
    """
    with listening(log, progress):
        arguments = _arguments(parser, command, options)
        code = run_with_plugins(parser.parse_args([*command.split(), *arguments]))
    if code > _SIGNALLED:
        # `train` saves its state and returns when it is interrupted.
        raise KeyboardInterrupt


def _arguments(parser: CommandParser, command: str, options: Mapping[str, Any]) -> list[str]:
    for name in command.split():
        (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
        parser = commands.choices[name]
    actions = {action.dest: action for action in parser._actions}
    settings = {name.rpartition(".")[2]: name for name in parser.setting_names()}
    require_known(re.sub("[- ]", "_", command), options, {**actions, **settings})
    values = {name: value for name, value in options.items() if value is not None}
    changes = [f"--set={settings[name]}={_toml(values.pop(name))}" for name in settings.keys() & values.keys()]
    given = [(actions[name], value) for name, value in values.items()]
    # Positional arguments come first, because an option before them could consume them as its values.
    positional = [text for action, value in given if not action.option_strings for text in _texts(action, value)]
    optional = [text for action, value in given if action.option_strings for text in _option(action, value)]
    return [*positional, *optional, *changes]


def _toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _option(action: argparse.Action, value: Any) -> Iterator[str]:
    long = [name for name in action.option_strings if name.startswith("--")]
    name = long[0]
    if isinstance(action, argparse.BooleanOptionalAction):
        yield long[0] if value else long[-1]
    elif action.nargs == 0:
        yield from [name] if value else []
    elif action.nargs is None:
        yield from (f"{name}={text}" for text in _texts(action, value))
    else:
        yield from (name, *_texts(action, value))


def _texts(action: argparse.Action, value: Any) -> list[str]:
    values = value if is_several(value) else [value]
    takes_paths = action.type in (Path, path_or_standard_stream)
    # A path that begins with a hyphen must not look like an option.
    return [
        f"./{one}"
        if str(one).startswith("-") and (isinstance(one, Path) or (takes_paths and one != STANDARD_STREAM))
        else str(one)
        for one in values
    ]
