"""Compare the scores of a network and a table (Figure 3), and quantify the qualitative claims of the paper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.feature_extraction.text import CountVectorizer

from experiments.qualitative.corruption import misaligned, shuffled, with_wrong_word
from experiments.qualitative.loaded_table import LoadedTable
from experiments.qualitative.ranking import accuracy, area_under_curve, best_threshold, mean_reciprocal_rank
from experiments.qualitative.word_vectors import bag_of_embeddings
from experiments.steps import Json
from phrasescore.configuration import option
from phrasescore.inspection import phrase_vectors, unit_length
from phrasescore.scoring.columns import PER_WORD, SCORE, Column
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences

LONG = 4
"""Minimum length of a long phrase in words: more than three, as in the paper."""
_BANDS = {
    "extracted once": (1, 1),
    "extracted 2 to 4 times": (2, 4),
    "extracted 5 to 19 times": (5, 19),
    "extracted 20 times or more": (20, np.inf),
}
"""Ranges of the extraction count of a source, on which the quality of the table's score depends."""
_FEWEST = 10
_SHARED = 0.5
"""Minimum Jaccard similarity of the word sets of phrases that are similar in words."""
_LENGTHS = {"1 word": (1, 1), "2 or 3 words": (2, 3), "4 words or more": (4, np.inf)}


@dataclass(frozen=True)
class Settings:
    """Sizes of the samples. The same seed gives the same report."""

    seed: int = option(1, "seed of all random samples", minimum=0)
    pairs: int = option(5000, "pairs of the scatter and of each measurement", minimum=10)
    phrases: int = option(5000, "phrases of the map and of the retrieval", minimum=40)
    words: int = option(3000, "most frequent target words to map", minimum=40)


