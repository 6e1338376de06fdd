"""The output of `annotate` does not depend on the number of shards and processes."""

from __future__ import annotations

import gzip
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from phrasescore.errors import UserError
from phrasescore.files import read_bytes
from phrasescore.scoring.annotate import Counts
from phrasescore.scoring.columns import Column
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import PhraseScorer, Scores, load_scorer
from tests.conftest import DATA, MINI
from tests.scoring.annotating import annotate

if TYPE_CHECKING:
    # Worker processes import this module, and would import Dask, too.
    from distributed import LocalCluster

TABLE = MINI / "phrase-table.gz"
SCORER = load_scorer(DATA / "stored-model", device="cpu", precision="bf16")
LINES, CHUNK_LINES = 6000, 600


def annotated(output: Path, limit: int = LINES, **options: Any) -> bytes:
    """Annotate and return lines in 16-bit precision, where a different order of summation would show."""
    columns = ["score", "unknown-target"]
    counts = annotate(TABLE, SCORER, output, columns=columns, chunk_lines=CHUNK_LINES, limit=limit, **options)
    lines = read_bytes(output)
    assert counts.lines_written == lines.count(b"\n")
    return lines


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The output of one process."""
    return annotated(tmp_path_factory.mktemp("alone") / "out.gz", processes=1)


def test_processes_do_not_matter(expected: bytes, tmp_path: Path) -> None:
    assert annotated(tmp_path / "out.gz", processes=3) == expected


def test_the_workers_of_a_scheduler_do_not_matter(expected: bytes, tmp_path: Path, cluster: LocalCluster) -> None:
    assert annotated(tmp_path / "out.gz", scheduler=cluster.scheduler_address) == expected


def test_shards_joined_are_the_whole(expected: bytes, tmp_path: Path) -> None:
    """Shards consist of whole chunks and concatenate to the whole output; surplus shards are empty.

    `test_shards.py` has the other suffixes.
    """
    joined = tmp_path / "out.gz"
    shards = [tmp_path / f"{number}.out.gz" for number in range(1, 16)]
    lines = [annotated(shard, shard=f"{number}/15", processes=1) for number, shard in enumerate(shards, 1)]
    joined.write_bytes(b"".join(shard.read_bytes() for shard in shards))
    assert read_bytes(joined) == b"".join(lines) == expected
    assert b"" in lines


def test_a_shard_without_lines_is_one_member_though_its_run_was_stopped_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    outputs = [tmp_path / "whole.gz", tmp_path / "stopped.gz"]
    annotated(outputs[0], shard="1/15")
    with monkeypatch.context() as patch:
        patch.setattr("phrasescore.files.resumable.publish", interrupt)
        with pytest.raises(KeyboardInterrupt):
            annotated(outputs[1], shard="1/15")
    annotated(outputs[1], shard="1/15")
    whole, stopped = (output.read_bytes() for output in outputs)
    assert stopped == whole
    assert gzip.decompress(whole) == b""


def interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt


class Killing(EncoderDecoderScorer):
    """A scorer that kills its process once."""

    def score(self, occurrences: Occurrences, columns: Sequence[Column] = ()) -> Scores:
        marker = Path(os.environ["KILL_ONCE"])
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().score(occurrences, columns)


def load_killing() -> PhraseScorer:
    return Killing.load([DATA / "stored-model"], "cpu", "bf16")


def test_a_worker_that_is_killed_does_not_matter(
    expected: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KILL_ONCE", str(tmp_path / "killed"))
    columns = ["score", "unknown-target"]
    scorer = load_killing()
    scorer.recipe = load_killing
    annotate(TABLE, scorer, tmp_path / "out", columns=columns, chunk_lines=CHUNK_LINES, processes=2, limit=LINES)
    assert (tmp_path / "killed").exists()
    assert (tmp_path / "out").read_bytes() == expected


def test_the_lines_of_some_sources_do_not_depend_on_processes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"only_sources_in": (MINI / "test.en",), "chunk_lines": CHUNK_LINES}
    outputs = [tmp_path / "here", tmp_path / "there"]
    for processes, output in enumerate(outputs, 1):
        annotate(TABLE, SCORER, output, processes=processes, **options)
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert 0 < len(outputs[0].read_bytes().splitlines()) < 19_385


def test_the_first_fault_is_reported_for_any_number_of_processes(tmp_path: Path) -> None:
    lines = gzip.decompress(TABLE.read_bytes()).splitlines(keepends=True)[:5000]
    lines[2500], lines[4500] = b"first\n", b"second\n"
    path, output = tmp_path / "table.gz", tmp_path / "out"
    path.write_bytes(gzip.compress(b"".join(lines)))
    for processes in (1, 2):
        with pytest.raises(UserError, match=r"table.gz, line 2501: has 1 field"):
            annotate(path, SCORER, output, chunk_lines=500, processes=processes)
    assert [path.name for path in tmp_path.iterdir()] == ["table.gz"]


def test_a_network_that_changes_meanwhile_is_one_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    for path in (DATA / "stored-model").iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    scorer = load_scorer(folder, device="cpu")
    (folder / "weights.safetensors").unlink()
    with pytest.raises(UserError, match=r"model: has no weights.safetensors yet"):
        annotate(TABLE, scorer, tmp_path / "out", chunk_lines=CHUNK_LINES, processes=2, limit=LINES)


def test_an_interrupted_run_is_resumed(expected: bytes, tmp_path: Path) -> None:
    """An interrupted run resumes at any chunk with any number of processes, but not with other options."""
    output, said = tmp_path / "out.gz", list[str]()

    def stop_after(chunks: int, **options: Any) -> None:
        seen: list[Counts] = []

        def progress(counts: Counts, share: float | None) -> None:
            seen.append(counts)
            if len(seen) == chunks:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            annotated(output, progress=progress, log=said.append, **options)
        assert not output.exists()

    stop_after(3, processes=1)
    stop_after(2, processes=2)
    assert said.pop().endswith("out.gz: resuming after chunk 3 of an interrupted run")
    assert annotated(output, processes=1, log=said.append) == expected
    assert said.pop().endswith("out.gz: resuming after chunk 5 of an interrupted run")
    assert [path.name for path in tmp_path.iterdir()] == ["out.gz"]
    output.unlink()
    stop_after(2, processes=1)
    with pytest.raises(UserError, match=r"out.gz: an earlier run had limit 6000 \(now 5900\); give the same to"):
        annotated(output, processes=1, log=said.append, limit=5_900)
    assert annotated(output, processes=1, log=said.append, limit=5_900, restart=True) in expected
    assert not said


def test_counts_of_a_run_that_was_stopped_count(tmp_path: Path) -> None:
    def stop(counts: Counts, share: float | None) -> None:
        raise KeyboardInterrupt

    outputs = [tmp_path / "whole", tmp_path / "stopped"]
    options: dict[str, Any] = {"processes": 1, "chunk_lines": CHUNK_LINES, "limit": LINES}
    with pytest.raises(KeyboardInterrupt):
        annotate(TABLE, SCORER, outputs[1], progress=stop, **options)
    whole, resumed = (annotate(TABLE, SCORER, path, **options) for path in outputs)
    assert 600 <= resumed.lines_of_run_before < 700
    assert replace(resumed, seconds=whole.seconds, lines_of_run_before=0) == whole


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_runs_killed_at_twenty_moments_are_resumed(tmp_path: Path) -> None:
    """A command killed at twenty moments resumes each time; after it has finished, it starts from the beginning."""
    table, whole, output = (tmp_path / name for name in ("table.gz", "whole.gz", "out.gz"))
    # The table has several chunks.
    table.write_bytes(TABLE.read_bytes() * 20)
    errors = tmp_path / "errors"
    moments, kills = Random(20), 0

    def start(to: Path) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [sys.executable, "-m", "phrasescore", "annotate", table, "-o", to]
        command += ["-m", DATA / "stored-model", "--device", "cpu", "--processes", "2"]
        with errors.open("ab") as stream:
            return subprocess.Popen(command, stderr=stream)

    started = time.monotonic()
    assert start(whole).wait() == 0
    seconds, expected = time.monotonic() - started, read_bytes(whole)
    while kills < 20:
        run = start(output)
        with suppress(subprocess.TimeoutExpired):
            run.wait(moments.uniform(0, seconds))
        run.kill()
        code = run.wait()
        assert code in (0, -signal.SIGKILL)
        kills += code != 0
        assert not output.exists() or read_bytes(output) == expected
        output.unlink(missing_ok=True)
    assert start(output).wait() == 0
    assert read_bytes(output) == expected
    assert output.read_bytes() == whole.read_bytes()
    assert b"resuming after chunk" in errors.read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"table.gz", "whole.gz", "out.gz", "errors"}
