from __future__ import annotations

import hashlib
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from phrasescore.scoring.phrase_pair_model import Kind, features_of

BITS = (1 << 64) - 1
PHRASES = st.lists(st.sampled_from([b"a", b"b", b"c", "é".encode()]), max_size=4).map(b" ".join)


def mixed(bits: int) -> int:
    """SplitMix64."""
    bits = (bits + 0x9E3779B97F4A7C15) & BITS
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & BITS
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & BITS
    return bits ^ (bits >> 31)


def key(kind: Kind, first: bytes | int, second: bytes | int = 0) -> int:
    one, other = (
        part if isinstance(part, int) else int.from_bytes(hashlib.blake2b(part, digest_size=8).digest(), "little")
        for part in (first, second)
    )
    return mixed(((mixed((kind + 1) & BITS) ^ one) + 1) & BITS) ^ other


def bag(source: bytes, target: bytes) -> list[int]:
    """Compute the bag of features by definition."""
    s, t = source.split(), target.split()
    keys = [key(Kind.TARGET_WORD, word) for word in t]
    keys += [key(Kind.TARGET_BIGRAM, *words) for words in pairwise(t)]
    keys += [key(Kind.WORD_PAIR, one, other) for one in s for other in t]
    if s:
        keys += [key(Kind.FIRST_SOURCE_WORD, s[0]), key(Kind.LAST_SOURCE_WORD, s[-1])]
    if t:
        keys += [key(Kind.FIRST_TARGET_WORD, t[0]), key(Kind.LAST_TARGET_WORD, t[-1])]
    if s and t:
        keys += [key(Kind.FIRST_WORDS, s[0], t[0]), key(Kind.LAST_WORDS, s[-1], t[-1])]
    return [
        *keys,
        key(Kind.SOURCE_LENGTH, len(s)),
        key(Kind.TARGET_LENGTH, len(t)),
        key(Kind.LENGTHS, len(s), len(t)),
    ]


@given(st.lists(st.tuples(PHRASES, PHRASES), max_size=5))
def test_features_equal_the_definition(pairs: list[tuple[bytes, bytes]]) -> None:
    """Features equal the definition and do not depend on the other pairs; phrases may be empty."""
    bags = features_of([source for source, _ in pairs], [target for _, target in pairs])
    assert len(bags) == len(pairs)
    found = [part.tolist() for part in np.split(bags.keys_K, bags.offsets[1:-1])] if pairs else []
    assert found == [bag(*pair) for pair in pairs]


def test_keys_are_the_same_on_every_machine() -> None:
    """Feature keys are the same on every machine, because model folders are portable."""
    assert features_of([b"a"], [b"b"]).keys_K[0] == 9629826135425534680
