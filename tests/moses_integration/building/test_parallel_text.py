"""Cleaning of parallel text."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from moses_integration.building.parallel_text import CleaningRules, clean
from phrasescore.errors import UserError

GOOD = ("a b", "x y z")


def write_pairs(folder: Path, pairs: list[tuple[str, str]]) -> tuple[Path, Path]:
    paths = folder / "source", folder / "target"
    for path, lines in zip(paths, zip(*pairs, strict=True), strict=True):
        path.write_text("\n".join(lines))
    return paths


def test_each_rule_takes_its_pairs_and_counts_them(tmp_path: Path) -> None:
    """Each rule removes and counts its pairs.

    The last valid pair is on the last line, which has no line feed.
    """
    pairs = [
        GOOD,
        ("", "x"),
        ("a", ""),
        ("", ""),
        (" ".join("a" * 81), "x"),
        (" ".join("a" * 80), " ".join("x" * 9)),
        (" ".join("a" * 81), " ".join("x" * 80)),
        (" ".join("a" * 10), "x"),
        ("a", " ".join("x" * 9)),
        ("a" * 1001, "x"),
        ("é" * 1000, "x"),
        GOOD,
    ]
    report = clean(*write_pairs(tmp_path, pairs), tmp_path / "clean.s", tmp_path / "clean.t")
    kept = [GOOD, pairs[5], pairs[8], pairs[10], GOOD]
    assert (tmp_path / "clean.s").read_text() == "".join(f"{source}\n" for source, _ in kept)
    assert (tmp_path / "clean.t").read_text() == "".join(f"{target}\n" for _, target in kept)
    assert (report.pairs, report.kept) == (12, 5)
    assert report.dropped == {"empty": 3, "long": 2, "ratio": 1, "word": 1}
    reasons = "3 empty, 2 too long, 1 too unequal in length, 1 with a word of more than 1,000 characters"
    assert str(report) == f"5 of 12 pairs kept ({reasons})"


@pytest.mark.parametrize(
    ("rules", "broken"),
    [
        (CleaningRules(), None),
        (CleaningRules(longest_sentence=2), "long"),
        (CleaningRules(ratio=1.5), None),
        (CleaningRules(ratio=1.4), "ratio"),
    ],
)
def test_rules_can_be_set(rules: CleaningRules, broken: str | None) -> None:
    assert rules.broken_by(b"a bcd", b"x  y z ") == broken
    assert rules.broken_by(b"x y z", b"a bcd") == broken


@pytest.mark.parametrize(("fit", "is_enough"), [(0, False), (1, False), (2, True)])
def test_next_to_nothing_that_is_fit_is_an_error(fit: int, is_enough: bool, tmp_path: Path) -> None:
    paths = write_pairs(tmp_path, [*[("a", "")] * (21 - fit), *[GOOD] * fit, ("a", "x " * 81)])
    fault = rf"fit for training: {fit} of 22 pairs kept \({21 - fit} empty, 1 too long\); give texts whose lines transl"
    with nullcontext() if is_enough else pytest.raises(UserError, match=fault):
        clean(*paths, tmp_path / "clean.s", tmp_path / "clean.t")
    assert (tmp_path / "clean.s").exists() == is_enough
