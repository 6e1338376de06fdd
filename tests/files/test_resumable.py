from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import InputError, UserError, WorkersLostError
from phrasescore.files import open_output, write_atomically
from phrasescore.files import resumable as module
from phrasescore.files.resumable import ResumableFolder, resumable_output
from tests.files.test_writing import hidden_files

FINGERPRINT = {"table": "8a0c", "columns": 1, "paths": ["caf\udce9", "Été"]}
CHUNKS = [random.Random(number).randbytes(50 * number) for number in range(8)]
WHOLE = b"".join(CHUNKS)

WRITER = """\
import random, sys, time
from phrasescore.files.resumable import ResumableFolder, resumable_output

chunks, seconds = int(sys.argv[2]), float(sys.argv[3])
with resumable_output(sys.argv[1], {"chunks": chunks}) as output:
    print(output.note, flush=True)
    total = output.chunks[-1]["total"] if output.chunks else 0
    for number in range(len(output.chunks), chunks):
        chunk = random.Random(number).randbytes(20000 + number)
        total += len(chunk)
        output.append(chunk, {"number": number, "total": total})
        time.sleep(seconds)
print(total)
"""


def write(
    path: Path, *, stop_before: int | None = None, restart: bool = False, fingerprint: Any = FINGERPRINT
) -> list[int]:
    """Write all chunks, or stop before one; return the numbers of the chunks written."""
    written = []
    with resumable_output(path, fingerprint, restart=restart) as output:
        assert [facts["number"] for facts in output.chunks] == [*range(len(output.chunks))]
        for number in range(len(output.chunks), len(CHUNKS)):
            if number == stop_before:
                raise KeyboardInterrupt
            output.append(CHUNKS[number], {"number": number, "share": number / 7})
            written.append(number)
    return written


def note(path: Path, **settings: Any) -> str | None:
    """Return the messages of a run that stops at once."""
    with suppress(KeyboardInterrupt), resumable_output(path, **{"fingerprint": FINGERPRINT, **settings}) as output:
        raise KeyboardInterrupt
    return output.note


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """An output whose run was interrupted after four chunks."""
    path = tmp_path / "out"
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_before=4)
    return path


def unfinished(path: Path) -> Path:
    return path.with_name(f".{path.name}.unfinished")


def journal(path: Path) -> Path:
    return path.with_name(f".{path.name}.journal")


def assert_complete(path: Path) -> None:
    assert path.read_bytes() == WHOLE
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_run_resumes_where_one_was_stopped(path: Path) -> None:
    assert sorted(path.parent.iterdir()) == [journal(path), unfinished(path)]
    assert note(path) == f"{path}: resuming after chunk 4 of an interrupted run"
    assert write(path) == [4, 5, 6, 7]
    assert_complete(path)


def test_a_run_resumes_where_one_has_lost_its_workers(path: Path) -> None:
    with pytest.raises(WorkersLostError), resumable_output(path, FINGERPRINT):
        raise WorkersLostError("gone")
    assert write(path) == [4, 5, 6, 7]
    assert_complete(path)
    with pytest.raises(WorkersLostError), resumable_output(path, FINGERPRINT):
        raise WorkersLostError("gone")
    assert_complete(path)


def test_only_a_fault_of_the_input_leaves_nothing(path: Path) -> None:
    with pytest.raises(UserError, match="no scheduler"), resumable_output(path, FINGERPRINT):
        raise UserError("no scheduler answers")
    assert note(path) == f"{path}: resuming after chunk 4 of an interrupted run"
    with pytest.raises(InputError), resumable_output(path, FINGERPRINT):
        raise InputError("line 5: is faulty")
    assert list(path.parent.iterdir()) == []


