"""The README does not promise what the commands do not have."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from moses_integration.cli import make_parser
from phrasescore.training.presets import PRESETS

README = (Path(__file__).parents[1] / "README.md").read_text()


@pytest.mark.parametrize("command", ["train", "translate", "annotate", "score", "check", "inspect"])
def test_options_in_the_readme_exist(command: str) -> None:
    section = README.split(f"### {command}\n")[1].split("\n##")[0]
    named = set(re.findall(r"--[a-z][a-z-]*", section))
    done = subprocess.run(
        [sys.executable, "-m", "phrasescore", command, "--help"], capture_output=True, text=True, check=True
    )
    known = set(re.findall(r"--[a-z][a-z-]*", done.stdout))
    assert named - known == set()


def test_options_of_the_toolkit_in_the_readme_exist() -> None:
    section = README.split("### phrasescore-smt\n")[1].split("\n##")[0]
    for line in re.findall(r"^    phrasescore-smt (.*)$", section, re.MULTILINE):
        command = line.split()[0]
        parser = make_parser()._subparsers
        assert parser is not None
        choices = parser._group_actions[0].choices
        assert isinstance(choices, dict)
        known = set(re.findall(r"--[a-z][a-z-]*", choices[command].format_help()))
        assert set(re.findall(r"--[a-z][a-z-]*", line)) - known == set()


def test_every_preset_is_described() -> None:
    for preset in PRESETS:
        assert f"| `{preset}`" in README
