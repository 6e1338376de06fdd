"""Workers of a Dask scheduler build, tune and decode with the same results as local processes."""

from __future__ import annotations

from pathlib import Path

from distributed import LocalCluster

from moses_integration.cli import main
from phrasescore.files import read_bytes
from tests.conftest import MINI
from tests.moses_integration.cli.running import run, sentence_of

QUICK = ("--iterations", "2", "--restarts", "2", "--nbest", "20", "--prepared", "-q")


def test_the_results_are_those_of_one_process(
    cluster: LocalCluster, system: Path, small_dev: tuple[Path, Path], tmp_path: Path
) -> None:
    source, reference = map(str, small_dev)
    texts = ["--source", str(MINI / "train.en"), "--target", str(MINI / "train.fr"), "--tokenised"]
    built = {}
    for name, place in {"here": ["--processes", "1"], "there": ["--scheduler", cluster.scheduler_address]}.items():
        folder = tmp_path / name
        links = ["--alignment", str(MINI / "train.align"), "--toolkit", "embedded"]
        assert main(["build", *texts, *links, *place, "-o", str(folder), "-q"]) == 0
        tables = ("phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz")
        tuned, out = folder / "tuned.ini", folder / "out"
        dev = ["--source", source, "--reference", reference, "--toolkit", "embedded"]
        assert main(["tune", str(folder / "moses.ini"), *dev, *QUICK, *place, "-o", str(tuned)]) == 0
        decode = ["decode", str(tuned), "--source", source, "--prepared", "-q", "-o", str(out), "--toolkit", "embedded"]
        assert main([*decode, *place]) == 0
        built[name] = [*(read_bytes(folder / table) for table in tables), tuned.read_bytes(), out.read_bytes()]
    assert built["there"] == built["here"]


def test_moses_shares_no_work(tmp_path: Path, system: Path, small_dev: tuple[Path, Path]) -> None:
    done = run("decode", system / "moses.ini", "--toolkit", "moses", "--scheduler", "tcp://127.0.0.1:1", "--prepared")
    assert "--scheduler: Moses cannot share its work" in sentence_of(done.returncode, done.stderr)
