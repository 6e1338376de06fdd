"""Work is distributed over any number of processes, and results arrive in order.

Workers ignore Ctrl-C; their parent ends them.
"""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from moses_integration.decoder.settings import UnsupportedError
from phrasescore.errors import InputError, UserError, WorkersLostError, arg_name, options_spelled_as_flags
from phrasescore.workers import (
    ProcessPool,
    Reloadable,
    Workers,
    available_cores,
    map_ordered,
    process_number,
    start_workers,
)

if TYPE_CHECKING:
    # Each worker process imports this module, and would import Dask, too.
    from distributed import LocalCluster

LOST = "working: a process was killed, probably because memory ran out; use fewer processes"


@dataclass(frozen=True)
class Square:
    """Squares a number; larger numbers finish sooner, and one number fails."""

    fails_for: int = -1

    def __call__(self, number: int) -> int:
        time.sleep(0.02 / (1 + number))
        if number == self.fails_for:
            raise UserError(f"{number}: is no good")
        return number * number


@dataclass(frozen=True)
class Deadly:
    """Kills its process a given number of times, counted in files."""

    folder: Path
    times: int

    def __call__(self, number: int) -> int:
        if number == 3:
            for time_ in range(self.times):
                try:
                    (self.folder / str(time_)).touch(exist_ok=False)
                except FileExistsError:
                    continue
                os.kill(os.getpid(), signal.SIGKILL)
        return number


def check(workers: Workers, number: int) -> None:
    taken = []

    def numbers() -> Iterator[int]:
        for number in range(30):
            taken.append(number)
            yield number

    results = map_ordered(Square(), numbers(), workers)
    assert next(results) == 0
    assert len(taken) <= 2 * number
    assert list(results) == [number * number for number in range(1, 30)]
    assert list(map_ordered(Square(), [], workers)) == []
    with pytest.raises(UserError, match=r"^7: is no good"):
        list(map_ordered(Square(fails_for=7), range(30), workers))
    assert list(map_ordered(Square(), [5], workers)) == [25]


def test_there_is_a_core() -> None:
    assert 1 <= available_cores() <= (os.cpu_count() or 1)


@pytest.mark.parametrize("processes", [1, 2])
def test_processes_give_results_in_order(processes: int) -> None:
    with start_workers("working", processes) as workers:
        check(workers, processes)


def test_the_workers_of_a_scheduler_give_results_in_order(cluster: LocalCluster) -> None:
    with start_workers("working", scheduler=cluster.scheduler_address) as workers:
        check(workers, 2)


def _number(item: int) -> int | None:
    return process_number()


def test_processes_that_share_work_have_numbers() -> None:
    assert process_number() is None
    with start_workers("working", 2) as workers:
        numbers = set(map_ordered(_number, range(64), workers))
    assert numbers == {0, 1}


def test_each_process_gets_an_item() -> None:
    with closing(ProcessPool("killed", 3)) as pool:
        pool.submit(_number, None).result()
        assert sorted(one.result() for one in pool.submit_to_each(_number, None)) == [0, 1, 2]


@dataclass(frozen=True)
class Reading:
    """Reads a file of a folder."""

    folder: Path

    def __call__(self, name: Path) -> tuple[str, str]:
        return (self.folder / "here").read_text(), name.read_text()


