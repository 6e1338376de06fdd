"""The documentation mentions only options and commands that exist."""

from __future__ import annotations

import argparse
import ast
import importlib
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from textwrap import indent
from typing import NoReturn

import pytest

import phrasescore
from experiments.pages.commands import PROGRAMS, commands
from phrasescore.training.settings import PRESETS, SECTIONS, preset_names

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES = [*DOCS, *sorted((ROOT / "experiments").rglob("*.md"))]
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
TRAINING = (ROOT / "docs" / "training.md").read_text()
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
OF_OTHER_PROGRAMS = {
    *("--editable", "--index-url"),
    *("--input-pt", "--num-scores", "--output-dir"),
    *("--mertdir", "--working-dir"),
    *("--memory-limit", "--nthreads", "--nworkers", "--scheduler-file"),
    *("--array", "--wrap", "--cpus-per-task", "--gpus-per-node", "--nodes", "--ntasks", "--ntasks-per-node"),
    *("--master-port", "--max-restarts", "--nnodes", "--nproc-per-node", "--standalone"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id"),
}
"""Options of pip, Moses' table converters, mert-moses.pl, Dask, Slurm and torchrun."""


def options_of(parser: argparse.ArgumentParser, words: Sequence[str] = ()) -> set[str]:
    """Return the options of a command, such as `lm train ...`, and of its subcommands."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            if words and words[0] in action.choices:
                return options_of(action.choices[words[0]], words[1:])
            assert not words or words[0].startswith("-"), f"there is no command {words[0]}"
            return set().union(own_options(parser), *(options_of(one) for one in action.choices.values()))
    return own_options(parser)


def own_options(parser: argparse.ArgumentParser) -> set[str]:
    """Return the options that the parser itself accepts."""
    return {option for action in parser._actions for option in action.option_strings}


class Asked(Exception):
    """Carries a parser out of the program that built it."""


def parser_of(module: str) -> argparse.ArgumentParser:
    """Return the parser of a program that runs as `python -m module`."""
    spec = find_spec(module)
    assert spec is not None, module
    program = importlib.import_module(f"{module}.__main__" if spec.submodule_search_locations else module)
    start: Callable[[], object] | None = getattr(program, "main", None) or getattr(program, "parse_arguments", None)
    assert start is not None, f"{module} cannot be asked for its options"

    def hand_over(parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        raise Asked(parser)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(argparse.ArgumentParser, "parse_args", hand_over)
        with pytest.raises(Asked) as asked:
            start()
    parser: argparse.ArgumentParser = asked.value.args[0]
    return parser


def experiment_modules() -> list[str]:
    """Return all modules below experiments/ that are programs."""
    programs = (path for path in (ROOT / "experiments").rglob("*.py") if "__name__ ==" in path.read_text())
    return sorted(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__") for path in programs)


def examples(text: str) -> list[str]:
    """Return the command lines of a page, indented or fenced, with continuation lines."""
    fences = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    indented = fences.sub(lambda fence: indent(fence[1], "    "), text)
    joined = re.sub(r"\\?\n {5,}", " ", indented)
    lines = re.findall(r"^    (?:.*\| )?(phrasescore(?:-smt)? [a-z].*)$", joined, re.MULTILINE)
    return [line.split("  #")[0] for line in lines]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_examples_exist(page: Path) -> None:
    for line in examples(page.read_text()):
        program, *words = line.split()
        assert set(OPTION.findall(line)) - options_of(PROGRAMS[program](), words) == set(), line


def experiments(text: str) -> list[str]:
    """Return module and options of the experiments' command lines, in blocks and in running text."""
    blocks = re.findall(r"^(?:    )?python -m (experiments.*)$", text, re.MULTILINE)
    return [*blocks, *re.findall(r"`python -m (experiments[^`]*)`", text.replace("\n", " "))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_options_of_experiments_exist(page: Path) -> None:
    for line in experiments(page.read_text()):
        module, *words = line.split()
        assert set(OPTION.findall(line)) - options_of(parser_of(module), words) == set(), line


def test_there_are_examples() -> None:
    assert len(set(OPTION.findall(COMMANDS))) > 5
    assert len(experiments((ROOT / "docs" / "experiments.md").read_text())) > 5
    assert len(examples(PAGES[0].read_text())) > 10
    assert len(examples(COMMANDS)) >= 5


@pytest.fixture(scope="module")
def every_option() -> set[str]:
    """Return the options of all programs."""
    parsers = [*(make() for make in PROGRAMS.values()), *map(parser_of, experiment_modules())]
    return set().union(*map(options_of, parsers))


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_options_in_pages_exist(page: Path, every_option: set[str]) -> None:
    assert set(OPTION.findall(page.read_text())) - every_option - OF_OTHER_PROGRAMS == set()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.stem)
def test_python_in_pages_is_valid_and_public(page: Path) -> None:
    for code in re.findall(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        ast.parse(code)
        called = set(re.findall(r"(?<!import )\bphrasescore\.(\w+)\(", code))
        imports = re.findall(r"^from phrasescore import (.*)$", code, re.MULTILINE)
        assert called.union(*(line.split(", ") for line in imports)) <= {*phrasescore.__all__}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_modules_in_pages_exist(page: Path) -> None:
    for name in re.findall(r"`((?:phrasescore|moses_integration|experiments)/[\w/]+\.py)`", page.read_text()):
        assert (ROOT / name).exists(), name


COMMANDS_OF = {f"{program} {one.name}": one.parser for program in PROGRAMS for one in commands(PROGRAMS[program]())}


@pytest.mark.parametrize("name", COMMANDS_OF)
def test_help_ends_with_examples_and_the_address_of_the_documentation(name: str) -> None:
    parser = COMMANDS_OF[name]
    anchor = name.partition(" ")[2].replace(" ", "-")
    assert parser.format_help().endswith(f"{parser.examples[-1]}\n\ndocumentation: docs/commands.md#{anchor}\n")
    assert f"\n### {anchor.replace('-', ' ')}\n" in COMMANDS or f"\n### {anchor}\n" in COMMANDS


@pytest.mark.parametrize("name", COMMANDS_OF)
def test_examples_are_commands(name: str) -> None:
    """Every example parses as a command line."""
    lines = [part.strip() for example in COMMANDS_OF[name].examples for part in example.split(" | ")]
    commands_of_this = [shlex.split(re.sub(r" [<>] \S+", "", line)) for line in lines if line.startswith("phrasescore")]
    assert any(words[: len(name.split())] == name.split() for words in commands_of_this)
    for program, *words in commands_of_this:
        PROGRAMS[program]().parse_args(words)


def test_every_preset_is_described() -> None:
    for preset in preset_names(PRESETS):
        assert f"| `{preset}`" in TRAINING


def test_every_section_of_settings_is_described() -> None:
    for section in SECTIONS:
        assert f"`[{section}]`" in TRAINING


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_bare_make_prints_the_targets() -> None:
    shown = subprocess.run(["make"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    assert {line.split()[1] for line in shown.splitlines()} >= {"demo", "test", "docs", "check", "pages"}
