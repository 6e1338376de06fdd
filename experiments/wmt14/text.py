"""Steps on plain text: preparing it, and cutting it into parts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from moses_integration.build.parallel_text import clean
from moses_integration.build.prepare import prepare_file
from moses_integration.build.system_text import TextSettings
from phrasescore.files import read_lines, write_lines

SETTINGS = TextSettings("en", "fr", casing="keep")
"""Tokenised and escaped, capitals kept: the paper tells of no lower-casing."""


def prepare_lines(raw: str, prepared: str, language: str) -> None:
    """Prepare a text; each line gives one."""
    side = "source" if language == SETTINGS.source_language else "target"
    prepare_file(Path(raw), Path(prepared), SETTINGS.of(side))


def prepare_pairs(raw: Sequence[str], prepared: Sequence[str]) -> None:
    """Prepare both sides of a text and drop the pairs that are unfit for training, those above 80 words among them."""
    outputs = [Path(path) for path in prepared]
    whole = [path.with_name(f"whole.{path.name}") for path in outputs]
    for language, before, after in zip((SETTINGS.source_language, SETTINGS.target_language), raw, whole, strict=True):
        prepare_lines(before, str(after), language)
    report = clean(whole[0], whole[1], outputs[0], outputs[1])
    print(f"{prepared[0]}: {report.kept:,} of {report.pairs:,} pairs; dropped {report.dropped}")
    for path in whole:
        path.unlink()


def split(text: str, parts: Sequence[str]) -> None:
    """Cut a text into parts of as many lines each, one after the other."""
    lines = sum(1 for _ in read_lines(Path(text)))
    rest, size = read_lines(Path(text)), -(-lines // len(parts))
    for part in parts:
        write_lines(Path(part), islice(rest, size))
