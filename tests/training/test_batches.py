from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from phrasescore.pairs import DataConfig, read_table
from phrasescore.training.batches import batches_in_order, batches_of_pass, split_held_out
from tests.conftest import MINI


def test_held_out_lines_are_not_trained_on() -> None:
    lines = np.arange(1000)
    train, held_out = split_held_out(lines, DataConfig(held_out=0.05), seed=3)
    assert sorted([*train, *held_out]) == lines.tolist()
    assert len(held_out) == 50
    assert split_held_out(lines, DataConfig(held_out=0.05), seed=3)[1].tolist() == held_out.tolist()
    assert split_held_out(lines, DataConfig(held_out=0.05), seed=4)[1].tolist() != held_out.tolist()
    assert len(split_held_out(lines, DataConfig(held_out=0.05, held_out_limit=7), seed=3)[1]) == 7


def test_a_pass_has_every_pair_once_in_batches_of_like_length(tmp_path: Path) -> None:
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    lines = data.distinct[5:]
    batches = list(batches_of_pass(data.pairs, lines, 50, seed=1, number=0))
    assert sorted(np.concatenate(batches).tolist()) == lines.tolist()
    lengths = data.pairs.target.lengths, data.pairs.source.lengths
    for batch in batches:
        assert np.all(np.diff(lengths[0][batch]) <= 0)
    spread = [np.ptp(lengths[0][batch]) + np.ptp(lengths[1][batch]) for batch in batches]
    assert np.mean(spread) < 1.5
    again = [batch.tolist() for batch in batches_of_pass(data.pairs, lines, 50, seed=1, number=0)]
    assert again == [batch.tolist() for batch in batches]
    other = [batch.tolist() for batch in batches_of_pass(data.pairs, lines, 50, seed=1, number=1)]
    assert other != again
    in_order = np.concatenate(list(batches_in_order(data.pairs, 64)))
    assert sorted(in_order.tolist()) == list(range(len(data.pairs)))


@pytest.mark.parametrize("number", [1, 32, 33, 65, 64 * 32, 64 * 32 + 1, 64 * 32 + 40])
def test_no_batch_is_smaller_than_the_others(tmp_path: Path, number: int) -> None:
    """Neither the last of a pass nor the last 64 of which some are left: 33 pairs are 17 and 16, not 32 and 1."""
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    lines = data.distinct[:number]
    assert len(lines) == number
    batches = list(batches_of_pass(data.pairs, lines, 32, seed=1, number=0))
    sizes = [len(batch) for batch in batches]
    assert len(sizes) == math.ceil(number / 32)
    assert max(sizes) <= 32
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(batches).tolist()) == lines.tolist()
