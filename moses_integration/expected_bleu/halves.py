"""Two halves of a system's training text, each with a system of its own.

A system has seen the sentences that it was made from: it translates them as they were, with long phrases, and what it
does with them says nothing of other text. So each half of the sentences is translated by the system of the other half.
Sentence pairs that share a side belong together: a system that has seen one of them has seen the others, too.

Shapes: N sentence pairs of the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import compress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from moses_integration.building.aligned_corpus import Corpus, read_aligned_corpus
from moses_integration.building.language_model import ORDERS, build_language_model
from moses_integration.building.pair_alignment import LONGEST_PHRASE
from moses_integration.building.system_folder import CORPUS, REPORT
from moses_integration.building.system_text import SystemText
from moses_integration.building.table_lines import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.building.translation_tables import build_tables
from moses_integration.decoder.declaration import declare_model
from moses_integration.ini import FeatureLine, MosesIni
from phrasescore.documents import read_json
from phrasescore.errors import UserError, naming
from phrasescore.files import write_lines
from phrasescore.text import Say, note_one_sided, silently, text_lines

Groups = NDArray[np.int64]

_COLUMNS = 4
"""Scores of a phrase table as it is built."""
_ORDER = 5
_LANGUAGE_MODEL = "lm.arpa"
_ALIKE = "give the ini of a system as `build` makes it, before more columns and models are added"
_STATELESS = {"UnknownWordPenalty", "WordPenalty", "PhrasePenalty", "Distortion"}


@dataclass(frozen=True)
class Half:
    """Half of the sentence pairs of a text, and the system of them."""

    folder: Path
    corpus: Corpus
    group_N: Groups
    """Which of its sentence pairs belong together: those with the same number."""
    ini: MosesIni

    @property
    def sentences(self) -> int:
        """How many there are."""
        return len(self.group_N)


def training_corpus(ini: MosesIni) -> Corpus:
    """Return the text that `build` made a system of.

    Raises:
        UserError: there is none beside the files that the ini names.
    """
    remedy = "give the prepared text by --source, --target and --alignment"
    text = SystemText.of(ini)
    if text is None:
        raise UserError(f"{ini.name}: is not of a system that `build` made; {remedy}")
    languages = text.settings.source_language, text.settings.target_language
    corpus = Corpus.in_folder(text.folder / CORPUS, "train", languages)
    for path in (corpus.source, corpus.target, corpus.alignment):
        if not path.exists():
            raise UserError(f"{path}: is not there; {remedy}")
    return corpus


def require_divisible(ini: MosesIni) -> None:
    """Check that a half of the text can have a system like this one.

    Raises:
        UserError: it has a feature that is not made of the training text by `build`.
    """
    declare_model(ini)
    for feature in ini.features():
        fault = _fault(feature)
        if fault:
            raise UserError(f"{ini.at(feature.row)}: {fault}; {_ALIKE}")


def _fault(feature: FeatureLine) -> str | None:
    """Return why a feature cannot be made for a half."""
    match feature.kind:
        case "PhraseDictionaryMemory":
            return None if feature.width == _COLUMNS else f"the phrase table has {feature.width} scores, not {_COLUMNS}"
        case "LexicalReordering":
            kind = feature.arguments.get("type", "")
            return None if kind.startswith(REORDERING_TYPE) else f"the reordering table is not {REORDERING_TYPE}"
        case "KENLM":
            order = feature.arguments.get("order", str(_ORDER))
            return None if order in map(str, ORDERS) else f"order={order} is not one that we estimate"
        case kind:
            return None if kind in _STATELESS else f"{kind} is not made of the training text"


def build_halves(
    ini: MosesIni, corpus: Corpus, folder: Path, processes: int | None = None, say: Say = silently
) -> tuple[Half, Half]:
    """Make two systems, each of half of the sentence pairs, with settings and weights of the whole system.

    Where no two sentence pairs share a side, it is every second one. The word alignment is that of the whole text.
    Tables and n-gram model are those of the half, made as `build` makes them.

    Args:
        ini: of the whole system; see `require_divisible`.
        corpus: its training text.
        folder: for both systems; what lies there of an earlier run is replaced.
        processes: see `start_workers`.
        say: told of each step, and of lines that are empty on one side only.

    Raises:
        UserError: the text cannot be used.
    """
    # Here, where faults are told with names and lines that the user knows.
    read_aligned_corpus(corpus.source, corpus.target, corpus.alignment)
    sides = corpus.source, corpus.target
    note_one_sided(text_lines(corpus.source), text_lines(corpus.target), sides, say)
    group_N = groups(corpus)
    half_N = divide(group_N)
    if not half_N.any():
        raise UserError(
            f"{corpus.source}: cannot be divided, for it has one sentence only, or all share a side with others; give "
            "the training text"
        )
    halves = []
    for number in range(2):
        place = folder / f"half{number + 1}"
        place.mkdir(exist_ok=True)
        part = Corpus.in_folder(place, "train", ("source", "target"))
        for whole, path in zip(_files(corpus), _files(part), strict=True):
            write_lines(path, compress(text_lines(whole), half_N == number))
        with naming(dict(zip(_files(part), _files(corpus), strict=True))):
            build_tables(*_files(part), place, _longest_phrase(ini), processes)
            halves.append(Half(place, part, group_N[half_N == number], _build_ini(ini, part, place)))
        say(f"system of half {number + 1}: {halves[number].sentences:,} sentences")
    return halves[0], halves[1]


def groups(corpus: Corpus) -> Groups:
    """Return which sentence pairs belong together, [N], numbered as they first appear: those that share a side."""
    numbers: list[Groups] = []
    for path in (corpus.source, corpus.target):
        known: dict[bytes, int] = {}
        numbers.append(np.array([known.setdefault(line, len(known)) for line in text_lines(path)], np.int64))
    source_N, target_N = numbers
    size = source_N.max(initial=-1) + target_N.max(initial=-1) + 2
    links = coo_array((np.ones(len(source_N)), (source_N, source_N.max(initial=-1) + 1 + target_N)), shape=(size, size))
    _, component = connected_components(links, directed=False)
    _, first, group_N = np.unique(component[source_N], return_index=True, return_inverse=True)
    return first.argsort().argsort()[group_N]


def divide(group_N: Groups) -> NDArray[np.int8]:
    """Return the half of each sentence pair, 0 or 1: each group goes, as it comes, where fewer sentences are."""
    half_G, sizes = np.zeros(group_N.max(initial=-1) + 1, np.int8), [0, 0]
    for group, size in enumerate(np.bincount(group_N).tolist()):
        half_G[group] = sizes[1] < sizes[0]
        sizes[half_G[group]] += size
    return half_G[group_N]


def _files(corpus: Corpus) -> tuple[Path, Path, Path]:
    return corpus.source, corpus.target, corpus.alignment


def _longest_phrase(ini: MosesIni) -> int:
    """Return how long the phrases of the whole system may be: what the report of `build` says, or as Moses has it."""
    text = SystemText.of(ini)
    if text is None or not (text.folder / REPORT).exists():
        return LONGEST_PHRASE
    settings = read_json(text.folder / REPORT, "build the system again").get("settings")
    longest = settings.get("longest_phrase") if isinstance(settings, dict) else None
    return longest if isinstance(longest, int) else LONGEST_PHRASE


def _build_ini(whole: MosesIni, corpus: Corpus, folder: Path) -> MosesIni:
    """Return the ini of a half, whose tables are there; estimate its n-gram models."""
    ini = whole.with_absolute_paths()
    names = {"PhraseDictionaryMemory": PHRASE_TABLE, "LexicalReordering": REORDERING_TABLE}
    for feature in whole.features():
        if feature.kind == "KENLM":
            names["KENLM"] = f"{feature.label}.{_LANGUAGE_MODEL}"
            order = int(feature.arguments.get("order", _ORDER))
            build_language_model(corpus.target, folder / names["KENLM"], order)
        if feature.kind in names:
            ini.set_argument(feature.label, "path", str((folder / names[feature.kind]).resolve()))
    ini.write(folder / "moses.ini")
    return MosesIni.read(folder / "moses.ini")
