from __future__ import annotations

import gzip
import math
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

import phrasescore
from phrasescore.errors import UserError
from phrasescore.files import read_bytes
from phrasescore.table.check import check_table
from phrasescore.table.criteria import Criterion, JointCount, RelativeEntropy, Significance, fisher
from phrasescore.table.entry import parse_line
from phrasescore.table.prune import PruneConfig, prune
from tests.conftest import DATA, MINI

TABLE, REORDERING = MINI / "phrase-table.gz", MINI / "reordering-table.wbe-msd-bidirectional-fe.gz"
LINES = gzip.decompress(TABLE.read_bytes()).splitlines(keepends=True)
ENTRIES = [parse_line(line) for line in LINES]
CHUNK_LINES = 2000


def pruned(table: Path, output: Path, *, chunk_lines: int = CHUNK_LINES, **options: Any) -> list[bytes]:
    config = PruneConfig(**{"processes": 1, **options})
    counts = prune(table, output, config, config.criterion(table), chunk_lines=chunk_lines)
    lines = read_bytes(output).splitlines(keepends=True)
    assert counts.lines_written == len(lines)
    return lines


def best(criterion: Criterion, count: int) -> list[bytes]:
    """Return the best lines: of equals those with fewer source words, then by the tie breaker, then the first."""
    numbers_NK = np.array([criterion.read(entry) for entry in ENTRIES], np.float64)
    values, ties = criterion.values(ENTRIES, numbers_NK), criterion.tie_breakers(numbers_NK)
    words = [entry.source.count(b" ") for entry in ENTRIES]
    order = sorted(range(len(LINES)), key=lambda line: (-values[line], words[line], -ties[line], line))
    return [LINES[line] for line in sorted(order[:count])]


# Criteria


@given(st.integers(1, 400), st.integers(1, 400), st.integers(0, 3000), st.data())
def test_significance_is_that_of_fishers_exact_test(target: int, source: int, others: int, data: Any) -> None:
    pair = data.draw(st.integers(1, min(target, source)))
    pairs = target + source - pair + others
    [value] = fisher(np.array([float(target)]), np.array([float(source)]), np.array([float(pair)]), pairs)
    assert value == pytest.approx(-hypergeom.logsf(pair - 1, pairs, source, target), rel=1e-9, abs=1e-9)


def test_counts_of_large_tables_take_few_terms() -> None:
    """Of frequent phrases that were extracted together only once, the tail of larger counts has millions of terms."""
    counts = np.array([[1e7, 1e7, 1.0], [1e7, 1e7, 1e5], [1e7, 1e7, 1.01e5], [5e7, 10.0, 10.0]])
    # The last two by SciPy's hypergeom.logsf, which takes seconds.
    expected = [0, math.log(2), 7.24120995, 29.95732497]
    target, source, pair = counts.T
    assert fisher(target, source, pair, 1e9) == pytest.approx(expected, rel=1e-6, abs=2e-3)


def test_a_pair_that_occurs_once_as_its_phrases_do_has_alpha() -> None:
    for pairs in (2.0, 29_000.0, 1e9):
        criterion = Significance(pairs)
        line = parse_line(b"a ||| b ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||\n")
        [value] = criterion.values([line], np.array([criterion.read(line)]))
        assert value == pytest.approx(criterion.alpha, abs=1e-4)


def test_the_thresholds_around_alpha(tmp_path: Path) -> None:
    """Johnson et al.: alpha+epsilon drops pairs that were extracted once, as their phrases were; alpha-epsilon not."""
    once = {line for line in LINES if b"||| 1 1 1 |||" in line}
    above = pruned(TABLE, tmp_path / "a", by="significance", threshold="alpha+epsilon")
    within = pruned(TABLE, tmp_path / "b", by="significance", threshold="alpha-epsilon")
    assert once
    assert above == [line for line in within if line not in once]
    assert len(within) == len(above) + len(once) < len(LINES)


def test_significance_counts_all_extracted_pairs(tmp_path: Path) -> None:
    pairs = sum(int(line.split(b" ||| ")[4].split()[2]) for line in LINES)
    expected = best(Significance(pairs), 3877)
    assert pruned(TABLE, tmp_path / "out", by="significance", keep=0.2) == expected