class Probes:
    """Measures one network on one table."""

    def __init__(self, scorer: EncoderDecoderScorer, table: LoadedTable, settings: Settings) -> None:
        self._scorer, self._table, self._settings = scorer, table, settings
        self._input_of_pair_P = table.input_of_pair_P

    def agreement(self) -> tuple[pd.DataFrame, Json]:
        """Return random pairs with both scores, and the correlations by extraction count of the source."""
        random = self._random(2)
        usable = np.flatnonzero(self._table.probability_P > 0)
        count_P = self._table.input_count_S[self._input_of_pair_P]
        sample = self._compared(random.permutation(usable)[: self._settings.pairs])
        found = {"all sources": correlations(sample)}
        for name, (low, high) in _BANDS.items():
            band = usable[(count_P[usable] >= low) & (count_P[usable] <= high)]
            drawn = random.permutation(band)[: self._settings.pairs]
            if len(drawn) >= _FEWEST:
                found[name] = correlations(self._compared(drawn))
        return sample, found

    def retrieval(self) -> Json:
        """Measure how well phrase vectors retrieve phrases with the same most frequent target."""
        phrases, group_P = self._paraphrases(self._random(3))
        if len(phrases) < 3:
            return {"phrases": len(phrases)}
        vectors = {
            "phrase_vector": phrase_vectors(self._scorer, phrases),
            "bag_of_embeddings": bag_of_embeddings(self._scorer, phrases),
            "random": self._random(4).standard_normal((len(phrases), 64)).astype(np.float32),
        }
        similar = similar_in_words(phrases)
        return {
            "phrases": len(phrases),
            "targets": len(set(group_P.tolist())),
            "mean_reciprocal_rank": {name: mean_reciprocal_rank(v, group_P) for name, v in vectors.items()},
            "mean_reciprocal_rank_of_other_words": {
                name: mean_reciprocal_rank(v, group_P, similar) for name, v in vectors.items()
            },
        }

    def order(self) -> Json:
        """Measure the effect of shuffling the words of a target or a source."""
        random = self._random(5)
        pairs = self._draw(random, lambda source, target: target.count(b" ") >= 2 and source.count(b" ") >= 2)
        rows = [
            (source, target, other_source, other_target)
            for source, target in pairs
            if (other_source := shuffled(source, random)) and (other_target := shuffled(target, random))
        ]
        if not rows:
            return {"pairs": 0}
        sources, targets, other_sources, other_targets = map(list, zip(*rows, strict=True))
        true = pair_scores(self._scorer, sources, targets)
        moved_target = pair_scores(self._scorer, sources, other_targets)
        moved_source = pair_scores(self._scorer, other_sources, targets)
        vectors, moved = (unit_length(phrase_vectors(self._scorer, phrases)) for phrases in (sources, other_sources))
        return {
            "pairs": len(rows),
            "target": {"accuracy": accuracy(true, moved_target), "mean_margin": float((true - moved_target).mean())},
            "source": {"accuracy": accuracy(true, moved_source), "mean_margin": float((true - moved_source).mean())},
            "cosine_with_shuffled_source": float((vectors * moved).sum(axis=1).mean()),
            "cosine_with_another_source": float((vectors * np.roll(vectors, 1, axis=0)).sum(axis=1).mean()),
        }

    def wrong_word(self) -> Json:
        """Measure how often the true target scores higher than one with a wrong word of similar frequency."""
        random = self._random(6)
        vocabulary = self._scorer.model.target_vocabulary
        pairs = self._draw(random, lambda source, target: bool(target))
        rows = [(s, t, other) for s, t in pairs if (other := with_wrong_word(t, vocabulary, random)) is not None]
        if not rows:
            return {"pairs": 0}
        sources, targets, others = map(list, zip(*rows, strict=True))
        true, wrong = pair_scores(self._scorer, sources, targets), pair_scores(self._scorer, sources, others)
        words = np.array([target.count(b" ") + 1 for target in targets])
        return {
            "pairs": len(rows),
            "accuracy": accuracy(true, wrong),
            "mean_margin": float((true - wrong).mean()),
            "by_target_words": {
                name: {"pairs": int(here.sum()), "accuracy": accuracy(true[here], wrong[here])}
                for name, (low, high) in _LENGTHS.items()
                if (here := (words >= low) & (words <= high)).any()
            },
        }

    def noise(self) -> Json:
        """Measure how many misaligned pairs a threshold detects.

        The threshold is chosen on one half of the pairs and evaluated on the other. Scores are per predicted symbol.
        """
        random = self._random(7)
        drawn = random.permutation(len(self._table.outputs))[: self._settings.pairs]
        rows = [
            (int(pair), other)
            for pair, other in zip(drawn, misaligned(self._table, drawn.tolist(), random), strict=True)
            if other is not None
        ]
        pairs, others = np.array([pair for pair, _ in rows], np.int64), [other for _, other in rows]
        sources, targets = self._texts(pairs)
        true, noise = (pair_scores(self._scorer, sources, outputs, PER_WORD) for outputs in (targets, others))
        half = len(true) // 2
        if not half:
            return {"pairs": len(true)}
        threshold = best_threshold(true[:half], noise[:half])
        twice = self._table.count_P[pairs][half:] >= 2
        true, noise = true[half:], noise[half:]
        return {
            "pairs": len(pairs),
            "threshold": threshold,
            "area_under_curve": area_under_curve(true, noise),
            "noise_below": float((noise < threshold).mean()),
            "true_below": float((true < threshold).mean()),
            "true_below_extracted_twice": float((true[twice] < threshold).mean()) if twice.any() else None,
        }

    def long_phrases(self) -> list[bytes]:
        """Return random inputs of four words or more, the most frequent first."""
        table = self._table
        long = np.array([i for i, phrase in enumerate(table.inputs) if phrase.count(b" ") + 1 >= LONG], np.int64)
        drawn = self._random(8).permutation(long)[: self._settings.phrases]
        return [table.inputs[i] for i in drawn[np.argsort(-table.input_count_S[drawn], kind="stable")]]

    def _compared(self, pairs: NDArray[np.int64]) -> pd.DataFrame:
        """Return the scores that the table and the network give to pairs."""
        sources, targets = self._texts(pairs)
        return pd.DataFrame(
            {
                "table": np.log(self._table.probability_P[pairs]),
                "network": pair_scores(self._scorer, sources, targets),
                "network_per_word": pair_scores(self._scorer, sources, targets, PER_WORD),
                "target_words": [len(target.split()) for target in targets],
            }
        )

    def _texts(self, pairs: NDArray[np.int64]) -> tuple[list[bytes], list[bytes]]:
        """Return the sources and the targets of pairs."""
        table = self._table
        return [table.inputs[i] for i in self._input_of_pair_P[pairs]], [table.outputs[pair] for pair in pairs]

    def _paraphrases(self, random: np.random.Generator) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return inputs of at least two words that share their most frequent output with another input.

        Inputs that were extracted once are excluded, because their alignment may be random noise.
        """
        table = self._table
        groups: dict[bytes, list[int]] = {}
        for input_, pair in enumerate(table.best_pair_S().tolist()):
            if table.count_P[pair] >= 2 and b" " in table.inputs[input_]:
                groups.setdefault(table.outputs[pair], []).append(input_)
        shared = [members for members in groups.values() if len(members) >= 2]
        chosen: list[int] = []
        group: list[int] = []
        for number in random.permutation(len(shared)).tolist():
            if len(chosen) + len(shared[number]) > self._settings.phrases:
                continue
            chosen += shared[number]
            group += [number] * len(shared[number])
        return [table.inputs[input_] for input_ in chosen], np.array(group, np.int64)

    def _draw(self, random: np.random.Generator, wanted: Callable[[bytes, bytes], bool]) -> list[tuple[bytes, bytes]]:
        """Return random pairs of the table that satisfy a predicate."""
        drawn = random.permutation(len(self._table.outputs)).tolist()
        pairs = ((self._table.inputs[self._input_of_pair_P[pair]], self._table.outputs[pair]) for pair in drawn)
        return list(islice((pair for pair in pairs if wanted(*pair)), self._settings.pairs))

    def _random(self, stream: int) -> np.random.Generator:
        return np.random.default_rng([self._settings.seed, stream])


def pair_scores(
    scorer: EncoderDecoderScorer, sources: Sequence[bytes], targets: Sequence[bytes], column: Column = SCORE
) -> NDArray[np.float64]:
    """Return a column of each pair, [P]; by default ln p."""
    return scorer.score(Occurrences(sources, targets), [column]).first_N


def correlations(sample: pd.DataFrame) -> Json:
    """Return the correlations of `table` with `network` and with `network_per_word`; None where one is constant."""
    pearson, spearman = (sample.corr(method).loc["table"] for method in ("pearson", "spearman"))
    found = {
        "pairs": len(sample),
        "pearson": pearson["network"],
        "spearman": spearman["network"],
        "spearman_per_word": spearman["network_per_word"],
    }
    # JSON has no NaN.
    return {name: None if pd.isna(value) else value for name, value in found.items()}


def similar_in_words(phrases: Sequence[bytes]) -> list[NDArray[np.int64]]:
    """Return, for each phrase, the phrases whose word sets have a Jaccard similarity of at least 0.5."""
    # Latin-1 decodes any bytes.
    words = CountVectorizer(encoding="latin-1", analyzer=lambda phrase: phrase.split(" "), binary=True)
    holds_PW = words.fit_transform(phrases)
    shared_PP = (holds_PW @ holds_PW.T).toarray()
    size_P = shared_PP.diagonal()
    return [
        np.flatnonzero(row_P >= _SHARED * (size_P + size - row_P))
        for row_P, size in zip(shared_PP, size_P, strict=True)
    ]
