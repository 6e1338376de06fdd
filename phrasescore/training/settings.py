"""All user settings of training an encoder-decoder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from phrasescore.configuration import Section, options_of, refuse_given
from phrasescore.errors import UsageError, spelled
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.parallel_text import SentenceConfig
from phrasescore.training.by_size import settings_by_size
from phrasescore.training.layers import AT_CONSTANT_RATE, Layer, merge_layers, read_preset
from phrasescore.training.training_config import TrainingConfig, fixed_values

LearnsFrom = Literal["table", "sentences", "aligned"]
"""A phrase table, parallel text, or phrase pairs in word-aligned text."""
SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "sentences": SentenceConfig,
    "training": TrainingConfig,
}
PRESETS = Path(__file__).with_name("presets")
DEFAULT_PRESETS: dict[LearnsFrom, str] = {"table": "small", "sentences": "attention", "aligned": "context"}

_IDLE: dict[LearnsFrom, tuple[str, ...]] = {
    "table": ("pairs_a_sentence",),
    "sentences": ("pairs_a_sentence", "long_pairs"),
    "aligned": (),
}
"""Training settings without effect, by kind of data."""
_FEW_WORDS = 3


@dataclass(frozen=True)
class Settings:
    """All user settings of a run."""

    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    sentences: SentenceConfig | None = None
    """Settings of parallel text; None for a phrase table."""
    by_size: frozenset[str] = frozenset()
    """Settings that were `auto` and are not resolved yet."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Settings that the user gave, each with its name as the user wrote it."""

    @classmethod
    def of(cls, learns_from: LearnsFrom, preset: str | None, layers: Sequence[Layer]) -> Settings:
        """Merge a preset, or the default preset, with the layers of the user.

        Raises:
            UserError: a key or a value is invalid.
            UsageError: a setting is for another kind of data.
        """
        if preset == DEFAULT_PRESETS["aligned"] and learns_from != "aligned":
            raise UsageError(
                f"{spelled('preset', 'context')}: is for parallel text with a word alignment; give both, or another "
                "preset"
            )
        merged = merge_layers(SECTIONS, [read_preset(PRESETS, preset or DEFAULT_PRESETS[learns_from]), *layers])
        values = merged.values
        if learns_from == "table":
            for name in options_of(SentenceConfig).keys() & merged.given.keys():
                raise UsageError(f"{merged.given[name]}: is for parallel text; leave it out, or give such text")
        # A preset may have settings for another kind of data.
        for name in _IDLE[learns_from]:
            values["training"].pop(name, None)
        return cls(
            ModelConfig(**values["model"], in_context=learns_from == "aligned"),
            DataConfig(**values["data"]),
            TrainingConfig(**values["training"]),
            None if learns_from == "table" else SentenceConfig(**values["sentences"]),
            merged.automatic,
            merged.given,
        )

    def fitted(self, examples: int) -> Settings:
        """Return the settings with `auto` values resolved for a number of distinct pairs or sentences."""
        found = settings_by_size(
            examples, self.training.batch_size, self.model.in_context, max_updates=self.training.max_updates
        )
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
        """Return the settings that must be equal for a run to be resumed, as JSON values."""
        sentences = [] if self.sentences is None else [self.sentences]
        return fixed_values(self.model, self.data, self.training, *sentences)

    def check(self) -> None:
        """Check, before any data are read, that all chosen names exist and that the network's options are compatible.

        Raises:
            UserError: a name does not exist (the nearest name is suggested), options are incompatible, or an option
                would have no effect.
        """
        # Imported late: PyTorch takes seconds to import, and --help and usage errors should not wait for it.
        from phrasescore.nn.encoder_decoder import EncoderDecoder
        from phrasescore.nn.weights import without_numbers
        from phrasescore.training.optimisers import OPTIMISERS

        OPTIMISERS[self.training.optimiser]
        if self.model.in_context and self.data.direction != "target-given-source":
            raise UsageError(
                f"{spelled('direction')}: in context the sentence that is known is the source's; leave it out"
            )
        if self.model.in_context and self.sentences is not None:
            self.sentences.check_effect_in_context()
        self._check_given()
        # A plugin may need values, which this network does not have; building the real network reports its errors.
        with suppress(RuntimeError):
            without_numbers(lambda: EncoderDecoder(self.model, _FEW_WORDS, _FEW_WORDS))

    def _check_given(self) -> None:
        """Reject options that were given and have no effect.

        Raises:
            UsageError: such an option was given.
        """
        model, idle = self.model, partial(refuse_given, self.given)
        if not model.in_context:
            idle(["pairs_a_sentence"], "without a word alignment, by which phrase pairs are found in sentences")
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
            # Setting it to true is no contradiction.
            raise UsageError(
                f"{self.given['feed_context']}: changes nothing where attention looks before the step, which gets what "
                "it found; leave it out"
            )
        # Setting it to false is no contradiction, and is convenient in settings of systems that extend one another.
        if model.summary and not model.uses_summary:
            idle(["summary"], "where neither the steps nor the first state of the decoder see the summary")