def test_relative_entropy() -> None:
    lines = (
        b"a b ||| c ||| 0.1 0.2 0.5 0.25 ||| 0-0 ||| 9 6 3 ||| |||\n",
        b"a ||| c ||| 0.1 0.2 0.5 0.25 ||| 0-0 ||| 9 6 3 ||| |||\n",
        b"a b ||| c ||| 0.1 0.2 1 0 ||| 0-0 ||| 9 6 3 ||| |||\n",
    )
    criterion, entries = RelativeEntropy(), [parse_line(line) for line in lines]
    values = criterion.values(entries, np.array([criterion.read(entry) for entry in entries]))
    assert values == pytest.approx([3 * math.log(2), 3 * (math.log(0.5) + 10), 3 * 100])


# Lines


@pytest.mark.parametrize("share", [1e-9, 0.1, 0.2, 0.5, 0.9999, 1])
def test_the_exact_share_is_kept(tmp_path: Path, share: float) -> None:
    expected = best(JointCount(), max(1, round(share * len(LINES))))
    assert pruned(TABLE, tmp_path / "out", keep=share) == expected
    assert not check_table(tmp_path / "out").problems


def test_a_threshold_on_a_column(tmp_path: Path) -> None:
    assert pruned(TABLE, tmp_path / "out.gz", by="3", threshold="0.5") == [
        line for line, entry in zip(LINES, ENTRIES, strict=True) if float(entry.scores.split()[2]) >= 0.5
    ]
    with pytest.raises(UserError, match=r"^threshold: no line has a value of at least 1\.5; give a lower one$"):
        pruned(TABLE, tmp_path / "none.gz", by="3", threshold="1.5")
    assert not (tmp_path / "none.gz").exists()


@pytest.mark.parametrize("chunk_lines", [1, 700, 100_000])
def test_the_best_lines_of_each_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chunk_lines: int) -> None:
    """Chunks that divide the lines of a source do not matter, nor do windows."""
    monkeypatch.setattr("phrasescore.table.reader._MORE_LINES", 0)
    monkeypatch.setattr("phrasescore.table.prune._WINDOW", 100)
    table, of_source = tmp_path / "table", dict[bytes, list[tuple[float, int]]]()
    table.write_bytes(b"".join(LINES[:3000]))
    for number, entry in enumerate(ENTRIES[:3000]):
        of_source.setdefault(entry.source, []).append((-float(entry.scores.split()[2]), number))
    kept = sorted(number for lines in of_source.values() for _, number in sorted(lines)[:2])
    found = pruned(table, tmp_path / "out", by="3", top=2, chunk_lines=chunk_lines)
    assert found == [LINES[number] for number in kept]
    assert len(pruned(table, tmp_path / "out", by="3", top=2, keep=0.1, chunk_lines=chunk_lines)) == 300


def test_of_equal_counts_the_larger_share_of_the_source_is_kept(tmp_path: Path) -> None:
    table = tmp_path / "table"
    lines = [b"a ||| x ||| 1 1 1 1 ||| 0-0 ||| 2 9 2\n", b"b ||| y ||| 1 1 1 1 ||| 0-0 ||| 9 2 2\n"]
    table.write_bytes(b"".join(lines))
    assert pruned(table, tmp_path / "out", by="count", keep=0.5) == lines[1:]


def test_the_lines_of_a_source_must_be_together(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"a ||| x ||| 0.5\nb ||| y ||| 0.5\na ||| z ||| 0.4\n")
    with pytest.raises(UserError, match="table: the lines of a source phrase are not together, as top needs them"):
        pruned(table, tmp_path / "out", by="1", top=1)
    assert len(pruned(table, tmp_path / "out", by="1", keep=0.5)) == 2


@pytest.mark.parametrize("name", ["out.gz", "out.zst", "out"])
def test_processes_do_not_matter(tmp_path: Path, name: str) -> None:
    expected = best(JointCount(), 3877)
    assert pruned(TABLE, tmp_path / name, keep=0.2, processes=2) == expected


def test_the_score_of_a_network_is_a_criterion(small_table: Path, tmp_path: Path) -> None:
    phrasescore.annotate(small_table, DATA / "stored-model", tmp_path / "annotated", processes=1)
    phrasescore.prune(small_table, tmp_path / "out", models=[DATA / "stored-model"], keep=0.3, processes=1)
    pruned(tmp_path / "annotated", tmp_path / "by-column", by="5", keep=0.3)
    pairs = [
        [line.split(b" ||| ")[:2] for line in (tmp_path / name).read_bytes().splitlines()]
        for name in ("out", "by-column")
    ]
    assert len(pairs[0]) == 180
    assert pairs[0] == pairs[1]


