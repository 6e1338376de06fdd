"""Usage messages, help and completion."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moses_integration.cli import main as smt
from phrasescore.cli import main as phrasescore
from phrasescore.cli.parser import CommandParser
from tests.cli.running import ENVIRONMENT, run

TRAIN = "train [TABLE] [options] -o FOLDER"
BUILD = "build [options] --source TEXT --target TEXT -o FOLDER"
DID_YOU_MEAN_HIDDEN = " train: --hiden: is not an option; did you mean `--hidden`?"


@pytest.mark.parametrize(
    ("arguments", "usage", "sentence"),
    [
        ("", "[options] COMMAND ...", ": the following arguments are required: COMMAND"),
        ("trian", "[options] COMMAND ...", ": COMMAND: `trian` is not a valid choice; did you mean `train`?"),
        ("train t --hiden 3", TRAIN, DID_YOU_MEAN_HIDDEN),
        ("train t -o f --hiden=3", TRAIN, DID_YOU_MEAN_HIDDEN),
        ("train t -o f --max-m 3", TRAIN, " train: --max-m: is not an option; did you mean `--max-minutes`?"),
        ("train t -o f --dev v", TRAIN, " train: --dev: is not an option; did you mean `--validation`?"),
        (
            "lm score t --lr 1",
            "lm score [TEXT] [options] -m FOLDER",
            " lm score: --lr: is not an option; `phrasescore lm score --help` lists the options",
        ),
        ("train t -o f --preset smal", TRAIN, " train: --preset: `smal` is not a valid choice; did you mean `small`?"),
        (
            "train t -o f g",
            TRAIN,
            " train: `g` is one argument too many; `phrasescore train --help` lists the options",
        ),
        ("train t -o f --hidden 64,64", TRAIN, " train: --hidden: `64,64` is not a whole number; give one"),
        ("train t -o f --dropout half", TRAIN, " train: --dropout: `half` is not a number; give one"),
        ("train t", TRAIN, " train: the following arguments are required: -o/--output"),
        (
            "score -x",
            "score [PAIRS] [options] -m FOLDER",
            " score: -x: is not an option; `phrasescore score --help` lists the options",
        ),
        ("train t -o f --hidden 64 --seed 1 --hidden=32", TRAIN, " train: --hidden: is given twice; give it once"),
        ("train t -o f -of", TRAIN, " train: -o/--output: is given twice; give it once"),
        ("lm", "lm [options] COMMAND ...", " lm: the following arguments are required: COMMAND"),
        ("lm trian", "lm [options] COMMAND ...", " lm: COMMAND: `trian` is not a valid choice; did you mean `train`?"),
    ],
)
def test_wrong_usage(arguments: str, usage: str, sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A usage error prints one usage line and one sentence that suggests the most similar name."""
    with pytest.raises(SystemExit) as end:
        phrasescore(arguments.split())
    assert end.value.code == 2
    assert capsys.readouterr().err == f"usage: phrasescore {usage}\nphrasescore{sentence}\n"


def test_an_option_with_a_list_and_a_switch_may_be_given_twice(capsys: pytest.CaptureFixture[str]) -> None:
    """Repeated list options are concatenated and repeated switches are accepted.

    The command itself then reports that the folders do not exist.
    """
    assert phrasescore(["annotate", "t", "--quiet", "-m", "no_folder", "-m", "no_other", "-o", "f", "--quiet"]) == 1
    assert "no_folder" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["decode", "ems-hook"])
