"""The network that is asked, one of target given source: all questions and pictures here are put in its words."""

from __future__ import annotations

from pathlib import Path

from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import load_model
from phrasescore.scoring.engine import Scorer


def load_scorer(folder: Path, device: str) -> Scorer:
    """Return a network on a device.

    Raises:
        UserError: it cannot be loaded, or was trained for source given target.
    """
    model = load_model(folder)
    if model.direction != "target-given-source":
        raise UserError(f"{folder}: was trained for {model.direction}; give a network trained for target-given-source")
    return Scorer(model, choose_device(device, "auto"))
