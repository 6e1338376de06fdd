"""Moses' programs run one by one, and a failure is reported in one sentence."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from moses_integration.toolkits.installation import Installation, StepFailure, find_installation, run_step
from phrasescore.errors import UserError
from tests.moses_integration.fake_moses import fake_moses, program

# Steps


def test_a_step_that_succeeds(tmp_path: Path) -> None:
    copy = program(tmp_path / "copy", "cat; echo message >&2; echo $LC_ALL >&2; echo $SCRIPTS_ROOTDIR >&2")
    (tmp_path / "in").write_text("text\n")
    os.environ["SCRIPTS_ROOTDIR"] = "/other/moses"
    try:
        run_step("copying", [copy], tmp_path / "log", [tmp_path / "out"], tmp_path / "in", tmp_path / "out")
    finally:
        del os.environ["SCRIPTS_ROOTDIR"]
    assert (tmp_path / "out").read_text() == "text\n"
    assert (tmp_path / "log").read_text() == "message\nC\n\n"


def test_a_program_that_fails(tmp_path: Path) -> None:
    fails = program(tmp_path / "fails", "echo out; for n in 1 2 3 4; do echo; echo problem $n >&2; done; exit 3")
    with pytest.raises(StepFailure) as caught:
        run_step("tables", [fails, "--with", "a b"], tmp_path / "log")
    assert str(caught.value) == (
        f"tables: `{fails} --with 'a b'` ended with exit code 3; its last messages are: "
        "problem 2 / problem 3 / problem 4; "
        f"see {tmp_path}/log, or use toolkit='embedded'"
    )


def test_a_program_that_is_killed_and_says_nothing(tmp_path: Path) -> None:
    dies = program(tmp_path / "dies", "kill -9 $$")
    with pytest.raises(StepFailure, match=r"tables: .* was ended by signal 9; its last messages are: \(none\); see"):
        run_step("tables", [dies], tmp_path / "log")


@pytest.mark.parametrize("left", ["nothing", "an empty file", "an empty gz", "a cut gz", "an empty folder"])
def test_an_artefact_that_is_missing_or_empty(tmp_path: Path, left: str) -> None:
    artefact = tmp_path / "table.gz"
    match left:
        case "an empty file":
            artefact.touch()
        case "an empty gz":
            artefact.write_bytes(gzip.compress(b""))
        case "a cut gz":
            artefact.write_bytes(gzip.compress(b"a ||| b")[:12])
        case "an empty folder":
            artefact.mkdir()
    done = program(tmp_path / "done", "echo done")
    with pytest.raises(
        StepFailure,
        match=rf"tables: `{done}` left {artefact} missing, empty or damaged; its last messages are: done",
    ):
        run_step("tables", [done], tmp_path / "log", [tmp_path / "done", artefact])


def test_a_failure_is_reported_whatever_files_it_left(tmp_path: Path) -> None:
    artefact = tmp_path / "table.gz"
    artefact.write_bytes(gzip.compress(b"a ||| b")[:12])
    dies = program(tmp_path / "dies", "echo out of memory; exit 3")
    with pytest.raises(StepFailure, match="ended with exit code 3; its last messages are: out of memory"):
        run_step("tables", [dies], tmp_path / "log", [artefact])


def test_artefacts_with_content(tmp_path: Path) -> None:
    (tmp_path / "table.gz").write_bytes(gzip.compress(b"a"))
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").touch()
    done = program(tmp_path / "done", "exit 0")
    run_step("tables", [done], tmp_path / "log", [tmp_path / "table.gz", tmp_path / "folder"])


def test_a_program_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("no program")
    for words, reason in ((["nowhere-to-be-found"], "No such file"), ([str(tmp_path / "data")], "Permission denied")):
        with pytest.raises(UserError, match=rf"tables: `{words[0]}` cannot be run \({reason}.*; check the install"):
            run_step("tables", words, tmp_path / "log")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_stopped_step_ends_all_that_it_started(tmp_path: Path, number: signal.Signals) -> None:
    child = program(tmp_path / "child", f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; sleep 60")
    parent = program(tmp_path / "parent", f"{child} & wait")
    code = (
        "import signal, sys; from pathlib import Path\n"
        "from moses_integration.toolkits.installation import run_step\n"
        "from phrasescore.cli.running import run_command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        # nohup makes the tests ignore this signal.
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"
        f"sys.exit(run_command('test', lambda: run_step('a', [{str(parent)!r}], Path({str(tmp_path / 'log')!r}))))"
    )
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(number)
    _, messages = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert messages == (b"test: stopped\n" if number == signal.SIGINT else b"")
    pid = int((tmp_path / "pid").read_text())
    # The process may briefly remain as a zombie.
    state = Path(f"/proc/{pid}/stat")
    assert not state.exists() or state.read_text().split()[2] == "Z"


# Locating Moses


def test_moses_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None) -> None:
    monkeypatch.setenv("MOSES_HOME", str(fake_moses(tmp_path / "moses")))
    found = find_installation()
    assert found is not None
    assert found.home == tmp_path / "moses"


@pytest.mark.parametrize("kind", ["no folder", "no program", "not executable"])
def test_a_moses_home_without_moses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None, kind: str) -> None:
    home = tmp_path / "moses"
    if kind != "no folder":
        home.mkdir()
    if kind == "not executable":
        program(home / "bin/moses", "").chmod(0o644)
    monkeypatch.setenv("MOSES_HOME", str(home))
    with pytest.raises(UserError, match="moses/bin/moses: is missing or not executable; build it with Moses, or use"):
        find_installation()


def test_a_link_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None) -> None:
    fake_moses(tmp_path / "moses")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/moses").symlink_to(tmp_path / "moses/bin/moses")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_installation() == Installation(tmp_path / "moses")


def test_no_moses_and_another_program_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_moses: None
) -> None:
    assert find_installation() is None
    program(tmp_path / "usr/bin/moses", "exit 0")
    monkeypatch.setenv("PATH", str(tmp_path / "usr/bin"))
    assert find_installation() is None


def test_programs_and_scripts_that_are_missing(tmp_path: Path) -> None:
    moses = Installation(fake_moses(tmp_path / "moses"))
    assert moses.binary("moses") == tmp_path / "moses/bin/moses"
    with pytest.raises(UserError, match="bin/mert: is missing or not executable"):
        moses.binary("mert")
    with pytest.raises(UserError, match=r"scripts/training/mert-moses\.pl: does not exist; set MOSES_HOME to a folder"):
        moses.script("training/mert-moses.pl")
