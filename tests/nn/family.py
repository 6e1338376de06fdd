"""Configurations of all kinds of architectures, by name."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from phrasescore.nn.architecture import ModelConfig
from tests.conftest import TINY

BASE = replace(TINY, hidden=6, embedding=5, maxout=4, output_rank=0)
UNITS = ("rnn", "gru-paper", "gru-appendix", "gru", "lstm")
CHO: dict[str, Any] = {"biases": "authors", "output_rank": 3}
SIMPLEST: dict[str, Any] = {"bridge": "last", "feed_context": False, "readout": "state", "summary": False}
NOTE_000: dict[str, Any] = {
    "encoder_unit": "gru",
    "decoder_unit": "gru",
    "summary": False,
    "bridge": "last",
    "readout": "word-state-context",
}
BAHDANAU: dict[str, Any] = {
    "directions": "both",
    "bridge": "first-backward",
    "attention": "concat",
    "attention_order": "before",
}
LUONG: dict[str, Any] = {
    "encoder_unit": "lstm",
    "decoder_unit": "lstm",
    "bridge": "last",
    "feed_context": False,
    "attention": "general",
    "readout": "attentional",
}
TRANSFORMER: dict[str, Any] = {
    "encoder": "transformer",
    "decoder": "transformer",
    "hidden": 8,
    "heads": 2,
    "feed_forward": 7,
    "encoder_layers": 2,
    "decoder_layers": 2,
}
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"unit {unit}": {"encoder_unit": unit, "decoder_unit": unit} for unit in UNITS},
    **{f"{unit}, the authors' biases": {"decoder_unit": unit, "biases": "authors"} for unit in UNITS},
    "Cho, units swapped": {"encoder_unit": "gru-appendix", "decoder_unit": "gru-paper", **CHO},
    "Cho without summary": {"encoder_unit": "gru-paper", "decoder_unit": "gru-appendix", "summary": False, **CHO},
    **{f"simplest, {unit}": {**SIMPLEST, "encoder_unit": unit, "decoder_unit": unit} for unit in UNITS},
    **{f"simplest without words, {unit}": {**SIMPLEST, "decoder_unit": unit, "encoder_unit": unit, "feed_word": False}
       for unit in UNITS},
    "the lecture's, shared": {**SIMPLEST, "encoder_unit": "rnn", "decoder_unit": "rnn", "feed_word": False,
                              "share_units": True},
    "shared units and layers": {**SIMPLEST, "encoder_unit": "gru", "decoder_unit": "gru", "encoder_layers": 2,
                                "decoder_layers": 2, "share_units": True},
    "maxout without context": {"feed_context": False},
    "maxout without words": {"feed_word": False},
    "maxout of the state alone": {"feed_context": False, "feed_word": False},
    "stacked": {"encoder_layers": 3, "decoder_layers": 2, "decoder_unit": "lstm"},
    "reversed": {"reverse_source": True, "encoder_layers": 2},
    "tutorial": NOTE_000,
    "tutorial, rank 3": {**NOTE_000, "output_rank": 3},
    **{
        f"{bridge}, {directions}, {unit}": {
            "directions": directions,
            "bridge": bridge,
            "encoder_unit": unit,
            "decoder_unit": unit,
            "encoder_layers": 3,
            "decoder_layers": 2,
        }
        for bridge, directions, unit in itertools.product(
            ("context", "last", "both", "first-backward"), ("both", "halves"), ("gru", "lstm")
        )
    },
    **{
        f"{attention} {order}": {"attention": attention, "attention_order": order}
        for attention, order in itertools.product(("dot", "general", "scaled", "concat"), ("before", "after"))
    },
    "Bahdanau": BAHDANAU,
    "Bahdanau, lstm": {**BAHDANAU, "encoder_unit": "lstm", "decoder_unit": "lstm", "decoder_layers": 2},
    "Bahdanau reversed": {**BAHDANAU, "reverse_source": True},
    "Luong": LUONG,
    "Luong with input feeding": {**LUONG, "input_feeding": True, "encoder_layers": 2, "decoder_layers": 2},
    "input feeding, halves": {**LUONG, "input_feeding": True, "directions": "halves", "encoder_layers": 2,
                              "decoder_layers": 2},
    "input feeding, rank 3, context too": {**LUONG, "input_feeding": True, "feed_context": True, "output_rank": 3},
    "input feeding before": {**LUONG, "input_feeding": True, "attention_order": "before"},
    "transformer": TRANSFORMER,
    "transformer, tied": {**TRANSFORMER, "embedding": 8, "tied_embeddings": True},
    "transformer encoder": {**TRANSFORMER, "decoder": "recurrent", "attention": "dot", "readout": "attentional"},
    "transformer encoder without attention": {**TRANSFORMER, "decoder": "recurrent", "decoder_layers": 1},
}  # fmt: skip


def config_of(name: str, **changes: Any) -> ModelConfig:
    return replace(BASE, **{**VARIANTS[name], **changes})


FAMILY = (
    "simplest, rnn",
    "the lecture's, shared",
    "tutorial",
    "reversed",
    "stacked",
    "both, halves, lstm",
    "Bahdanau",
    "Luong with input feeding",
    "dot after",
    "transformer",
)
"""One of each kind."""
