"""Find an installed Moses, run its programs, and check the files that they write."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import UserError, arg_name
from phrasescore.files import open_input

_LINES_SHOWN = 3
_SECONDS_TO_END = 5


class StepFailure(UserError):
    """A program of an installed Moses failed."""

    def __init__(self, failure: str, log: Path) -> None:
        super().__init__(f"{failure}; see {log}, or use {arg_name('toolkit', 'embedded')}")


@dataclass(frozen=True)
class Installation:
    """A Moses with `bin/` and `scripts/`."""

    home: Path

    def binary(self, name: str) -> Path:
        """Return a program of `bin/`; it must be executable."""
        path = self.home / "bin" / name
        if not os.access(path, os.X_OK):
            raise UserError(
                f"{path}: is missing or not executable; build it with Moses, or use {arg_name('toolkit', 'embedded')}"
            )
        return path

    def script(self, name: str) -> Path:
        """Return a script of `scripts/`; it must exist."""
        path = self.home / "scripts" / name
        if not path.exists():
            raise UserError(f"{path}: does not exist; set MOSES_HOME to a folder with bin/ and scripts/")
        return path


def find_installation() -> Installation | None:
    """Return the Moses of MOSES_HOME, which must exist, or of the PATH.

    A `moses` on the PATH without a `scripts` folder beside its `bin` is ignored: it is another program, or incomplete.
    """
    home = os.environ.get("MOSES_HOME")
    if home:
        installation = Installation(Path(home).resolve())
        installation.binary("moses")
        return installation
    found = shutil.which("moses")
    if found is None:
        return None
    # Resolve links: bin/ and scripts/ are beside their target.
    installation = Installation(Path(found).resolve().parent.parent)
    return installation if (installation.home / "scripts").is_dir() else None


def run_step(
    step: str,
    command: Sequence[str | Path],
    log: Path,
    artefacts: Sequence[Path] = (),
    stdin: Path | None = None,
    stdout: Path | None = None,
) -> None:
    """Run a command with its messages in `log`, and check that it leaves every artefact whole; else a StepFailure."""
    words = [str(word) for word in command]
    code = _run(step, words, log, stdin, stdout)
    if code:
        cause = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
    else:
        missing = next((artefact for artefact in artefacts if not has_content(artefact)), None)
        if missing is None:
            return
        cause = f"left {missing} missing, empty or damaged"
    lines = [line.strip() for line in log.read_text("utf-8", "replace").split("\n") if line.strip()]
    last = " / ".join(lines[-_LINES_SHOWN:]) or "(none)"
    raise StepFailure(f"{step}: `{shlex.join(words)}` {cause}; its last messages are: {last}", log)


def _run(step: str, words: Sequence[str], log: Path, stdin: Path | None, stdout: Path | None) -> int:
    """Run a command and return its exit code, negative if a signal ended it."""
    # SCRIPTS_ROOTDIR would make mert-moses.pl and others run the scripts of another Moses.
    environment = {name: value for name, value in os.environ.items() if name != "SCRIPTS_ROOTDIR"} | {"LC_ALL": "C"}
    with (
        log.open("wb") as messages,
        Path(stdin or os.devnull).open("rb") as given,
        Path(stdout or os.devnull).open("wb") as taken,
    ):
        output = taken if stdout else messages
        try:
            # A separate process group, so that programs that the scripts start end with them.
            process = subprocess.Popen(
                words, stdin=given, stdout=output, stderr=messages, env=environment, process_group=0
            )
        except OSError as error:
            raise UserError(f"{step}: `{words[0]}` cannot be run ({error.strerror}); check the installation") from error
        try:
            return process.wait()
        except BaseException:
            _end_group(process)
            raise


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Terminate a program that was started with `process_group=0`, and its descendants."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_SECONDS_TO_END)


def has_content(path: Path) -> bool:
    """Whether a file has content after decompression, or a folder has files."""
    if path.is_dir():
        return any(path.iterdir())
    try:
        with open_input(path) as file:
            return bool(file.stream.read(1))
    except UserError:
        # A missing file, or a corrupt compressed one.
        return False
