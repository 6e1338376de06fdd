from __future__ import annotations

import errno
import fcntl
import os
import stat
import threading
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files import lock_file, open_output, write_atomically

LEFTOVER = ".out.0123456789abcdef.tmp"


def hidden_files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".")]


def test_no_link_of_a_name_that_can_be_guessed_is_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in (".out.tmp", LEFTOVER):
        (tmp_path / name).symlink_to(victim)
    os.link(victim, tmp_path / ".out.fedcba9876543210.tmp")
    write_atomically(tmp_path / "out", b"text")
    assert victim.read_text() == "precious"
    assert (tmp_path / "out").read_bytes() == b"text"
    # We create no symbolic links, so a link belongs to another user.
    assert len(hidden_files(tmp_path)) == 3


def test_files_of_other_kinds_are_neither_opened_nor_removed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / LEFTOVER)
    (tmp_path / ".out.fedcba9876543210.tmp").mkdir()
    write_atomically(tmp_path / "out", b"text")
    assert len(hidden_files(tmp_path)) == 2


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_lock_of_another_user_is_not_believed(tmp_path: Path) -> None:
    path = tmp_path / LEFTOVER
    path.write_text("theirs")
    os.chown(path, 12345, 12345)
    with path.open("rb+") as theirs:
        fcntl.flock(theirs, fcntl.LOCK_EX)
        write_atomically(tmp_path / "out", b"text")
    assert path.read_text() == "theirs"


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444])
def test_the_permissions_are_those_of_the_old_file_from_the_start(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "out"
    path.write_text("old")
    path.chmod(mode)
    with open_output(path) as stream:
        [hidden] = hidden_files(tmp_path)
        assert stat.S_IMODE(hidden.stat().st_mode) == mode
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


def test_leftovers_of_killed_runs_are_removed_and_those_of_other_names_kept(tmp_path: Path) -> None:
    others = [".out.b.0123456789abcdef.tmp", ".out.0123.tmp", ".another.0123456789abcdef.tmp", ".out.tmp"]
    for name in (LEFTOVER, *others):
        (tmp_path / name).write_text("half")
    (tmp_path / LEFTOVER).chmod(0o444)
    write_atomically(tmp_path / "out", b"text")
    assert {path.name for path in tmp_path.iterdir()} == {"out", *others}


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


@pytest.mark.parametrize("name", ["x" * 255, "ä" * 127, "x" * 240, "x" * 230])
def test_the_longest_names(tmp_path: Path, name: str) -> None:
    with open_output(tmp_path / name) as stream:
        stream.write(b"text")
        with pytest.raises(UserError, match="another run is writing"):
            write_atomically(tmp_path / name, b"second")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_lock_touches_nothing(tmp_path: Path) -> None:
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("precious")
    link.symlink_to(victim)
    with pytest.raises(UserError, match=r"link: cannot be locked \(.*\); check its folder, or remove it"):
        lock_file(link, "busy")
    with lock_file(victim, "busy"), pytest.raises(UserError, match=r"^busy$"):
        lock_file(victim, "busy")
    assert victim.read_text() == "precious"


def test_a_link_to_itself_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "folder").symlink_to("folder")
    with pytest.raises(UserError, match=r"a: is a link that leads to itself; remove it or choose another name"):
        write_atomically(tmp_path / "a", b"text")
    with pytest.raises(UserError, match=r"folder/out: cannot be written \(Too many levels of symbolic links\)"):
        write_atomically(tmp_path / "folder" / "out", b"text")


def test_a_disk_that_knows_no_locks_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(file: object, operation: int) -> None:
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with pytest.raises(UserError, match=r"lock: cannot be locked \(Function not implemented\); check its folder"):
        lock_file(tmp_path / "lock", "busy")
    with pytest.raises(UserError, match=r"out: cannot be written \(Function not implemented\); check the folder"):
        write_atomically(tmp_path / "out", b"text")
