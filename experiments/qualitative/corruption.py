"""Corrupt phrase pairs; a good score distinguishes them from true pairs.

Legend: P pairs of a table.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.qualitative.loaded_table import LoadedTable
from phrasescore.vocabulary import Vocabulary

_TRIES = 20
_NEIGHBOURS = 100
"""Number of words with adjacent ranks that count as words of similar frequency."""


def shuffled(phrase: bytes, random: np.random.Generator) -> bytes | None:
    """Return a phrase with its words in another order, None if there is no other order."""
    words = phrase.split(b" ")
    if len(set(words)) < 2:
        return None
    while (other := b" ".join([words[i] for i in random.permutation(len(words))])) == phrase:
        pass
    return other


def with_wrong_word(phrase: bytes, vocabulary: Vocabulary, random: np.random.Generator) -> bytes | None:
    """Return a phrase with one word replaced by a random word of similar frequency.

    The new word is one of the `_NEIGHBOURS` nearest words in the vocabulary, which is ordered by frequency. Return None
    if the phrase has no word of the vocabulary, or the vocabulary has no other word.
    """
    words = phrase.split(b" ")
    known = [place for place, word in enumerate(words) if word in vocabulary]
    if not known or len(vocabulary) < 4:
        return None
    place = int(random.choice(known))
    rank = int(vocabulary.encode([words[place]]).ids[0])
    low = max(2, min(rank - _NEIGHBOURS // 2, len(vocabulary) - _NEIGHBOURS - 1))
    high = min(len(vocabulary), low + _NEIGHBOURS + 1)
    other = int(random.integers(low, high - 1))
    words[place] = vocabulary.words[other + (other >= rank)]
    return b" ".join(words)


def misaligned(table: LoadedTable, pairs: Sequence[int], random: np.random.Generator) -> list[bytes | None]:
    """Return, for each pair, an output of another input with the same length.

    It is None if no output was found that the table does not have for the input of the pair.
    """
    input_of_pair_P = table.input_of_pair_P
    lengths_P = np.array([output.count(b" ") for output in table.outputs])
    by_length = {int(length): np.flatnonzero(lengths_P == length) for length in np.unique(lengths_P)}
    found: list[bytes | None] = []
    for pair in pairs:
        own = {table.outputs[i] for i in table.pairs_of(int(input_of_pair_P[pair]))}
        drawn = random.choice(by_length[int(lengths_P[pair])], _TRIES)
        found.append(next((table.outputs[i] for i in drawn if table.outputs[i] not in own), None))
    return found
