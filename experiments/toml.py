"""Configurations of experiments: TOML files with overrides from the command line and options of commands."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from moses_integration.cli import make_parser as make_toolkit_parser
from phrasescore.cli import lm, make_parser, train
from phrasescore.cli.section_options import given_options
from phrasescore.configuration import Sections, flags_of, options_of
from phrasescore.errors import UserError
from phrasescore.files.documents import parse_toml, read_toml
from phrasescore.plugins import load_plugins
from phrasescore.search_config import SearchConfig
from phrasescore.training.settings import LearnsFrom, Settings

T = TypeVar("T")


def read_values(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read a file; `changes` are lines of TOML such as `build.aligner = "hmm"` that override it.

    Raises:
        UserError: the file cannot be read, or the file or a change is not TOML.
    """
    values = read_toml(path)
    for change in changes:
        for key, value in parse_toml(change.encode(), f"--set {change}").items():
            before = values.get(key, {})
            if isinstance(value, dict) and not isinstance(before, dict):
                raise UserError(f"--set {change}: {key} is no section; give its whole value")
            values[key] = {**before, **value} if isinstance(value, dict) else value
    return values


def command_options(values: Mapping[str, Any], sections: Sections = MappingProxyType({})) -> tuple[str, ...]:
    """Return settings as options of a command: `{seed = 3, clip = 0.5}` is `--seed 3 --set training.clip=0.5`.

    Args:
        values: the settings; names may have hyphens.
        sections: sections of the command, for settings without a flag.
    """
    words: list[str] = []
    for key, value in values.items():
        name, option = key.replace("-", "_"), "--" + key.replace("_", "-")
        homes = [title for title, kind in sections.items() if name in options_of(kind).keys() - flags_of(kind).keys()]
        if homes:
            words += ["--set", f"{homes[0]}.{name}={str(value).lower() if isinstance(value, bool) else value}"]
        elif isinstance(value, bool):
            words.append(option if value else option.replace("--", "--no-", 1))
        else:
            words += [option, str(value)]
    return tuple(words)


def network_settings(options: Sequence[str], place: str, *, learns_from: LearnsFrom = "table") -> Settings:
    """Parse options of `phrasescore train` early, so that errors are reported before an experiment runs.

    Args:
        options: as `command_options` returns them.
        place: location of the options, for messages.
        learns_from: kind of the training data.

    Raises:
        UserError: the command rejects the options.
    """
    sides = {"table": [], "sentences": ["source", "target"], "aligned": ["source", "target", "alignment"]}[learns_from]
    text = [word for side in sides for word in (f"--{side}", "TEXT", f"--validation-{side}", "TEXT")]
    inputs = text or ["TABLE", "--validation", "TABLE"]

    def settings_of(args: argparse.Namespace) -> Settings:
        if sides and args.table is not None:
            raise UserError(f"{args.table} belongs to no option; leave it out")
        load_plugins(args.plugins or [])
        settings = train.settings_of(args)
        settings.check()
        return settings

    return _understood("phrasescore train", [*inputs, *options], settings_of, place)


def check_language_model(options: Sequence[str], place: str) -> None:
    """Check options of `phrasescore lm train`; see `network_settings`."""
    _understood("phrasescore lm train", ["TEXT", "--validation", "TEXT", *options], lm.settings_of, place)


def check_search(options: Sequence[str], place: str) -> None:
    """Check options of `phrasescore translate`; see `network_settings`."""

    def settings_of(args: argparse.Namespace) -> None:
        SearchConfig.checked(given_options(args, SearchConfig))

    _understood("phrasescore translate", ["TEXT", "-m", "MODEL", *options], settings_of, place)


def check_expected_bleu(options: Sequence[str], place: str) -> None:
    """Check options of `phrasescore-smt expected-bleu`; see `network_settings`."""
    _understood("phrasescore-smt expected-bleu", ["INI", *options], lambda args: args, place)


def _understood(command: str, words: Sequence[str], understand: Callable[[argparse.Namespace], T], place: str) -> T:
    """Parse a command line with `understand`; add `place` to errors."""
    program, *names = command.split()
    parser, said = (make_parser if program == "phrasescore" else make_toolkit_parser)(), io.StringIO()
    try:
        with redirect_stderr(said):
            args = parser.parse_args([*names, *words, "-o", "MODEL"])
        return understand(args)
    except SystemExit:
        wrong = said.getvalue().rpartition(f"{command}: ")[2].strip()
        advice = "" if ";" in wrong else f"; `{command} --help` has the options"
        raise UserError(f"{place}: {wrong}{advice}") from None
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
