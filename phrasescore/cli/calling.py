"""Call commands as Python functions. Keyword arguments are the options that the parser declares."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Mapping
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from phrasescore.cli.console import listening
from phrasescore.cli.options import run_with_plugins
from phrasescore.configuration import suggestion
from phrasescore.text import Log, ProgressCallback


def call(
    parser: argparse.ArgumentParser, command: str, options: Mapping[str, Any], log: Log, progress: ProgressCallback
) -> None:
    """Run a command.

    Args:
        parser: the parser of the program.
        command: name of the command.
        options: option values by name, with underscores; None omits an option.
        log: callback for each line that the command would print.
        progress: callback for the completed fraction (None if unknown) and a status text.

    Raises:
        TypeError: an option does not exist.
        UserError: a value is invalid, or the command fails.
    """
    printed = io.StringIO()
    with listening(log, progress), redirect_stdout(printed):
        arguments = _arguments(_subparser(parser, command), command, options)
        run_with_plugins(parser.parse_args([command, *arguments]))
    for line in printed.getvalue().splitlines():
        log(line)


def _subparser(parser: argparse.ArgumentParser, command: str) -> argparse.ArgumentParser:
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    found: argparse.ArgumentParser = commands.choices[command]
    return found


def _arguments(parser: argparse.ArgumentParser, command: str, options: Mapping[str, Any]) -> list[str]:
    actions = {action.dest: action for action in parser._actions}
    for name in options:
        if name not in actions:
            raise TypeError(f"{command.replace('-', '_')}() has no option `{name}`; {suggestion(name, actions)}")
    given = [(actions[name], value) for name, value in options.items() if value is not None]
    # Positional arguments come first, because an option before them could consume them as its values.
    positional = [text for action, value in given if not action.option_strings for text in _texts(value)]
    optional = [text for action, value in given if action.option_strings for text in _option(action, value)]
    return [*positional, *optional]


def _option(action: argparse.Action, value: Any) -> Iterator[str]:
    long = [name for name in action.option_strings if name.startswith("--")]
    name = long[0]
    if isinstance(action, argparse.BooleanOptionalAction):
        yield long[0] if value else long[-1]
    elif action.nargs == 0:
        yield from [name] if value else []
    elif action.nargs is None:
        yield from (f"{name}={text}" for text in _texts(value))
    else:
        yield from (name, *_texts(value))


def _texts(value: Any) -> list[str]:
    values = value if isinstance(value, list | tuple) else [value]
    # A path that begins with a hyphen must not look like an option.
    return [f"./{one}" if isinstance(one, Path) and str(one).startswith("-") else str(one) for one in values]
