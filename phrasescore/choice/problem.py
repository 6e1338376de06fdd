"""A table and what is to be chosen of it: read once, judged as often as there are columns or states of a network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from phrasescore.choice.comparison import Features
from phrasescore.choice.features import phrase_log_probs, target_words
from phrasescore.choice.instances import Dev, Instances
from phrasescore.choice.options import Options, read_options
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.lm.ngram_model import load_kenlm

_FEW = 0.5
"""Share of the sentences with a choice, below which they are likely to be prepared in another way than the table."""


@dataclass(frozen=True)
class ChoiceProblem:
    """The options of a table for other text, which of them are right, and what is known of them without new columns."""

    options: Options
    instances: Instances
    base: Features
    """The table's first columns, the number of target words, ln p by a language model if there is one."""
    sentences: int | None
    """Of the text; None for phrase pairs, as below."""

    @classmethod
    def read(
        cls,
        table: str | Path,
        dev: Dev,
        base_columns: int,
        language_model: Path | None = None,
        progress: Callable[[int, float | None], None] = lambda lines, share: None,
    ) -> ChoiceProblem:
        """Find the options of a table for other text.

        Args:
            table: the phrase table.
            dev: sentences with their translations, or phrase pairs.
            base_columns: columns of the base, the first ones.
            language_model: n-gram model of the target language.
            progress: called with the lines and the share of the table read so far.

        Raises:
            UserError: a file cannot be read or is faulty, the table has too few columns, or there is nothing to choose.
        """
        phrases = dev.phrases()
        if not phrases:
            raise UserError(f"{dev.name}: has no phrases; give text that the table is to translate")
        # What is wrong with the model is to be said before the table has been read.
        model = None if language_model is None else load_kenlm(language_model)
        options = read_options(table, phrases, base_columns, progress)
        if not options.sources:
            raise UserError(
                f"{display_name(table)}: has two options or more for none of the {len(phrases):,} phrases of "
                f"{dev.name}; give a text that is tokenised, and its case, as in the table"
            )
        instances = dev.instances(options)
        if not len(instances):
            raise UserError(
                f"{dev.name}: none of its targets is among the options of {display_name(table)} for their sources; "
                "check that source and target are not confused, and are tokenised as in the table"
            )
        base = {f"column {column + 1}": options.columns_OC[:, column] for column in range(base_columns)}
        base["target words"] = target_words(options)
        if language_model is not None:
            base["language model"] = phrase_log_probs(model, language_model, options)
        return cls(options, instances, base, dev.sentences)

    @property
    def sentences_with_choices(self) -> int | None:
        """How many of the sentences there is something to choose in."""
        sentence_I = self.instances.sentence_I
        return None if sentence_I is None else len(np.unique(sentence_I))

    @property
    def is_thin(self) -> bool:
        """Whether so few sentences have a choice that they are likely to be prepared in another way than the table."""
        found = self.sentences_with_choices
        return self.sentences is not None and found is not None and found < _FEW * self.sentences

    def __str__(self) -> str:
        """Return what there is, in a line."""
        sources = len(np.unique(self.instances.source_I))
        text = f"{len(self.instances):,} choices among the options of {sources:,} sources"
        if self.sentences is None:
            return text
        return f"{text}, in {self.sentences_with_choices:,} of {self.sentences:,} sentences"
