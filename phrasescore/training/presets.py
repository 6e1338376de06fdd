"""Named settings: the paper's, and some of our own; docs/training.md says what each is for."""

from __future__ import annotations

from typing import Any

# Sutskever et al. 2014 with a gated unit, in small: one layer, forward, from state to state and nothing else. What the
# systems of docs/models.md add to, for phrase tables too.
_PLAIN: dict[str, dict[str, Any]] = {
    "model": {
        "hidden": 256,
        "embedding": 256,
        "output_rank": 0,
        "encoder_unit": "gru",
        "decoder_unit": "gru",
        "bridge": "last",
        "summary": False,
        "feed_context": False,
        "readout": "state",
        "biases": "all",
        "initialisation": "scaled",
    },
    "data": {"source_vocabulary": 30_000, "target_vocabulary": 30_000},
    "sentences": {"min_count": 2, "max_words": 80},
    "training": {"batch_size": 128, "learning_rate": 1e-3, "evaluate_every": 0, "epochs": 10},
}
# Luong et al. 2015's form with a gated unit, which learnt most in equal time.
_SMALL: dict[str, Any] = {
    "hidden": 384,
    "embedding": 192,
    "maxout": 192,
    "output_rank": 192,
    "encoder_unit": "gru",
    "decoder_unit": "gru",
    "directions": "halves",
    "summary": False,
    "bridge": "last",
    "feed_context": False,
    "attention": "dot",
    "readout": "attentional",
    "biases": "all",
    "initialisation": "scaled",
}
DEFAULT_PRESET, DEFAULT_SENTENCE_PRESET, DEFAULT_CONTEXT_PRESET = "small", "attention", "context"
_LENGTH = frozenset({"max_updates", "evaluate_every"})
BY_SIZE: dict[str, dict[str, frozenset[str]]] = {
    "base": {"model": frozenset({"dropout"})},
    "small": {"model": frozenset({"dropout"}), "training": _LENGTH},
    "context": {"training": _LENGTH},
}
"""The options of presets that follow how much there is to learn from; see `by_size`."""
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # Cho et al. 2014, section 4.1.1 and the authors' settings; the model section's defaults are the paper's.
    "cho2014": {
        "model": {},
        "data": {"source_vocabulary": 15_000, "target_vocabulary": 15_000},
        "training": {
            "optimiser": "adadelta",
            "learning_rate": 1.0,
            "schedule": "constant",
            "warmup_updates": 0,
            "batch_size": 64,
            "epochs": 20,
        },
    },
    # An hour on one GPU.
    "base": {
        "model": {
            "hidden": 1000,
            "embedding": 256,
            "maxout": 500,
            "output_rank": 256,
            "biases": "all",
            "initialisation": "scaled",
        },
        "data": {"source_vocabulary": 30_000, "target_vocabulary": 30_000},
        "training": {"batch_size": 1024, "learning_rate": 1e-3, "max_minutes": 60.0},
    },
    # A quarter of an hour on one CPU core for a million pairs.
    "small": {
        "model": _SMALL,
        "data": {"source_vocabulary": 15_000, "target_vocabulary": 15_000},
        "training": {
            "batch_size": 128,
            "learning_rate": 2e-3,
            "long_pairs": 0.3,
        },
    },
    # The same network in its sentence.
    "context": {
        "model": {**_SMALL, "in_context": True, "dropout": 0.4},
        "data": {"source_vocabulary": 15_000, "target_vocabulary": 15_000},
        "sentences": {"max_words": 80},
        "training": {
            "batch_size": 32,
            "learning_rate": 2e-3,
            "long_pairs": 0.3,
            "pairs_a_sentence": 4,
            "patience": 0,
        },
    },
    "plain": _PLAIN,
    # Luong et al. 2015 with a gated unit, in small: global attention, with the score that learnt best, and halves of a
    # bidirectional encoder. Half an hour on one CPU core for 29,000 captions.
    "attention": {
        **_PLAIN,
        "model": {
            **_PLAIN["model"],
            "hidden": 512,
            "directions": "halves",
            "attention": "concat",
            "readout": "attentional",
            "dropout": 0.4,
        },
        "training": {**_PLAIN["training"], "batch_size": 32, "epochs": 12},
    },
}


def described() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the presets as a help text shows them, with words for what follows how much there is to learn from."""
    return {
        name: {
            section: {**values, **dict.fromkeys(BY_SIZE.get(name, {}).get(section, ()), "by the size of the data")}
            for section, values in preset.items()
        }
        for name, preset in PRESETS.items()
    }
