"""Cleaning of parallel text."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from moses_integration.building.aligned_corpus import clean
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
    assert report.dropped == {
        "empty": 3,
        "too long": 2,
        "too unequal in length": 1,
        "with a word of more than 1,000 characters": 1,
    }
    reasons = "3 empty, 2 too long, 1 too unequal in length, 1 with a word of more than 1,000 characters"
    assert str(report) == f"5 of 12 pairs kept ({reasons})"


def test_the_longest_sentence_can_be_set(tmp_path: Path) -> None:
    texts = write_pairs(tmp_path, [GOOD, ("a", "b"), ("x y z", "a bcd")])
    assert clean(*texts, tmp_path / "clean.s", tmp_path / "clean.t", 2).dropped == {"too long": 2}


def test_lines_that_are_empty_on_one_side_are_reported(tmp_path: Path) -> None:
    logged: list[str] = []
    texts, raw = write_pairs(tmp_path, [GOOD, ("a", ""), ("", "")]), (Path("raw.en"), Path("raw.fr"))
    clean(*texts, tmp_path / "clean.s", tmp_path / "clean.t", names=raw, log=logged.append)
    assert logged == [
        "raw.en and raw.fr: 1 line is empty on one side only, the first is line 2; check that the lines of both files "
        "belong together"
    ]


@pytest.mark.parametrize(("fit", "is_enough"), [(0, False), (1, False), (2, True)])
def test_next_to_nothing_that_is_fit_is_an_error(fit: int, is_enough: bool, tmp_path: Path) -> None:
    paths = write_pairs(tmp_path, [*[("a", "")] * (21 - fit), *[GOOD] * fit, ("a", "x " * 81)])
    fault = rf"fit for training: {fit} of 22 pairs kept \({21 - fit} empty, 1 too long\); give texts whose lines transl"
    with nullcontext() if is_enough else pytest.raises(UserError, match=fault):
        clean(*paths, tmp_path / "clean.s", tmp_path / "clean.t")
    assert (tmp_path / "clean.s").exists() == is_enough
