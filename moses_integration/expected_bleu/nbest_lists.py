"""N-best lists of a system's training text, with the phrase pairs of each translation, by two-fold decoding.

A system reproduces the sentences that it was built from, with long phrases, so its n-best lists of them are not
representative. Therefore each half of the text, a fold, has a system of its own, which decodes the other fold. Sentence
pairs that share a side are in one fold.

Shape suffixes: N sentence pairs of the text, L n-best lists, H hypotheses of all lists, F components of the log-linear
model, U uses of phrase pairs, P distinct pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from moses_integration.building.aligned_corpus import Corpus, read_aligned_corpus
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.language_model import ORDERS, build_language_model
from moses_integration.building.preparation import SystemText
from moses_integration.building.system import CORPUS, REPORT
from moses_integration.building.translation_tables import (
    PHRASE_TABLE,
    REORDERING_TABLE,
    REORDERING_TYPE,
    build_tables,
)
from moses_integration.decoder.declaration import declare_model
from moses_integration.decoder.graph import SearchGraph
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import load_decoder, start_decoders
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import FeatureLine, MosesIni
from moses_integration.tuning.bleu import bleu_statistics
from phrasescore.errors import UserError, arg_name, reported_as
from phrasescore.files import write_lines
from phrasescore.files.documents import read_json
from phrasescore.phrases import Offsets, offsets_of
from phrasescore.text import Log, no_log, parallel_lines, text_lines, warn_one_sided

Pair = tuple[bytes, bytes]
"""Source and target phrase, words separated by one space."""
Numbers = NDArray[np.int32]

SIZE = 100
"""Maximum number of distinct translations in a list."""
Groups = NDArray[np.int64]

_COLUMNS = 4
"""Scores of a phrase table of `build`."""


@dataclass(frozen=True)
class Fold:
    """One half of the sentence pairs of a text, and the system that is built from it."""

    folder: Path
    corpus: Corpus
    group_N: Groups
    """Group of each sentence pair; see `group_pairs`."""
    ini: MosesIni


def training_corpus(ini: MosesIni) -> Corpus:
    """Return the training text of a system of `build`; a UserError if it is not beside the files of the ini."""
    remedy = f"give the prepared text by {arg_name('source')}, {arg_name('target')} and {arg_name('alignment')}"
    text = SystemText.of(ini)
    if text is None:
        raise UserError(f"{ini.name}: is not the ini of a system that `build` made; {remedy}")
    corpus = Corpus.in_folder(text.folder / CORPUS, "train", text.settings.languages)
    for path in corpus:
        if not path.exists():
            raise UserError(f"{path}: does not exist; {remedy}")
    return corpus


def require_rebuildable(ini: MosesIni) -> None:
    """Raise a UserError for a feature that `build` cannot estimate from a fold of the text."""
    declare_model(ini)
    for feature in ini.features():
        if not _is_rebuildable(feature):
            remedy = "give the ini of a system of `build`, before more columns and models are added"
            raise ini.fault(feature.row, f"{feature.kind} is not as `build` estimates it", remedy)


def _is_rebuildable(feature: FeatureLine) -> bool:
    match feature.kind:
        case "PhraseDictionaryMemory":
            return feature.width == _COLUMNS
        case "LexicalReordering":
            return feature.arguments.get("type", "").startswith(REORDERING_TYPE)
        case "KENLM":
            # `build` writes the order, which Moses does not need.
            return feature.arguments.get("order", "") in map(str, ORDERS)
        case kind:
            return kind in {"UnknownWordPenalty", "WordPenalty", "PhrasePenalty", "Distortion"}


def build_folds(
    ini: MosesIni, corpus: Corpus, folder: Path, processes: int | None = None, log: Log = no_log
) -> tuple[Fold, Fold]:
    """Build a system from each fold of the training text in a folder, with the settings and weights of the whole one.

    The word alignment is that of the whole text; tables and n-gram models are estimated from the fold.
    """
    # Read the whole text first, so that messages have file names and line numbers that the user knows.
    read_aligned_corpus(*corpus)
    sides = corpus.source, corpus.target
    warn_one_sided(parallel_lines(*sides), sides, log)
    group_N = group_pairs(corpus)
    fold_N = assign_folds(group_N)
    if not fold_N.any():
        raise UserError(
            f"{corpus.source}: cannot be divided, because it has one sentence only, or all share a side with others; "
            "give the training text"
        )
    folds = []
    for number in range(2):
        own_folder = folder / f"fold{number + 1}"
        own_folder.mkdir(exist_ok=True)
        own = Corpus.in_folder(own_folder, "train", ("source", "target"))
        for whole, path in zip(corpus, own, strict=True):
            write_lines(path, compress(text_lines(whole), fold_N == number))
        with reported_as(dict(zip(own, corpus, strict=True))):
            build_tables(*own, own_folder, _longest_phrase(ini), processes)
            folds.append(Fold(own_folder, own, group_N[fold_N == number], _build_ini(ini, own, own_folder)))
        log(f"system of fold {number + 1}: {len(folds[number].group_N):,} sentences")
    return folds[0], folds[1]


def group_pairs(corpus: Corpus) -> Groups:
    """Return the group of each sentence pair, [N], by first occurrence; pairs that share a side are in one group."""
    source_N, target_N = map(_number_lines, (corpus.source, corpus.target))
    size = source_N.max(initial=-1) + target_N.max(initial=-1) + 2
    links = coo_array((np.ones(len(source_N)), (source_N, source_N.max(initial=-1) + 1 + target_N)), shape=(size, size))
    _, component = connected_components(links, directed=False)
    _, first, group_N = np.unique(component[source_N], return_index=True, return_inverse=True)
    return first.argsort().argsort()[group_N]


def _number_lines(path: Path) -> Groups:
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(line, len(known)) for line in text_lines(path)], np.int64)


def assign_folds(group_N: Groups) -> NDArray[np.int8]:
    """Return the fold of each sentence pair, 0 or 1: the smaller fold so far takes the next group."""
    fold_G, sizes = np.zeros(group_N.max(initial=-1) + 1, np.int8), [0, 0]
    for group, size in enumerate(np.bincount(group_N).tolist()):
        fold_G[group] = sizes[1] < sizes[0]
        sizes[fold_G[group]] += size
    return fold_G[group_N]


def _longest_phrase(ini: MosesIni) -> int:
    """Return the longest phrase of the whole system: from the report of `build`, or Moses' default."""
    text = SystemText.of(ini)
    if text is None or not (text.folder / REPORT).exists():
        return LONGEST_PHRASE
    return int(read_json(text.folder / REPORT, "build the system again")["settings"]["longest_phrase"])


