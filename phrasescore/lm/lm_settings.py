"""The settings for training a neural language model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.configuration import AUTO, Section, Values, check_effect, option, setting
from phrasescore.errors import UserError
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.training.settings import merge, read_preset
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
FOR_OTHERS = ("teacher_forcing", "label_smoothing", "long_pairs", "pairs_a_sentence")
"""Settings for training encoder-decoders only."""


@dataclass(frozen=True)
class LmSettings:
    """All settings of a training run."""

    model: NeuralLmConfig
    text: TextConfig
    training: TrainingConfig

    @classmethod
    def of(cls, preset: str, layers: Sequence[Values], *, has_source: bool = False) -> LmSettings:
        """Merge a preset with the settings of the user; an invalid or useless setting is a UserError."""
        merged = merge([read_preset(PRESETS, preset), *layers])
        training = merged.get("training", {})
        for layer in layers:
            check_effect(layer.get("training", {}), dict.fromkeys(FOR_OTHERS, "in a language model"))
            check_effect(layer.get("model", {}), {} if has_source else {"window": "without a source text"})
        for name, value in training.items():
            if value == AUTO:
                raise UserError(f"`{name}`: cannot be auto in a language model; give a number")
        return cls(
            NeuralLmConfig(**merged.get("model", {})), TextConfig(**merged.get("text", {})), TrainingConfig(**training)
        )
