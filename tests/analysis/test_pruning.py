from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasescore.analysis import pruning
from phrasescore.analysis.pruning import Judge, Pruned, at_random, by_column, by_network, judge_table
from phrasescore.analysis.word_scores import pair_scores
from phrasescore.errors import UserError
from phrasescore.scoring.engine import Scorer
from phrasescore.table.reader import TableReader
from tests.conftest import MINI

LINES = b"""\
a ||| x ||| 1 1 0.1 1
a ||| y ||| 1 1 0.7 1 ||| 0-0 ||| 1 2 3 ||| |||
a ||| z ||| 1 1 0.2 1
b ||| x ||| 1 1 0.05 1
c ||| x x ||| 1 1 0.5 1
c ||| y ||| 1 1 0.4 1
"""


def prune(table: Path, output: Path, judge: Judge, share: float | None = None, **options: Any) -> Pruned:
    return pruning.prune(table, output, judge_table(table, judge), share=share, **options)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "table").write_bytes(LINES)
    return tmp_path / "table"


@pytest.mark.parametrize(
    ("share", "kept"), [(0, "012345"), (0.17, "12345"), (0.34, "1345"), (0.5, "134"), (0.9, "134"), (1, "134")]
)
def test_the_worst_go_but_each_source_keeps_its_best(table: Path, share: float, kept: str) -> None:
    pruned = prune(table, table.with_name("out"), by_column(3, table), share)
    lines = LINES.splitlines(keepends=True)
    assert table.with_name("out").read_bytes() == b"".join(lines[int(number)] for number in kept)
    assert (pruned.lines_read, pruned.lines_written, pruned.sources) == (6, len(kept), 3)


def test_the_best_score_that_went(table: Path) -> None:
    judge = by_column(3, table)
    assert prune(table, table.with_name("out"), judge, 0.34).best_dropped == pytest.approx(np.log(0.2))
    assert prune(table, table.with_name("out"), judge, 0).best_dropped is None


@pytest.mark.parametrize(
    ("probability", "share", "kept"),
    [(0.01, None, "012345"), (0.15, None, "12345"), (0.3, None, "1345"), (0.3, 0.17, "12345"), (1.0, None, "134")],
)
def test_what_is_below_a_threshold_goes(table: Path, probability: float, share: float | None, kept: str) -> None:
    """The only pair of b stays, though it is the worst of all."""
    threshold = float(np.log(probability))
    prune(table, table.with_name("out"), by_column(3, table), share, threshold=threshold)
    lines = LINES.splitlines(keepends=True)
    assert table.with_name("out").read_bytes() == b"".join(lines[int(number)] for number in kept)


def test_relative_scores_compare_with_the_best_of_the_source(table: Path) -> None:
    # c's worse target is nearly as good as its best one, a's second is not.
    pruned = prune(table, table.with_name("out"), by_column(3, table), 0.34, relative=True)
    lines = LINES.splitlines(keepends=True)
    assert table.with_name("out").read_bytes() == b"".join(lines[number] for number in (1, 3, 4, 5))
    assert pruned.best_dropped == pytest.approx(np.log(0.2 / 0.7))
    table.write_bytes(b"a ||| x ||| 1 1 0.9 1\na ||| y ||| 1 1 0.3 1\nb ||| x ||| 1 1 0.02 1\nb ||| y ||| 1 1 0.01 1\n")
    for relative, kept in ((False, b"y ||| 1 1 0.3"), (True, b"y ||| 1 1 0.01")):
        prune(table, table.with_name("out"), by_column(3, table), 0.25, relative=relative)
        assert kept in table.with_name("out").read_bytes()


def test_zero_stays_the_worst_where_it_is_the_best_too(table: Path) -> None:
    table.write_bytes(b"a ||| x ||| 1 1 0 1\na ||| y ||| 1 1 0 1\nb ||| x ||| 1 1 1 1\nb ||| y ||| 1 1 1e-9 1\n")
    prune(table, table.with_name("out"), by_column(3, table), 0.25, relative=True)
    assert len(table.with_name("out").read_bytes().splitlines()) == 3
    assert b"b ||| y" in table.with_name("out").read_bytes()


