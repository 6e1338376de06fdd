"""Translation options of sentences with a column in context, in memory.

They are the options that a per-text phrase table of these sentences gives, to the last digit. One exception: a copied
word never has a position tag here, so the language model may know it.

Shapes: O options of a sentence, N options of a text without copied words, n sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from moses_integration.decoder.declaration import load_model, phrases_in
from moses_integration.decoder.model import LogLinearModel, Translations, forget_oldest
from moses_integration.decoder.phrases import Floats, Indices, TableScores, Words
from moses_integration.decoder.pool import SentenceDecoder
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.tables import MappedPhrases
from moses_integration.decoder.translation_options import Options, assemble_options
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_sections import selecting_weights, without_column
from moses_integration.per_text.positions import Phrase, Positions
from phrasescore.phrases import offsets_of
from phrasescore.table.entry import LOWEST_LOG

if TYPE_CHECKING:
    from moses_integration.per_text.context_column import ContextColumn
    from phrasescore.scoring.columns import Column


_VALUES, _FIRST = "column.npy", "first.npy"


class OptionsInContext:
    """Makes the translation options of sentences from the phrase table and the values of a column in context."""

    def __init__(self, ini: MosesIni, sentences: Iterable[Words] | MappedPhrases, settings: DecoderSettings) -> None:
        """Load a system with the table lines that these sentences need, or mapped lines."""
        self._longest = settings.longest_phrase
        self._selecting = load_model(without_column(ini), sentences, settings)
        self._selecting.set_weights(selecting_weights(ini, None, in_context=True))
        self._phrases: dict[Words, Phrase | None] = {}
        table = ini.phrase_table()
        self._column = self._selecting.columns[table.label].stop
        """Index of the new component among those of all features."""
        scores = TableScores(table.label, table.weight_count)
        features = {one.label: one for one in self._selecting.features}
        scores.tuneable = features[table.label].tuneable
        self.model = LogLinearModel([*(features | {table.label: scores}).values()])
        """The model with the column, without a table."""
        self.model.set_weights(ini.weights_of_features())

    def positions(self, sentences: Sequence[Words]) -> Positions:
        """Return the positions of sentences, with the options that tuning selected."""
        return Positions(self._selecting, sentences, self._longest, self._phrases)

    def options(self, sentence: Words, log_N: Floats) -> Options:
        """Return the options of a sentence; `log_N` is the column, which copied words do not have."""
        positions = list(self.positions([sentence]))
        parts = [one.phrase.options for one in positions]
        counts = [len(one.targets) for one in parts]
        found = self._selecting.joined(parts)
        column_O = np.zeros(len(found.targets))
        column_O[[target.scores is not None for target in found.targets]] = log_N
        widened = Translations(
            found.targets,
            np.insert(found.values_TF, self._column, column_O, axis=1),
            np.insert(found.estimate_TF, self._column, 0.0, axis=1),
            found.rows,
        )
        # Rank the options of each span.
        best_first = np.lexsort((-self.model.rank_scores(widened), np.repeat(np.arange(len(parts)), counts)))
        at = [(position.start, position.end) for position in positions]
        return assemble_options(self.model, sentence, at, counts, widened.take(best_first.tolist()))

    def limit_cache(self, phrases: int) -> None:
        """Forget the options of all but the most recently used source phrases."""
        self._selecting.limit_cache(0)
        # Three of four phrases of a text have no options, and need little memory.
        forget_oldest(self._phrases, 4 * phrases)


@dataclass(frozen=True)
class TextColumn:
    """The column in context of a text."""

    log_N: NDArray[np.float32]
    """Its values by sentence, as `OptionsInContext.options` takes them."""
    first_n: Indices
    """The first value of each sentence, then the number of values [n + 1]."""

    @classmethod
    def of(cls, positions: Positions, values_N: Floats, column: Column) -> TextColumn:
        """Return the values of a column at the positions of a text, rounded and floored as in a phrase table."""
        counts_n = np.zeros(len(positions.sentences), np.int64)
        for position in positions:
            if not position.phrase.is_copied:
                counts_n[position.sentence] += len(position.phrase.options.targets)
        first_n = offsets_of(counts_n)
        if values_N.shape != (first_n[-1],):
            raise ValueError("the column has not one value for each option")
        probability_N = np.array(column.texts(values_N)[0], np.bytes_).astype(np.float32)
        log_N = np.log(probability_N.astype(np.float64)).astype(np.float32)
        return cls(np.maximum(log_N, np.float32(LOWEST_LOG)), first_n)

    def of_sentence(self, number: int) -> Floats:
        """Return the values of a sentence."""
        return self.log_N[slice(*self.first_n[number : number + 2])].astype(np.float64)


def score_text(
    ini: MosesIni,
    settings: DecoderSettings,
    sentences: Sequence[Words],
    column: ContextColumn,
    folder: Path,
    scratch: Path,
) -> None:
    """Score a text by `column`; write its values and its lines of the tables to a folder, for `load_scored`.

    `scratch` is the checkpoint file of the scores.
    """
    lines = MappedPhrases(folder, phrases_in(sentences, settings.longest_phrase))
    positions = OptionsInContext(ini, lines, settings).positions(sentences)
    values_N = column.values(positions, scratch)
    scratch.unlink(missing_ok=True)
    scored = TextColumn.of(positions, values_N, column.column)
    np.save(folder / _VALUES, scored.log_N)
    np.save(folder / _FIRST, scored.first_n)
    column.log(f"{len(values_N):,} phrase pairs scored in context")


def load_scored(ini: MosesIni, settings: DecoderSettings, folder: Path, sentences: Sequence[Words]) -> SentenceDecoder:
    """Load the system for a text that `score_text` scored; processes share its files in memory."""
    column = TextColumn(np.load(folder / _VALUES, mmap_mode="r"), np.load(folder / _FIRST))
    in_context = OptionsInContext(ini, MappedPhrases(folder), settings)

    def options(number: int) -> Options:
        return in_context.options(sentences[number], column.of_sentence(number))

    return SentenceDecoder(in_context.model, settings, sentences, options)