def _build_ini(whole: MosesIni, corpus: Corpus, folder: Path) -> MosesIni:
    ini = whole.with_absolute_paths()
    names = {"PhraseDictionaryMemory": PHRASE_TABLE, "LexicalReordering": REORDERING_TABLE}
    for feature in whole.features():
        if feature.kind == "KENLM":
            names["KENLM"] = f"{feature.label}.arpa"
            order = int(feature.arguments["order"])
            build_language_model(corpus.target, folder / names["KENLM"], order)
        if feature.kind in names:
            ini.set_argument(feature.label, "path", str((folder / names[feature.kind]).resolve()))
    ini.write(folder / "moses.ini")
    return MosesIni.read(folder / "moses.ini")


@dataclass(frozen=True)
class NbestLists:
    """The n-best lists of some sentences; none is empty."""

    features_HF: NDArray[np.float32]
    statistics_H9: NDArray[np.int32]
    offsets: Offsets
    """List i has the hypotheses from `offsets[i]` to before `offsets[i + 1]`."""
    uses_HP: csr_array
    """How often each hypothesis uses each pair."""
    pairs: Sequence[Pair]
    group_L: Groups
    """Group of each sentence; see `group_pairs`."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def where(self, is_taken_L: NDArray[np.bool_]) -> NbestLists:
        sizes_L = np.diff(self.offsets)
        is_taken_H = np.repeat(is_taken_L, sizes_L)
        return NbestLists(
            self.features_HF[is_taken_H],
            self.statistics_H9[is_taken_H],
            offsets_of(sizes_L[is_taken_L]),
            self.uses_HP[is_taken_H],
            self.pairs,
            self.group_L[is_taken_L],
        )


@dataclass(frozen=True)
class NbestList:
    """The n-best list of one sentence; it may be empty."""

    features_HF: NDArray[np.float32]
    statistics_H9: NDArray[np.int32]
    pair_U: Numbers
    """The pairs of all hypotheses, concatenated, as indices into `pairs`."""
    uses_H: Numbers
    """Number of pairs of each hypothesis."""
    pairs: tuple[Pair, ...]


@dataclass(frozen=True)
class ListTask:
    """Task: list the best translations of a sentence."""

    size: int
    references: list[bytes]
    needs_arcs: bool = True

    def __call__(self, number: int, sentence: Words, model: LogLinearModel, graph: SearchGraph) -> NbestList:
        """Return the list. Copied unknown words are not in the table, so they are not among the pairs."""
        derivations = graph.n_best(self.size, distinct=True)
        numbers: dict[Pair, int] = {}
        pair_U, uses_H = [], []
        for derivation in derivations:
            steps = [step for step in derivation.steps if step.target.scores is not None]
            for step in steps:
                pair = b" ".join(sentence[step.start : step.end + 1]), b" ".join(step.target.words)
                pair_U.append(numbers.setdefault(pair, len(numbers)))
            uses_H.append(len(steps))
        texts = [b" ".join(derivation.words) for derivation in derivations]
        return NbestList(
            np.array([d.values_F for d in derivations], np.float32).reshape(-1, model.width),
            bleu_statistics([self.references[number]], texts),
            np.array(pair_U, np.int32),
            np.array(uses_H, np.int32),
            tuple(numbers),
        )


def join(listed: Iterable[tuple[int, NbestList]]) -> NbestLists:
    """Concatenate the lists that are not empty; each comes with the group of its sentence."""
    numbers: dict[Pair, int] = {}
    groups, features, statistics = [], [np.zeros((0, 0), np.float32)], [np.zeros((0, 9), np.int32)]
    pairs, uses = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)]
    for group, one in listed:
        if len(one.features_HF):
            renumbered = np.array([numbers.setdefault(pair, len(numbers)) for pair in one.pairs], np.int32)
            groups.append(group)
            features.append(one.features_HF)
            statistics.append(one.statistics_H9)
            pairs.append(renumbered[one.pair_U])
            uses.append(one.uses_H)
    pair_U, offsets = np.concatenate(pairs), offsets_of(np.concatenate(uses))
    return NbestLists(
        np.concatenate(features[1:] or features),
        np.concatenate(statistics),
        offsets_of(np.array([len(rows) for rows in features[1:]], np.int64)),
        csr_array((np.ones(len(pair_U), np.float32), pair_U, offsets), shape=(len(offsets) - 1, len(numbers))),
        list(numbers),
        np.array(groups, np.int64),
    )


def decode_folds(
    folds: tuple[Fold, Fold], sentences: int, seed: int, processes: int | None, progress: Callable[[int, int], None]
) -> Iterator[tuple[int, NbestList]]:
    """Yield group and n-best list of at most `sentences` random sentences of both folds, each by the other system."""
    halves = [min((sentences + 1 - number) // 2, len(fold.group_N)) for number, fold in enumerate(folds)]
    both = (decode_fold(*which, seed, processes) for which in zip(folds, reversed(folds), halves, strict=True))
    for done, one in enumerate(chain.from_iterable(both), 1):
        yield one
        progress(done, sum(halves))


def decode_fold(
    fold: Fold, other: Fold, sentences: int, seed: int, processes: int | None = None
) -> Iterator[tuple[int, NbestList]]:
    """Yield group and n-best list of at most `sentences` random sentences of a fold, by the other system."""
    sources, targets = (list(text_lines(path)) for path in (fold.corpus.source, fold.corpus.target))
    sampled = np.sort(np.random.default_rng(seed).permutation(len(sources))[:sentences]).tolist()
    task = ListTask(SIZE, [targets[i] for i in sampled])
    load = partial(load_decoder, other.ini, read_settings(other.ini))
    with start_decoders(load, [words_of(sources[i]) for i in sampled], processes) as pool:
        yield from zip(fold.group_N[sampled].tolist(), pool.run(task, other.ini.weights_of_features()), strict=True)
