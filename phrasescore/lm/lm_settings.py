"""The user settings of the training of neural language models; see `phrasescore/training/settings.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from phrasescore.configuration import Section, Values, option, reject_without_effect, setting
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.training.settings import merge, read_preset
from phrasescore.training.training_config import OptimisationConfig


@dataclass(frozen=True)
class TextConfig:
    """The vocabulary and held-out share of the training text."""

    vocabulary: int = option(15_000, "size of the shortlist, the most frequent words of the text", minimum=1)
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


LM_SECTIONS: dict[str, type[Section]] = {"model": NeuralLmConfig, "text": TextConfig, "training": OptimisationConfig}
LM_PRESETS = Path(__file__).with_name("presets")
LM_DEFAULT_PRESET = "small"


@dataclass(frozen=True)
class LmSettings:
    """All settings of a training run of a neural language model."""

    model: NeuralLmConfig
    text: TextConfig
    training: OptimisationConfig

    @classmethod
    def of(
        cls, preset: str, layers: Sequence[Values], *, has_source: bool = False, has_validation: bool = False
    ) -> LmSettings:
        merged = merge([read_preset(LM_PRESETS, preset), *layers])
        for layer in layers:
            reject_without_effect(layer.get("model", {}), {} if has_source else {"window": "without a source text"})
            reject_without_effect(layer.get("text", {}), {"held_out": "with validation text"} if has_validation else {})
        training = OptimisationConfig(**merged.get("training", {}))
        for layer in layers:
            reject_without_effect(layer.get("training", {}), training.without_effect())
        return cls(NeuralLmConfig(**merged.get("model", {})), TextConfig(**merged.get("text", {})), training)