def test_every_program_and_command_has_the_rule(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """An option that takes one value may not be repeated, whatever its number of arguments."""
    twice = {"decode": "i -o f --nbest a 5 --nbest b 5", "ems-hook": "a b -m f --train A --train B"}[command]
    with pytest.raises(SystemExit) as end:
        smt([command, *twice.split()])
    assert end.value.code == 2
    assert "is given twice; give it once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "usage", "sentence"),
    [
        ("", "[options] COMMAND ...", ": the following arguments are required: COMMAND"),
        (
            "rescore -o o --wieghts w",
            "rescore [options] --nbest FILE --source TEXT -o FILE (--reference TEXT [TEXT ...] | --weights FILE)",
            " rescore: --wieghts: is not an option; did you mean `--weights`?",
        ),
        ("build --source a --target b -o o --order 9", BUILD, " build: --order: is 9; give at most 6"),
        (
            "build --source a --target b -o o --longest-phrase 0",
            BUILD,
            " build: --longest-phrase: is 0; give at least 1",
        ),
        # A number below zero is no option.
        (
            "tune i --source s --reference r -o o --restarts -1",
            "tune INI [options] --source TEXT --reference TEXT [TEXT ...] -o INI",
            " tune: --restarts: is -1; give at least 0",
        ),
        (
            "add-column i --table t -o o --weight nan",
            "add-column INI [options] --table TABLE -o INI",
            " add-column: --weight: `nan` is not a number; give one",
        ),
    ],
)
def test_wrong_usage_of_the_toolkit(
    arguments: str, usage: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        smt(arguments.split())
    assert end.value.code == 2
    assert capsys.readouterr().err == f"usage: phrasescore-smt {usage}\nphrasescore-smt{sentence}\n"


def test_help_begins_with_the_most_used_options() -> None:
    short, full = (run("train", option).stdout.decode() for option in ("--help", "--help-all"))
    assert short.index("most used:") < short.index("--preset") < short.index("examples:\n  phrasescore train")
    assert len(short.splitlines()) < 65 < len(full.splitlines())
    assert "training.patience" not in short
    assert "training.patience" in full


def test_a_command_with_few_options_lists_all_of_them_by_default() -> None:
    assert run("check", "--help-all").stdout == run("check", "--help").stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_shell_completes_options_values_and_files(tmp_path: Path) -> None:
    (tmp_path / "table.gz").touch()
    script = run("--print-completion", "bash").stdout.decode()

    def completed(*words: str) -> set[str]:
        ask = 'COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_phrasescore; printf "%s\\n" "${COMPREPLY[@]}"'
        command = ["bash", "-c", f"{script}\n{ask}", "bash", *words]
        done = subprocess.run(command, capture_output=True, cwd=tmp_path, check=False)
        return set(done.stdout.decode().split())

    assert {"train", "annotate"} <= completed("phrasescore", "")
    assert "--preset" in completed("phrasescore", "train", "--pre")
    assert completed("phrasescore", "train", "--preset", "s") == {"small"}
    assert completed("phrasescore", "annotate", "--device", "c") == {"cpu", "cuda"}
    assert "table.gz" in completed("phrasescore", "annotate", "t")


_PRINT_HELP = """
import argparse, sys
for name in ("torch", "kenlm", "thot", "sacremoses", "sacrebleu"):
    sys.modules[name] = None
from MODULE import main, make_parser

def print_help(words, parser):
    for option in {"--help", "--help-all"} & parser._option_string_actions.keys():
        print("::", *words, option)
        try:
            main([*words, option])
        except SystemExit as end:
            assert end.code == 0
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                print_help([*words, name], command)

print_help([], make_parser())
"""


@pytest.mark.parametrize(
    ("program", "commands"),
    [
        (
            "phrasescore",
            {"train --help-all", "annotate --help", "lm --help", "lm train --help", "translate --help-all"},
        ),
        ("phrasescore-smt", {"build --help", "tune --help", "evaluate --help", "serve --help"}),
    ],
)
def test_help_needs_no_library(program: str, commands: set[str]) -> None:
    """The help of every command works, and is fast, without importing PyTorch and the libraries of the extra `smt`."""
    module = {"phrasescore": "phrasescore.cli", "phrasescore-smt": "moses_integration.cli"}[program]
    script = _PRINT_HELP.replace("MODULE", module)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False, env=ENVIRONMENT)
    assert done.returncode == 0, done.stderr.decode()
    texts = dict(text.split("\n", 1) for text in done.stdout.decode().split(":: ")[1:])
    assert texts.keys() >= {"--help", *commands}
    for command, text in texts.items():
        words = [word for word in command.split() if not word.startswith("--")]
        assert text.startswith(f"usage: {' '.join([program, *words])} ")


@pytest.mark.parametrize(
    ("program", "page"),
    [("phrasescore", "docs/commands.md"), ("python -m experiments.speed", "docs/experiments.md")],
)
def test_the_help_ends_with_its_page(program: str, page: str) -> None:
    assert CommandParser(prog=program).format_help().endswith(f"\ndocumentation: {page}\n")
