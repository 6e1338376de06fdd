"""Word alignment of a parallel corpus: each direction trained by itself, then the two joined. Uses sil-thot.

A model of one direction gives every target word one source word or none. A second model, trained with the sides
exchanged, gives every source word one target word or none; grow-diag-final-and (Koehn, Och and Marcu 2003) grows
the final links from those that both agree on. The two models share nothing, so each is trained in a process of its
own, where there may be two.

The links depend on the text, the method and the seed alone, not on the number of cores: the samplers
of `eflomal` have a generator each, and the other methods, whose threads would add up numbers in any order, get one
thread for each direction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from phrasescore.errors import UserError
from phrasescore.files import open_output
from phrasescore.text import lines_abreast
from phrasescore.words import split_words
from phrasescore.workers import available_cores, share_work

# sil-thot is imported where it runs: in the processes, after their number of threads is set.
if TYPE_CHECKING:
    from thot.alignment import AlignmentModel, EflomalAlignmentModel

# Without IBM model 2: sil-thot 3.5.3 reads beyond its arrays when asked for that model's training alignments.
Method = Literal["ibm1", "hmm", "ibm3", "ibm4", "fast-align", "eflomal"]
METHODS: Mapping[Method, tuple[str, ...]] = MappingProxyType(
    {
        "ibm1": ("ibm1",),
        "hmm": ("ibm1", "hmm"),
        "ibm3": ("ibm1", "hmm", "ibm3"),
        "ibm4": ("ibm1", "hmm", "ibm3", "ibm4"),
        "fast-align": ("fast-align",),
        "eflomal": ("ibm1", "hmm", "fertility"),
    }
)
"""The stages of each method, in order; each starts from what the one before it found.

IBM 1, 3, 4: Brown et al. 1993; HMM: Vogel et al. 1996; fast-align: Dyer et al. 2013; eflomal: Östling and Tiedemann
2016.
"""

HEURISTIC = "grow-diag-final-and"
"""How the two directions are joined, in Moses' name. Where several links compete, the library sometimes grows another
one than Moses' symal: 0.15 % of the links of Multi30k differ."""

_EM_ITERATIONS = 5
# Independent chains whose votes are added up, as in the original eflomal.
_SAMPLERS = 3

Positions = NDArray[np.int16]
"""For each word of a side, sentence after sentence, the 1-based position of its word on the other side; 0 for none."""


@dataclass(frozen=True)
class AlignmentReport:
    """What was aligned and how: enough to repeat it."""

    method: str
    iterations: Mapping[str, int]
    """How often each stage went over the corpus."""
    seed: int | None
    """None where chance plays no part."""
    heuristic: str
    aligner: str
    """Name and version of the library."""
    pairs: int
    """Sentence pairs, and lines written."""
    links: int
    unlinked: int
    """Pairs that got an empty line."""


