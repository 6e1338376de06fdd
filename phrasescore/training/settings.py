"""The user settings of the training of encoder-decoders: presets, overrides, and values by the size of the data.

A preset is a TOML file in the package. A TOML file of the user overrides it, and the command line or keyword arguments
override both.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from phrasescore.configuration import (
    AUTO,
    Section,
    Values,
    options_of,
    reject_without_effect,
    suggestion,
)
from phrasescore.errors import UsageError, UserError, arg_name
from phrasescore.files import documents
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.parallel_text import SentenceConfig
from phrasescore.training.training_config import BUDGET, TrainingConfig, fixed_values

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

_FEW_WORDS = 3
_RECURRENT = {
    "encoder": ("encoder_unit", "directions", "reverse_source", "summary"),
    "decoder": (
        *("decoder_unit", "bridge", "feed_context", "feed_word", "attention", "attention_order", "input_feeding"),
        *("readout", "maxout", "output_rank", "share_units"),
    ),
}
_OF_WORDS = ("vocabulary", "source_vocabulary", "target_vocabulary", "source_corpus", "target_corpus", "min_count")

# Rules for values by the size of the data. They interpolate measured optima: see `dropout_by_size` and
# `updates_by_size`.
_MILLION = 1_000_000
_DROPOUT, _DROPOUT_IN_CONTEXT = 0.4, 0.4
"""Rate for a million pairs; in context, for any number of sentences, tuned on 29,000."""
_LEAST_DROPOUT, _MOST_DROPOUT = 0.1, 0.6
_EPOCHS, _MOST_EPOCHS = 0.82, 5
"""Epochs for a million pairs, and their limit, by which the network has memorised a small table."""
_EPOCHS_IN_CONTEXT, _MOST_EPOCHS_IN_CONTEXT = 3, 30
_EVALUATIONS = 20


def preset_names(folder: Path) -> list[str]:
    """Return the names of the presets in a folder of the package."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def read_presets(folder: Path) -> dict[str, Values]:
    """Return the values of each preset in a folder of the package."""
    return {name: read_preset(folder, name) for name in preset_names(folder)}


def read_preset(folder: Path, name: str) -> Values:
    """Return the values of a preset."""
    names = preset_names(folder)
    if name not in names:
        raise UserError(f"there is no preset `{name}`; {suggestion(name, names)}")
    return documents.read_toml(folder / f"{name}.toml")


def merge(layers: Sequence[Values]) -> Values:
    """Merge values of options by section; later layers take precedence.

    A budget replaces the whole budget of earlier layers, so that `--epochs 3` removes the time limit of a preset. An
    automatic number of updates between evaluations needs a budget of updates.
    """
    merged: Values = {}
    for layer in layers:
        if given := BUDGET & layer.get("training", {}).keys():
            replaced = BUDGET if "max_updates" in given else BUDGET | {"evaluate_every"}
            before = merged.get("training", {})
            merged["training"] = {
                k: v for k, v in before.items() if k not in replaced or (k not in BUDGET and v != AUTO)
            }
        for name, values in layer.items():
            merged[name] = merged.get(name, {}) | values
    return merged


