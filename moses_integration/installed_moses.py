"""An installed Moses: where it is, and its programs run one by one, each artefact checked after its step."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import open_input

_LINES_SHOWN = 3


@dataclass(frozen=True)
class Installation:
    """A Moses with `bin/` and `scripts/`."""

    home: Path

    def binary(self, name: str) -> Path:
        """Return a program of `bin/`.

        Raises:
            UserError: it was not built.
        """
        path = self.home / "bin" / name
        if not os.access(path, os.X_OK):
            raise UserError(f"{path}: is not there or not executable; build it with Moses, or use --toolkit embedded")
        return path

    def script(self, name: str) -> Path:
        """Return a script of `scripts/`.

        Raises:
            UserError: it is not there.
        """
        path = self.home / "scripts" / name
        if not path.exists():
            raise UserError(f"{path}: is not there; give MOSES_HOME a folder with bin/ and scripts/")
        return path


def find_installation() -> Installation | None:
    """Return the Moses of MOSES_HOME or, failing that, the one whose `moses` is on the PATH.

    Raises:
        UserError: MOSES_HOME is set and holds no Moses.
    """
    home = os.environ.get("MOSES_HOME")
    if home:
        installation = Installation(Path(home).resolve())
        installation.binary("moses")
        return installation
    found = shutil.which("moses")
    # Some put only links on the PATH; bin/ and scripts/ are beside what the link leads to.
    return Installation(Path(found).resolve().parent.parent) if found else None


def run_step(
    step: str,
    command: Sequence[str | Path],
    log: Path,
    artefacts: Sequence[Path] = (),
    stdin: Path | None = None,
    stdout: Path | None = None,
) -> None:
    """Run a command with its messages in `log`; afterwards every artefact must be there and not empty.

    Raises:
        UserError: the command fails or leaves an artefact out; the message names step, command, cause and log.
    """
    words = [str(word) for word in command]
    with (
        log.open("wb") as messages,
        open(stdin or os.devnull, "rb") as given,  # noqa: PTH123
        open(stdout or os.devnull, "wb") as taken,  # noqa: PTH123
    ):
        try:
            code = subprocess.run(
                words,
                stdin=given,
                stdout=taken if stdout else messages,
                stderr=messages,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            ).returncode
        except OSError as error:
            raise UserError(f"{step}: `{words[0]}` cannot be run ({error.strerror}); check the installation") from error
    missing = [artefact for artefact in artefacts if not _has_content(artefact)]
    if code == 0 and not missing:
        return
    cause = f"exit code {code}" if code else f"{missing[0]} is missing or empty"
    lines = [line for line in log.read_text("utf-8", "replace").splitlines() if line.strip()]
    last = " / ".join(lines[-_LINES_SHOWN:]) or "no message"
    raise UserError(f"{step}: {cause} of `{shlex.join(words)}`, which said: {last}; the whole log is {log}")


def _has_content(path: Path) -> bool:
    if not path.exists():
        return False
    with open_input(path) as file:
        return bool(file.stream.read(1))
