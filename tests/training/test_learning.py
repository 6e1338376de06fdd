from __future__ import annotations

import math
import random
from pathlib import Path

from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.training.settings import Settings
from phrasescore.training.training_config import TrainingConfig
from tests.training.runs import CPU, metrics, train


def toy_table(path: Path) -> Path:
    """Write random strings over a small alphabet, paired with the reversed strings."""
    random.seed(4)
    lines: set[str] = set()
    while len(lines) < 3000:
        source = [random.choice("abcdefgh") for _ in range(random.randint(1, 4))]
        lines.add(f"{' '.join(source)} ||| {' '.join(reversed(source))} ||| 1\n")
    path.write_text("".join(sorted(lines)))
    return path


def test_reversing_is_learnt(tmp_path: Path) -> None:
    """A network learns to reverse held-out strings of at most four letters.

    The perplexity per symbol is below 1.1, and correct pairs score higher than wrong ones. Other tasks are those of
    `tests/nn/test_learning.py`.
    """
    model = ModelConfig(hidden=48, embedding=24, maxout=48, output_rank=24, biases="all", initialisation="scaled")
    training = TrainingConfig(batch_size=64, learning_rate=1.2e-2, epochs=5, evaluate_every=100, warmup_updates=50)
    settings = Settings(model, DataConfig(held_out=0.05), training)
    train(toy_table(tmp_path / "toy"), tmp_path / "run", settings)
    last = metrics(tmp_path / "run")[-1]["held_out"]
    assert isinstance(last, dict)
    assert math.exp(last["per_word"]) < 1.1
    scorer = EncoderDecoderScorer(load_model(tmp_path / "run"), CPU)
    scores = scorer.score(Occurrences([b"e f g h", b"e f g h"], [b"h g f e", b"e f g h"])).first_N
    assert scores[0] > -0.5
    assert scores[1] < -5
