"""The reference of the commands, made from their parsers."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from experiments.markdown import as_markdown
from moses_integration.cli import make_parser as make_toolkit_parser
from phrasescore.cli import make_parser
from phrasescore.cli.parser import CommandParser

PROGRAMS: dict[str, Callable[[], CommandParser]] = {"phrasescore": make_parser, "phrasescore-smt": make_toolkit_parser}
_DEFAULT = " (default: "
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def reference(program: str) -> str:
    """Return the sections of a program: purpose, usage, options and examples of each command."""
    found = list(commands(PROGRAMS[program]()))
    summary = [(f"[{one.name}](#{one.name.replace(' ', '-')})", _inline(one.purpose)) for one in found]
    return "\n".join([as_markdown(("command", "purpose"), summary), *map(_section, found)])


@dataclass(frozen=True)
class Command:
    """A command of a program."""

    name: str
    """With the words before it, such as `lm train`."""
    purpose: str
    """Its line in the help of the program."""
    parser: CommandParser


def commands(parser: argparse.ArgumentParser, before: str = "") -> Iterator[Command]:
    """Yield the commands of a program; subcommands are separate commands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for listed, (name, command) in zip(action._choices_actions, action.choices.items(), strict=True):
                below = list(commands(command, f"{before}{name} "))
                yield from below or [Command(f"{before}{name}", listed.help or "", command)]


def _section(command: Command) -> str:
    parser = command.parser
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    shown = [action for action in parser._actions if action.help != argparse.SUPPRESS and action.dest != "help"]
    most = [action for action in shown if action.dest in parser.most_used]
    parts = [f"### {command.name}\n", f"{_inline(parser.description or '')}\n", f"```text\n{usage}\n```\n"]
    if most:
        parts += ["Most used:\n", _table(parser, most), "All other options:\n"]
    parts.append(_table(parser, (action for action in shown if action not in most)))
    if parser.settings:
        parts += ["Settings of `--set`, and of the sections of `--config`:\n", _table(parser, parser.settings)]
    if parser.examples:
        lines = "\n".join(parser.examples)
        parts.append(f"```sh\n{lines}\n```\n")
    return "\n".join(parts)


def _table(parser: CommandParser, actions: Iterable[argparse.Action]) -> str:
    return as_markdown(("option", "default", "description"), (_row(parser, action) for action in actions))


def _row(parser: CommandParser, action: argparse.Action) -> tuple[str, str, str]:
    formatter = parser._get_formatter()
    # With spaces, because a browser breaks no line after a comma.
    values = formatter._format_args(action, formatter._get_default_metavar_for_optional(action)).replace(",", ", ")
    names = list(action.option_strings) or [values]
    if action.option_strings and action.nargs != 0:
        names[-1] += f" {values}"
    text, has_default, default = formatter._expand_help(action).rpartition(_DEFAULT)
    if not has_default:
        text, default = default, "required" if action.required else ""
    return ", ".join(f"`{name}`" for name in names), _inline(default.removesuffix(")")), _inline(text)


def _inline(text: str) -> str:
    """Convert help text to Markdown: format options as code and escape special characters."""
    parts = text.split("`")
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = f"`{part}`"
        else:
            escaped = re.sub(r"[*_\[\]]", r"\\\g<0>", part).replace("&", "&amp;").replace("<", "&lt;")
            parts[index] = _OPTION.sub(r"`\g<0>`", escaped)
    return "".join(parts)
