"""BLEU by sacreBLEU, and paired approximate randomisation (Riezler & Maxwell 2005)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.significance import PairedTest, Result

from phrasescore.errors import UserError
from phrasescore.files import read_lines


@dataclass(frozen=True)
class Score:
    """BLEU of one system."""

    bleu: float
    """0 to 100."""
    signature: str


@dataclass(frozen=True)
class Comparison:
    """BLEU of a system and of a baseline on the same sentences."""

    bleu: float
    baseline_bleu: float
    p_value: float
    """How often a random exchange of their translations gives a difference as large."""
    signature: str


def score(translations: Path, references: Sequence[Path], tokenise: str = "13a") -> Score:
    """Return BLEU of a file.

    Raises:
        UserError: a file cannot be read, or has another number of lines.
    """
    metric = BLEU(tokenize=tokenise)
    lines = [_read(path) for path in (translations, *references)]
    _check_lengths(lines, (translations, *references))
    bleu = metric.corpus_score(lines[0], lines[1:]).score
    return Score(bleu, str(metric.get_signature()))


def compare(
    translations: Path,
    baseline: Path,
    references: Sequence[Path],
    tokenise: str = "13a",
    trials: int = 10_000,
    seed: int = 1,
) -> Comparison:
    """Return BLEU of two files and the p-value of their difference.

    Raises:
        UserError: a file cannot be read, or has another number of lines.
    """
    paths = (translations, baseline, *references)
    system_lines, baseline_lines, *reference_lines = lines = [_read(path) for path in paths]
    _check_lengths(lines, paths)
    # sacreBLEU takes the seed of its randomisation from the environment only.
    os.environ["SACREBLEU_SEED"] = str(seed)
    metric = BLEU(tokenize=tokenise, references=reference_lines)
    test = PairedTest(
        [("baseline", baseline_lines), ("system", system_lines)],
        {"BLEU": metric},
        references=None,
        test_type="ar",
        n_samples=trials,
    )
    signatures, scores = test()
    base, system = scores["BLEU"]
    assert isinstance(system, Result), "a paired test gives results"
    assert isinstance(base, Result)
    return Comparison(system.score, base.score, float(system.p_value or 0.0), str(signatures["BLEU"]))


def _read(path: Path) -> list[str]:
    return [line.decode("utf-8", "replace") for line in read_lines(path)]


def _check_lengths(texts: Sequence[Sequence[str]], paths: Sequence[Path]) -> None:
    for text, path in zip(texts, paths, strict=True):
        if len(text) != len(texts[-1]):
            raise UserError(
                f"{path}: has {len(text)} lines but {paths[-1]} has {len(texts[-1])}; give files of the same sentences"
            )
