"""Word alignment of a parallel corpus: train a model for each direction and symmetrise the two. Uses sil-thot.

One model gives every target word a source word or none; the other, trained with the sides exchanged, gives every source
word a target word or none. grow-diag-final-and (Koehn, Och and Marcu 2003) grows the final links from the intersection.

The links do not depend on the number of cores: the samplers of `eflomal` have a generator each, and the other methods
get one thread per direction, because their threads would sum floating-point numbers in random order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import Corpus
from phrasescore.errors import UserError, reported_as
from phrasescore.files import open_output, read_lines, write_lines
from phrasescore.text import parallel_lines
from phrasescore.words import split_words
from phrasescore.workers import ProcessPool, available_cores, map_ordered

# No IBM model 2: sil-thot 3.5.3 reads out of bounds when it emits that model's training alignments.
Method = Literal["ibm1", "hmm", "ibm3", "ibm4", "fast-align", "eflomal"]
_IBM = ("Ibm1", "Hmm", "Ibm3", "Ibm4")
METHODS: Mapping[Method, tuple[str, ...]] = MappingProxyType(
    {
        "ibm1": _IBM[:1],
        "hmm": _IBM[:2],
        "ibm3": _IBM[:3],
        "ibm4": _IBM,
        "fast-align": ("Fast",),
        # It has stages of its own: IBM 1, HMM and fertilities.
        "eflomal": ("Eflomal",),
    }
)
"""The stages of each method, in order, by the names of sil-thot's classes; each is initialised from the previous one.

IBM 1, 3, 4: Brown et al. 1993; HMM: Vogel et al. 1996; fast-align: Dyer et al. 2013; eflomal: Östling and Tiedemann
2016.
"""

HEURISTIC = "grow-diag-final-and"
"""Moses' name for the symmetrisation. Where several links compete, sil-thot may choose another one than Moses' symal:
0.15 % of the links of Multi30k differ."""

_EM_ITERATIONS = 5

Positions = NDArray[np.int16]
"""For each word of a side, sentences concatenated, the 1-based position of its word on the other side; 0 for none."""


@dataclass(frozen=True)
class AlignmentReport:
    """What was aligned."""

    pairs: int
    """Sentence pairs, and lines written."""
    links: int
    unlinked: int


def align(source: Path, target: Path, output: Path, method: Method, *, processes: int | None = None) -> AlignmentReport:
    """Align two files of tokenised sentences, line by line, and write their sorted links in Pharaoh format.

    A pair with an empty side, or with a side longer than sil-thot's 1,024 words, gets an empty line. `processes` is
    also the number of threads of `eflomal`; None for all cores.
    """
    if find_spec("thot") is None:
        raise UserError("aligning words needs sil-thot; pip install sil-thot, or give an existing alignment")
    lengths = [(len(split_words(a)), len(split_words(b))) for a, b in parallel_lines(source, target)]
    if not any(a and b for a, b in lengths):
        raise UserError(f"{source}: no line has words both in this text and in {target}; give a parallel corpus")
    cores = processes or available_cores()
    threads = max(1, cores // 2) if method == "eflomal" else 1
    killed = f"{source}: its alignment was killed, probably for memory; give fewer or shorter sentence pairs"
    # A separate process, because libraries would use more threads in this one.
    with closing(ProcessPool(killed, min(2, cores), threads, tries=1)) as workers:
        sources, targets = map_ordered(partial(_train, method), [(source, target), (target, source)], workers)
    links = unlinked = 0
    with open_output(output) as stream:
        for pair in _symmetrised(lengths, sources, targets):
            stream.write(b" ".join(b"%d-%d" % (s, t) for s, t in pair) + b"\n")
            links += len(pair)
            unlinked += not pair
        if not links:
            raise UserError(
                f"{source}: no word could be aligned with {target}; give more sentence pairs, in which words occur "
                "together repeatedly, or an existing alignment"
            )
    return AlignmentReport(len(lengths), links, unlinked)


def align_together(corpus: Corpus, validation: Corpus, method: Method, processes: int | None) -> AlignmentReport:
    """Align two corpora with one model, because a small one alone gives poor links, and write both alignments."""
    with TemporaryDirectory(prefix=".together", dir=corpus.alignment.parent) as folder:
        source, target, links = (Path(folder) / name for name in ("source", "target", "links"))
        write_lines(source, chain(read_lines(corpus.source), read_lines(validation.source)))
        write_lines(target, chain(read_lines(corpus.target), read_lines(validation.target)))
        with reported_as({source: corpus.source, target: corpus.target}):
            report = align(source, target, links, method, processes=processes)
        lines = read_lines(links)
        for one in (corpus, validation):
            write_lines(one.alignment, (line for _, line in zip(read_lines(one.source), lines, strict=False)))
    return report


def _train(method: Method, texts: tuple[Path, Path]) -> Positions:
    stages = _models(method)
    model = stages[-1]
    model.emit_training_alignments = True
    source_ids: dict[bytes, str] = {}
    target_ids: dict[bytes, str] = {}
    for source_line, target_line in parallel_lines(*texts):
        model.add_sentence_pair(_numbered(source_line, source_ids), _numbered(target_line, target_ids))
    for stage in stages:
        stage.start_training()
        for _ in range(stage.scheduled_iterations if method == "eflomal" else _EM_ITERATIONS):
            stage.train()
        stage.end_training()
    rows = (model.get_training_alignment(n)[1].to_list() for n in range(model.num_sentence_pairs))
    return np.fromiter(chain.from_iterable(rows), np.int16)


def _numbered(line: bytes, ids: dict[bytes, str]) -> list[str]:
    """Replace words by decimal numbers, because sil-thot gives some words a meaning and accepts text only."""
    return [ids.setdefault(word, str(len(ids))) for word in split_words(line)]


def _models(method: Method) -> list[Any]:
    # In the worker process, after its number of threads is set.
    import thot.alignment

    models: list[Any] = []
    for stage in METHODS[method]:
        name = "FastAlignModel" if stage == "Fast" else f"{stage}AlignmentModel"
        models.append(getattr(thot.alignment, name)(*models[-1:]))
    if method == "fast-align":
        # As in the original: a sparse prior over the translations of a word.
        models[0].variational_bayes = True
    if method == "eflomal":
        models[0].seed = 1
        # Independent chains, as in the original.
        models[0].num_samplers = 3
    return models


def _symmetrised(
    lengths: Iterable[tuple[int, int]], sources: Positions, targets: Positions
) -> Iterator[list[list[int]]]:
    """Yield the links of each sentence pair as [source, target] positions, given the lengths of its sides."""
    from thot.common import WordAlignmentMatrix

    first_source = first_target = 0
    for length_s, length_t in lengths:
        end_source, end_target = first_source + length_s, first_target + length_t
        matrix = WordAlignmentMatrix(length_s, length_t)
        matrix.put_list(sources[first_target:end_target].tolist())
        inverse = WordAlignmentMatrix(length_t, length_s)
        inverse.put_list(targets[first_source:end_source].tolist())
        inverse.transpose()
        matrix.grow_diag_final_and(inverse)
        yield np.argwhere(matrix.to_numpy()).tolist()
        first_source, first_target = end_source, end_target
