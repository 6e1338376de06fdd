from __future__ import annotations

import math
import random
from pathlib import Path

import pytest

from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from tests.training.runs import CPU, metrics, train


def toy_table(path: Path, reverse: bool) -> Path:
    """Return random strings over a small alphabet, paired with copies or reversed copies."""
    random.seed(4)
    lines: set[str] = set()
    while len(lines) < 8000:
        source = [random.choice("abcdefgh") for _ in range(random.randint(1, 5))]
        target = source[::-1] if reverse else source
        lines.add(f"{' '.join(source)} ||| {' '.join(target)} ||| 1\n")
    path.write_text("".join(sorted(lines)))
    return path


@pytest.mark.timeout(400)
@pytest.mark.parametrize("reverse", [False, True])
def test_copying_and_reversing_are_learnt(tmp_path: Path, reverse: bool) -> None:
    """A network learns to copy and to reverse held-out strings of at most five letters.

    The perplexity per symbol is below 1.1, and correct pairs score higher than wrong ones.
    """
    model = ModelConfig(hidden=96, embedding=24, maxout=48, output_rank=24, biases="all", initialisation="scaled")
    training = TrainingConfig(batch_size=64, learning_rate=8e-3, epochs=14, evaluate_every=500, warmup_updates=50)
    settings = Settings(model, DataConfig(held_out=0.05), training)
    train(toy_table(tmp_path / "toy", reverse), tmp_path / "run", settings)
    last = metrics(tmp_path / "run")[-1]["held_out"]
    assert isinstance(last, dict)
    assert math.exp(last["per_word"]) < 1.1
    scorer = EncoderDecoderScorer(load_model(tmp_path / "run"), CPU)
    right, wrong = (b"h g f e", b"e f g h") if reverse else (b"e f g h", b"h g f e")
    scores = scorer.score(Occurrences([b"e f g h", b"e f g h"], [right, wrong])).first_N
    assert scores[0] > -0.5
    assert scores[1] < -5
