"""The training text of a system: prepared, checked, and without the pairs that are unfit for training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from moses_integration.building.aligned_corpus import reject_misread
from moses_integration.building.language_model import reject_reserved
from phrasescore.errors import UserError, naming, spelled
from phrasescore.files import open_output
from phrasescore.text import Log, counted, lines_abreast, no_log, report_one_sided
from phrasescore.words import split_words

LONGEST_SENTENCE = 80
"""Default of clean-corpus-n.perl, whose rules are used, like the following two."""
_LARGEST_RATIO = 9
_LONGEST_WORD = 1000
"""Characters."""
_MIN_KEPT = 0.05
"""Share of the pairs that must be fit; with fewer, the texts are not parallel or the sentences too long."""


@dataclass(frozen=True)
class CleaningReport:
    """How many pairs were kept, and how many dropped for each reason."""

    pairs: int
    kept: int
    dropped: Mapping[str, int]

    def __str__(self) -> str:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in self.dropped.items())
        return f"{self.kept:,} of {counted(self.pairs, 'pair')} kept" + (f" ({reasons})" if reasons else "")


def clean(
    source: Path,
    target: Path,
    clean_source: Path,
    clean_target: Path,
    longest_sentence: int = LONGEST_SENTENCE,
    names: tuple[Path, Path] | None = None,
    log: Log = no_log,
) -> CleaningReport:
    """Copy the sentence pairs that are fit for training. Not for dev and test text, which must keep its lines.

    Args:
        source: prepared text.
        target: its translation, line by line.
        clean_source: the output for the source.
        clean_target: the output for the target.
        longest_sentence: words of the longest sentence of a fit pair.
        names: the raw texts, for messages; None for the prepared ones.
        log: receives the number of lines that are empty on one side only.
    """
    counts: Counter[str | None] = Counter()
    names = names or (source, target)
    rows = report_one_sided(lines_abreast(source, target), names, log)
    with (
        naming({source: names[0], target: names[1]}),
        open_output(clean_source) as source_stream,
        open_output(clean_target) as target_stream,
    ):
        for number, (source_line, target_line) in enumerate(rows, 1):
            fault = _fault(source_line, target_line, longest_sentence)
            counts[fault] += 1
            if fault is None:
                check_words((source_line, target_line), names, number)
                source_stream.write(source_line + b"\n")
                target_stream.write(target_line + b"\n")
        dropped = {reason: count for reason, count in counts.items() if reason is not None}
        report = CleaningReport(counts.total(), counts[None], dropped)
        if not report.pairs:
            raise UserError(f"{source}: is empty like {target}; give texts whose lines translate each other")
        if report.kept <= _MIN_KEPT * report.pairs:
            raise UserError(
                f"{source}: has too few sentence pairs with {target} that are fit for training: {report}; give texts "
                f"whose lines translate each other, or {spelled('longest_sentence')}"
            )
    return report


def _fault(source: bytes, target: bytes, longest_sentence: int) -> str | None:
    """Return why a pair is not fit."""
    sides = split_words(source), split_words(target)
    fewer, more = sorted(map(len, sides))
    if fewer == 0:
        return "empty"
    if more > longest_sentence:
        return "too long"
    if more > _LARGEST_RATIO * fewer:
        return "too unequal in length"
    if any(len(word.decode("utf-8", "surrogateescape")) > _LONGEST_WORD for side in sides for word in side):
        return f"with a word of more than {_LONGEST_WORD:,} characters"
    return None


def check_words(pair: tuple[bytes, bytes], paths: tuple[Path, Path], number: int) -> None:
    """Reject words that no table or language model can have, before the long steps."""
    reject_reserved(pair[1], paths[1], number)
    for side in range(2):
        reject_misread(pair[side], paths[side], number, is_target=side == 1)


def check_same_words(raw: tuple[Path, Path], prepared: tuple[Path, Path], log: Log) -> None:
    """Check text that has an alignment already: preparation must split no word, because the points count words."""
    rows = report_one_sided(lines_abreast(*raw, *prepared), raw, log)
    for number, (*before, source, target) in enumerate(rows, 1):
        for path, old, new in zip(raw, before, (source, target), strict=True):
            words, prepared_words = len(split_words(old)), len(split_words(new))
            if words != prepared_words:
                raise UserError(
                    f"{path}: line {number}: has {words} words but {prepared_words} when prepared, so the alignment "
                    "does not fit; give the tokenised text that was aligned, its words separated by spaces (no-break "
                    f"spaces count, too), and {spelled('tokenised')}"
                )
        check_words((source, target), raw, number)
