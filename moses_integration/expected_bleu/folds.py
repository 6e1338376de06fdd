"""Two-fold decoding of a system's training text: each fold has a system of its own.

A system reproduces the sentences that it was built from, with long phrases, so its n-best lists of them are not
representative. Therefore the system of one fold decodes the other fold. Sentence pairs that share a side are in one
fold.

Shape suffix N: sentence pairs of the text.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from moses_integration.building.aligned_corpus import Corpus, read_aligned_corpus
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.language_model import ORDERS, build_language_model
from moses_integration.building.preparation import SystemText
from moses_integration.building.system_folder import CORPUS, REPORT
from moses_integration.building.translation_tables import (
    PHRASE_TABLE,
    REORDERING_TABLE,
    REORDERING_TYPE,
    build_tables,
)
from moses_integration.decoder.declaration import declare_model
from moses_integration.ini import FeatureLine, MosesIni
from phrasescore.errors import UserError, naming, spelled
from phrasescore.files import write_lines
from phrasescore.files.documents import read_json
from phrasescore.text import Log, lines_abreast, no_log, report_one_sided, text_lines

Groups = NDArray[np.int64]

_COLUMNS = 4
"""Scores of a phrase table of `build`."""
_ORDER = 5


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
    remedy = f"give the prepared text by {spelled('source')}, {spelled('target')} and {spelled('alignment')}"
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
            raise UserError(
                f"{ini.at(feature.row)}: {feature.kind} is not as `build` estimates it from the training text; give "
                "the ini of a system of `build`, before more columns and models are added"
            )


def _is_rebuildable(feature: FeatureLine) -> bool:
    match feature.kind:
        case "PhraseDictionaryMemory":
            return feature.width == _COLUMNS
        case "LexicalReordering":
            return feature.arguments.get("type", "").startswith(REORDERING_TYPE)
        case "KENLM":
            return feature.arguments.get("order", str(_ORDER)) in map(str, ORDERS)
        case kind:
            return kind in {"UnknownWordPenalty", "WordPenalty", "PhrasePenalty", "Distortion"}


def build_folds(
    ini: MosesIni, corpus: Corpus, folder: Path, processes: int | None = None, log: Log = no_log
) -> tuple[Fold, Fold]:
    """Build a system from each fold, with the settings and weights of the whole system.

    The word alignment is that of the whole text; tables and n-gram models are estimated from the fold.

    Args:
        ini: the whole system; see `require_rebuildable`.
        corpus: its training text.
        folder: the output; systems of an earlier run in it are replaced.
        processes: see `start_workers`.
        log: receives a message for each fold, and a warning about lines that are empty on one side only.
    """
    # Read the whole text first, so that messages have file names and line numbers that the user knows.
    read_aligned_corpus(*corpus)
    sides = corpus.source, corpus.target
    deque(report_one_sided(lines_abreast(*sides), sides, log), maxlen=0)
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
        with naming(dict(zip(own, corpus, strict=True))):
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
    """Return a number for each line, the same for equal lines."""
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
    """Estimate the n-gram models of a fold, and write its ini."""
    ini = whole.with_absolute_paths()
    names = {"PhraseDictionaryMemory": PHRASE_TABLE, "LexicalReordering": REORDERING_TABLE}
    for feature in whole.features():
        if feature.kind == "KENLM":
            names["KENLM"] = f"{feature.label}.arpa"
            order = int(feature.arguments.get("order", _ORDER))
            build_language_model(corpus.target, folder / names["KENLM"], order)
        if feature.kind in names:
            ini.set_argument(feature.label, "path", str((folder / names[feature.kind]).resolve()))
    ini.write(folder / "moses.ini")
    return MosesIni.read(folder / "moses.ini")
