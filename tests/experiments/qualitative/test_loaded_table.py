"""Phrase tables loaded into memory."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.qualitative.loaded_table import load_table
from phrasescore.errors import UserError
from phrasescore.table.reader import TableReader
from tests.conftest import MINI


def test_the_outputs_of_each_input(four_pairs: Path) -> None:
    loaded = load_table(TableReader(four_pairs))
    assert loaded.inputs == [b"a b", b"c", b"d"]
    assert [loaded.outputs[i] for i in loaded.pairs_of(0)] == [b"x", b"y z"]
    assert loaded.probability_P.tolist() == [0.25, 0.75, 1, 1]
    assert loaded.input_count_S.tolist() == [4, 1, 9]
    assert loaded.best_pair_S().tolist() == [1, 2, 3]
    assert loaded.input_of_pair_P.tolist() == [0, 0, 1, 2]


def test_equal_inputs_are_brought_together(four_pairs: Path, tmp_path: Path) -> None:
    first, *others = four_pairs.read_bytes().splitlines(keepends=True)
    (tmp_path / "table").write_bytes(b"".join([*others, first]))
    loaded = load_table(TableReader(tmp_path / "table"))
    assert loaded.inputs == [b"a b", b"c", b"d"]
    assert [loaded.outputs[i] for i in loaded.pairs_of(0)] == [b"y z", b"x"]
    assert loaded.probability_P.tolist() == [0.75, 0.25, 1, 1]
    assert loaded.best_pair_S().tolist() == [0, 2, 3]


def test_the_mini_table_as_a_whole() -> None:
    loaded = load_table(TableReader(MINI / "phrase-table.gz"))
    lines = [line.split(b" ||| ") for line in gzip.decompress((MINI / "phrase-table.gz").read_bytes()).splitlines()]
    assert loaded.outputs == [line[1] for line in lines]
    assert [loaded.inputs[i] for i in loaded.input_of_pair_P] == [line[0] for line in lines]
    totals = np.add.reduceat(loaded.probability_P, loaded.offsets[:-1])
    assert totals.max() <= 1 + 1e-4


@pytest.mark.parametrize(
    ("content", "message"), [(b"", "has no lines"), (b"a ||| b ||| 0.5 1\n", "has 2 score columns")]
)
def test_tables_that_do_not_serve(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "table").write_bytes(content)
    with pytest.raises(UserError, match=message):
        load_table(TableReader(tmp_path / "table"))


def test_pairs_of_a_table_without_counts_count_once(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 1 1 0.5 1\nb ||| y ||| 1 1 1 1\nb ||| z ||| 1 1 1 1\n")
    assert load_table(TableReader(tmp_path / "table")).count_P.tolist() == [1, 1, 1]