def test_tables_with_factors_and_more_columns(tmp_path: Path) -> None:
    table = tmp_path / "table"
    lines = [b"a|A b|B ||| c|C ||| 1 1 1 1 0.%d |||  ||| 2 2 %d |||\n" % (number, number) for number in (1, 2, 1)]
    table.write_bytes(b"".join(lines))
    assert pruned(table, tmp_path / "out", keep=0.34) == [lines[1]]
    assert pruned(table, tmp_path / "out", by="5", keep=0.67) == lines[:2]


def test_faulty_lines(tmp_path: Path) -> None:
    table, long = tmp_path / "table", b"x " * (1 << 20)
    good = b"a ||| b ||| 1 1 1 1 ||| 0-0 ||| 2 2 %d |||\n"
    table.write_bytes(good % 1 + b"faulty\n" + good % 2 + long + b"\n" + good % 1)
    with pytest.raises(UserError, match="table, line 2: has 1 field"):
        pruned(table, tmp_path / "out", keep=0.5)
    assert [path.name for path in tmp_path.iterdir()] == ["table"]
    assert pruned(table, tmp_path / "out", keep=0.6, on_error="keep") == [b"faulty\n", good % 2, long + b"\n"]
    assert pruned(table, tmp_path / "out", top=1, on_error="keep") == [b"faulty\n", good % 2, long + b"\n"]
    table.write_bytes(b"faulty\nfaulty\n")
    with pytest.raises(UserError, match=r"line 1: has 1 field.*; all 2 lines are faulty"):
        pruned(table, tmp_path / "out", keep=0.5, on_error="keep")
    table.write_bytes(b"")
    with pytest.raises(UserError, match="has no line"):
        pruned(table, tmp_path / "out", keep=0.5)


