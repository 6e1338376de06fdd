"""Common processing of sentences: normalisation, filtering of pairs, detection of duplicates."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable

Pair = tuple[str, str]
"""A sentence and its translation."""

SEED = 1
"""Random seed for dev and test of data sets without their own."""
MAX_WORDS = 80
"""The usual limit for `clean-corpus-n.perl`: longer sentences are hard to align."""
_MAX_RATIO, _SLACK = 2.5, 10
# Soft hyphen, zero-width characters, marks of writing direction, byte order mark.
_INVISIBLE = dict.fromkeys([0xAD, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF])
_TYPOGRAPHY = str.maketrans({"‘": "'", "’": "'", "ʼ": "'", "“": '"', "”": '"', "„": '"', "…": "..."})


def tidy(text: str) -> str:
    """Normalise text to one line: composed characters, no invisible characters, single spaces.

    No-break spaces become spaces: in French they precede `:` and `?`, where a tokeniser splits anyway. Curly quotation
    marks and apostrophes become straight, because authors differ in them.
    """
    return " ".join(unicodedata.normalize("NFC", text).translate(_INVISIBLE).translate(_TYPOGRAPHY).split())


def same(text: str) -> str:
    """Return a key that is equal for sentences that differ only in case, punctuation or spacing."""
    return "".join(filter(str.isalnum, text.casefold()))


def has_letters(text: str) -> bool:
    """Return whether text has at least two letters, or one letter of a script without spaces."""
    letters = [character for character in text if character.isalpha()]
    return len(letters) > 1 or any(ord(letter) > 0x2E7F for letter in letters)


def keep_good(pairs: Iterable[Pair], dropped: Counter[str]) -> list[Pair]:
    """Return the distinct plausible translation pairs, in order; count the others in `dropped` by reason."""
    kept: dict[Pair, None] = {}
    for pair in pairs:
        reason = _fault(*pair)
        if reason is None and pair in kept:
            reason = "repeated"
        if reason is None:
            kept[pair] = None
        else:
            dropped[reason] += 1
    return _drop_uneven(list(kept), dropped)


def _fault(source: str, target: str) -> str | None:
    if not (has_letters(source) and has_letters(target)):
        return "without letters"
    if same(source) == same(target):
        return "not translated"
    if max(source.count(" "), target.count(" ")) >= MAX_WORDS:
        return f"more than {MAX_WORDS} words"
    return None


def _drop_uneven(pairs: list[Pair], dropped: Counter[str]) -> list[Pair]:
    """Drop pairs with a length ratio 2.5 times the typical ratio of the two languages."""
    usual = sum(len(target) for _, target in pairs) / max(1, sum(len(source) for source, _ in pairs))
    even = [
        (source, target)
        for source, target in pairs
        if len(target) <= _MAX_RATIO * usual * (len(source) + _SLACK)
        and usual * len(source) <= _MAX_RATIO * (len(target) + usual * _SLACK)
    ]
    dropped["uneven lengths"] += len(pairs) - len(even)
    return even


def drop_held_out(train: Iterable[Pair], held_out: Iterable[Pair], dropped: Counter[str]) -> list[Pair]:
    """Return the training pairs that share neither source nor target with a held-out pair (see `same`)."""
    sources, targets = set(), set()
    for source, target in held_out:
        sources.add(same(source))
        targets.add(same(target))
    train = list(train)
    kept = [pair for pair in train if same(pair[0]) not in sources and same(pair[1]) not in targets]
    dropped["shared with dev or test"] += len(train) - len(kept)
    return kept