@dataclass(frozen=True)
class Settings:
    """All user settings of a run."""

    model: ModelConfig
    data: DataConfig
    training: TrainingConfig
    sentences: SentenceConfig | None = None
    by_size: frozenset[str] = frozenset()
    """Settings that were `auto` and are not resolved yet."""
    given: frozenset[str] = frozenset()

    @classmethod
    def of(cls, learns_from: LearnsFrom, preset: str | None, layers: Sequence[Values]) -> Settings:
        if preset == DEFAULT_PRESETS["aligned"] and learns_from != "aligned":
            raise UsageError(
                f"{arg_name('preset', 'context')}: is for parallel text with a word alignment; give both, or another "
                "preset"
            )
        chosen = read_preset(PRESETS, preset or DEFAULT_PRESETS[learns_from])
        if chosen.get("sentences", {}).get("subwords") and learns_from != "sentences":
            raise UsageError(
                f"{arg_name('preset', preset)}: is for parallel text without a word alignment; give that, or another "
                "preset"
            )
        merged = merge([chosen, *layers])
        automatic = frozenset(
            key
            for name, values in merged.items()
            for key, value in values.items()
            if value == AUTO and options_of(SECTIONS[name])[key].metadata.get("auto")
        )
        model, data, sentences, training = (
            {key: value for key, value in merged.get(name, {}).items() if key not in automatic} for name in SECTIONS
        )
        given = frozenset(key for layer in layers for values in layer.values() for key in values)
        if learns_from == "table":
            reject_without_effect(
                given, dict.fromkeys(options_of(SentenceConfig), "with a phrase table, only with parallel text")
            )
        return cls(
            ModelConfig(**model, in_context=learns_from == "aligned"),
            DataConfig(**data),
            TrainingConfig(**training),
            None if learns_from == "table" else SentenceConfig(**sentences),
            automatic,
            given,
        )

    def fitted(self, examples: int) -> Settings:
        """Return the settings with `auto` values resolved for a number of distinct pairs or sentences."""
        in_context = self.model.in_context
        updates = self.training.max_updates or updates_by_size(examples, self.training.batch_size, in_context)
        by_size: dict[str, Any] = {
            "dropout": _DROPOUT_IN_CONTEXT if in_context else dropout_by_size(examples),
            "max_updates": updates,
            # Evaluate before a short training run ends.
            "evaluate_every": max(1, updates // _EVALUATIONS),
        }
        found = {name: value for name, value in by_size.items() if name in self.by_size}
        model = {"dropout": found.pop("dropout")} if "dropout" in found else {}
        return replace(
            self, model=replace(self.model, **model), training=replace(self.training, **found), by_size=frozenset()
        )

    def fixed(self) -> dict[str, Any]:
        """Return the settings that must be equal for a run to be resumed, as JSON values."""
        sentences = [] if self.sentences is None else [self.sentences]
        return fixed_values(self.model, self.data, self.training, *sentences)

    def check(self) -> None:
        """Check, before any data are read, that chosen names exist, and that settings are compatible and effective."""
        # Imported late: PyTorch takes seconds to import, and --help and usage errors should not wait for it.
        from phrasescore.nn.encoder_decoder import EncoderDecoder
        from phrasescore.nn.weights import without_numbers
        from phrasescore.training.loop import OPTIMISERS

        OPTIMISERS[self.training.optimiser]
        if self.model.in_context and self.data.direction != "target-given-source":
            raise UsageError(
                f"{arg_name('direction')}: in context only the target can be predicted from the source; leave it out"
            )
        has_subwords = self.sentences is not None and self.sentences.subwords is not None
        if has_subwords and self.model.in_context:
            raise UserError("`subwords`: a word alignment is of words, in context too; leave `subwords` out")
        if self.model.tied_embeddings and not has_subwords:
            raise UserError("`tied_embeddings`: needs a vocabulary of both sides; set `subwords`, or leave it out")
        reject_without_effect(self.given, self._without_effect())
        # A plugin may need values, which this network does not have; building the real network reports its errors.
        with suppress(RuntimeError):
            without_numbers(lambda: EncoderDecoder(self.model, _FEW_WORDS, _FEW_WORDS))

    def _without_effect(self) -> dict[str, str]:
        model = self.model
        found: dict[str, str] = {}
        for name, side in (("encoder", model.encoder), ("decoder", model.decoder)):
            if side == "transformer":
                found |= dict.fromkeys(_RECURRENT[name], f"with `{name}` transformer")
        if "transformer" not in (model.encoder, model.decoder):
            found |= dict.fromkeys(("heads", "feed_forward"), "without a Transformer")
        if not model.in_context:
            found["pairs_a_sentence"] = "without a word alignment"
        else:
            found["measured_loss"] = "in context"
        if self.sentences is not None:
            found["factor"] = "with parallel text, whose words have no factors"
            if not model.in_context:
                found["long_pairs"] = "with parallel text, of which each epoch uses all sentences"
            if self.sentences.subwords is not None:
                found |= dict.fromkeys(_OF_WORDS, "with `subwords`")
        if self.data.source_vocabulary and self.data.target_vocabulary:
            found["vocabulary"] = "with `source_vocabulary` and `target_vocabulary`"
        found |= self.training.without_effect()
        if not model.dropout and "dropout" not in self.by_size:
            found["r_drop"] = "without dropout"
        if model.readout != "maxout":
            found["maxout"] = f"with `readout` {model.readout}"
        if not model.feed_word:
            found["teacher_forcing"] = "with `feed_word` false"
        # Only `feed_context = false` and `summary = true` are errors: the other values describe what this network does.
        if model.attends_before_step and not model.feed_context:
            found["feed_context"] = "with attention before the step, which reads the attention context"
        if model.summary and not model.uses_summary:
            found["summary"] = "without a part of the decoder that reads the summary"
        return found


def dropout_by_size(pairs: int) -> float:
    """Return the dropout rate for a number of distinct pairs.

    The best measured rates were 0.4 for 0.7 and 1.2 million pairs, and 0.3 for 3.6 and 21 million.
    """
    found = _DROPOUT - 0.1 * math.log10(pairs / _MILLION)
    return round(min(_MOST_DROPOUT, max(_LEAST_DROPOUT, found)), 2)


def updates_by_size(examples: int, batch_size: int, in_context: bool = False) -> int:
    """Return the number of updates for a number of distinct pairs, or of sentences in context.

    A million pairs get 820,000 training examples, and four million twice as many: the number of examples grows with the
    square root of the number of pairs. On 1.2 million pairs, four times as many updates did not improve BLEU. In
    context, the rule is anchored at 18 epochs for 29,000 sentences; a text of 1,000 sentences was memorised after 30.
    """
    of_million, most = (_EPOCHS_IN_CONTEXT, _MOST_EPOCHS_IN_CONTEXT) if in_context else (_EPOCHS, _MOST_EPOCHS)
    epochs = min(most, of_million / math.sqrt(examples / _MILLION))
    return math.ceil(epochs * examples / batch_size)
