"""Translations of test sentences by the rows."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import islice
from pathlib import Path
from typing import Any

from markupsafe import Markup
from sacrebleu.metrics.bleu import BLEU

from experiments.data.folder import DataFolder
from phrasescore.text import text_lines

_SHOWN = 1000
"""Maximum number of sentences."""


@dataclass(frozen=True)
class Sentence:
    """A sentence of the test text."""

    number: int
    given: list[tuple[str, str]]
    """Source and references with labels."""
    translations: list[tuple[str, Markup, float]]
    """Names of rows, their common translation, and its sentence BLEU (0 to 100)."""
    change: float
    """Sentence BLEU of the best row minus that of the first row."""


def read_translations(folder: Path, report: Mapping[str, Any], first: str, best: str) -> list[Sentence]:
    """Return the first sentences of the first test set with the translations by all rows (first run); empty without it.

    Args:
        folder: folder of the ablation.
        report: report of the ablation.
        first: the reference row.
        best: the row whose difference from the reference row is shown.
    """
    data, seed = DataFolder(folder / "data", report["data"]), report["rows"][first]["seeds"][0]["seed"]
    names = [first, *(name for name in report["rows"] if name != first)]
    part = next(iter(report["tests"].values()))
    given = [data.source_file(part), *data.target_files(part)]
    paths = [*given, *(folder / "rows" / f"{name}.seed{seed}" / f"{part}.out" for name in names)]
    if not all(path.exists() for path in paths):
        return []
    is_tokenised = report["data"]["tokenised"]
    metric = BLEU(tokenize="none" if is_tokenised else "13a", force=True, effective_order=True)
    labels = ["source", *["reference"] * (len(given) - 1)]
    sentences = []
    for number, raw in enumerate(islice(zip(*map(text_lines, paths), strict=True), _SHOWN), 1):
        lines = [line.decode("utf-8", "replace") for line in raw]
        references, outputs = lines[1 : len(given)], lines[len(given) :]
        scores = [metric.sentence_score(output, references).score for output in outputs]
        if is_tokenised:
            # Decode Moses' escapes for display.
            lines = list(map(html.unescape, lines))
        said = _grouped(names, lines[len(given) :], scores)
        change = scores[names.index(best)] - scores[0]
        sentences.append(Sentence(number, list(zip(labels, lines, strict=False)), said, change))
    return sentences


def _grouped(names: Sequence[str], lines: Sequence[str], scores: Sequence[float]) -> list[tuple[str, Markup, float]]:
    """Group the rows of a sentence by translation."""
    rows: dict[str, list[str]] = {}
    for name, line in zip(names, lines, strict=True):
        rows.setdefault(line, []).append(name)
    return [(", ".join(by), word_differences(lines[0], line), scores[lines.index(line)]) for line, by in rows.items()]


def word_differences(before: str, after: str) -> Markup:
    """Mark up `after`: inserted words as `ins`, and words of `before` that were deleted as `del`."""
    old, new = before.split(" "), after.split(" ")
    runs = []
    for operation, i, j, k, m in SequenceMatcher(a=old, b=new, autojunk=False).get_opcodes():
        tag, words = ("del", old[i:j]) if operation == "delete" else ("ins", new[k:m])
        runs.append(Markup("{}" if operation == "equal" else f"<{tag}>{{}}</{tag}>").format(" ".join(words)))
    return Markup(" ").join(runs)
