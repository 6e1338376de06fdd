"""The language model and the tables that Moses built of Multi30k, built again, and the whole way from raw text."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from experiments.goldens.decoding import SYSTEM
from experiments.goldens.finding import Finding
from moses_integration.build.language_model import build_language_model
from moses_integration.build.phrase_scores import PHRASE_TABLE
from moses_integration.build.reordering import REORDERING_TABLE
from moses_integration.build.system import REPORT, BuildSettings, build_system
from moses_integration.build.system_text import TextSettings
from moses_integration.build.translation_tables import build_tables
from moses_integration.toolkits.embedded import EmbeddedToolkit
from phrasescore.documents import read_json
from phrasescore.files import read_lines

TRAIN = Path("data/multi30k/train.lc.norm.tok")
"""Without the language's suffix and `.gz`."""
RAW_TRAIN = Path("data/multi30k/train")
"""As it came, likewise."""
ORDER = 5
LARGEST_DIFFERENCE = 1e-5
BUILD_SECONDS = 240.0


class ArpaDifference(NamedTuple):
    """How two ARPA files differ."""

    ngrams: int
    other_lines: int
    """Lines that have other words, or that only one of the files has."""
    largest: float
    """Largest difference of two log10 numbers of the same n-gram."""


def compare_arpa(ours: Iterable[bytes], theirs: Iterable[bytes]) -> ArpaDifference:
    """Compare the lines of two files, in their order."""
    ngrams = other_lines = 0
    largest = 0.0
    for line, golden in zip_longest(ours, theirs, fillvalue=b""):
        fields, golden_fields = line.split(b"\t"), golden.split(b"\t")
        ngrams += len(golden_fields) > 1
        if len(fields) != len(golden_fields) or fields[1:2] != golden_fields[1:2]:
            other_lines += 1
        elif len(fields) == 1:
            other_lines += line != golden
        elif line != golden:
            pairs = zip(fields[::2], golden_fields[::2], strict=True)
            largest = max(largest, *(abs(float(a) - float(b)) for a, b in pairs))
    return ArpaDifference(ngrams, other_lines, largest)


def count_different(ours: Iterable[bytes], theirs: Iterable[bytes]) -> tuple[int, int]:
    """Return how many lines differ, in their order, and how many the longer one has."""
    differ = count = 0
    for line, golden in zip_longest(ours, theirs):
        count += 1
        differ += line != golden
    return differ, count


def check_language_model(goldens: Path) -> list[Finding]:
    """Estimate the language model by our own estimator."""
    with TemporaryDirectory() as folder:
        output = Path(folder) / "lm.arpa"
        build_language_model(goldens / f"{TRAIN}.fr.gz", output, ORDER, estimator="embedded")
        found = compare_arpa(read_lines(output), read_lines(goldens / SYSTEM / "lm.fr.arpa.gz"))
    return [
        Finding(
            f"ARPA of {found.ngrams:,} n-grams, ours against lmplz's",
            f"{found.other_lines} other n-grams, largest difference of a log10 {found.largest:.1e}",
            f"0, below {LARGEST_DIFFERENCE:g}",
            found.other_lines == 0 and found.largest < LARGEST_DIFFERENCE,
        )
    ]


def check_tables(goldens: Path) -> list[Finding]:
    """Build phrase and reordering table from Moses' word alignment."""
    findings = []
    with TemporaryDirectory() as folder:
        texts = [goldens / f"{TRAIN}.{language}.gz" for language in ("en", "fr")]
        build_tables(texts[0], texts[1], goldens / SYSTEM / "train.align.gz", Path(folder))
        for what, name in (("phrase table", PHRASE_TABLE), ("reordering table", REORDERING_TABLE)):
            differ, count = count_different(read_lines(Path(folder) / name), read_lines(goldens / SYSTEM / name))
            text = f"lines of the {what} that differ from Moses'"
            findings.append(Finding(text, f"{differ:,} of {count:,}", "0", differ == 0))
    return findings


def check_build(goldens: Path) -> list[Finding]:
    """Build a system from raw text, with our own settings."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        source, target = (goldens / f"{RAW_TRAIN}.{language}.gz" for language in ("en", "fr"))
        settings = BuildSettings(TextSettings("en", "fr"))
        started = time.monotonic()
        build_system(source, target, folder, settings, EmbeddedToolkit().build_tables)
        seconds = time.monotonic() - started
        steps = read_json(folder / REPORT, "build again")["seconds"]
    pairs = sum(1 for _ in read_lines(source))
    return [
        Finding(
            f"a system of {pairs:,} sentence pairs of raw text",
            f"{seconds:.0f} s: {', '.join(f'{step} {taken:.0f} s' for step, taken in steps.items())}",
            f"below {BUILD_SECONDS:.0f} s",
            seconds < BUILD_SECONDS,
        )
    ]
