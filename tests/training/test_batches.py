from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import kenlm
import numpy as np
import pytest

from phrasescore.device import choose_device
from phrasescore.lm.ngram_model import BackoffModel
from phrasescore.pairs import DataConfig, read_table
from phrasescore.training.batches import (
    are_short,
    batches_in_order,
    batches_of_epoch,
    hold_out_sentences,
    perplexity,
    sample_of_epoch,
    split_held_out,
)
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from tests.conftest import MINI
from tests.lm.conftest import ARPA


def test_held_out_lines_are_not_trained_on() -> None:
    lines = np.arange(1000)
    train, held_out = split_held_out(lines, DataConfig(held_out=0.05), seed=3)
    assert sorted([*train, *held_out]) == lines.tolist()
    assert len(held_out) == 50
    assert split_held_out(lines, DataConfig(held_out=0.05), seed=3)[1].tolist() == held_out.tolist()
    assert split_held_out(lines, DataConfig(held_out=0.05), seed=4)[1].tolist() != held_out.tolist()
    assert len(split_held_out(lines, DataConfig(held_out=0.05, held_out_limit=7), seed=3)[1]) == 7


def test_duplicates_of_held_out_lines_are_excluded() -> None:
    """Duplicates of held-out lines are excluded from training, and frequent lines are not held out.

    Otherwise the held-out loss would measure memorisation.
    """
    hashes = np.array([*range(90), *([7] * 5), *([8] * 5)], np.uint64)
    train, held_out = hold_out_sentences(hashes, 10, seed=3)
    assert sorted([*train, *held_out]) == list(range(100))
    assert len(held_out) == 10
    assert not {7, 8} & {*held_out.tolist()}
    train, held_out = hold_out_sentences(np.repeat(hashes[:90], 2), 10, seed=3)
    assert len(held_out) == 10
    assert not {*(train // 2).tolist()} & {*(held_out // 2).tolist()}
    assert hold_out_sentences(np.repeat(hashes[:90], 2), 10, seed=3)[1].tolist() == held_out.tolist()
    assert hold_out_sentences(np.repeat(hashes[:90], 2), 10, seed=4)[1].tolist() != held_out.tolist()
    assert [len(lines) for lines in hold_out_sentences(hashes, 0, seed=3)] == [100, 0]


def test_a_pass_has_every_pair_once_in_batches_of_like_length(tmp_path: Path) -> None:
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    lines = data.distinct[5:]
    batches = list(batches_of_epoch(data.pairs, lines, 50, seed=1, epoch=0))
    assert sorted(np.concatenate(batches).tolist()) == lines.tolist()
    lengths = data.pairs.target.lengths, data.pairs.source.lengths
    for batch in batches:
        assert np.all(np.diff(lengths[0][batch]) <= 0)
    spread = [np.ptp(lengths[0][batch]) + np.ptp(lengths[1][batch]) for batch in batches]
    assert np.mean(spread) < 1.5
    again = [batch.tolist() for batch in batches_of_epoch(data.pairs, lines, 50, seed=1, epoch=0)]
    assert again == [batch.tolist() for batch in batches]
    other = [batch.tolist() for batch in batches_of_epoch(data.pairs, lines, 50, seed=1, epoch=1)]
    assert other != again
    in_order = np.concatenate(list(batches_in_order(data.pairs, 64)))
    assert sorted(in_order.tolist()) == list(range(len(data.pairs)))


@pytest.mark.parametrize("number", [1, 32, 33, 65, 64 * 32, 64 * 32 + 1, 64 * 32 + 40])
def test_no_batch_is_smaller_than_the_others(tmp_path: Path, number: int) -> None:
    """All batches of an epoch have nearly the same size.

    The last batches are balanced: 33 pairs are split into 17 and 16, not into 32 and 1.
    """
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    lines = data.distinct[:number]
    assert len(lines) == number
    batches = list(batches_of_epoch(data.pairs, lines, 32, seed=1, epoch=0))
    sizes = [len(batch) for batch in batches]
    assert len(sizes) == math.ceil(number / 32)
    assert max(sizes) <= 32
    assert max(sizes) - min(sizes) <= 1
    assert sorted(np.concatenate(batches).tolist()) == lines.tolist()


def test_short_pairs_have_at_most_four_words_on_both_sides(tmp_path: Path) -> None:
    data = read_table(MINI / "phrase-table.gz", tmp_path, DataConfig())
    lines = data.distinct[7:]
    sides = data.pairs.source.lengths, data.pairs.target.lengths
    assert are_short(data.pairs, lines).tolist() == [max(side[line] for side in sides) <= 4 for line in lines.tolist()]


def test_a_pass_takes_all_short_pairs_and_a_share_of_the_others(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    settings = replace(tiny_settings, training=replace(tiny_settings.training, long_pairs=0.3))
    task = prepare(small_table, tmp_path / "run", settings, choose_device("cpu", "fp32")).task
    short = are_short(task.pairs, task.lines)
    assert 50 < short.sum() < len(short) - 50
    for number in (0, 1):
        batches = list(task.batches(number))
        assert len(batches) == task.batches_per_epoch
        taken = np.concatenate(batches)
        assert len(np.unique(taken)) == len(taken) == short.sum() + math.ceil(0.3 * (~short).sum())
        assert np.isin(taken, task.lines).all()
        assert np.isin(task.lines[short], taken).all()


def test_each_pass_takes_other_long_pairs() -> None:
    lines = np.arange(100, 201)
    passes = [sample_of_epoch(lines, 0.3, seed=1, epoch=number) for number in (0, 0, 1)]
    assert [len(np.unique(some)) for some in passes] == [31, 31, 31]
    assert all(np.isin(some, lines).all() for some in passes)
    assert passes[0].tolist() == passes[1].tolist()
    assert len(np.intersect1d(passes[0], passes[2])) < 31
    assert sample_of_epoch(lines, 0.3, seed=2, epoch=0).tolist() != passes[0].tolist()
    assert len(sample_of_epoch(lines[:1], 0.001, seed=1, epoch=0)) == 1
    assert len(sample_of_epoch(lines[:0], 0.3, seed=1, epoch=0)) == 0


def test_perplexity_is_kenlm_s() -> None:
    line = (MINI / "test.fr").read_text().splitlines()[0]
    [scores] = BackoffModel(ARPA, []).word_log_probs([[word.encode() for word in line.split(" ")]])
    assert perplexity(-scores.mean()) == pytest.approx(kenlm.Model(str(ARPA)).perplexity(line), rel=1e-5)


def test_a_perplexity_beyond_all_numbers_is_infinite() -> None:
    assert perplexity(750.0) == math.inf
