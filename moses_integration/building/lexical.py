"""Lexical translation probabilities: relative frequencies of aligned words in both directions.

Each alignment point counts as one joint event of a source and a target word; an unaligned word has one event with the
empty word `NULL` (scripts/training/LexicalTranslationModel.pm).

Shape suffixes: E events; L distinct pairs of words; N words of one text.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_integration.building.aligned_corpus import AlignedCorpus, Text
from phrasescore.files import open_output
from phrasescore.phrases import Ids

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class LexicalModel:
    """Word translation probabilities in both directions, with the 7 decimals that Moses prints and reads back.

    The lexical weight of a phrase is the product of its words' weights, because all alignment points of its words are
    in the phrase pair (Koehn et al. 2003, section 4.4; phrase-extract/score-main.cpp, computeLexicalTranslation).
    """

    source_L: Ids
    target_L: Ids
    target_given_source_L: Floats
    source_given_target_L: Floats
    target_weight_N: Floats
    """Mean probability of each target word given the source words aligned to it, or given `NULL`."""
    source_weight_N: Floats
    """The same for each source word."""


def estimate_lexical_model(corpus: AlignedCorpus) -> LexicalModel:
    """Count aligned words and compute both directions."""
    source, target = corpus.source, corpus.target
    unaligned_source, unaligned_target = _unaligned(source, corpus.source_P), _unaligned(target, corpus.target_P)
    # The events: alignment points, unaligned source words, unaligned target words.
    source_E = np.concatenate(
        [source.ids_N[corpus.source_P], source.ids_N[unaligned_source], np.full(len(unaligned_target), source.null)]
    )
    target_E = np.concatenate(
        [target.ids_N[corpus.target_P], np.full(len(unaligned_source), target.null), target.ids_N[unaligned_target]]
    )
    keys_L, pair_E, count_L = np.unique(
        source_E.astype(np.int64) * len(target.words) + target_E, return_inverse=True, return_counts=True
    )
    source_L, target_L = (ids.astype(np.int32) for ids in np.divmod(keys_L, len(target.words)))
    target_given_source_L = _as_printed(count_L / np.bincount(source_L, count_L)[source_L])
    source_given_target_L = _as_printed(count_L / np.bincount(target_L, count_L)[target_L])
    points, end = len(corpus.source_P), len(corpus.source_P) + len(unaligned_source)
    return LexicalModel(
        source_L,
        target_L,
        target_given_source_L,
        source_given_target_L,
        _mean_by_word(
            np.append(corpus.target_P, unaligned_target),
            target_given_source_L[np.append(pair_E[:points], pair_E[end:])],
        ),
        _mean_by_word(np.append(corpus.source_P, unaligned_source), source_given_target_L[pair_E[:end]]),
    )


def write_lexical_tables(model: LexicalModel, words: tuple[list[bytes], list[bytes]], folder: Path) -> None:
    """Write `lex.f2e` (target given source) and `lex.e2f` (source given target), sorted by bytes.

    A line is `predicted given probability`. `words` are the vocabularies of source and target.
    """
    source, target = (model.source_L, words[0]), (model.target_L, words[1])
    _write_table(folder / "lex.f2e", target, source, model.target_given_source_L)
    _write_table(folder / "lex.e2f", source, target, model.source_given_target_L)


def _unaligned(text: Text, aligned_P: Ids) -> NDArray[np.int64]:
    return np.flatnonzero(np.bincount(aligned_P, minlength=len(text.ids_N)) == 0)


def _as_printed(probability_L: Floats) -> Floats:
    return np.array([b"%.7f" % probability for probability in probability_L.tolist()], np.float64)


def _mean_by_word(word_E: NDArray[np.integer], probability_E: Floats) -> Floats:
    """Return the mean probability of each word's events, of which it has at least one."""
    return np.bincount(word_E, probability_E) / np.bincount(word_E)


def _write_table(
    path: Path, predicted: tuple[Ids, list[bytes]], given: tuple[Ids, list[bytes]], probability_L: Floats
) -> None:
    (predicted_L, predicted_words), (given_L, given_words) = predicted, given
    order = np.lexsort((given_L, predicted_L))
    rows = zip(*(column[order].tolist() for column in (predicted_L, given_L, probability_L)), strict=True)
    with open_output(path) as stream:
        stream.writelines(b"%b %b %.7f\n" % (predicted_words[a], given_words[b], p) for a, b, p in rows)
