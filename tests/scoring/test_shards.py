"""`join_shards` accepts only complete shards of one table and verifies their content."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import UserError
from phrasescore.files import read_bytes
from phrasescore.scoring.shards import join_shards
from tests.scoring.annotating import annotate
from tests.scoring.test_sharing import SCORER, TABLE, interrupt


def annotated(table: Path, output: Path, shard: str | None = None, **options: Any) -> Path:
    """Annotate with counts of unknown words, which need no network, in chunks of a few lines; return the path."""
    options = {"columns": ["unknown-target"], "chunk_lines": 100, **options}
    annotate(table, SCORER, output, shard=shard, processes=1, **options)
    return output


def shards_of(table: Path, folder: Path, name: str = "out.gz", of: int = 3, **options: Any) -> list[Path]:
    numbers = range(1, of + 1)
    return [annotated(table, folder / f"{number}.{name}", f"{number}/{of}", **options) for number in numbers]


def description_of(shard: Path) -> Path:
    return shard.with_name(f"{shard.name}.shard.json")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a table of 600 lines and its three shards."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "table").write_bytes(b"".join(read_bytes(TABLE).splitlines(keepends=True)[:600]))
    shards_of(folder / "table", folder)
    return folder


@pytest.fixture
def shards(made: Path, tmp_path: Path) -> list[Path]:
    """A copy of the shards that a test may change."""
    shutil.copytree(made, tmp_path, dirs_exist_ok=True)
    return sorted(tmp_path.glob("*.out.gz"))


@pytest.mark.parametrize("name", ["out.gz", "out.zst", "out.xz", "out.bz2", "out"])
def test_shards_joined_in_any_order_are_the_bytes_of_the_whole(made: Path, tmp_path: Path, name: str) -> None:
    """Shards joined in any order equal the whole table byte for byte, as with `cat`; a shard may be empty."""
    output, whole = tmp_path / name, annotated(made / "table", tmp_path / f"whole.{name}").read_bytes()
    shards = shards_of(made / "table", tmp_path, name)
    for order in (shards, shards[::-1]):
        assert join_shards(order, output) == 600
        assert output.read_bytes() == whole
    few = shards_of(made / "table", tmp_path, f"few.{name}", of=2, limit=10)
    assert [json.loads(description_of(shard).read_bytes())["lines"] for shard in few] == [0, 10]
    assert join_shards(few, output) == 10
    assert output.read_bytes() == b"".join(shard.read_bytes() for shard in few)


def test_messages_about_a_shard(shards: list[Path], tmp_path: Path) -> None:
    """Only a shard has a description file.

    A whole table, a dry run and output to a device have none.
    """
    descriptions = [json.loads(description_of(shard).read_bytes()) for shard in shards]
    assert [(one["shard"], one["of"]) for one in descriptions] == [(1, 3), (2, 3), (3, 3)]
    assert sum(one["lines"] for one in descriptions) == 600
    assert descriptions[0]["fingerprint"] == descriptions[1]["fingerprint"] == descriptions[2]["fingerprint"]
    assert descriptions[0]["fingerprint"]["columns"] == ["unknown-target"]
    before = {path.name for path in tmp_path.iterdir()}
    annotated(tmp_path / "table", tmp_path / "whole.gz")
    annotate(tmp_path / "table", SCORER, None, shard="1/2", columns=["unknown-target"], processes=1)
    annotated(tmp_path / "table", Path("/dev/null"), "1/2")
    assert {path.name for path in tmp_path.iterdir()} == {"whole.gz", *before}


def of_another_table(shard: Path) -> None:
    table = shard.with_name("other")
    table.write_bytes(b"a ||| b ||| 1\n" * 600)
    annotated(table, shard, "2/3")


def with_another_option(shard: Path) -> None:
    annotated(shard.with_name("table"), shard, "2/3", columns=["per-word"])


def of_another_number(shard: Path) -> None:
    annotated(shard.with_name("table"), shard, "2/4")


def given_twice(shard: Path) -> None:
    annotated(shard.with_name("table"), shard, "3/3")


def of_another_run(shard: Path) -> None:
    """Pair a description with the shard of another run, as a job killed between writing the two files leaves it."""
    shutil.copy(shard.with_name("1.out.gz"), shard)


def plain(shard: Path) -> None:
    shard.write_bytes(b"a ||| b ||| 1\n")


def described_otherwise(**values: Any) -> Callable[[Path], None]:
    def change(shard: Path) -> None:
        description = description_of(shard)
        description.write_text(json.dumps({**json.loads(description.read_bytes()), **values}))

    return change


DAMAGE: list[tuple[Callable[[Path], object], str]] = [
    (Path.unlink, r"2.out.gz: cannot be read \(No such file"),
    (
        lambda shard: description_of(shard).unlink(),
        r"2.out.gz: has no 2.out.gz.shard.json beside it, .*; run its job again",
    ),
    (of_another_run, r"2.out.gz: is not the file that 2.out.gz.shard.json describes; run its job again"),
    *(
        (
            change,
            rf"2.out.gz: differs from \S*1.out.gz in {names}; rerun the job",
        )
        for change, names in (
            (of_another_table, "table"),
            (with_another_option, "columns"),
            (of_another_number, "number of shards"),
        )
    ),
    (given_twice, r"3.out.gz: is shard 3 of 3, as \S*2.out.gz is; give each shard once"),
    (plain, r"2.out.gz: is not the file that 2.out.gz.shard.json describes; run its job again"),
    *(
        (described_otherwise(**values), r"2.out.gz.shard.json: does not describe a shard; run its job again")
        for values in (
            {"shard": 0},
            {"shard": 4},
            {"shard": "2"},
            {"fingerprint": "8a0c"},
            {"more": 1},
        )
    ),
    (lambda shard: description_of(shard).write_bytes(b"{"), r"2.out.gz.shard.json: is not JSON .*; run its job again"),
]


@pytest.mark.parametrize(("damage", "message"), DAMAGE)
def test_shards_that_are_rejected(
    shards: list[Path], tmp_path: Path, damage: Callable[[Path], object], message: str
) -> None:
    """Invalid shards are an error and leave the old table."""
    output = tmp_path / "joined.gz"
    output.write_bytes(b"old")
    damage(shards[1])
    before = {path.name for path in tmp_path.iterdir()}
    with pytest.raises(UserError, match=message):
        join_shards(shards, output)
    assert output.read_bytes() == b"old"
    assert {path.name for path in tmp_path.iterdir()} == before


def test_shards_that_are_missing_are_named(shards: list[Path], tmp_path: Path) -> None:
    message = "2.out.gz: is one of 3 shards, but only 1 are given; give all of them, such as shard 1"
    with pytest.raises(UserError, match=message):
        join_shards(shards[1:2], tmp_path / "joined.gz")
    described_otherwise(of=2**60)(shards[0])
    with pytest.raises(UserError, match="give all of them, such as shard 2"):
        join_shards(shards[:1], tmp_path / "joined.gz")


def test_shards_without_a_line_are_no_table(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"")
    with pytest.raises(UserError, match=r"1.out.gz: has no line, nor has another shard; check that the jobs had"):
        join_shards(shards_of(table, tmp_path, of=1), tmp_path / "joined.gz")


@pytest.mark.parametrize("name", ["1.out.gz", "3.out.gz.shard.json"])
def test_no_shard_is_written_over(shards: list[Path], tmp_path: Path, name: str) -> None:
    with pytest.raises(UserError, match=rf"{name}: is an input, which would be lost; give another output"):
        join_shards(shards, tmp_path / name)


def test_a_shard_has_no_description_until_it_is_complete(shards: list[Path], tmp_path: Path) -> None:
    """A shard that is rewritten has no description until it is complete.

    The description then covers all lines, including those of the interrupted run.
    """
    with pytest.raises(KeyboardInterrupt):
        annotated(tmp_path / "table", shards[1], "2/3", progress=interrupt)
    with pytest.raises(UserError, match=r"2.out.gz: has no 2.out.gz.shard.json beside it"):
        join_shards(shards, tmp_path / "joined.gz")
    annotated(tmp_path / "table", shards[1], "2/3")
    assert join_shards(shards, tmp_path / "joined.gz") == 600
