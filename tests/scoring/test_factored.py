"""Training and scoring a factored table gives the same network and scores as its surface forms alone."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

import phrasescore
from phrasescore.cli import main
from phrasescore.errors import UserError
from phrasescore.model_folder import load_model
from tests.cli.running import run

TINY: dict[str, Any] = {"hidden": 8, "embedding": 5, "output_rank": 3, "batch_size": 32, "max_updates": 20}


def with_factors(phrase: bytes, factors: int) -> bytes:
    return b" ".join(
        b"|".join([word, *(b"T%d" % (len(word) % (n + 3)) for n in range(1, factors))]) for word in phrase.split()
    )


def factored(line: bytes, source: int = 2, target: int = 3) -> bytes:
    first, second, rest = line.split(b" ||| ", 2)
    return b" ||| ".join((with_factors(first, source), with_factors(second, target), rest))


@pytest.fixture
def tables(small_table: Path, tmp_path: Path) -> tuple[Path, Path]:
    """The same table without and with factors."""
    lines = gzip.decompress(small_table.read_bytes()).splitlines(keepends=True)
    (tmp_path / "plain").write_bytes(b"".join(lines))
    (tmp_path / "factored").write_bytes(b"".join(map(factored, lines)))
    return tmp_path / "plain", tmp_path / "factored"


def train(table: Path, folder: Path, **settings: Any) -> Path:
    phrasescore.train(table, folder, **TINY, **settings)
    return folder


def columns(path: Path) -> list[bytes]:
    return [line.split(b" ||| ")[2].split(b" ")[-1] for line in path.read_bytes().splitlines()]


def test_scores_are_those_of_the_table_without_factors(tables: tuple[Path, Path], tmp_path: Path) -> None:
    plain, table = tables
    networks = train(plain, tmp_path / "net-plain"), train(table, tmp_path / "net-factored")
    digests = [load_model(folder).vocabulary_digests for folder in networks]
    assert digests[0] == digests[1]
    for number, network in enumerate(networks):
        for name, path in zip(("plain", "factored"), tables, strict=True):
            phrasescore.annotate(path, network, tmp_path / f"{name}{number}", processes=1)
    assert len({(tmp_path / f"{name}{number}").read_bytes() for name in ("plain",) for number in (0, 1)}) == 1
    assert columns(tmp_path / "factored1") == columns(tmp_path / "plain0")
    annotated = (tmp_path / "factored1").read_bytes().splitlines(keepends=True)
    without = [
        line.replace(b" " + column, b"", 1)
        for line, column in zip(annotated, columns(tmp_path / "factored1"), strict=True)
    ]
    assert b"".join(without) == table.read_bytes()


def test_annotate_scores_the_factors_that_train_chose(tables: tuple[Path, Path], tmp_path: Path) -> None:
    _, table = tables
    network = train(table, tmp_path / "net", factor="0,1")
    assert json.loads((network / "config.json").read_bytes())["factors"] == [0, 1]
    scorer = phrasescore.load_scorer(network)
    assert all(word.count(b"|") == 1 for word in load_model(network).target_vocabulary.known_words)
    counts = phrasescore.annotate(table, network, tmp_path / "out", processes=1)
    assert not counts.words.target_unknown
    line = table.read_bytes().splitlines()[5].split(b" ||| ")
    phrasescore.annotate(table, network, tmp_path / "out", processes=1)
    shown = run("score", "-m", network, stdin=b"\t".join(line[:2]) + b"\n")
    assert float(shown.stdout) == pytest.approx(phrasescore.score([(line[0], line[1])], scorer)[0], abs=0.1)


def test_a_pair_of_mixed_factors_is_named(tables: tuple[Path, Path], tmp_path: Path) -> None:
    network = train(tables[1], tmp_path / "net")
    with pytest.raises(UserError, match="pair 1, target: mixes words of different numbers of factors: `b`"):
        phrasescore.score([("a", "a|N b")], network)


def test_factors_that_a_table_lacks(
    tables: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, table = tables
    with pytest.raises(UserError, match="plain: has no factors; leave factor out, or give a factored table"):
        train(plain, tmp_path / "net", factor="0,1")
    with pytest.raises(UserError, match=r"line 1, field 1 .*has words of 2 factors, but the network is for factor 2"):
        train(table, tmp_path / "net", factor="2")
    assert main(["train", str(table), "-o", str(tmp_path / "net"), "--factor", "a"]) == 2
    assert "--factor: `a` is not a list of factors" in capsys.readouterr().err


def test_factors_are_for_tables(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (text := tmp_path / "text").write_bytes(b"a b\n" * 20)
    command = ["train", "--source", str(text), "--target", str(text), "-o", str(tmp_path / "net")]
    assert main([*command, "--factor", "1"]) == 2
    assert "`factor`: has no effect with parallel text" in capsys.readouterr().err
