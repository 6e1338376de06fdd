"""Everything a user can set about the training of an encoder-decoder."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from phrasescore.configuration import refuse_given
from phrasescore.errors import UsageError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.nn.size import without_numbers
from phrasescore.pairs import DataConfig
from phrasescore.sentences import SentenceConfig
from phrasescore.training.by_size import settings_by_size
from phrasescore.training.layers import AT_CONSTANT_RATE
from phrasescore.training.optimisers import OPTIMISERS
from phrasescore.training.run_folder import fixed_values
from phrasescore.training.training_config import TrainingConfig

_FEW_WORDS = 3


@dataclass(frozen=True)
class Settings:
    """Everything a user can set about a run."""

    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    sentences: SentenceConfig | None = None
    """Of parallel text; None for a phrase table."""
    by_size: frozenset[str] = frozenset()
    """Options whose values are still to follow from how much there is to learn from."""
    given: frozenset[str] = frozenset()
    """Options that were given, and not by a preset."""

    def fitted(self, examples: int) -> Settings:
        """Return the settings for so many distinct pairs, or sentences."""
        found = settings_by_size(examples, self.training.batch_size, self.model.in_context)
        model, training = (
            {name: value for name, value in found[section].items() if name in self.by_size}
            for section in ("model", "training")
        )
        return replace(
            self,
            model=replace(self.model, **model),
            training=replace(self.training, **training),
            by_size=frozenset(),
        )

    def fixed(self) -> dict[str, Any]:
        """Return what must be the same when a run is resumed, as JSON values."""
        sentences = [] if self.sentences is None else [self.sentences]
        return fixed_values(self.model, self.data, self.training, *sentences)

    def check(self) -> None:
        """Check, before anything is read, that what is chosen by name exists and that the network's forms go together.

        Raises:
            UserError: something does not exist (the nearest name is suggested), two forms do not go together, or one
                would change nothing.
        """
        OPTIMISERS[self.training.optimiser]
        self.model.check_effect()
        if self.model.in_context and self.data.direction != "target-given-source":
            raise UsageError("--direction: in context the sentence that is known is the source's; leave it out")
        if self.model.in_context and self.sentences is not None:
            self.sentences.check_effect_in_context()
        self._check_given()
        # What a plugin does may need numbers, which this network does not have: only building the real one tells.
        with suppress(RuntimeError):
            without_numbers(lambda: EncoderDecoder(self.model, _FEW_WORDS, _FEW_WORDS))

    def _check_given(self) -> None:
        """Refuse options that were given and would change nothing.

        Raises:
            UsageError: one was.
        """
        model, idle = self.model, partial(refuse_given, self.given)
        if not model.in_context:
            idle(["pairs_a_sentence"], "without --alignment, by which phrase pairs are found in sentences")
            if self.sentences is not None:
                idle(["long_pairs"], "with parallel text, of which a pass takes all")
        if self.sentences is not None:
            idle(["factor"], "with parallel text, whose words are taken whole")
        if self.training.schedule == "constant":
            idle(["final_rate"], AT_CONSTANT_RATE)
        if model.readout != "maxout":
            idle(["maxout"], f"with the readout `{model.readout}`, which has no maxout")
        if not model.feed_word:
            idle(["teacher_forcing"], "where no words are fed to the decoder")
        if model.attends_before_step and not model.feed_context and "feed_context" in self.given:
            # To say that it is fed says what is so.
            raise UsageError(
                "--no-feed-context: changes nothing where attention looks before the step, which gets what it found; "
                "leave it out"
            )
        # --no-summary says what is so, and settings of systems that extend one another may say it.
        if model.summary and not model.uses_summary:
            idle(["summary"], "where neither the steps nor the first state of the decoder see the summary")