def test_the_share_of_extractions_that_stays(table: Path) -> None:
    # All lines count once but the one with a count of three.
    assert prune(table, table.with_name("out"), at_random(1), 0).extractions_kept == 1
    pruned = prune(table, table.with_name("out"), by_column(3, table), 0.5)
    assert pruned.extractions_kept == pytest.approx(5 / 8)


def test_per_word_spares_long_targets(table: Path) -> None:
    table.write_bytes(b"a ||| x ||| 1 1 0.5 1\na ||| x x x ||| 1 1 0.4 1\na ||| z ||| 1 1 0.41 1\n")
    prune(table, table.with_name("out"), by_column(3, table), 0.34, per_word=True)
    assert b"x x x" in table.with_name("out").read_bytes()
    prune(table, table.with_name("out"), by_column(3, table), 0.34)
    assert b"x x x" not in table.with_name("out").read_bytes()


def test_a_probability_of_zero_goes_first(table: Path) -> None:
    table.write_bytes(b"a ||| x ||| 1 1 0 1\na ||| y ||| 1 1 0.5 1\na ||| z ||| 1 1 1e-30 1\n")
    prune(table, table.with_name("out"), by_column(3, table), 0.34)
    assert table.with_name("out").read_bytes().startswith(b"a ||| y")


@pytest.mark.parametrize("chunk_lines", [700, 32_768])
def test_by_the_network_over_chunks(
    scorer: Scorer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_lines: int
) -> None:
    monkeypatch.setattr(
        "phrasescore.analysis.pruning.TableReader", lambda path: TableReader(path, chunk_lines=chunk_lines)
    )
    lines = gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines(keepends=True)[:3000]
    (tmp_path / "table").write_bytes(b"".join(lines))
    prune(tmp_path / "table", tmp_path / "out.gz", by_network(scorer), 0.05, per_word=True)
    kept = set(gzip.decompress((tmp_path / "out.gz").read_bytes()).splitlines(keepends=True))
    pairs = [line.split(b" ||| ")[:2] for line in lines]
    scores = pair_scores(scorer, [source for source, _ in pairs], [target for _, target in pairs]).values(per_word=True)
    best: dict[bytes, int] = {}
    for index, (source, _) in enumerate(pairs):
        if source not in best or scores[index] > scores[best[source]]:
            best[source] = index
    others = sorted(set(range(3000)) - set(best.values()), key=lambda index: scores[index])
    expected = {lines[index] for index in [*best.values(), *others[150:]]}
    # Equal but for pairs whose scores differ by less than the engine's rounding.
    assert len(kept) == len(expected) == 2850
    assert len(kept ^ expected) <= 4


def test_at_random_depends_on_the_seed(tmp_path: Path) -> None:
    def kept(judge: Judge) -> bytes:
        prune(MINI / "phrase-table.gz", tmp_path / "out", judge, 0.1)
        return (tmp_path / "out").read_bytes()

    assert kept(at_random(1)) == kept(at_random(1)) != kept(at_random(2))


def test_faults_are_sentences_and_leave_no_file(table: Path) -> None:
    with pytest.raises(UserError, match="has no score column 5"):
        prune(table, table.with_name("out"), by_column(5, table), 0.5)
    with pytest.raises(UserError, match="cannot be read twice"):
        prune(Path("-"), table.with_name("out"), at_random(1), 0.5)
    lines = table.read_bytes().splitlines(keepends=True)
    for content, message in ((b"", "has no line"), (b"".join([*lines, lines[0]]), "in different places; sort it")):
        table.write_bytes(content)
        with pytest.raises(UserError, match=message):
            prune(table, table.with_name("out"), at_random(1), 0.5)
    assert [path.name for path in table.parent.iterdir()] == ["table"]
