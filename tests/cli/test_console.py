"""Exit codes, progress reports and signals of the commands."""

from __future__ import annotations

import argparse
import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from phrasescore.cli.console import Reporter
from phrasescore.cli.parser import CommandParser
from phrasescore.cli.running import parse_arguments, run_command
from phrasescore.errors import UserError
from phrasescore.plugins import plugins_blamed
from phrasescore.signals import interrupt_on_signals, stop_on_signals
from tests.cli.running import ENVIRONMENT, MODEL
from tests.conftest import MINI
from tests.forked import ForkedPopen


def fail(error: Exception) -> int:
    with plugins_blamed():
        raise error


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB"),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you"),
    ],
)
def test_memory_that_runs_out_is_one_sentence(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command("phrasescore train", lambda: fail(error)) == 1
    assert capsys.readouterr().err == (
        "phrasescore train: memory ran out; close other programs or give smaller sizes\n"
    )


@pytest.mark.parametrize(
    ("message", "line"),
    [
        ("café: is no good", "café: is no good"),
        ("a\0b\x1b[2J\t\n\u2028\ufeff: is no good", r"a\x00b\x1b[2J\t\n\u2028\ufeff: is no good"),
        (os.fsdecode(b"caf\xe9") + ": is no good", r"caf\udce9: is no good"),
        ("run:cat:1/[b]t: is no good", "run:cat:1/[b]t: is no good"),
        ("x" * 100_000 + ": is no good", "x" * 450 + " ... " + "x" * 438 + ": is no good"),
    ],
)
def test_a_message_is_a_line_that_a_terminal_can_show(
    message: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command("phrasescore", lambda: fail(UserError(message))) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("phrasescore: ")
    assert shown.removeprefix("phrasescore: ").removesuffix("\n")[-300:] == line[-300:]
    assert len(shown) < 1000
    Reporter(quiet=False).log(message)
    assert capsys.readouterr().err == line + "\n"


def test_other_errors_with_memory_keep_their_cause() -> None:
    with pytest.raises(RuntimeError, match="illegal memory access"):
        run_command("phrasescore train", lambda: fail(RuntimeError("CUDA error: an illegal memory access")))


def test_a_closed_terminal_ends_the_work_unless_nohup_runs_it() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupt_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(SystemExit) as stopped, interrupt_on_signals():
            os.kill(os.getpid(), signal.SIGHUP)
        assert stopped.value.code == 129
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_time_that_is_left_of_a_resumed_training(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The remaining time counts only the progress since the resumption: 10% in 10 minutes leave 40 minutes for 40%."""
    clock = 0.0
    monkeypatch.setattr("phrasescore.cli.console.time.monotonic", lambda: clock)
    with Reporter(quiet=False).task("training") as task:
        task.update(0.5, "begins")
        clock = 600.0
        task.update(0.6, "goes on")
    assert "training: 60%, 40 minutes left, goes on" in capsys.readouterr().err


INPUT_CLOSED = "standard input: is closed; give a file, or leave it open"
OUTPUT_CLOSED = "standard output: is closed; write to a file, or leave it open"
PHRASESCORE, SMT = (
    (sys.executable, "-W", "error", "-c", f"import sys; from {module} import main; sys.exit(main())")
    for module in ("phrasescore.cli", "moses_integration.cli")
)
DECODE = ["decode", str(MINI / "moses.tuned.ini"), "--prepared", "--toolkit", "embedded", "--processes", "1"]


@pytest.mark.parametrize(
    ("program", "arguments", "closed", "code", "told"),
    [
        (PHRASESCORE, ["--version"], ">&-", 1, f"phrasescore: {OUTPUT_CLOSED}\n"),
        (PHRASESCORE, ["check", "table"], ">&-", 1, f"phrasescore check: {OUTPUT_CLOSED}\n"),
        (PHRASESCORE, ["check", "table", "-q"], "<&-", 0, ""),
        (PHRASESCORE, ["check", "-"], "<&-", 1, f"phrasescore check: {INPUT_CLOSED}\n"),
        (PHRASESCORE, ["check", "-"], "<&- >&-", 1, f"phrasescore check: {INPUT_CLOSED}\n"),
        (PHRASESCORE, ["check", "table"], "2>&-", 0, ""),
        (PHRASESCORE, ["check", "table"], ">&- 2>&-", 1, ""),
        (PHRASESCORE, ["check", "missing"], "2>&-", 1, ""),
        (PHRASESCORE, ["check"], "2>&-", 2, ""),
        (SMT, ["--help"], ">&-", 1, f"phrasescore-smt: {OUTPUT_CLOSED}\n"),
        (SMT, ["evaluate"], "2>&-", 2, ""),
        (SMT, ["decode", "missing"], "<&- >&- 2>&-", 1, ""),
        (SMT, DECODE, "<&-", 1, f"phrasescore-smt decode: {INPUT_CLOSED}\n"),
        (SMT, DECODE, "2>&-", 0, ""),
    ],
)
def test_closed_standard_streams(
    tmp_path: Path, program: tuple[str, ...], arguments: list[str], closed: str, code: int, told: str
) -> None:
    """With standard streams closed, errors do not land in the output, and every failure has an exit code."""
    (tmp_path / "table").write_bytes(b"the letter ||| la lettre ||| 0.3 0.5 ||| 0-0 1-1 ||| 1 1 1\n")
    command = ["sh", "-c", f'exec "$@" {closed}', "sh", *program, *arguments]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(
        command, capture_output=True, input=b"", cwd=tmp_path, env=environment, timeout=60, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (code, told)
    if code:
        assert done.stdout == b""
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.parametrize(
    "words",
    [
        f"phrasescore annotate TABLE -m {MODEL} -q",
        "phrasescore check TABLE -q",
        f"phrasescore inspect the -m {MODEL} --table TABLE -q",
    ],
)
def test_a_reader_that_leaves_after_a_line_is_no_fault(words: str) -> None:
    command, pipe = words.replace("TABLE", str(MINI / "phrase-table.gz")).split(), subprocess.PIPE
    with ForkedPopen(command, ENVIRONMENT, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    "command",
    [
        ["phrasescore", "--print-completion", "bash"],
        ["phrasescore", "train", "--help-all"],
        ["phrasescore-smt", *DECODE, "--source", str(MINI / "hard.en"), "-q"],
    ],
)
def test_a_reader_that_left_before_the_first_line_is_no_fault(command: list[str]) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with ForkedPopen(command, ENVIRONMENT, stdout=writer, stderr=subprocess.PIPE) as process:
        os.close(writer)
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 1


def test_a_file_that_a_library_opens_is_not_taken_for_closed_standard_input(tmp_path: Path) -> None:
    """A file that a library opens at import is not mistaken for a closed standard input.

    libffi opens such a file when NumPy is imported with Python 3.14.
    """
    (tmp_path / "table").write_bytes(b"the letter ||| la lettre ||| 0.3 0.5 ||| 0-0 1-1 ||| 1 1 1\n")
    script = (
        "import os, sys\n"
        "class Opens:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        name == 'numpy' and os.open('table', os.O_RDONLY)\n"
        "sys.meta_path.insert(0, Opens())\n"
        "from phrasescore.cli import main\n"
        "sys.exit(main())\n"
    )
    command = ["sh", "-c", 'exec "$@" <&-', "sh", sys.executable, "-c", script, "check", "-"]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, capture_output=True, cwd=tmp_path, env=environment, timeout=60, check=False)
    assert done.stderr.decode() == f"phrasescore check: {INPUT_CLOSED}\n"
    assert done.returncode == 1


def test_messages_do_not_land_in_a_file_with_the_descriptor_of_standard_error(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from pathlib import Path\n"
        "from phrasescore.cli.console import Reporter\n"
        "from phrasescore.cli.running import run_command\n"
        "from phrasescore.errors import UserError\n"
        "from phrasescore.files import open_output\n"
        "def run():\n"
        "    with open_output('out') as stream:\n"
        "        stream.write(b'result')\n"
        "        Reporter(quiet=False).log('progress')\n"
        "        print('progress', file=sys.stderr)\n"
        "    raise UserError('the sentence')\n"
        "sys.exit(run_command('test', run))\n"
    )
    command = ["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", sys.executable, "-c", script]
    environment = {**ENVIRONMENT, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=tmp_path, env=environment, timeout=60, check=False)
    assert done.returncode == 1
    assert (tmp_path / "out").read_bytes() == b"result"


@pytest.mark.parametrize(("arguments", "code"), [(["check", "missing"], 1), (["check"], 2)])
def test_a_full_standard_error_leaves_the_exit_code(arguments: list[str], code: int) -> None:
    with Path("/dev/full").open("wb") as full:
        assert ForkedPopen(["phrasescore", *arguments], ENVIRONMENT, stderr=full.fileno()).wait() == code


def test_wrong_usage_on_a_full_standard_error_where_python_lets_its_error_through(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Usage errors exit with code 2 if argparse raises OSError, as in early releases of Python 3.11."""

    def print_message(parser: argparse.ArgumentParser, message: str, file: object = None) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(argparse.ArgumentParser, "_print_message", print_message)
    with pytest.raises(SystemExit) as ended:
        parse_arguments(CommandParser("test"), ["--wrong"])
    assert ended.value.code == 2


@pytest.mark.parametrize(
    ("arguments", "command"),
    [(["--version"], "phrasescore"), (["check", str(MINI / "phrase-table.gz")], "phrasescore check")],
)
def test_a_full_standard_output_is_reported(arguments: list[str], command: str) -> None:
    with Path("/dev/full").open("wb") as full:
        process = ForkedPopen(["phrasescore", *arguments], ENVIRONMENT, stdout=full.fileno(), stderr=subprocess.PIPE)
    _, messages = process.communicate()
    assert process.returncode == 1
    message = f"{command}: standard output or a temporary file: cannot be written (No space left"
    assert messages.decode().startswith(message)
    assert messages.count(b"\n") == 1


def test_signals_that_are_passed_on_may_come_twice() -> None:
    """A forwarded signal may arrive twice, because clusters and torchrun send it to every process."""
    before = signal.getsignal(signal.SIGTERM)
    with stop_on_signals(may_repeat=True) as stop:
        assert not stop()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
        assert stop()
        assert stop.exit_code == 128 + signal.SIGTERM
    assert signal.getsignal(signal.SIGTERM) == before
