"""Load a server with concurrent clients: latency, CPU time, memory, and whether any answer is lost or wrong.

    python -m experiments.speed.serving --text test.en --requests 10000 --kills 20 -- tuned.ini

Options after `--` are those of `phrasescore-smt serve`. A request has one sentence. Each twentieth request is
malformed and must be rejected. Translations of the same sentence must be equal; their scores differ by rounding,
because they depend on the other sentences of a batch. Linux only.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from phrasescore.cli.options import positive, whole_number
from phrasescore.cli.parser import CommandParser
from phrasescore.files import read_lines

_MALFORMED = (
    b"",
    b"{",
    b'{"text": 1}',
    b'{"text": "a", "nbest": -1}',
    b'{"text": "' + b"a " * 300 + b'"}',
    b"\xff" * 9,
)
_EACH = 20
"""One of so many requests is malformed."""
_SAMPLES = 10


@dataclass
class Load:
    """Requests of several clients to one server, and what became of them."""

    address: str
    bodies: Sequence[bytes]
    requests: int
    numbers: Iterator[int] = field(default_factory=count)
    seconds: list[float] = field(default_factory=list)
    translations: dict[bytes, list[str]] = field(default_factory=dict)
    """By the body of the request."""
    rejected: int = 0
    faults: list[str] = field(default_factory=list)

    def be_client(self) -> None:
        """Send requests over one connection until all are sent."""
        connection = http.client.HTTPConnection(self.address, timeout=300)
        while (number := next(self.numbers)) < self.requests:
            is_malformed = number % _EACH == _EACH - 1
            body = (
                _MALFORMED[number // _EACH % len(_MALFORMED)]
                if is_malformed
                else self.bodies[number % len(self.bodies)]
            )
            began = time.perf_counter()
            try:
                connection.request("POST", "/translate", body)
                response = connection.getresponse()
                answer = response.read()
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(f"lost: {error!r}")
                connection.close()
                continue
            if is_malformed and response.status == 400:
                self.rejected += 1
            elif is_malformed or response.status != 200 or not self._is_as_before(body, answer):
                self.faults.append(f"status {response.status}: {answer[:200]!r}")
            else:
                self.seconds.append(time.perf_counter() - began)
        connection.close()

    def _is_as_before(self, body: bytes, answer: bytes) -> bool:
        translations = [one["text"] for one in json.loads(answer)["translations"]]
        return self.translations.setdefault(body, translations) == translations


def measure(
    serve: Sequence[str], text: Path, requests: int, clients: int, kills: int, options: dict[str, Any]
) -> dict[str, Any]:
    """Return the figures of a run; the first tenth of the requests is a warm-up."""
    bodies = [json.dumps({"text": line.decode(), **options}).encode() for line in read_lines(text)]
    random.Random(1).shuffle(bodies)
    with _server(serve) as (process, address):
        _run(Load(address, bodies, requests // 10), clients)
        load, memory = Load(address, bodies, requests), [_memory(process.pid)]
        before, began = _cpu_seconds(process.pid), time.perf_counter()
        watching = threading.Thread(target=_watch, args=(load, process.pid, kills, memory))
        watching.start()
        _run(load, clients)
        seconds, cpu = time.perf_counter() - began, _cpu_seconds(process.pid) - before
        watching.join()
        memory.append(_memory(process.pid))
    return {
        "requests": requests,
        "clients": clients,
        "options": options,
        "seconds": {f"p{q}": float(np.percentile(load.seconds, q)) for q in (50, 95, 99, 100)},
        "requests_per_second": requests / seconds,
        "cpu_seconds_per_request": cpu / requests,
        "memory_mb": memory,
        "rejected": load.rejected,
        "killed": kills,
        "faults": load.faults,
    }


def _run(load: Load, clients: int) -> None:
    threads = [threading.Thread(target=load.be_client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _watch(load: Load, server: int, kills: int, memory: list[float]) -> None:
    """Sample the memory and kill processes, spread over the run."""
    steps = sorted(
        [((i + 1) / (_SAMPLES + 1), False) for i in range(_SAMPLES)] + [((i + 0.5) / kills, True) for i in range(kills)]
    )
    for share, is_kill in steps:
        while len(load.seconds) + load.rejected + len(load.faults) < share * load.requests:
            time.sleep(0.05)
        if not is_kill:
            memory.append(_memory(server))
        elif workers := _children(_fork_server(server)):
            os.kill(random.choice(workers), signal.SIGKILL)


@contextmanager
def _server(arguments: Sequence[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a server and yield its process and address."""
    command = [sys.executable, "-c", "from moses_integration.cli import main; raise SystemExit(main())", "serve"]
    with subprocess.Popen([*command, *arguments, "--port", "0"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = next(filter(None, (re.search("http://([^/]+)/", line) for line in process.stderr)), None)
            if found is None:
                raise SystemExit("the server did not start")
            yield process, found[1]
        finally:
            process.send_signal(signal.SIGINT)


def _fork_server(server: int) -> int:
    """Return the process that forks those that translate; multiprocessing's tracker is another child of the server."""
    return next(child for child in _children(server) if b"forkserver" in Path(f"/proc/{child}/cmdline").read_bytes())


def _children(process: int) -> list[int]:
    paths = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for path in paths for number in path.read_text().split()]


def _cpu_seconds(server: int) -> float:
    """Return the CPU time of the server and its processes, also of those that have ended."""
    fork_server = _fork_server(server)
    own = _times(server) + _times(fork_server)
    return (sum(own) + sum(sum(_times(worker)[:2]) for worker in _children(fork_server))) / os.sysconf("SC_CLK_TCK")


def _times(process: int) -> list[int]:
    """Return the ticks in user and system mode, of a process and of its children that have ended (proc(5))."""
    return [int(ticks) for ticks in Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:15]]


def _memory(server: int) -> float:
    """Return the megabytes of the server and its processes; shared pages count once."""
    fork_server = _fork_server(server)
    processes = server, fork_server, *_children(fork_server)
    rollups = [Path(f"/proc/{process}/smaps_rollup").read_text() for process in processes]
    return sum(int(number) for rollup in rollups for number in re.findall(r"(?m)^Pss: +(\d+)", rollup)) / 1024


def parse_arguments() -> argparse.Namespace:
    """Return the options."""
    parser = CommandParser(prog="python -m experiments.speed.serving", description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="source sentences, prepared with --prepared")
    parser.add_argument("--prepared", action="store_true", help="the text is prepared")
    parser.add_argument("--system", help="name of the system to ask")
    parser.add_argument("--requests", type=positive, default=1000)
    parser.add_argument("--clients", type=positive, default=8)
    parser.add_argument("--kills", type=lambda text: whole_number(text, 0), default=0, help="processes to kill")
    parser.add_argument("serve", nargs="+", help="arguments of `phrasescore-smt serve`")
    return parser.parse_args()


def main() -> None:
    """Print the figures as JSON."""
    args = parse_arguments()
    options = {"prepared": args.prepared} | ({"system": args.system} if args.system else {})
    print(json.dumps(measure(args.serve, args.text, args.requests, args.clients, args.kills, options), indent=1))


if __name__ == "__main__":
    main()
