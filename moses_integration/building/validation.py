"""Phrase pairs of sentences that a system was not built from, to see what a network makes of new ones.

The phrases of a sentence overlap, so a network that was trained on some of them has as good as seen the others: pairs
held out of a phrase table show how well it is fitted, and not when its training should end.
"""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

from moses_integration.building.alignment import AlignmentReport, Method, align
from moses_integration.building.corpus import Corpus
from phrasescore.errors import naming
from phrasescore.files import read_lines, write_lines


def align_together(
    corpus: Corpus, validation: Corpus, method: Method, seed: int, processes: int | None
) -> AlignmentReport:
    """Align two corpora as one, for a few sentences alone would be too few, and write the alignment of each.

    Method, seed and processes are those of `align`.

    Raises:
        UserError: see `align`.
    """
    with TemporaryDirectory(prefix=".together", dir=corpus.alignment.parent) as folder:
        source, target, links = (Path(folder) / name for name in ("source", "target", "links"))
        write_lines(source, chain(read_lines(corpus.source), read_lines(validation.source)))
        write_lines(target, chain(read_lines(corpus.target), read_lines(validation.target)))
        with naming({source: corpus.source, target: corpus.target}):
            report = align(source, target, links, method, seed=seed, processes=processes)
        lines = read_lines(links)
        for part in (corpus, validation):
            write_lines(part.alignment, (line for _, line in zip(read_lines(part.source), lines, strict=False)))
    return report