def align(
    source: Path,
    target: Path,
    output: Path,
    method: Method,
    *,
    seed: int = 1,
    processes: int | None = None,
) -> AlignmentReport:
    """Align two files of tokenised sentences, line by line, and write `s-t s-t ...` for each pair.

    Positions count from 0, the source comes first, links are sorted by source and then by target position: the Pharaoh
    format, which train-model.perl takes from its step 4 on. A pair with an empty side, or with a side longer than the
    library's 1,024 words, gets an empty line.

    Args:
        source: sentences to translate from, words separated by blanks.
        target: their translations.
        output: where the links go; compressed by its suffix.
        method: how; see `METHODS`.
        seed: for `eflomal`; the other methods draw no random numbers.
        processes: to share the work among, for `eflomal` threads too; None for all cores.

    Raises:
        UserError: an unknown method, a seed out of range, sides of different length or
            without words, files that cannot be read or written, no link is found; sil-thot is not installed.
    """
    _check_settings(method, seed)
    if find_spec("thot") is None:
        raise UserError("aligning words needs sil-thot; pip install sil-thot, or give a ready alignment")
    lengths = [(len(split_words(a)), len(split_words(b))) for a, b in lines_abreast(source, target)]
    if not any(a and b for a, b in lengths):
        raise UserError(f"{source}: no line has words here and in {target}; give a parallel corpus")
    cores = processes or available_cores()
    threads = max(1, cores // 2) if method == "eflomal" else 1
    train = partial(_train, method, seed)
    killed = f"{source}: its alignment was killed, probably for memory; give fewer or shorter sentence pairs"
    with share_work(killed, processes=min(2, cores), threads=threads, tries=1, apart=True) as workers:
        (sources, passes), (targets, _) = workers.in_order(train, [(source, target), (target, source)])
    links = unlinked = 0
    with open_output(output) as stream:
        for pair in _joined(lengths, sources, targets):
            stream.write(b" ".join(b"%d-%d" % (s, t) for s, t in pair) + b"\n")
            links += len(pair)
            unlinked += not pair
        if not links:
            raise UserError(
                f"{source}: no word could be aligned with one of {target}; give more sentence pairs, for words are "
                "aligned by the sentences in which they occur together, or a ready alignment"
            )
    return AlignmentReport(
        method=method,
        iterations=dict(zip(METHODS[method], passes, strict=True)),
        seed=seed if method == "eflomal" else None,
        heuristic=HEURISTIC,
        aligner=f"sil-thot {version('sil-thot')}",
        pairs=len(lengths),
        links=links,
        unlinked=unlinked,
    )


def _check_settings(method: Method, seed: int) -> None:
    """Refuse what no model could be made of."""
    if method not in METHODS:
        raise UserError(f"alignment method {method} is unknown; choose one of {', '.join(METHODS)}")
    if not 0 <= seed < 1 << 32:
        raise UserError(f"alignment seed {seed} is out of range; give a number from 0 to {(1 << 32) - 1}")


def _train(method: Method, seed: int, texts: tuple[Path, Path]) -> tuple[Positions, tuple[int, ...]]:
    """Return the source position of every target word under a model of this direction, and its stages' iterations."""
    from thot.alignment import EflomalAlignmentModel

    stages = [EflomalAlignmentModel()] if method == "eflomal" else _em_models(METHODS[method])
    model = stages[-1]
    model.emit_training_alignments = True
    source_ids: dict[bytes, str] = {}
    target_ids: dict[bytes, str] = {}
    for source_line, target_line in lines_abreast(*texts):
        model.add_sentence_pair(_numbered(source_line, source_ids), _numbered(target_line, target_ids))
    if isinstance(model, EflomalAlignmentModel):
        done = _sample(model, seed)
    else:
        done = (_EM_ITERATIONS,) * len(stages)
        for stage, passes in zip(stages, done, strict=True):
            stage.start_training()
            for _ in range(passes):
                stage.train()
            stage.end_training()
    rows = (model.get_training_alignment(n)[1].to_list() for n in range(model.num_sentence_pairs))
    return np.fromiter(chain.from_iterable(rows), np.int16), done


def _numbered(line: bytes, ids: dict[bytes, str]) -> list[str]:
    """Return the words of a line as numbers in figures: any bytes may be a word, and none is special to the library."""
    return [ids.setdefault(word, str(len(ids))) for word in split_words(line)]


def _em_models(stages: Iterable[str]) -> list[AlignmentModel]:
    """Return the models trained by expectation maximisation for these stages, each made from the one before it."""
    import thot.alignment as ta

    classes = {
        "ibm1": ta.Ibm1AlignmentModel,
        "hmm": ta.HmmAlignmentModel,
        "ibm3": ta.Ibm3AlignmentModel,
        "ibm4": ta.Ibm4AlignmentModel,
        "fast-align": ta.FastAlignModel,
    }
    models: list[AlignmentModel] = []
    for stage in stages:
        models.append(classes[stage](*models[-1:]))
    if "fast-align" in stages:
        # As in the original: a prior that prefers few translations for each word.
        models[0].variational_bayes = True
    return models


def _sample(model: EflomalAlignmentModel, seed: int) -> tuple[int, ...]:
    """Train by Gibbs sampling; return how often each stage went over the corpus.

    That is less often the larger it is: 5000 / sqrt(pairs) times in the last stage, a quarter of it before.
    """
    model.seed = seed
    model.num_samplers = _SAMPLERS
    model.start_training()
    for _ in range(model.scheduled_iterations):
        model.train()
    model.end_training()
    return model.get_iterations()


def _joined(lengths: Iterable[tuple[int, int]], sources: Positions, targets: Positions) -> Iterator[list[list[int]]]:
    """Yield the links of each sentence pair, as [source, target] positions, joined from the two directions.

    Args:
        lengths: words of the source and of the target of each pair.
        sources: where in the source each target word was found.
        targets: where in the target each source word was found.
    """
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
