"""Messages for users."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from phrasescore.errors import arg_name, options_spelled_as_flags

ROOT = Path(__file__).parent.parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")
IN_COMMANDS = re.compile(r"`[^`]*`")


def _messages(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the text of each error that a module raises and each line that it logs, commands in backticks left out."""
    for node in ast.walk(ast.parse(module.read_text())):
        call = node.exc if isinstance(node, ast.Raise) else node
        if not isinstance(call, ast.Call):
            continue
        name = getattr(call.func, "attr", getattr(call.func, "id", ""))
        if isinstance(node, ast.Raise) or name in ("log", "UserError", "reject_without_effect"):
            texts = [
                one.value for one in ast.walk(call) if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
            yield call.lineno, IN_COMMANDS.sub("", " ".join(texts))


@pytest.mark.parametrize("package", ["phrasescore", "moses_integration"])
def test_messages_name_options_as_the_caller_gives_them(package: str) -> None:
    """A Python program gives keyword arguments, so no message contains a flag literally; `arg_name` names options."""
    found = {
        f"{module.relative_to(ROOT)}:{line}": text
        for module in (ROOT / package).rglob("*.py")
        for line, text in _messages(module)
        # Only a command line has --set, and `next:` shows a command line.
        if FLAG.search(text.replace("--set ", "")) and "next: " not in text
    }
    assert found == {}


def test_an_option_is_spelled_as_a_flag_for_a_command_line_only() -> None:
    assert (arg_name("in_context"), arg_name("casing", "keep")) == ("in_context", "casing='keep'")
    with options_spelled_as_flags():
        assert (arg_name("in_context"), arg_name("casing", "keep")) == ("--in-context", "--casing keep")
