"""A table and what is to be chosen of it: read once, judged as often as there are columns or states of a network."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from phrasescore.choice.comparison import Features, source_hash
from phrasescore.choice.features import phrase_log_probs, target_words
from phrasescore.choice.instances import Dev, Instances
from phrasescore.choice.options import Options, read_options
from phrasescore.errors import UserError
from phrasescore.files import display_name
from phrasescore.lm.ngram_model import load_kenlm
from phrasescore.text import Say

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
        base_columns: int | None = None,
        language_model: Path | None = None,
        progress: Callable[[int, float | None], None] = lambda lines, share: None,
    ) -> ChoiceProblem:
        """Find the options of a table for other text.

        Args:
            table: the phrase table.
            dev: sentences with their translations, or phrase pairs.
            base_columns: columns of the base, the first ones; None for all.
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
        columns = range(options.columns_OC.shape[1] if base_columns is None else base_columns)
        base = {f"column {column + 1}": options.columns_OC[:, column] for column in columns}
        base["target words"] = target_words(options)
        if language_model is not None:
            base["language model"] = phrase_log_probs(model, language_model, options)
        return cls(options, instances, base, dev.sentences)

    def sample(self, most_options: int) -> ChoiceProblem:
        """Return the choices among the options of some sources, drawn by a hash, that have so many options at most.

        Sources without a choice are left out first.
        """
        numbers = np.unique(self.instances.source_I)
        drawn = np.array(sorted(numbers.tolist(), key=lambda source: source_hash(self.options.sources[source])))
        taken = drawn[np.cumsum(np.diff(self.options.offsets)[drawn]) <= most_options]
        return self._take(np.sort(taken))

    def _take(self, sources: NDArray[np.int64]) -> ChoiceProblem:
        """Return the choices among the options of some sources."""
        options = self.options.numbers(sources)
        some = self.instances.where(np.isin(self.instances.source_I, sources))
        instances = replace(
            some,
            source_I=np.searchsorted(sources, some.source_I),
            right_R=np.searchsorted(options, some.right_R),
        )
        base = {name: values_O[options] for name, values_O in self.base.items()}
        return ChoiceProblem(self.options.take(sources), instances, base, self.sentences)

    @cached_property
    def digest(self) -> str:
        """Return a digest that changes with the options, their base and the choices."""
        digest = hashlib.sha256(b"\n".join([*self.options.sources, b"", *self.options.targets]))
        instances = self.instances
        numbers = (instances.source_I, instances.offsets, instances.right_R, instances.weight_I)
        for array in (self.options.offsets, *self.base.values(), *numbers):
            digest.update(array.tobytes())
        return digest.hexdigest()

    @property
    def sentences_with_choices(self) -> int | None:
        """How many of the sentences there is something to choose in."""
        sentence_I = self.instances.sentence_I
        return None if sentence_I is None else len(np.unique(sentence_I))

    def describe(self, say: Say) -> None:
        """Say what there is, and if it is so little that the text may be prepared in another way than the table."""
        sources = len(np.unique(self.instances.source_I))
        text = f"{len(self.instances):,} choices among the options of {sources:,} sources"
        if self.sentences is None or self.sentences_with_choices is None:
            say(text)
            return
        say(f"{text}, in {self.sentences_with_choices:,} of {self.sentences:,} sentences")
        if self.sentences_with_choices < _FEW * self.sentences:
            say("so few have any that the text may be tokenised or cased in another way than the table")
