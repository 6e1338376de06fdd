"""Learn the usual case of words from a training text, and apply it to other texts.

Rules and file format are those of train-truecaser.perl, truecase.perl and detruecase.perl, with one difference: the
word after an opening quotation mark or bracket begins a sentence everywhere, while train-truecaser.perl applies this
rule only at the beginning of a line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path

from phrasescore.errors import UserError
from phrasescore.files import open_output, read_regular

_LARGEST = 1 << 27
"""Bytes of a truecaser's file, enough for millions of words."""
_SENTENCE_ENDS = frozenset(".:?!")
# Tokens between the end of a sentence and the first word of the next, plain and escaped.
_OPENERS = frozenset(["(", "[", "]", '"', "'", "&#91;", "&#93;", "&quot;", "&apos;"])


class Truecaser:
    """The most frequent form of each word where it does not begin a sentence."""

    def __init__(self, counts: Mapping[str, Mapping[str, int]]) -> None:
        """Take the counts of each form, by lower-cased word."""
        self._counts = counts
        self._best = {word: max(forms, key=forms.__getitem__) for word, forms in counts.items()}
        self._known = frozenset(chain.from_iterable(counts.values()))

    @classmethod
    def learn(cls, texts: Iterable[str]) -> Truecaser:
        """Learn from tokenised lines."""
        counts: dict[str, Counter[str]] = {}
        for text in texts:
            for word, begins in _beginnings(text):
                if not begins and word.lower() != word.upper():
                    counts.setdefault(word.lower(), Counter())[word] += 1
        return cls(counts)

    @classmethod
    def load(cls, path: Path) -> Truecaser:
        """Read a file of `save` or train-truecaser.perl."""
        counts: dict[str, dict[str, int]] = {}
        for number, line in enumerate(read_regular(path, _LARGEST).splitlines(), 1):
            words = line.decode("utf-8", "surrogateescape").split(" ")
            try:
                forms = {w: int(n.strip("()").split("/")[0]) for w, n in zip(words[::2], words[1::2], strict=True)}
            except ValueError:
                raise UserError(
                    f"{path}: line {number}: is not `word (count/total) word (count) ...`; learn the truecaser again"
                ) from None
            counts[words[0].lower()] = forms
        return cls(counts)

    def save(self, path: Path) -> None:
        """Write a line for each word, its most frequent form first."""
        with open_output(path) as stream:
            for word, forms in self._counts.items():
                best = self._best[word]
                others = "".join(f" {form} ({count})" for form, count in forms.items() if form != best)
                line = f"{best} ({forms[best]}/{sum(forms.values())}){others}\n"
                stream.write(line.encode("utf-8", "surrogateescape"))

    def apply(self, text: str) -> str:
        """Replace the first word of each sentence, and words in an unknown form, by their most frequent form."""
        return " ".join(
            word if word in self._known and not begins else self._best.get(word.lower(), word)
            for word, begins in _beginnings(text)
        )


def capitalise(text: str) -> str:
    """Capitalise the first word of each sentence of a tokenised line."""
    return " ".join(_capital(word[:1]) + word[1:] if begins else word for word, begins in _beginnings(text))


def _capital(letter: str) -> str:
    """Return the title case of a letter, which for Georgian is the letter itself, if it is one letter."""
    title = letter.title()
    return title if len(title) == len(letter) else letter


def _beginnings(text: str) -> Iterator[tuple[str, bool]]:
    """Yield each word of a tokenised line and whether it begins a sentence."""
    begins = True
    for word in text.split(" "):
        yield word, begins
        if word in _SENTENCE_ENDS:
            begins = True
        elif word not in _OPENERS:
            begins = False
