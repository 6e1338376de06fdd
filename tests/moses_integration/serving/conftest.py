"""A server in a process of its own."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.context_sections import name_networks
from phrasescore.cli import main as phrasescore
from tests.conftest import MINI
from tests.forked import ForkedPopen
from tests.moses_integration.cli.running import environment

BASELINE = MINI / "moses.tuned.ini"


@dataclass(frozen=True)
class RunningServer:
    url: str
    process: ForkedPopen

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=60) as response:
            return json.load(response)

    def post(self, body: bytes, path: str = "translate") -> tuple[int, Any]:
        """Return status and answer."""
        try:
            with urllib.request.urlopen(self.url + path, body, timeout=60) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def translate(self, text: str | list[str], **options: Any) -> Any:
        """Translate prepared text; return the answer, which must be a success."""
        status, answer = self.post(json.dumps({"text": text, "prepared": True, **options}).encode())
        assert status == 200, answer
        return answer

    def workers(self) -> list[int]:
        """Return the ids of the processes that translate."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        # A fork server starts them.
        return [child.pid for child in children if child.ppid() != self.process.pid]


@contextmanager
def running(*arguments: str | Path, seconds: int = 100, errors: int = 0) -> Iterator[RunningServer]:
    """Start a server with two processes, and stop it like Ctrl-C does; it must print only so many lines before.

    The default time limit is longer than that of the command, because the machine may be busy.
    """
    start = ["phrasescore-smt", "serve", *arguments, "--max-seconds", str(seconds), "--port", "0", "--processes", "2"]
    process = ForkedPopen(start, environment(), stderr=subprocess.PIPE, seconds=600)
    assert process.stderr is not None
    lines = []
    for line in process.stderr:
        lines.append(line)
        if found := re.search(b"open (http://[^ ]*/)", line):
            break
    else:
        raise AssertionError(b"".join(lines))
    try:
        yield RunningServer(found[1].decode(), process)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        _, messages = process.communicate()
    assert process.returncode == 130, messages
    *printed, last = messages.splitlines()
    assert (len(printed), last) == (errors, b"phrasescore-smt serve: stopped"), messages


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running(BASELINE) as started:
        yield started


@pytest.fixture(scope="session")
def in_context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ini of a system with a random network in context."""
    folder = tmp_path_factory.mktemp("in-context")
    texts = [f"--source={MINI / 'train.en'}", f"--target={MINI / 'train.fr'}", f"--alignment={MINI / 'train.align'}"]
    sizes = ["--hidden", "16", "--set", "model.embedding=8", "--max-updates", "2", "--device", "cpu", "-q"]
    assert phrasescore(["train", *texts, "-o", str(folder / "network"), *sizes]) == 0
    return add_network(folder / "network")


def add_network(network: Path) -> Path:
    """Write the ini of a system with a network in context, whose column has a large weight."""
    ini = MosesIni.read(BASELINE).with_absolute_paths()
    add_column_in_context(ini, 0.0)
    name_networks(ini, [network])
    weights = ini.weights()["TranslationModel0"]
    ini.set_weights({"TranslationModel0": [*weights[:-1], 0.1]})
    path = network.parent / "ctx.ini"
    ini.write(path)
    return path
