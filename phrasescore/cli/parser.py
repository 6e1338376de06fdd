"""The parser of the command lines: messages about wrong usage, and help that begins with the most used options."""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn, TypeAlias

from phrasescore.cli.console import as_line, is_called
from phrasescore.configuration import nearest, suggestion
from phrasescore.errors import UsageError
from phrasescore.files import STANDARD_STREAM

_ELSEWHERE = {
    "--dev": ("--validation", "--source"),
    "--valid": ("--validation", "--source"),
    "--src": ("--source",),
    "--tgt": ("--target", "--reference"),
    "--lr": ("--learning-rate",),
    "--gpu": ("--device",),
    "--threads": ("--processes",),
}
"""Options of other tools and the equivalent options, for suggestions that spelling does not give."""


_DOCUMENTATION = "docs/commands.md"
"""The page of the repository that has the reference of all commands."""
_EXPERIMENTS = "docs/experiments.md"
"""The page about the programs started by `python -m experiments...`."""


class CommandParser(argparse.ArgumentParser):
    """Parses the options of a program or of one of its commands.

    The message about wrong usage is one line of usage and one sentence, which suggests the nearest name. Options cannot
    be abbreviated, because a new option would change the meaning of an abbreviation. An option with one value is an
    error if it is given twice, because argparse would drop the first value silently.
    """

    def __init__(
        self, *args: Any, most_used: Sequence[str] = (), examples: Sequence[str] = (), **settings: Any
    ) -> None:
        """Make a parser.

        Args:
            args: arguments of `argparse.ArgumentParser`.
            most_used: names of the arguments that --help lists; --help-all lists all.
            examples: example command lines at the end of the help.
            settings: keyword arguments of `argparse.ArgumentParser`.
        """
        super().__init__(*args, **{"allow_abbrev": False, "formatter_class": _ShortUsage, **settings})
        self.most_used, self.examples = most_used, examples
        self._given: set[argparse.Action] = set()
        self.settings: list[argparse.Action] = []
        # Without `most_used`, --help already lists all.
        text = "show all options and exit" if most_used else argparse.SUPPRESS
        self.add_argument("--help-all", action=_HelpAll, help=text)

    def add_setting(self, form: str, text: str) -> None:
        """Let --help-all list a setting that has no flag."""
        self.settings.append(argparse.Action([], form, metavar=form, help=text))

    def setting_names(self) -> list[str]:
        """Return the settings, such as `model.attention`."""
        return [str(setting.metavar).partition("=")[0] for setting in self.settings]

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and reject unknown arguments here, where the command is known."""
        args = sys.argv[1:] if args is None else args
        self._given.clear()
        self._reject_unknown_options(args)
        known, others = super().parse_known_args(args, namespace)
        if others:
            self.error(f"`{others[0]}` is one argument too many; `{self.prog} --help` lists the options")
        return known, others

    def _reject_unknown_options(self, arguments: Sequence[str]) -> None:
        """Reject unknown options before argparse reports missing ones."""
        for argument in arguments:
            if argument == "--" or (self._subparsers is not None and not argument.startswith("-")):
                return  # The following options belong to a subcommand.
            if not argument.startswith("-") or argument == STANDARD_STREAM or " " in argument:
                continue
            name = argument.partition("=")[0] if argument.startswith("--") else argument[:2]
            if name in self._option_string_actions or name[1].isdecimal() or name[1] == ".":
                continue
            near = self._meant(name) if name.startswith("--") else None
            advice = f"did you mean `{near}`?" if near else f"`{self.prog} --help` lists the options"
            self.error(f"{name}: is not an option; {advice}")

    def _meant(self, name: str) -> str | None:
        """Return the option of this command that was probably meant by a name."""
        # Compare without dashes, which would make short names similar.
        names = {option.removeprefix("--"): option for option in self._option_string_actions if option.startswith("--")}
        near = names.get(nearest(name.removeprefix("--"), names) or "")
        return next((one for one in _ELSEWHERE.get(name, ()) if one in names.values()), near)

    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        if action.option_strings and not _may_repeat(action):
            if action in self._given:
                raise argparse.ArgumentError(action, "is given twice; give it once")
            self._given.add(action)
        return super()._get_values(action, arg_strings)

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            return super()._get_value(action, arg_string)
        except argparse.ArgumentError as error:
            if not isinstance(error.__context__, ValueError):
                raise
            # The metavar of integer options is N.
            wanted = "a whole number" if action.metavar == "N" else "a number"
            raise argparse.ArgumentError(action, f"`{arg_string}` is not {wanted}; give one") from None

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            names = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(action, f"`{value}` is not a valid choice; {suggestion(str(value), names)}")

    def error(self, message: str) -> NoReturn:
        """Print the usage and the error, and exit; raise `UsageError` if called by a Python program."""
        usage = " ".join(self.format_usage().split())
        wrong = message.removeprefix("argument ")
        if is_called():
            option, _, fault = wrong.partition(": ")
            action = self._option_string_actions.get(option.rpartition("/")[2])
            raise UsageError(wrong if action is None else f"{action.dest}: {fault}")
        # Early releases of Python 3.11 do not catch the error if standard error is full.
        with suppress(OSError):
            self._print_message(f"{usage}\n{as_line(f'{self.prog}: {wrong}')}\n", sys.stderr)
        self.exit(2)

    def format_help(self) -> str:
        """Return the help of the most used options if they are declared, otherwise of all options."""
        if not self.most_used:
            return self.format_full_help()
        by_name = {action.dest: action for action in self._actions}
        formatter = self._get_formatter()
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups)
        formatter.add_text(self.description)
        formatter.start_section("most used")
        formatter.add_arguments(by_name[name] for name in (*self.most_used, "help", "help_all"))
        formatter.end_section()
        return formatter.format_help() + self._shown_examples()

    def format_full_help(self) -> str:
        """Return the help of all options."""
        return super().format_help() + self._shown_settings() + self._shown_examples()

    def _shown_settings(self) -> str:
        if not self.settings:
            return ""
        formatter = self._get_formatter()
        formatter.start_section("settings of --set, and of the sections of --config")
        formatter.add_arguments(self.settings)
        formatter.end_section()
        return "\n" + formatter.format_help()

    def _shown_examples(self) -> str:
        examples = "".join(("\nexamples:\n", *(f"  {line}\n" for line in self.examples))) if self.examples else ""
        program, _, command = self.prog.partition(" ")
        page = _EXPERIMENTS if program == "python" else _DOCUMENTATION + (command and f"#{command.replace(' ', '-')}")
        return f"{examples}\ndocumentation: {page}\n"


Subparsers: TypeAlias = "argparse._SubParsersAction[CommandParser]"
"""The parsers of the commands of a program, to which each command adds its own."""


def _may_repeat(action: argparse.Action) -> bool:
    """Return whether an option collects values or is a switch."""
    is_either = isinstance(action, argparse.BooleanOptionalAction)
    return isinstance(action, argparse._AppendAction) or (action.nargs == 0 and not is_either)


class _ShortUsage(argparse.HelpFormatter):
    """Shows only required arguments in the line of usage, and options last, because they may take several values."""

    def add_usage(
        self,
        usage: str | None,
        actions: Iterable[argparse.Action],
        groups: Iterable[argparse._MutuallyExclusiveGroup],
        prefix: str | None = None,
    ) -> None:
        """Add the usage without optional arguments."""
        either = [group for group in groups if group.required]
        of_either = {id(action) for group in either for action in group._group_actions}
        positional = [one for one in actions if not one.option_strings]
        options = [one for one in actions if one.option_strings and (one.required or id(one) in of_either)]
        others = argparse.Action(["options"], "options", nargs=0)
        parts = [_form_of(positional, []), _form_of([others, *options], either)]
        if any(isinstance(one, argparse._SubParsersAction) for one in positional):
            parts.reverse()
        text = " ".join(part for part in (self._prog, *parts) if part)
        wrapped = textwrap.fill(text, self._width - len("usage: "), subsequent_indent="    ", break_long_words=False)
        super().add_usage(wrapped.replace("%", "%%"), actions, groups, prefix)


def _form_of(actions: Sequence[argparse.Action], groups: Sequence[argparse._MutuallyExclusiveGroup]) -> str:
    """Return arguments in the notation of a line of usage."""
    formatter = argparse.HelpFormatter("", width=10_000)
    formatter.add_usage(None, actions, groups, "")
    return formatter.format_help().strip()


class _HelpAll(argparse.Action):
    """Prints the help of all options."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, default=argparse.SUPPRESS, **settings)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Print the help and exit."""
        assert isinstance(parser, CommandParser)
        print(parser.format_full_help(), end="")
        parser.exit()
