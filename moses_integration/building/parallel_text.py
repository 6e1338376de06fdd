"""Remove unfit sentence pairs from parallel text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from phrasescore.configuration import option
from phrasescore.errors import UserError
from phrasescore.files import open_output
from phrasescore.text import counted, lines_abreast
from phrasescore.words import split_words

_LONGEST_WORD = 1000
"""Characters, as in clean-corpus-n.perl."""
_MIN_KEPT = 0.05
"""Share of the pairs that must be fit; with fewer, the texts are not parallel or the rules too strict."""
_REASONS = {
    "empty": "empty",
    "long": "too long",
    "ratio": "too unequal in length",
    "word": f"with a word of more than {_LONGEST_WORD:,} characters",
}


@dataclass(frozen=True)
class CleaningRules:
    """Which sentence pairs are fit for training. Defaults and rules are those of clean-corpus-n.perl."""

    longest_sentence: int = option(80, "drop pairs with more words on a side", minimum=1)
    ratio: float = option(
        9.0, "drop pairs with a greater ratio of lengths, longer side to shorter side", minimum=1, maximum=1e6
    )

    def broken_by(self, source: bytes, target: bytes) -> str | None:
        """Return the first rule that a pair breaks (a key of `_REASONS`), None for a fit pair."""
        sides = split_words(source), split_words(target)
        fewer, more = sorted(map(len, sides))
        if fewer == 0:
            return "empty"
        if more > self.longest_sentence:
            return "long"
        if more > self.ratio * fewer:
            return "ratio"
        if any(len(word.decode("utf-8", "surrogateescape")) > _LONGEST_WORD for word in chain(*sides)):
            return "word"
        return None


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs were kept and dropped."""

    pairs: int
    kept: int
    dropped: Mapping[str, int]
    """By rule."""

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {_REASONS[rule]}" for rule, count in self.dropped.items())
        return f"{self.kept:,} of {counted(self.pairs, 'pair')} kept" + (f" ({reasons})" if reasons else "")


def clean(
    source: Path, target: Path, clean_source: Path, clean_target: Path, rules: CleaningRules | None = None
) -> CleaningReport:
    """Copy the sentence pairs that are fit for training. Not for dev and test text, which must keep its lines.

    Raises:
        UserError: the texts differ in length, or hardly any pair is fit.
    """
    rules = rules or CleaningRules()
    counts: Counter[str | None] = Counter()
    with open_output(clean_source) as source_stream, open_output(clean_target) as target_stream:
        for source_line, target_line in lines_abreast(source, target):
            rule = rules.broken_by(source_line, target_line)
            counts[rule] += 1
            if rule is None:
                source_stream.write(source_line + b"\n")
                target_stream.write(target_line + b"\n")
        dropped = {rule: count for rule, count in counts.items() if rule is not None}
        report = CleaningReport(counts.total(), counts[None], dropped)
        if not report.pairs:
            raise UserError(f"{source}: is empty like {target}; give texts whose lines translate each other")
        if report.kept <= _MIN_KEPT * report.pairs:
            raise UserError(
                f"{source}: has too few sentence pairs with {target} that are fit for training: {report}; give texts "
                "whose lines translate each other, or relax the rules (--longest-sentence, --ratio)"
            )
    return report
