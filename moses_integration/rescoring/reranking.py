"""n-best rescoring: add features to the translations of a list, tune all weights on the list, and rerank it.

Rescoring supports features that are too slow for the search, or that need the complete translation: they are computed
only for the few hundred best translations. The list may be from any decoder that writes Moses' n-best lists.

Features of the ini that are not in the list, such as UnknownWordPenalty, are ignored, as in tuning.

Shapes: E entries of a list, K components of a feature.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.phrases import words_of
from moses_integration.ini import Weights
from moses_integration.nbest import ListFault, NbestEntry, format_number
from moses_integration.rescoring.features import ListFeature
from moses_integration.rescoring.weights import maximise_expected_bleu
from moses_integration.tuning.bleu import bleu, smoothed_bleu
from moses_integration.tuning.candidates import Candidates
from moses_integration.tuning.mert import evaluate
from phrasescore.errors import UserError


def add_scores(
    entries: Sequence[NbestEntry],
    source: Sequence[bytes],
    features: Sequence[ListFeature],
    report: Callable[[ListFeature], None] = lambda feature: None,
) -> list[NbestEntry]:
    """Return a list with the features appended, rounded to the six digits of n-best lists.

    `source` are the tokenised sentences that were decoded; `report` is called after each feature.
    """
    if entries:
        check_new(entries[0], [feature.label for feature in features])
    check_sentences(entries, source)
    sentences = [words_of(line) for line in source]
    extended = list(entries)
    for feature in features:
        values_EK = feature.values(sentences, entries)
        # Moses reads them in 32 bits.
        if not (np.abs(values_EK) <= np.finfo(np.float32).max).all():
            raise UserError(f"{feature.label}: a value is not a finite 32-bit number; check its model")
        rows = zip(extended, values_EK.tolist(), strict=True)
        extended = [entry.with_feature(feature.label, values) for entry, values in rows]
        report(feature)
    return extended


def check_sentences(entries: Iterable[NbestEntry], source: Sequence[bytes]) -> None:
    """Raise a ListFault unless a list has translations of exactly the lines of a text that have words."""
    listed = {entry.sentence for entry in entries}
    for sentence in sorted(listed):
        if sentence >= len(source):
            raise ListFault(
                f"has a sentence {sentence} (from 0) where the source has {len(source)} lines; "
                "give the text that was decoded"
            )
    # Lines without words have no entries in an n-best list.
    missing = next((row for row, line in enumerate(source) if row not in listed and words_of(line)), None)
    if missing is not None:
        raise ListFault(
            f"has no translation of line {missing + 1} of the source, which has words; give the text that was decoded, "
            "and the whole list"
        )


def check_new(entry: NbestEntry, labels: Iterable[str]) -> None:
    """Raise a ListFault unless the labels of new features are unique."""
    taken = set(entry.features())
    for label in labels:
        if label in taken:
            raise ListFault(f"has a feature {label} already; give a list without it, or the scorer another label")
        taken.add(label)


def check_dense(entries: Iterable[NbestEntry], dense: Container[str]) -> None:
    """Raise a ListFault if a list has sparse features, which Moses writes only where they are not 0.

    Their labels have a `_`; `dense` are labels that are known to be dense.
    """
    for entry in entries:
        for label in entry.features() if b"_" in entry.scores else ():
            if "_" in label and label not in dense:
                raise ListFault(
                    f"has the sparse feature {label} in sentence {entry.sentence}, but only features that "
                    "all translations have can have a weight; remove the others from the list, or decode without them"
                )


def check_fit(features: Weights, weights: Weights) -> None:
    """Raise a ListFault unless features and weights have the same labels, with the same number of components."""
    for label in sorted(features.keys() | weights.keys()):
        values, found = len(features.get(label, ())), len(weights.get(label, ()))
        if values != found:
            raise ListFault(
                f"has {values} values of the feature {label} where the weights have {found}; give the weights that "
                "belong to this list, and the same scorers as in tuning"
            )


def weights_before(entry: NbestEntry, weights: Weights, new: Sequence[str]) -> dict[str, list[float]]:
    """Return the weights of an entry's features before tuning: the given weights, and 0 for each `new` label."""
    features = entry.features()
    before = {label: [0.0] * len(features[label]) for label in new}
    for label in features.keys() - before.keys():
        before[label] = list(weights.get(label, []))
    check_fit(features, before)
    return {label: before[label] for label in features}


@dataclass(frozen=True)
class ListTuning:
    """Weights that were tuned on a list."""

    weights: dict[str, list[float]]
    bleu: float
    """BLEU, 0 to 100, of the 1-best translations of the list."""
    held_out: float
    """The same, if each translation is selected with weights that were tuned on other sentences, but with this l2."""
    l2: float
    """The penalty on large weights, chosen for the highest `held_out`."""


def tune_on_list(candidates: Candidates, features: Weights, processes: int = 1) -> ListTuning:
    """Tune weights for the expected BLEU of a list; `features` are those of any entry, for their labels and widths."""
    optimum = maximise_expected_bleu(candidates, processes)
    found = iter(optimum.weights_F.tolist())
    weights = {label: [next(found) for _ in values] for label, values in features.items()}
    return ListTuning(weights, list_bleu(candidates, weights), 100 * optimum.held_out, optimum.l2)


def list_bleu(candidates: Candidates, weights: Weights) -> float:
    """Return the BLEU, from 0 to 100, of the 1-best translations of a list under weights of exactly its features."""
    return 100 * evaluate(candidates, _vector(weights))


def oracle_bleu(candidates: Candidates) -> float:
    """Return the BLEU, from 0 to 100, of each sentence's translation with the highest smoothed sentence BLEU.

    This approximates the highest corpus BLEU that reranking can reach.
    """
    smoothed_C = smoothed_bleu(candidates.statistics_C9)
    ranges = (candidates.of_sentence(sentence) for sentence in range(candidates.sentence_count))
    best = [found.start + int(smoothed_C[found].argmax()) for found in ranges if found.stop > found.start]
    return 100 * float(bleu(candidates.statistics_C9[best].sum(axis=0, dtype=np.int64)))


def rerank(entries: Sequence[NbestEntry], weights: Weights) -> list[NbestEntry]:
    """Return a list with new totals, sorted by sentence and descending total; the sort is stable."""
    rescored = []
    for entry in entries:
        features = entry.features()
        check_fit(features, weights)
        # Sum in a fixed order, so that entries with equal features have equal totals and keep their order.
        total = sum(w * v for label in features for w, v in zip(weights[label], features[label], strict=True))
        if not math.isfinite(total):
            raise ListFault(
                f"sentence {entry.sentence} has features too large to be added up; find out which model gives them"
            )
        rescored.append((replace(entry, total=format_number(total)), total))
    return [entry for entry, _ in sorted(rescored, key=lambda one: (one[0].sentence, -one[1]))]


def best_of(ranked: Sequence[NbestEntry], sentence_count: int) -> list[bytes]:
    """Return the first translation of each sentence, empty for a sentence without translations."""
    best = {sentence: next(group).words for sentence, group in groupby(ranked, key=lambda entry: entry.sentence)}
    return [best.get(sentence, b"") for sentence in range(sentence_count)]


def _vector(weights: Weights) -> NDArray[np.float64]:
    return np.array([weight for values in weights.values() for weight in values], np.float64)
