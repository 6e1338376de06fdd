"""The documentation does not promise what the commands do not have."""

from __future__ import annotations

import argparse
import importlib
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from moses_integration.cli import make_parser as make_toolkit_parser
from phrasescore.cli import make_parser
from phrasescore.cli.train import _SECTIONS as SECTIONS
from phrasescore.training.presets import PRESETS

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")


def options_of(words: list[str]) -> set[str]:
    """The options of a command given as `phrasescore lm train ...`."""
    parser = {"phrasescore": make_parser, "phrasescore-smt": make_toolkit_parser}[words[0]]()
    for word in words[1:]:
        choices = [one.choices for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not choices:
            break
        parser = choices[0][word]
    return set(OPTION.findall(parser.format_help()))


def examples(text: str) -> list[str]:
    """The command lines of a page, each with the lines that continue it."""
    joined = re.sub(r"\n {5,}", " ", text)
    lines = re.findall(r"^    (?:.*\| )?(phrasescore(?:-smt)? [a-z].*)$", joined, re.MULTILINE)
    return [line.split("  #")[0] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_examples_exist(page: Path) -> None:
    for line in examples(page.read_text()):
        assert set(OPTION.findall(line)) - options_of(line.split()) == set(), line


def experiments(text: str) -> list[str]:
    """The command lines of experiments, in blocks or inside a line, by module and options."""
    blocks = re.findall(r"^    python -m (experiments.*)$", text, re.MULTILINE)
    return [*blocks, *re.findall(r"`python -m (experiments[^`]*)`", text.replace("\n", " "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_experiments_exist(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for line in experiments(page.read_text()):
        name = line.split()[0]
        spec = find_spec(name)
        assert spec is not None, line
        module = importlib.import_module(f"{name}.__main__" if spec.submodule_search_locations else name)
        if hasattr(module, "parse_arguments"):
            monkeypatch.setattr("sys.argv", [name, "--help"])
            with pytest.raises(SystemExit):
                module.parse_arguments()
            assert set(OPTION.findall(line)) - set(OPTION.findall(capsys.readouterr().out)) == set(), line


def test_there_are_examples() -> None:
    assert len(experiments((ROOT / "docs" / "experiments.md").read_text())) > 8
    assert len(examples(PAGES[0].read_text())) > 10
    assert len(examples(COMMANDS)) > 15


@pytest.mark.parametrize("command", ["train", "translate", "annotate", "score", "check", "inspect"])
def test_options_in_the_text_exist(command: str) -> None:
    section = COMMANDS.split(f"\n## {command}\n")[1].split("\n## ")[0]
    assert set(OPTION.findall(section)) - options_of(["phrasescore", command]) == set()


def test_every_preset_is_described() -> None:
    for preset in PRESETS:
        assert f"| `{preset}`" in COMMANDS
    assert f"[--preset {'|'.join(PRESETS)}]" in COMMANDS


def test_every_section_of_settings_is_described() -> None:
    for section in SECTIONS:
        assert f"`[{section}]`" in COMMANDS


def test_every_option_of_translate_is_in_its_synopsis() -> None:
    """Those that are there for a reader of the help alone are not."""
    synopsis = next(line for line in examples(COMMANDS) if line.startswith("phrasescore translate"))
    left_out = {"--help", "--no-forbid-unknown", "--no-replace-unknown", "--no-sample"}
    named = {"--model": "-m", "--output": "-o", "--quiet": "-q"}
    options = options_of(["phrasescore", "translate"]) - left_out
    assert {option for option in options if named.get(option, option) not in synopsis} == set()
