"""Test sentences as the rows translate them."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sacrebleu.metrics.bleu import BLEU

from experiments.data.folder import DataFolder
from phrasescore.text import text_lines

_SHOWN = 1000
"""Sentences at most."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test text."""

    number: int
    given: list[tuple[str, str]]
    """Source and references, with what they are."""
    translations: list[tuple[str, Markup, float]]
    """Which rows say so, what they say, and its sentence BLEU, 0 to 100."""
    change: float
    """Sentence BLEU of the best row less that of the first."""


@dataclass(frozen=True)
class Translations:
    """What the rows made of the test text with the first seed."""

    sentences: list[Sentence]
    counts: list[list[str]]
    """For each row but the first how many of all sentences are better, worse, as good and the same."""


def read_translations(folder: Path, report: Mapping[str, Any], first: str, best: str) -> Translations | None:
    """Return the first sentences of the test text; None if it is not there.

    Args:
        folder: of the ablation.
        report: of the ablation.
        first: the row that others are compared with.
        best: the row whose change is told.
    """
    data, seed = DataFolder(folder / "data", report["data"]), report["rows"][first]["seeds"][0]["seed"]
    names = [first, *(name for name in report["rows"] if name != first)]
    paths = [data.source_file("test"), *data.target_files("test")]
    paths += [folder / "rows" / f"{name}.seed{seed}" / "test.out" for name in names]
    if not all(path.exists() for path in paths):
        return None
    texts = [[line.decode("utf-8", "replace") for line in text_lines(path)] for path in paths]
    references, outputs = texts[1 : -len(names)], texts[-len(names) :]
    metric = BLEU(tokenize="none" if report["data"]["tokenised"] else "13a", force=True, effective_order=True)
    bleu = [
        [metric.sentence_score(line, list(of_line)).score for line, *of_line in zip(output, *references, strict=True)]
        for output in outputs
    ]
    counts = [
        [name, *_counted(bleu[0], scores, [a == b for a, b in zip(outputs[0], output, strict=True)])]
        for name, scores, output in zip(names[1:], bleu[1:], outputs[1:], strict=True)
    ]
    if report["data"]["tokenised"]:
        # Such text has Moses' escapes, which are not for the eye.
        texts = [[html.unescape(line) for line in text] for text in texts]
    labels = ["source", *["reference"] * len(references)]
    sentences = []
    for number, (lines, scores) in enumerate(zip(zip(*texts, strict=True), zip(*bleu, strict=True), strict=True)):
        if number == _SHOWN:
            break
        given = list(zip(labels, lines[: len(labels)], strict=True))
        said = _grouped(names, lines[len(labels) :], scores)
        sentences.append(Sentence(number + 1, given, said, scores[names.index(best)] - scores[0]))
    return Translations(sentences, counts)


def _counted(before: Sequence[float], after: Sequence[float], same: Sequence[bool]) -> list[str]:
    higher = sum(b > a for a, b in zip(before, after, strict=True))
    lower = sum(b < a for a, b in zip(before, after, strict=True))
    return [f"{count:,}" for count in (higher, lower, len(same) - higher - lower - sum(same), sum(same))]


def _grouped(names: Sequence[str], lines: Sequence[str], scores: Sequence[float]) -> list[tuple[str, Markup, float]]:
    """Return the translations of a sentence; rows with the same one share it."""
    rows: dict[str, list[str]] = {}
    for name, line in zip(names, lines, strict=True):
        rows.setdefault(line, []).append(name)
    return [(", ".join(by), word_differences(lines[0], line), scores[lines.index(line)]) for line, by in rows.items()]


def word_differences(before: str, after: str) -> Markup:
    """Return the words of `after`: new ones as `ins`, and as `del` those of `before` that nothing replaces."""
    old, new = before.split(" "), after.split(" ")
    runs = []
    for operation, i, j, k, m in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        tag, words = ("del", old[i:j]) if operation == "delete" else ("ins", new[k:m])
        runs.append(Markup("{}" if operation == "equal" else f"<{tag}>{{}}</{tag}>").format(" ".join(words)))
    return Markup(" ").join(runs)
