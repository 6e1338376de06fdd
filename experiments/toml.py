"""Configurations of experiments: TOML files, with changes from the command line, and options of commands in them."""

from __future__ import annotations

import argparse
import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr
from pathlib import Path
from typing import Any, Literal

from moses_integration.cli import make_parser as make_toolkit_parser
from phrasescore.cli import make_parser, train
from phrasescore.cli.lm import train as lm_train
from phrasescore.documents import parse_toml, read_toml
from phrasescore.errors import UserError
from phrasescore.lm.training import LmSettings
from phrasescore.plugins import load_plugins
from phrasescore.training.run import Settings


def read_values(path: Path, changes: Sequence[str] = ()) -> dict[str, Any]:
    """Read a file; `changes` are lines of TOML such as `build.aligner = "hmm"` that come after it.

    Raises:
        UserError: it cannot be read or is not TOML, or a change is none.
    """
    values = read_toml(path)
    for change in changes:
        for key, value in parse_toml(change.encode(), f"--set {change}").items():
            before = values.get(key, {})
            if isinstance(value, dict) and not isinstance(before, dict):
                raise UserError(f"--set {change}: {key} is no section; give its whole value")
            values[key] = {**before, **value} if isinstance(value, dict) else value
    return values


def are_distinct(values: Any, kind: type) -> bool:
    """Return whether these are one value or several of a type, all different."""
    # By its type, for a truth value is a whole number too.
    is_list = isinstance(values, list) and all(type(value) is kind for value in values)
    return is_list and 0 < len(values) == len(set(values))


def read_seeds(values: Any, place: str) -> tuple[int, ...]:
    """Return the seeds of tuning.

    Raises:
        UserError: they are none; `place` says where they come from.
    """
    if not are_distinct(values, int) or min(values) < 0:
        raise UserError(f"{place}: seeds is {values!r}; give different whole numbers, as in [1, 2, 3]")
    return tuple(values)


def command_options(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return settings as options of a command: `{hidden = 3, summary = false}` is `--hidden 3 --no-summary`."""
    words: list[str] = []
    for key, value in values.items():
        name = key.replace("_", "-")
        words += [f"--{name}" if value else f"--no-{name}"] if isinstance(value, bool) else [f"--{name}", str(value)]
    return tuple(words)


LearnsFrom = Literal["table", "sentences", "aligned"]
"""A phrase table, parallel text, or phrase pairs in word-aligned text."""


def network_settings(options: Sequence[str], place: str, *, learns_from: LearnsFrom = "table") -> Settings:
    """Return what `phrasescore train` makes of its options: an experiment must not work for an hour before it does.

    Args:
        options: as `command_options` returns them.
        place: where they come from, for errors.
        learns_from: what it is trained on.

    Raises:
        UserError: the command refuses them.
    """
    sides = {"table": [], "sentences": ["source", "target"], "aligned": ["source", "target", "alignment"]}[learns_from]
    text = [word for side in sides for word in (f"--{side}", "TEXT", f"--validation-{side}", "TEXT")]
    text = text or ["TABLE", "--validation", "TABLE"]
    with _said_of(place):
        args = _parsed("train", [*text, *options])
        if sides and args.table is not None:
            raise UserError(f"{args.table} belongs to no option; leave it out")
        return train.settings_of(args)


def language_model_settings(options: Sequence[str], place: str) -> LmSettings:
    """Return what `phrasescore lm train` makes of its options; see `network_settings`.

    Raises:
        UserError: the command refuses them.
    """
    with _said_of(place):
        return lm_train.settings_of(_parsed("lm train", ["TEXT", "--validation", "TEXT", *options]))


def check_expected_bleu(options: Sequence[str], place: str) -> None:
    """Check options of `phrasescore-smt expected-bleu`; see `network_settings`.

    Raises:
        UserError: the command refuses them.
    """
    with _said_of(place):
        _read("expected-bleu", ["INI", *options], make_toolkit_parser(), "phrasescore-smt")


def _parsed(command: str, words: Sequence[str]) -> argparse.Namespace:
    args = _read(command, words, make_parser(), "phrasescore")
    load_plugins(args.plugins or [])
    return args


def _read(command: str, words: Sequence[str], parser: argparse.ArgumentParser, program: str) -> argparse.Namespace:
    said = io.StringIO()
    try:
        with redirect_stderr(said):
            return parser.parse_args([*command.split(), *words, "-o", "MODEL"])
    except SystemExit:
        wrong = said.getvalue().rpartition(f"{program} {command}: ")[2].strip()
        advice = "" if ";" in wrong else f"; `{program} {command} --help` has the options"
        raise UserError(f"{wrong}{advice}") from None


@contextmanager
def _said_of(place: str) -> Iterator[None]:
    """Say in an error where the options come from."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{place}: {error}") from None
