"""Run the commands of `phrasescore-smt` in separate processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import moses_integration.cli
import phrasescore.cli
from moses_integration.ini import MosesIni
from tests.conftest import MINI
from tests.forked import run_forked

# Words on standard error that Moses' experiment manager takes for a crash (scripts/ems/experiment.perl).
CRASH_WORDS = (
    b"error",
    b"killed",
    b"core dumped",
    b"can't read",
    b"no such file or directory",
    b"unknown option",
    b"died at",
    b"exit code",
    b"permission denied",
    b"segmentation fault",
    b"abort",
    b"no space left on device",
    b": not found",
    b"can't locate",
    b"unrecognized option",
    b"exception",
)


def command(*arguments: str | Path) -> list[str]:
    """Return a `phrasescore-smt` command line that turns warnings into errors and does not ignore SIGINT.

    If a shell starts the tests in the background, child processes ignore SIGINT.
    """
    start = "import signal, sys; from moses_integration.cli import main; "
    start += "signal.signal(signal.SIGINT, signal.default_int_handler); sys.exit(main())"
    return [sys.executable, "-W", "error", "-c", start, *map(str, arguments)]


def environment(more: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """Return the environment without MOSES_HOME, updated with `more`."""
    inherited = {name: value for name, value in os.environ.items() if name not in ("MOSES_HOME", "PYTHONUNBUFFERED")}
    return {**inherited, "OMP_NUM_THREADS": "1", **more}


def run(
    *arguments: str | Path, stdin: bytes = b"", more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    """Run a command in a separate process, with `more` added to its environment."""
    return run_forked("phrasescore-smt", *arguments, stdin=stdin, environment=environment(more))


def succeed(
    *arguments: str | Path, stdin: bytes = b"", more: Mapping[str, str] = MappingProxyType({})
) -> subprocess.CompletedProcess[bytes]:
    """Run a command that must succeed without messages that look like a crash."""
    done = run(*arguments, stdin=stdin, more=more)
    assert done.returncode == 0, done.stderr.decode()
    assert not [word for word in CRASH_WORDS if word in done.stderr.lower()]
    return done


def succeed_here(program: str, *arguments: str | Path) -> None:
    """Run a command that must succeed in this process, which takes no time for imports."""
    main = {"phrasescore": phrasescore.cli.main, "phrasescore-smt": moses_integration.cli.main}[program]
    assert main([str(argument) for argument in arguments]) == 0


def sentence_of(code: int, messages: bytes) -> str:
    """Return the one-line message of a command that failed; the `toolkit:` line of `auto` is skipped."""
    lines = [line for line in messages.decode().splitlines() if not line.startswith("toolkit: ")]
    assert code == 1, lines
    assert len(lines) == 1, lines
    assert lines[0].startswith("phrasescore-smt ")
    return lines[0]


def write_without_language_model(ini: Path) -> None:
    """Write the moses.ini of the small system to another path, without its language model."""
    whole = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    MosesIni([line for line in whole.lines if "LM0" not in line], str(ini), ini.parent).write(ini)


def train_with_plugin(folder: Path) -> tuple[Path, Path]:
    """Train a small network in context with a unit of a plugin; return the plugin and the network."""
    plugin, network = folder / "mine.py", folder / "network"
    plugin.write_text(
        "from phrasescore.nn.units import UNITS, register_unit\n"
        "@register_unit('mine')\n"
        "def mine(*sizes):\n"
        "    return UNITS['gru'](*sizes)\n"
    )
    texts = [f"--source={MINI / 'train.en'}", f"--target={MINI / 'train.fr'}", f"--alignment={MINI / 'train.align'}"]
    options = ["--hidden", "16", "--set", "model.embedding=8", "--max-updates", "2", "--device", "cpu", "-q"]
    options += ["--set", "model.decoder_unit=mine", "--plugin", str(plugin)]
    done = run_forked("phrasescore", "train", *texts, "-o", network, *options, environment=environment())
    assert done.returncode == 0, done.stderr
    return plugin, network
