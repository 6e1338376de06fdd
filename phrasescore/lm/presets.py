"""Named settings of neural language models: the paper's, and one for small corpora."""

from __future__ import annotations

from typing import Any

DEFAULT_PRESET = "small"
PRESETS: dict[str, dict[str, dict[str, Any]]] = {
    # Cho et al. 2014, section 4.1.2; sizes and starts are the model section's defaults. The paper does not name the
    # optimiser and the batch size; these are the ones of its encoder-decoder.
    "cho2014": {
        "model": {},
        "text": {"vocabulary": 15_000, "held_out": 0.001},
        "training": {
            "optimiser": "adadelta",
            "learning_rate": 1.0,
            "schedule": "constant",
            "warmup_updates": 0,
            "batch_size": 64,
            "evaluate_every": 0,
            "patience": 10,
        },
    },
    # Five minutes on two CPU cores for a text of half a million words.
    "small": {
        "model": {
            "embedding": 128,
            "first_hidden": 384,
            "second_hidden": 256,
            "initialisation": "scaled",
            "dropout": 0.2,
        },
        "text": {"vocabulary": 15_000},
        "training": {
            "batch_size": 512,
            "learning_rate": 2e-3,
            "evaluate_every": 0,
            "epochs": 8,
        },
    },
}