def test_relative_paths_are_those_of_who_sends_them(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("here").write_text("found")
    with start_workers("working", scheduler=cluster.scheduler_address) as workers:
        assert list(map_ordered(Reading(Path()), [Path("here")], workers)) == [("found", "found")]


@dataclass(frozen=True)
class Failing:
    error: Exception

    def __call__(self, _: object) -> None:
        raise self.error


def test_an_error_of_a_worker_of_a_scheduler_names_the_worker(cluster: LocalCluster) -> None:
    failures = (
        (InputError("a: is wrong; fix it"), InputError, "a: is wrong; fix it"),
        (UnsupportedError("a: has no b", "remove it"), UserError, "a: has no b; remove it, or use Moses"),
        (FileNotFoundError(2, "No such file or directory", "/a"), UserError, "/a: No such file or directory"),
        (MemoryError(), UserError, "memory ran out; close other programs or give smaller sizes"),
    )
    with start_workers("working", scheduler=cluster.scheduler_address) as workers:
        for error, kind, sentence in failures:
            with pytest.raises(UserError, match=rf"^{sentence} \(on the Dask worker tcp://127.0.0.1:\d+\)$") as caught:
                next(map_ordered(Failing(error), [1], workers))
            assert type(caught.value) is kind
        with pytest.raises(ZeroDivisionError):
            next(map_ordered(Failing(ZeroDivisionError()), [1], workers))


def test_work_of_a_lost_process_is_done_again(tmp_path: Path) -> None:
    with start_workers("working", 2) as workers:
        assert list(map_ordered(Deadly(tmp_path, times=1), range(20), workers)) == list(range(20))
        assert len(list(tmp_path.iterdir())) == 1
        with pytest.raises(UserError, match=f"^{LOST}$"):
            list(map_ordered(Deadly(tmp_path, times=9), range(20), workers))


def die_in_the_middle_of_a_result(marker: Path) -> bytes:
    """Exit in the middle of writing a result, once, as if the kernel had run out of memory."""
    if not marker.exists():
        marker.touch()

        def write_half(pipe: Connection, data: bytes) -> None:
            os.write(pipe.fileno(), data[: len(data) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

        Connection._send = write_half  # type: ignore[attr-defined]
    return bytes(100_000)


def test_a_process_that_is_lost_in_the_middle_of_a_result_is_not_waited_for(tmp_path: Path) -> None:
    with start_workers("working", 2) as workers:
        assert [*map_ordered(die_in_the_middle_of_a_result, [tmp_path / "died"] * 9, workers)] == [bytes(100_000)] * 9


class ChangedUserError(UserError):
    """A UserError that changes when it is unpickled."""

    def __init__(self, place: str) -> None:
        super().__init__(f"{place}: is wrong")


class UnpicklableError(Exception):
    """An exception that cannot be unpickled from its arguments."""

    def __init__(self, place: str, fault: str) -> None:
        super().__init__(f"{place}: {fault}")


def fail_unpicklably(number: int) -> None:
    raise UnpicklableError("here", f"{number} is wrong")


def fail_for_the_user(number: int) -> None:
    raise ChangedUserError("here")


class Unreadable:
    """Fails to be pickled, because a file is missing."""

    def __getstate__(self) -> object:
        raise FileNotFoundError("nowhere")


def fail_picklably(number: int) -> None:
    raise ValueError(f"{number} is wrong")


def test_messages_name_options_as_in_the_main_process() -> None:
    with options_spelled_as_flags(), start_workers("working", 2) as workers:
        assert list(map_ordered(arg_name, ["max_minutes", "keep"], workers)) == ["--max-minutes", "--keep"]


def test_messages_of_workers_of_a_scheduler_name_options_likewise(cluster: LocalCluster) -> None:
    with options_spelled_as_flags(), start_workers("working", scheduler=cluster.scheduler_address) as workers:
        assert next(map_ordered(arg_name, ["max_minutes"], workers)) == "--max-minutes"


def test_an_error_of_a_task_says_where() -> None:
    """The exception of a task names its origin, although tracebacks and some exceptions cannot be pickled."""
    with start_workers("working", 2) as workers:
        with pytest.raises(ValueError, match=r"^1 is wrong") as picklable:
            next(map_ordered(fail_picklably, [1, 2], workers))
        with pytest.raises(RuntimeError, match="UnpicklableError: here: 1 is wrong") as unpicklable:
            next(map_ordered(fail_unpicklably, [1, 2], workers))
        with pytest.raises((AttributeError, pickle.PicklingError)):
            next(map_ordered(lambda number: number, [1, 2], workers))
        with pytest.raises(UserError, match=r"^here: is wrong$"):
            next(map_ordered(fail_for_the_user, [1, 2], workers))
        with pytest.raises(FileNotFoundError, match="nowhere"):
            next(map_ordered(id, [Unreadable()], workers))
        assert next(map_ordered(abs, [-1], workers)) == 1
    assert "in fail_picklably" in picklable.value.__notes__[0]
    assert "in fail_unpicklably" in str(unpicklable.value)


def test_work_of_a_lost_worker_of_a_scheduler_is_done_again(cluster: LocalCluster, tmp_path: Path) -> None:
    with start_workers("working", scheduler=cluster.scheduler_address) as workers:
        assert list(map_ordered(Deadly(tmp_path, times=1), range(20), workers)) == list(range(20))


def test_an_invalid_scheduler_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address without a scheduler, such as that of the dashboard, is one sentence."""
    monkeypatch.setattr("phrasescore.dask_workers._SECONDS_TO_CONNECT", 1)
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"tcp://127.0.0.1:{other.getsockname()[1]}"
        with (
            pytest.raises(UserError, match=f"^{address}: no Dask scheduler answers there"),
            start_workers("working", scheduler=address),
        ):
            pass


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "127.0.0.1", "tcp://", "http://127.0.0.1:8786", "node1", ""])
def test_a_scheduler_that_is_not_there_is_one_sentence(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("phrasescore.dask_workers._SECONDS_TO_CONNECT", 1)
    started = time.monotonic()
    with (
        pytest.raises(UserError, match=f"^{address}: no Dask scheduler answers there"),
        start_workers("working", scheduler=address),
    ):
        pass
    assert time.monotonic() - started < 20


def test_dask_that_is_not_installed_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(UserError, match="needs Dask; pip install distributed"), start_workers("working", scheduler="x"):
        pass


def sleep(marker: Path) -> None:
    marker.touch()
    time.sleep(100)


def stop_in_the_middle(folder: Path) -> None:
    with start_workers("working", 2) as workers:
        results = map_ordered(sleep, [folder / "a", folder / "b"], workers)
        old = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.5, 0.5)
        try:
            next(results)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, old)


def interrupt(number: int, frame: object) -> None:
    raise KeyboardInterrupt


def test_stopped_workers_do_not_finish_their_tasks(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        stop_in_the_middle(tmp_path)
    assert time.monotonic() - started < 50


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path\nfrom phrasescore.workers import map_ordered, start_workers\n"
        "from tests.test_workers import sleep\n"
        "if __name__ == '__main__':\n"
        "    with start_workers('working', 2) as workers:\n"
        f"        next(map_ordered(sleep, [Path({str(tmp_path)!r}, name) for name in 'ab'], workers))\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        while len(list(tmp_path.iterdir())) < 2:
            time.sleep(0.01)
        parent.kill()
        started = time.monotonic()
        # The workers inherit the stream, so it ends with the last of them.
        assert parent.stdout is not None
        assert parent.stdout.read() == b""
        assert time.monotonic() - started < 50


def hears_interrupts(_: object) -> bool:
    time.sleep(0.05)
    return signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, [])


def test_workers_do_not_hear_an_interrupt(tmp_path: Path) -> None:
    """All workers ignore an interrupt, also the first one, which starts a helper process of multiprocessing."""
    code = (
        "from phrasescore.workers import map_ordered, start_workers\nfrom tests.test_workers import hears_interrupts\n"
        "if __name__ == '__main__':\n"
        "    with start_workers('working', 3) as workers:\n"
        "        print(hears_interrupts(0), {*map_ordered(hears_interrupts, range(20), workers)})\n"
    )
    assert output_of(code, tmp_path) == "True {False}\n"


def output_of(code: str, folder: Path) -> str:
    """Return the output of a program that ends by itself."""
    path = folder / "program.py"
    path.write_text(code)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])}
    return subprocess.run([sys.executable, path], capture_output=True, text=True, env=env, timeout=60).stdout


def test_a_program_ends_though_results_are_left(tmp_path: Path) -> None:
    """A program ends even if results are left, as after an error whose traceback references them."""
    code = (
        "from phrasescore.workers import map_ordered, start_workers\n"
        "def lengths():\n"
        "    with start_workers('working', 2) as workers:\n        yield from map_ordered(len, ['a'] * 9, workers)\n"
        "if __name__ == '__main__':\n    found = lengths()\n    print(next(found))\n"
    )
    assert output_of(code, tmp_path) == "1\n"


def test_a_released_worker_is_not_waited_for() -> None:
    with start_workers("working", 2) as workers:
        results = map_ordered(abs, [-1, -2], workers)
    with pytest.raises(RuntimeError, match="shutdown"):
        next(results)
    with start_workers("working", 1) as workers:
        started = map_ordered(abs, range(-9, 0), workers)
        assert next(started) == 9
    assert list(started) == [*range(8, 0, -1)]
    with start_workers("working", 2) as workers:
        started = map_ordered(abs, range(-99, 0), workers)
        assert next(started) == 99
    with pytest.raises((RuntimeError, CancelledError)):
        list(started)


def test_workers_of_a_scheduler_that_have_gone_are_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.setattr("phrasescore.dask_workers._SECONDS_BETWEEN_CHECKS", 0.5)
    monkeypatch.setattr("phrasescore.dask_workers._SECONDS_WITHOUT_WORKERS", 0.5)
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0") as cluster,  # type: ignore[no-untyped-call]
        start_workers("working", scheduler=cluster.scheduler_address) as workers,
    ):
        results = map_ordered(abs, range(-9, 0), workers)
        assert next(results) == 9
        cluster.scale(0)
        while cluster.scheduler.workers:
            time.sleep(0.01)
        with pytest.raises(WorkersLostError, match=r"has no workers; start some by `dask worker"):
            list(results)


def test_a_script_without_the_guard_is_reported_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from phrasescore.workers import map_ordered, start_workers\n"
        "with start_workers('working', 2) as workers:\n    list(map_ordered(abs, range(4), workers))\n"
    )
    # Before Python 3.13, only development mode shows errors from files closed by garbage collection.
    command = [sys.executable, "-X", "dev", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "BufferError" not in done.stderr
    last = done.stderr.splitlines()[-1]
    assert 'code under `if __name__ == "__main__":`, or use one process' in last
    script.write_text(
        "import os, signal\nos.kill(os.getpid(), 9) if __name__ != '__main__' else None\n" + script.read_text()
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, timeout=60)
    assert done.stderr.endswith(f"WorkersLostError: {LOST}\n")


def test_a_process_that_cannot_take_the_place_of_a_killed_one_is_lost(tmp_path: Path) -> None:
    """A killed process that cannot be replaced, for example for lack of memory, is reported as lost."""
    code = (
        "import os, pathlib\nfrom phrasescore.workers import map_ordered, start_workers\n"
        "died = pathlib.Path(__file__).with_name('died')\n"
        "if died.exists():\n    raise MemoryError\n"
        "def die(number):\n    died.touch()\n    os.kill(os.getpid(), 9)\n"
        "if __name__ == '__main__':\n"
        "    with start_workers('working', 2) as workers:\n"
        "        try:\n            next(map_ordered(die, [1], workers))\n"
        "        except Exception as error:\n            print(repr(error))\n"
    )
    assert output_of(code, tmp_path) == f"WorkersLostError('{LOST}')\n"


class Large(Reloadable):
    """Counts how often it is loaded in this process."""

    loaded = 0

    def __init__(self) -> None:
        Large.loaded += 1

    def __call__(self, _: int) -> tuple[int, int]:
        return os.getpid(), Large.loaded


def test_shared_objects_are_loaded_once_per_process() -> None:
    large = Large()
    large.recipe = Large
    with start_workers("working", 2) as workers:
        found = [*map_ordered(large, range(20), workers), *map_ordered(partial(large), range(20), workers)]
    assert {loaded for _, loaded in found} == {1}
    assert len({process for process, _ in found}) == 2