@pytest.mark.parametrize(
    ("by", "line", "message"),
    [
        ("count", b"a ||| b ||| 1\n", r"line 1, field 5 \(counts\): lacks the counts of target, source and pair; "),
        ("significance", b"a ||| b ||| 1\n", "lacks the counts"),
        ("significance", b"a ||| b ||| 1 ||| 0-0 ||| 9e20 9e20 9e20\n", "do not belong to a table of"),
        ("significance", b"a ||| b ||| 1 ||| 0-0 ||| 9 9 1 |||\n", "do not belong to a table of 1 extracted pairs"),
        ("2", b"a ||| b ||| 1\n", r"line 1, field 3 \(scores\): has 1 score, and column 2 is needed; "),
        ("entropy", b"a ||| b ||| 1 ||| ||| 1 1 1\n", "has 1 score, and column 3 is needed; "),
    ],
)
def test_a_table_without_the_numbers_of_the_criterion(tmp_path: Path, by: str, line: bytes, message: str) -> None:
    table = tmp_path / "table"
    table.write_bytes(line)
    for on_error in ("stop", "keep"):
        with pytest.raises(UserError, match=message):
            pruned(table, tmp_path / "out", by=by, threshold="1", on_error=on_error)
    if by == "significance":
        with pytest.raises(UserError, match=message):
            pruned(table, tmp_path / "out", by=by, threshold="alpha+epsilon")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "keep: is missing; give it, threshold or top"),
        ({"keep": 0.5, "threshold": "1"}, "keep and threshold: are both given"),
        ({"keep": 0.5, "by": "0"}, "by: `0` is not significance, entropy, count or the number of a column"),
        ({"threshold": "alpha+epsilon"}, "threshold: alpha.epsilon needs by='significance'"),
        ({"keep": 0.5, "table": "-"}, "standard input: can be read only once, but pruning reads the table twice"),
        ({"threshold": "high"}, "threshold: `high` is no finite number"),
        ({"keep": 0.5, "by": "count", "models": [DATA / "stored-model"]}, "by: does not go with a model"),
    ],
)
def test_options_that_make_no_sense(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        phrasescore.prune(**{"table": TABLE, "output": tmp_path / "out", **options})


# Interrupted runs


def test_an_interrupted_run_is_resumed(tmp_path: Path) -> None:
    """The values of chunks are kept, and serve another share, but not another criterion."""
    output, said = tmp_path / "out.gz", list[str]()

    def stop(share: float | None, text: str) -> None:
        raise KeyboardInterrupt

    config = PruneConfig(keep=0.2, processes=1)
    with pytest.raises(KeyboardInterrupt):
        prune(TABLE, output, config, JointCount(), chunk_lines=CHUNK_LINES, progress=stop)
    message = f"{output}: an earlier run had criterion count (now entropy); give the same to resume it, or"
    with pytest.raises(UserError, match=f"^{re.escape(message)}"):
        prune(TABLE, output, config, RelativeEntropy(), chunk_lines=CHUNK_LINES)
    prune(TABLE, output, PruneConfig(keep=0.1, processes=1), JointCount(), chunk_lines=CHUNK_LINES, log=said.append)
    assert said == [f"{output}: resuming after chunk 1 of an interrupted run"]
    assert read_bytes(output).splitlines(keepends=True) == best(JointCount(), 1938)
    assert [path.name for path in tmp_path.iterdir()] == ["out.gz"]


def test_a_killed_run_is_resumed(tmp_path: Path) -> None:
    output = tmp_path / "out.gz"
    script = (
        "import os, signal\nfrom pathlib import Path\nfrom phrasescore.table.prune import *\n"
        f"config = PruneConfig(keep=0.2, processes=1)\n"
        "def kill(share, text):\n    if text == 'copying lines': os.kill(os.getpid(), signal.SIGKILL)\n"
        f"prune({str(TABLE)!r}, {str(output)!r}, config, JointCount(), chunk_lines={CHUNK_LINES}, progress=kill)\n"
    )
    killed = subprocess.run([sys.executable, "-c", script], env=os.environ, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert not output.exists()
    assert pruned(TABLE, output, keep=0.2) == best(JointCount(), 3877)
    assert not list(tmp_path.glob(".*values*"))


# The reordering table


def test_the_reordering_table_has_the_same_pairs(tmp_path: Path) -> None:
    names, said = [tmp_path / "out.gz", tmp_path / "reordering.gz"], list[str]()
    phrasescore.prune(TABLE, names[0], keep=0.2, reordering=(REORDERING, names[1]), processes=1, log=said.append)
    pairs = [[line.split(b" ||| ")[:2] for line in read_bytes(name).splitlines()] for name in names]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 3877
    before = read_bytes(REORDERING).splitlines()
    assert [*filter({*read_bytes(names[1]).splitlines()}.__contains__, before)] == read_bytes(names[1]).splitlines()
    assert said[-1].startswith(f"next: in moses.ini, set {names[0]} as the path of the phrase table, and {names[1]} as")


def test_a_reordering_table_of_sources(tmp_path: Path) -> None:
    table, reordering, output = tmp_path / "table", tmp_path / "reordering", tmp_path / "out"
    table.write_bytes(b"a ||| b ||| 1\na ||| c ||| 1\nd ||| e ||| 1\n")
    reordering.write_bytes(b"a ||| 0.5\nb ||| 0.5\nd ||| 0.5\n")
    phrasescore.prune(table, tmp_path / "small", by="1", keep=1.0, reordering=(reordering, output))
    assert output.read_bytes() == b"a ||| 0.5\nd ||| 0.5\n"


def test_another_reordering_table_leaves_both_outputs(tmp_path: Path) -> None:
    table, reordering = tmp_path / "table", tmp_path / "reordering"
    outputs: dict[str, Any] = {
        "by": "1",
        "keep": 1.0,
        "output": tmp_path / "small",
        "reordering": (reordering, tmp_path / "out"),
    }
    table.write_bytes(b"a ||| b ||| 1\na ||| c ||| 1\n")
    for lines in (b"a ||| b ||| 0.5\n", b"a ||| c ||| 0.5\na ||| b ||| 0.5\n", b""):
        reordering.write_bytes(lines)
        with pytest.raises(
            UserError, match=r"reordering: lacks `a \|\|\| [bc]` of the phrase table, or has another order"
        ):
            phrasescore.prune(table, **outputs)
        assert {path.name for path in tmp_path.iterdir()} == {"table", "reordering"}
