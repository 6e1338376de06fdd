"""The settings for training a neural language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from phrasescore.configuration import Section, option, refuse_given, setting
from phrasescore.errors import UserError
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.training.layers import AT_CONSTANT_RATE, Layer, merge_layers, read_preset
from phrasescore.training.training_config import TrainingConfig


@dataclass(frozen=True)
class TextConfig:
    """The vocabulary and held-out share of the training text."""

    vocabulary: int = option(15_000, "most frequent words that the network knows, its shortlist", minimum=1)
    min_count: int = setting(
        2,
        "times that a word must occur to enter the shortlist; the network learns from the others when to expect an "
        "unknown word",
        minimum=1,
    )
    held_out: float = setting(
        0.01,
        "share of the sentences kept from training to measure the loss, if there is no --validation",
        minimum=0,
        maximum=1,
    )


SECTIONS: dict[str, type[Section]] = {"model": NeuralLmConfig, "text": TextConfig, "training": TrainingConfig}
PRESETS = Path(__file__).with_name("presets")
DEFAULT_PRESET = "small"
FOR_OTHERS = ("teacher_forcing", "long_pairs", "pairs_a_sentence")
"""Settings for training encoder-decoders only."""


@dataclass(frozen=True)
class LmSettings:
    """All settings of a training run."""

    model: NeuralLmConfig
    text: TextConfig
    training: TrainingConfig
    given: Mapping[str, str] = field(default_factory=dict)
    """Settings that the user gave, mapped to the names as the user wrote them."""

    @classmethod
    def of(cls, preset: str, layers: Sequence[Layer]) -> LmSettings:
        """Merge a preset with the settings of the user; an invalid or useless setting is a UserError."""
        merged = merge_layers(SECTIONS, [read_preset(PRESETS, preset), *layers])
        for name in merged.automatic:
            raise UserError(f"{merged.given[name]}: is auto, which a language model does not have; give a number")
        refuse_given(merged.given, FOR_OTHERS, "in a language model")
        if merged.values["training"].get("schedule") == "constant":
            refuse_given(merged.given, ["final_rate"], AT_CONSTANT_RATE)
        return cls(
            NeuralLmConfig(**merged.values["model"]),
            TextConfig(**merged.values["text"]),
            TrainingConfig(**merged.values["training"]),
            merged.given,
        )
