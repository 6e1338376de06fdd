from __future__ import annotations

import errno
import fcntl
import gzip
import json
import lzma
import os
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest

from phrasescore.errors import UsageError, UserError
from phrasescore.files import (
    MAGIC_LENGTH,
    compress,
    lock_file,
    open_output,
    read_bytes,
    require_writable,
    to_json,
    write_atomically,
)


def _fill_disk_of(file: BinaryIO) -> None:
    """Make all further writes fail as on a full disk."""
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, file.fileno())
    os.close(full)


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_full_disk_does_not_hide_another_error(tmp_path: Path, name: str) -> None:
    """An error of one of two outputs is not hidden by the other's failure on a full disk.

    The first failure is reported; closing the other file must not replace it.
    """

    def write() -> None:
        with open_output(tmp_path / name) as stream:
            stream.write(b"x" * 1000)
            _fill_disk_of(stream)
            raise UserError("the other file cannot be written")

    with pytest.raises(UserError, match="the other file"):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_a_full_disk_is_reported_with_the_file_on_it(tmp_path: Path, name: str) -> None:
    def write() -> None:
        with open_output(tmp_path / name) as stream:
            _fill_disk_of(stream)
            stream.write(os.urandom(3 << 20))

    with pytest.raises(UserError, match=rf"{name}: cannot be written \(No space left on device\); free space or"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_the_file_on_the_full_disk_is_named(tmp_path: Path) -> None:
    def write() -> None:
        with open_output(tmp_path / "out") as stream, open_output("/dev/full") as full:
            stream.write(b"fits")
            full.write(b"does not")

    with pytest.raises(UserError, match=r"^/dev/full: cannot be written"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_compressed_by_its_own_name(tmp_path: Path) -> None:
    (tmp_path / "t.gz").symlink_to(tmp_path / "blob")
    (tmp_path / "plain").symlink_to(tmp_path / "other.gz")
    for name in ("t.gz", "plain"):
        with open_output(tmp_path / name) as stream:
            stream.write(b"text")
    assert gzip.decompress((tmp_path / "blob").read_bytes()) == b"text"
    assert (tmp_path / "other.gz").read_bytes() == b"text"


def test_a_pipe_without_a_name_is_written_to() -> None:
    """An unnamed pipe is a valid output, as in `-o >(...)` of a shell."""
    reading, writing = os.pipe()
    name = f"/dev/fd/{writing}"
    require_writable(name)
    with pytest.raises(UsageError, match="is given for two outputs"):
        require_writable(name, name)
    with open_output(name) as stream:
        stream.write(b"text")
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        assert pipe.read() == b"text"


def test_a_file_that_is_standard_output_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "out"
    script = (
        "from phrasescore.files import is_stream, open_output\nassert is_stream('/dev/stdout')\n"
        "with open_output('/dev/stdout') as out: out.write(b'two\\n')"
    )
    with path.open("w") as stream:
        stream.write("one\n")
        stream.flush()
        subprocess.run([sys.executable, "-c", script], stdout=stream, check=True)
        stream.write("three\n")
    assert path.read_text() == "one\ntwo\nthree\n"


def test_standard_output_that_does_not_wait_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing waits for standard output in non-blocking mode.

    Another process that shares the stream may have set this mode; a full pipe is not an error.
    """
    writing, reading = socket.socketpair()
    writing.setblocking(False)
    monkeypatch.setattr("sys.stdout", writing)
    received = []

    def read() -> None:
        time.sleep(0.1)
        while part := reading.recv(1 << 16):
            received.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    with open_output("-") as stream:
        stream.write(b"text" * (1 << 20))
    writing.close()
    reader.join()
    reading.close()
    assert b"".join(received) == b"text" * (1 << 20)


def test_a_device_takes_several_outputs(tmp_path: Path) -> None:
    require_writable("/dev/null", "/dev/null", None)
    with pytest.raises(UsageError, match="out: is given for two outputs"):
        require_writable(tmp_path / "out", tmp_path / "out")


def test_standard_output_takes_one_output_under_all_its_names() -> None:
    with pytest.raises(UsageError, match="standard output: is given for two outputs"):
        require_writable("-", "/dev/stdout")


@pytest.mark.parametrize(("suffix", "decompress"), [("gz", gzip.decompress), ("xz", lzma.decompress)])
def test_a_named_pipe_is_compressed_by_its_name(
    tmp_path: Path, suffix: str, decompress: Callable[[bytes], bytes]
) -> None:
    pipe = tmp_path / f"pipe.{suffix}"
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    with open_output(pipe) as stream:
        stream.write(b"text")
    reader.join()
    assert decompress(received[0]) == b"text"
    assert pipe.is_fifo()


@pytest.mark.parametrize("compression", ["gz", "zst", "xz", "bz2"])
def test_no_flipped_bit_gives_other_content(tmp_path: Path, compression: str) -> None:
    lines = [b"source %d ||| target %d ||| 0.%d\n" % (number, number**2, number**3) for number in range(100)]
    path, text = tmp_path / f"table.{compression}", b"".join(lines)
    with open_output(path) as stream:
        stream.write(text)
    data = path.read_bytes()
    assert data == compress(lines, compression)
    # The first bytes decide whether the file is compressed.
    rejected, places = 0, range(MAGIC_LENGTH, len(data), 17)
    for place in places:
        path.write_bytes(data[:place] + bytes([data[place] ^ 1 << place % 8]) + data[place + 1 :])
        try:
            assert read_bytes(path) == text
        except UserError:
            rejected += 1
    assert rejected >= len(places) - 1


def test_json_has_no_infinity() -> None:
    value = {"a": [1.5, float("inf")], "b": {"c": float("nan"), "d": (True, "inf", -float("inf"))}}
    assert json.loads(to_json(value), parse_constant=pytest.fail) == {
        "a": [1.5, None],
        "b": {"c": None, "d": [True, "inf", None]},
    }


def test_json_is_readable_and_keeps_a_name_that_is_no_utf_8() -> None:
    value = {"text": "Été", "path": os.fsdecode(b"caf\xe9.gz")}
    assert to_json(value) == '{\n  "text": "Été",\n  "path": "caf\\udce9.gz"\n}\n'.encode()
    assert json.loads(to_json(value)) == value


def hidden_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o664])
def test_the_permissions_are_those_of_the_old_file(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(mode)
    with open_output(path) as stream:
        [hidden] = hidden_files(tmp_path)
        assert stat.S_IMODE(hidden.stat().st_mode) == mode | 0o600
        stream.write(b"new")
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert path.read_text() == "new"


def test_a_new_file_has_the_permissions_of_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_atomically(tmp_path / "out", b"text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o640


def test_the_leftover_of_a_killed_run_is_used_again(tmp_path: Path) -> None:
    (tmp_path / ".out.tmp").write_text("half of a long text")
    write_atomically(tmp_path / "out", b"text")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert (tmp_path / "out").read_bytes() == b"text"


def test_no_link_is_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (tmp_path / ".out.tmp").symlink_to(victim)
    with pytest.raises(UserError, match="out: cannot be written"):
        write_atomically(tmp_path / "out", b"text")
    assert victim.read_text() == "precious"


def test_two_runs_cannot_write_one_file(tmp_path: Path) -> None:
    with open_output(tmp_path / "out") as first:
        first.write(b"first")
        with pytest.raises(UserError, match="out: another run is writing this file; wait for it or"):
            write_atomically(tmp_path / "out", b"second")
        assert len(hidden_files(tmp_path)) == 1
    assert (tmp_path / "out").read_bytes() == b"first"
    write_atomically(tmp_path / "out", b"third")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_of_runs_that_start_at_once_no_two_write(tmp_path: Path) -> None:
    start, lock = threading.Barrier(8), threading.Lock()
    writing, most, written = 0, 0, 0

    def run() -> None:
        nonlocal writing, most, written
        start.wait()
        try:
            with open_output(tmp_path / "out"):
                with lock:
                    writing, written = writing + 1, written + 1
                    most = max(most, writing)
                threading.Event().wait(0.01)
                with lock:
                    writing -= 1
        except UserError:
            return

    runs = [threading.Thread(target=run) for _ in range(8)]
    for thread in runs:
        thread.start()
    for thread in runs:
        thread.join()
    assert most == 1
    assert written >= 1
    assert hidden_files(tmp_path) == []


def test_a_lock_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    path.write_text("precious")
    with lock_file(path, "busy"), pytest.raises(UserError, match=r"^busy$"):
        lock_file(path, "busy")
    assert path.read_text() == "precious"


def test_a_link_to_itself_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "folder").symlink_to("folder")
    with pytest.raises(UserError, match=r"a: is a link that leads to itself; remove it or choose another name"):
        write_atomically(tmp_path / "a", b"text")
    with pytest.raises(UserError, match=r"folder/out: cannot be written \(Too many levels of symbolic links\)"):
        write_atomically(tmp_path / "folder" / "out", b"text")


def test_a_disk_without_locks_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(UserError, match=r"lock: cannot be locked \(Function not implemented\); check its folder"):
        lock_file(tmp_path / "lock", "busy")
    with pytest.raises(UserError, match=r"out: cannot be written \(Function not implemented\); check the folder"):
        write_atomically(tmp_path / "out", b"text")
