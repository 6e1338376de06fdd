"""Aligned corpora made from lines in a test."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from tempfile import TemporaryDirectory

from moses_integration.building.aligned_corpus import AlignedCorpus, read_aligned_corpus


def corpus_of(sentences: Iterable[tuple[bytes, bytes, bytes]]) -> AlignedCorpus:
    """Make a corpus from lines of the two texts and of their alignment."""
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("source", "target", "alignment")]
        for path, lines in zip(paths, zip(*sentences, strict=True), strict=True):
            path.write_bytes(b"".join(line + b"\n" for line in lines))
        return read_aligned_corpus(*paths)
