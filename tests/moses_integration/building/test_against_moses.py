"""Tables equal those of a real Moses byte for byte. Needs MOSES_HOME; run with `-m moses`."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.installation import Installation
from moses_integration.toolkits.moses import MosesToolkit
from moses_integration.toolkits.toolkit import BuildingToolkit

UNUSUAL_WORDS = ["&amp;", "é", "-", "1-1", "{{", "'", '"', "a\u2028b"]


def random_corpus(draw: random.Random, folder: Path) -> Corpus:
    """Return sentences over a small vocabulary, with most alignment points near the diagonal."""
    texts = {"en": ["w0"], "fr": ["w0"], "align": ["0-0"]}
    words, density = draw.choice([3, 8, 30]), draw.choice([0.02, 0.05, 0.15])
    for _ in range(draw.choice([5, 30])):
        source, target = (
            [draw.choice(UNUSUAL_WORDS) if draw.random() < 0.05 else f"w{draw.randrange(words)}" for _ in range(length)]
            for length in (draw.randint(1, 10), draw.randint(1, 10))
        )
        points = [(i, j) for i in range(len(source)) for j in range(len(target))]
        points = [(i, j) for i, j in points if draw.random() < (0.7 if i == j else density)]
        draw.shuffle(points)
        texts["en"].append(" ".join(source))
        texts["fr"].append(" ".join(target))
        texts["align"].append(" ".join(f"{i}-{j}" for i, j in points))
    for suffix, lines in texts.items():
        (folder / f"train.{suffix}").write_bytes("".join(f"{line}\n" for line in lines).encode())
    return Corpus.in_folder(folder, "train", ("en", "fr"))


def tables(toolkit: BuildingToolkit, corpus: Corpus, folder: Path, longest_phrase: int) -> dict[str, bytes]:
    folder.mkdir()
    toolkit.build_tables(corpus, folder, longest_phrase)
    return {path.name: gzip.decompress(path.read_bytes()) for path in folder.glob("*.gz")}


@pytest.mark.moses
@pytest.mark.parametrize("seed", range(40))
def test_tables_of_random_alignments_are_those_of_moses(moses_home: Path, tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    corpus, longest_phrase = random_corpus(draw, tmp_path), draw.choice([7, 7, 3, 1])
    made = tables(EmbeddedToolkit(1), corpus, tmp_path / "embedded", longest_phrase)
    assert made.keys() == {"phrase-table.gz", "reordering-table.wbe-msd-bidirectional-fe.gz"}
    assert made == tables(MosesToolkit(Installation(moses_home), 1), corpus, tmp_path / "moses", longest_phrase)
