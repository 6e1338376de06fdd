"""Translation options of sentences with a column in context, in memory.

They are the options that a per-text phrase table of these sentences gives, to the last digit. One exception: a copied
word never has a position tag here, so the language model may know it.

Shapes: T options of a phrase, N options at all positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.model import LogLinearModel, Translations, forget_oldest
from moses_integration.decoder.phrases import Floats, TableScores, Words, spans
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.decoder.tables import AllPhrases
from moses_integration.decoder.translation_options import Options, assemble_options
from moses_integration.ini import MosesIni
from moses_integration.per_text.context_columns import occurrences_of
from moses_integration.per_text.context_sections import require_tuned_for, without_columns
from moses_integration.per_text.indexed_system import selecting_weights
from moses_integration.per_text.positions import Phrase, Position
from phrasescore.phrases import offsets_of
from phrasescore.scoring.scorer import PhraseScorer, ScoringTask
from phrasescore.table.entry import LOWEST_LOG, SURFACE


class OptionsInContext:
    """Collects the translation options of sentences, scored by a network in context."""

    def __init__(self, ini: MosesIni, scorer: PhraseScorer, lines: AllPhrases, settings: DecoderSettings) -> None:
        """Load a system that was tuned with the default column of a scorer."""
        require_tuned_for(ini, scorer)
        self._scorer, self._longest = scorer, settings.longest_phrase
        self._selecting = load_model(without_columns(ini), lines, settings)
        self._selecting.set_weights(selecting_weights(ini, None, in_context=True))
        self._kept: dict[Words, Translations] = {}
        table = ini.phrase_table()
        self._column = self._selecting.columns[table.label].stop
        """Index of the new component among those of all features."""
        self.model = LogLinearModel(
            [
                TableScores(table.label, table.weight_count) if one.label == table.label else one
                for one in self._selecting.features
            ]
        )
        """The model with the column, without a table: `collect` returns its options."""
        self.model.set_weights(ini.weights_of_features())
        self.model.table_limit = self._selecting.table_limit

    def collect(self, sentences: Sequence[Words]) -> list[Options]:
        """Return the options of each sentence; the network scores those of all sentences together."""
        found = [self._found(number, words) for number, words in enumerate(sentences)]
        flat = [one for of_sentence in found for one in of_sentence]
        scored = [position for position, kept in flat if kept.targets[0].scores is not None]
        column = iter(self._log_probs(sentences, scored))
        options = []
        for words, of_sentence in zip(sentences, found, strict=True):
            widened = [
                self._widened(kept, None if kept.targets[0].scores is None else next(column)) for _, kept in of_sentence
            ]
            at = [(position.start, position.end) for position, _ in of_sentence]
            options.append(assemble_options(self.model, words, at, widened))
        return options

    def limit_cache(self, phrases: int) -> None:
        """Forget the options of all but the latest source phrases."""
        self._selecting.limit_cache(0)
        forget_oldest(self._kept, phrases)

    def _found(self, number: int, words: Words) -> list[tuple[Position, Translations]]:
        """Return the spans of a sentence that have options, with the options that tuning selected."""
        found = []
        for start, end in spans(words, self._longest):
            source = words[start : end + 1]
            if source not in self._kept:
                every = self._selecting.all_translations(source)
                if every is None:
                    continue
                # In the order of the table, so that options with equal scores keep their order.
                self._kept[source] = every.take(sorted(self._selecting.best(every)))
            kept = self._kept[source]
            phrase = Phrase(source, tuple(target.words for target in kept.targets), ())
            found.append((Position(number, start, end, phrase), kept))
        return found

    def _log_probs(self, sentences: Sequence[Words], positions: Sequence[Position]) -> list[Floats]:
        """Return the values [T] of the column at each position, rounded as in a phrase table."""
        task = ScoringTask(self._scorer, self._scorer.columns[:1])
        chunks = occurrences_of(sentences, positions, self._scorer.factors or SURFACE)
        values_N = np.concatenate([np.zeros(0), *(task(chunk).first_N for chunk in chunks)])
        probability_N = np.array(self._scorer.columns[0].texts(values_N)[0], np.bytes_).astype(np.float32)
        log_N = np.log(probability_N.astype(np.float64)).astype(np.float32).astype(np.float64)
        ends = offsets_of(np.array([len(one.phrase.targets) for one in positions], np.int64))[1:-1]
        return np.split(np.maximum(log_N, LOWEST_LOG), ends)

    def _widened(self, kept: Translations, column_T: Floats | None) -> Translations:
        """Return the options with the column, ranked and limited; a copied word has no column."""
        values_T = np.zeros(len(kept.targets)) if column_T is None else column_T
        targets = [
            target if target.scores is None else replace(target, scores=(*target.scores, value))
            for target, value in zip(kept.targets, values_T.tolist(), strict=True)
        ]
        values_TF = np.insert(kept.values_TF, self._column, values_T, axis=1)
        estimate_TF = np.insert(kept.estimate_TF, self._column, 0.0, axis=1)
        widened = Translations(targets, values_TF, estimate_TF, kept.rows)
        return widened.take(self.model.best(widened))
