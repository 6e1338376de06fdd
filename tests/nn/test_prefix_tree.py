from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.nn.batch import PairBatch
from phrasescore.nn.prefix_tree import PrefixTree, keep_apart, merge_prefixes, rounded_up
from phrasescore.phrases import Phrases

lists_of_ids = st.lists(st.lists(st.integers(2, 4), max_size=4), min_size=1, max_size=8)


def prefixes(tree: PrefixTree, starts: int) -> list[tuple[int, ...]]:
    """The start node and the words on the path to each node."""
    found: list[tuple[int, ...]] = [(start,) for start in range(starts)]
    above, words = found, tree.words_N.tolist()
    for parent, size in zip(tree.parents, tree.sizes, strict=True):
        nodes = range(len(above))[parent] if isinstance(parent, slice) else parent.tolist()
        above = [(*above[node], word) for node, word in zip(nodes, words[:size], strict=True)]
        found, words = found + above, words[size:]
    return found


@given(lists_of_ids, st.integers(1, 3))
def test_each_distinct_prefix_has_one_node(lists: list[list[int]], starts: int) -> None:
    start = np.arange(len(lists)) % starts
    tree = merge_prefixes(Phrases.from_lists(lists), start, starts)
    nodes = prefixes(tree, starts)
    expected = [(s, *ids[: t + 1]) for s, ids in zip(start, lists, strict=True) for t in range(len(ids))]
    assert [nodes[node] for node in tree.path_I.tolist()] == expected
    # Levels are padded with copies of their last node, which no path uses.
    assert set(nodes[starts:]) == set(expected)
    used = {(node, nodes[node]) for node in tree.path_I.tolist()}
    assert len(used) == len(set(expected))
    assert all(size.bit_count() == 1 for size in tree.sizes)


def test_there_are_few_sizes_and_little_padding() -> None:
    sizes = {rounded_up(rows) for rows in range(5_000)}
    assert len(sizes) < 160
    assert all(rows <= rounded_up(rows) <= max(2 * rows - 1, 1) for rows in range(33))
    assert all(rows <= rounded_up(rows) <= rows + max(31, rows // 16) for rows in range(33, 5_000))


@given(lists_of_ids)
def test_separate_sequences_share_no_nodes(lists: list[list[int]]) -> None:
    lists.sort(key=len, reverse=True)
    tree = keep_apart(Phrases.from_lists(lists))
    nodes = prefixes(tree, len(lists))
    expected = [(s, *ids[: t + 1]) for s, ids in enumerate(lists) for t in range(len(ids))]
    assert [nodes[node] for node in tree.path_I.tolist()] == expected
    assert len(set(tree.path_I.tolist())) == len(expected)
    assert max(tree.sizes, default=0) <= len(lists)


def test_separate_sequences_must_be_sorted() -> None:
    with pytest.raises(ValueError, match="falling length"):
        keep_apart(Phrases.from_lists([[2], [2, 3]]))


def test_a_batch_predicts_each_word_from_the_node_before_it() -> None:
    sources = Phrases.from_lists([[2, 3], [4]])
    targets = Phrases.from_lists([[5, 6], [5], [], [7]])
    batch = PairBatch.sharing(sources, np.array([0, 0, 1, 1]), targets)
    nodes = prefixes(batch.target, len(batch.sources))
    predicted = [nodes[node] for node in batch.node_I.tolist()]
    assert predicted == [(0,), (0, 5), (0, 5, 6), (0,), (0, 5), (1,), (1,), (1, 7)]
    assert batch.symbol_I.tolist() == [5, 6, 1, 5, 1, 1, 7, 1]
    assert batch.pair_I.tolist() == [0, 0, 0, 1, 1, 2, 3, 3]
    assert [nodes[i][0] for i in batch.node_I] == batch.source_of_node_A[batch.node_I].tolist()
    reading = batch.sources.reading()
    ends = [prefixes(reading.tree, 1)[node] for node in reading.end_S.tolist()[:2]]
    assert ends == [(0, 2, 3, 1), (0, 4, 1)]