def test_a_run_that_nothing_disturbs(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert note(path) is None
    # A run that stops before its first chunk leaves no files.
    assert hidden_files(tmp_path) == []
    assert write(path) == [*range(8)]
    assert_complete(path)
    assert note(path) is None


def test_the_same_bytes_after_kills(tmp_path: Path) -> None:
    writer, path = tmp_path / "writer.py", tmp_path / "out"
    writer.write_text(WRITER)
    command = [sys.executable, str(writer), str(path), "200"]
    rng, starts = random.Random(1), []
    for _ in range(20):
        with subprocess.Popen([*command, "0.005"], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            starts.append(process.stdout.readline())
            time.sleep(rng.uniform(0, 0.05))
            process.kill()
    assert not path.exists()
    assert sum("resuming after" in start for start in starts) > 10
    last = subprocess.run([*command, "0"], capture_output=True, text=True, check=True).stdout
    expected = b"".join(random.Random(number).randbytes(20000 + number) for number in range(200))
    assert path.read_bytes() == expected
    assert last.split("\n")[1] == str(len(expected))
    assert sorted(tmp_path.iterdir()) == [path, writer]


def test_a_kill_at_any_system_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run killed at any system call resumes.

    The kill comes before, after or during a write, or around a rename or removal of files.
    """
    made = tmp_path / "made"
    made.mkdir()
    left: list[Path] = []

    def keep() -> None:
        left.append(shutil.copytree(made, tmp_path / f"left{len(left)}"))

    class Slowly(FileIO):
        def write(self, content: Any) -> int:
            keep()
            written = super().write(content[: max(len(content) // 2, 1)])
            keep()
            return written

    def between(name: str) -> None:
        original: Callable[..., Any] = getattr(Path, name)

        def kept(*args: Any, **settings: Any) -> Any:
            keep()
            result = original(*args, **settings)
            keep()
            return result

        monkeypatch.setattr(Path, name, kept)

    with monkeypatch.context() as patched:
        patched.setattr(module, "FileIO", Slowly)
        between("replace")
        between("unlink")
        write(made / "out")
    monkeypatch.undo()
    assert len(left) > 100
    resumed = 0
    for folder in left:
        resumed += len(write(folder / "out")) < len(CHUNKS)
        assert_complete(folder / "out")
    assert resumed > len(left) // 2


@pytest.mark.parametrize(
    ("fingerprint", "changes"),
    [
        ({**FINGERPRINT, "table": "0f" * 32}, "table 8a0c (now 0f0f0f0f...)"),
        ({**FINGERPRINT, "columns": 1.5, "direction": "s2t"}, "columns 1 (now 1.5), direction none (now s2t)"),
        ({"table": "8a0c", "columns": 1}, "paths caf\udce9 Été (now none)"),
        ({**FINGERPRINT, "paths": {"a": 1}}, "paths caf\udce9 Été (now 1)"),
    ],
)
def test_another_fingerprint_is_an_error_that_names_what_changed(
    path: Path, fingerprint: dict[str, Any], changes: str
) -> None:
    """A different fingerprint is an error that names what changed; the work is kept for the original options."""
    message = f"{path}: an earlier run had {changes}; give the same to resume it, or restart to discard its work"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        write(path, fingerprint=fingerprint)
    assert note(path) == f"{path}: resuming after chunk 4 of an interrupted run"
    assert write(path, fingerprint=fingerprint, restart=True) == [*range(8)]
    assert_complete(path)


def test_another_format_is_an_error(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FORMAT", module.FORMAT + 1)
    with pytest.raises(
        UserError, match=rf"an earlier run had format {module.FORMAT - 1} \(now {module.FORMAT}\); give"
    ):
        write(path)


def test_a_damaged_fingerprint_starts_over(path: Path) -> None:
    content = journal(path).read_bytes()
    journal(path).write_bytes(content.replace(b'"columns": 1', b'"columns": 2', 1))
    assert note(path) == f"{path}: starting over, because the work of an earlier run is damaged"


def test_a_folder_resumes_only_results_of_its_fingerprint(tmp_path: Path) -> None:
    folder = tmp_path / "results"
    first = ResumableFolder(folder, FINGERPRINT)
    assert first.note is None
    # Without finished results, a changed fingerprint loses no work.
    assert ResumableFolder(folder, {"table": "ffff"}).note is None
    first = ResumableFolder(folder, FINGERPRINT)
    first.write("a", b"one")
    resumed = ResumableFolder(folder, FINGERPRINT)
    assert resumed.note == f"{folder}: resuming an earlier run"
    assert (resumed.read("a"), resumed.read("b")) == (b"one", None)
    with pytest.raises(UserError, match=r"results: an earlier run had columns 1 \(now 2\); give the same to resume it"):
        ResumableFolder(folder, {**FINGERPRINT, "columns": 2})
    assert resumed.read("a") == b"one"
    assert ResumableFolder(folder, FINGERPRINT, restart=True).read("a") is None
    ResumableFolder(folder, FINGERPRINT).write("a", b"one")
    (folder / "fingerprint.json").write_bytes(b"{}")
    damaged = ResumableFolder(folder, FINGERPRINT)
    assert damaged.note == f"{folder}: starting over, because the work of an earlier run is damaged"
    assert damaged.read("a") is None


def test_restarting(path: Path) -> None:
    before = shutil.copytree(path.parent, path.parent / "copy") / "out"
    assert note(before, restart=True) is None
    assert hidden_files(before.parent) == []
    assert write(path, restart=True) == [*range(8)]
    assert path.read_bytes() == WHOLE


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_journal_that_was_cut_short(path: Path, cut: int) -> None:
    os.truncate(journal(path), journal(path).stat().st_size - cut)
    assert write(path) == [*range(3 if cut < 100 else 2, 8)]
    assert_complete(path)


@pytest.mark.parametrize("cut", [1, 149, 151])
def test_chunks_that_a_power_failure_has_cost(path: Path, cut: int) -> None:
    os.truncate(unfinished(path), len(b"".join(CHUNKS[:4])) - cut)
    there = 3 if cut < 150 else 2
    assert note(path) == (
        f"{path}: resuming after chunk {there} of an interrupted run; damaged chunks, which are made again: {4 - there}"
    )
    assert write(path) == [*range(there, 8)]
    assert_complete(path)


def test_any_byte_that_changes_is_noticed(path: Path) -> None:
    rng = random.Random(3)
    for file in (unfinished(path), journal(path)):
        content = bytearray(file.read_bytes())
        for place in rng.sample(range(len(content)), 60):
            other = shutil.copytree(path.parent, path.parent.parent / f"{file.name}{place}") / "out"
            content[place] ^= 1 << rng.randrange(8)
            (other.parent / file.name).write_bytes(content)
            content[:] = file.read_bytes()
            with resumable_output(other, FINGERPRINT) as output:
                assert output.chunks == [{"number": n, "share": n / 7} for n in range(len(output.chunks))]
                assert len(output.chunks) < 4
                for number in range(len(output.chunks), len(CHUNKS)):
                    output.append(CHUNKS[number], {})
            assert_complete(other)


@pytest.mark.parametrize(
    "lines",
    [
        b"",
        b"\n\n",
        b"[]\n",
        b'{"format": 1, "format": 1}\n',
        b'{"fingerprint": 7}\n{}\n',
        b"\xff\0\n" * 9,
        b"{" * 100_000 + b"\n",
    ],
)
def test_a_journal_that_is_none(path: Path, lines: bytes) -> None:
    journal(path).write_bytes(lines)
    assert write(path) == [*range(8)]
    assert_complete(path)


@pytest.mark.parametrize("length", ["-1", "1e9", "true", "null", '"5"', str(1 << 62), str(1 << 80)])
def test_lengths_that_are_none(path: Path, length: str) -> None:
    first, second, *_ = journal(path).read_bytes().split(b"\n")
    entry = json.dumps({**json.loads(second), "length": "LENGTH"}).replace('"LENGTH"', length)
    journal(path).write_bytes(first + b"\n" + entry.encode() + b"\n")
    assert write(path) == [*range(8)]
    assert_complete(path)


def test_chunks_of_another_output_are_not_used(path: Path) -> None:
    """Chunks moved to another position are rejected."""
    first, *entries = journal(path).read_bytes().split(b"\n")
    journal(path).write_bytes(b"\n".join([first, entries[0], entries[2], entries[1], b""]))
    assert write(path) == [*range(1, 8)]
    assert_complete(path)


@pytest.mark.parametrize(
    ("error", "left"),
    [
        (InputError("line 5: is faulty"), 0),
        (UserError("other"), 1),
        (MemoryError(), 1),
        (OSError(), 1),
        (RuntimeError("CUDA error"), 1),
    ],
)
def test_an_error_leaves_chunks_unless_it_is_about_them(path: Path, error: Exception, left: int) -> None:
    path.write_text("old")

    def fail() -> None:
        with resumable_output(path, FINGERPRINT) as output:
            output.append(b"chunk", {})
            raise error

    with pytest.raises(type(error)):
        fail()
    assert path.read_text() == "old"
    assert len(hidden_files(path.parent)) == 2 * left
    with resumable_output(path, FINGERPRINT) as output:
        assert len(output.chunks) == 5 * left


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_a_signal_while_chunks_are_looked_at_costs_none(
    path: Path, monkeypatch: pytest.MonkeyPatch, stop: type[BaseException]
) -> None:
    def interrupted(*_: Any) -> None:
        raise stop

    with monkeypatch.context() as patched:
        patched.setattr(module, "parse_json", interrupted)
        with pytest.raises(stop):
            write(path)
    assert write(path) == [4, 5, 6, 7]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk(path: Path) -> None:
    with (
        largest_file(700),
        pytest.raises(UserError, match=r"out: cannot be written \(File too large\); free space or write to another"),
    ):
        write(path)
    assert list(path.parent.iterdir()) == []


def test_two_runs_cannot_write_at_once(path: Path) -> None:
    with resumable_output(path, FINGERPRINT) as output:
        for run in (write, lambda path: write_atomically(path, b"other")):
            with pytest.raises(UserError, match="out: another run is writing this file; wait for it or"):
                run(path)
        for number in range(4, 8):
            output.append(CHUNKS[number], {})
    assert_complete(path)
    with open_output(path), pytest.raises(UserError, match="out: another run is writing this file"):
        write(path)


def test_the_chunks_have_the_permissions_of_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(0o440)
    with pytest.raises(KeyboardInterrupt):
        write(path, stop_before=4)
    assert {stat.S_IMODE(file.stat().st_mode) for file in hidden_files(tmp_path)} == {0o640}
    write(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o440
    assert_complete(path)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "folder" / "out")
    with pytest.raises(KeyboardInterrupt):
        write(tmp_path / "link", stop_before=4)
    assert write(tmp_path / "folder" / "out") == [4, 5, 6, 7]
    assert (tmp_path / "link").is_symlink()
    assert_complete(tmp_path / "folder" / "out")


def test_chunks_are_synced_now_and_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[Path] = []

    def sync(file: FileIO | int) -> None:
        descriptor = file if isinstance(file, int) else file.fileno()
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())

    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(module, "_SECONDS_BETWEEN_SYNCS", 0.0)
    path = tmp_path / "out"
    write(path)
    assert synced == [unfinished(path), journal(path)] * len(CHUNKS) + [unfinished(path)]
