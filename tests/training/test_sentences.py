"""Training on sentences: loss, evaluation and resumption."""

from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from phrasescore.errors import UserError
from phrasescore.model_files import METRICS
from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import ModelConfig
from phrasescore.nn.batch import PairBatch
from phrasescore.pairs import DataConfig
from phrasescore.parallel_text import MeasuredLoss, ParallelText, SentenceConfig
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.training.batches import sentence_loss
from phrasescore.training.loop import Trainer
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import SentenceTask
from phrasescore.training.training_config import TrainingConfig
from tests.conftest import TINY
from tests.copying import write_sentences
from tests.nn.family import config_of
from tests.training.runs import CPU, metrics, outcome, run_until

ATTENTION = replace(config_of("Luong with input feeding"), dropout=0.3)


@pytest.fixture
def texts(tmp_path: Path) -> tuple[ParallelText, ParallelText]:
    """Training and validation sentences."""
    train = ParallelText(*write_sentences(tmp_path, "train", 200, seed=3))
    return train, ParallelText(*write_sentences(tmp_path, "valid", 30, seed=4))


def settings(model: ModelConfig = TINY, sentences: SentenceConfig | None = None, **training: Any) -> Settings:
    config = TrainingConfig(**{"batch_size": 16, "epochs": 2, "evaluate_every": 10, "warmup_updates": 5, **training})
    return Settings(model, DataConfig(held_out=0.1), config, sentences or SentenceConfig(min_count=2))


def train(
    texts: tuple[ParallelText, ParallelText], folder: Path, settings: Settings, stop_after: int | None = None
) -> Trainer[SentenceTask]:
    return run_until(prepare(texts[0], folder, settings, CPU, texts[1]), stop_after)


def test_a_resumed_run_equals_one_never_stopped(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """A resumed run has the dropout masks and sampling decisions of an uninterrupted run."""
    chosen = settings(ATTENTION, teacher_forcing=0.5)
    whole = train(texts, tmp_path / "whole", chosen).progress
    for stop in (3, 14):
        assert train(texts, tmp_path / "parts", chosen, stop_after=stop).progress.update == stop
    train(texts, tmp_path / "parts", chosen)
    assert whole.update == 2 * math.ceil(200 / 16)
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    forced = train(texts, tmp_path / "forced", replace(chosen, training=replace(chosen.training, teacher_forcing=1.0)))
    assert forced.progress.best_loss != whole.best_loss


def test_both_perplexities_are_what_they_are_called(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    trainer = train(texts, tmp_path / "run", settings(config_of("tutorial")))
    found = metrics(tmp_path / "run")[-1]["validation"]
    assert trainer.progress.best_update == trainer.progress.update
    model = load_model(tmp_path / "run")
    sides = [path.read_bytes().splitlines() for path in (texts[1].source, texts[1].target)]
    scores = EncoderDecoderScorer(model, CPU).score(Occurrences(sides[0], sides[1])).first_N
    per_word = -scores.sum() / sum(len(line.split()) + 1 for line in sides[1])
    assert found["teacher_forced_per_word"] == pytest.approx(per_word, rel=1e-5)
    assert found["teacher_forced_perplexity"] == pytest.approx(math.exp(per_word), rel=1e-5)
    free = []
    for source, target in zip(*sides, strict=True):
        pair = model.source_vocabulary.encode([source]), model.target_vocabulary.encode([target])
        with torch.inference_mode():
            free.append(model.network(PairBatch.apart(*pair), teacher_forcing=0.0).numpy())
    assert found["free_running_per_word"] == pytest.approx(-np.concatenate(free).mean(), rel=1e-4)
    assert found["free_running_perplexity"] == pytest.approx(math.exp(found["free_running_per_word"]))
    assert found["free_running_per_word"] != found["teacher_forced_per_word"]


def test_a_scaled_network_starts_at_the_words_frequencies(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path
) -> None:
    model = replace(TINY, initialisation="cho2014")
    all_words = SentenceConfig(min_count=1)
    scaled = prepare(texts[0], tmp_path / "scaled", settings(sentences=all_words), CPU).task
    paper = prepare(texts[0], tmp_path / "paper", settings(model, all_words), CPU).task
    words = [word for line in texts[0].target.read_text().splitlines() for word in (*line.split(), "</s>")]
    counts = Counter(words)
    entropy = -sum(math.log(counts[word] / len(words)) for word in words) / len(words)
    assert scaled.measure(scaled.pairs).per_example == pytest.approx(entropy, rel=0.03)
    assert paper.measure(paper.pairs).per_example == pytest.approx(math.log(len(counts) + 1), rel=0.03)


def test_duplicates_of_held_out_lines_with_other_unknown_words_are_excluded(tmp_path: Path) -> None:
    """Held-out sentences are excluded from training even if their copies have other unknown words.

    Sentences that differ only in unknown words are identical to the network.
    """
    for side in ("source", "target"):
        (tmp_path / side).write_text("".join(f"{'abcdef'[number % 6]} {number}\n" for number in range(60)))
    text = ParallelText(tmp_path / "source", tmp_path / "target")
    chosen = replace(settings(sentences=SentenceConfig(min_count=2)), data=DataConfig(held_out=1 / 60))
    task = prepare(text, tmp_path / "run", chosen, CPU).task
    assert len(task.held_out) == 1
    assert len(task.lines) == 50


@pytest.mark.parametrize("measured", ["teacher-forced", "free-running"])
def test_the_measured_loss_chooses_the_weights(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path, measured: MeasuredLoss
) -> None:
    """Weights are selected by the configured loss; the two losses of this run are lowest at different updates."""
    chosen = SentenceConfig(min_count=2, measured_loss=measured)
    trainer = train(texts, tmp_path / "run", settings(sentences=chosen, epochs=6, learning_rate=0.05))
    key = f"{measured.replace('-', '_')}_per_word"
    losses = {record["update"]: record["validation"][key] for record in metrics(tmp_path / "run")}
    assert trainer.progress.best_loss == min(losses.values())
    assert trainer.progress.best_update == min(losses, key=losses.__getitem__)
    lowest = {
        min(metrics(tmp_path / "run"), key=lambda record: record["validation"][name])["update"]
        for name in ("teacher_forced_per_word", "free_running_per_word")
    }
    assert len(lowest) == 2


def test_a_loss_beyond_any_perplexity_is_a_bad_one(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """A loss whose perplexity overflows counts as bad: e^710 exceeds the range of a double."""
    trainer = prepare(texts[0], tmp_path / "run", settings(), CPU, texts[1])
    with torch.no_grad():
        trainer.task.network.softmax.words.bias[0] = 5000
    trainer.train()
    first = json.loads((tmp_path / "run" / METRICS).read_text().splitlines()[0], parse_constant=pytest.fail)
    assert first["validation"]["teacher_forced_per_word"] > 710
    assert first["validation"]["teacher_forced_perplexity"] is None


def test_sentences_are_held_out_if_there_are_no_others(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path
) -> None:
    trainer = prepare(texts[0], tmp_path / "run", settings(), CPU)
    assert (len(trainer.task.lines), len(trainer.task.held_out)) == (180, 20)
    trainer.train()
    last = metrics(tmp_path / "run")[-1]
    assert last["validation"] is None
    assert last["held_out"]["teacher_forced_perplexity"] > 1
    assert json.loads((tmp_path / "run/config.json").read_text())["sentences"]["min_count"] == 2


def test_the_loss_is_the_mean_of_the_words(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    trainer = prepare(texts[0], tmp_path / "run", settings(), CPU, texts[1])
    lines = next(trainer.task.batches(0))
    pairs = trainer.task.pairs.take(lines)
    with torch.inference_mode():
        log_prob_I = trainer.task.network(PairBatch.apart(pairs.source, pairs.target))
        loss = trainer.task.loss(lines)
        assert float(loss.mean) == pytest.approx(-float(log_prob_I.mean()))
        assert loss.terms == len(log_prob_I)


def test_the_training_loss_is_per_word_too(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """The training loss is the mean per word over an epoch.

    The learning rate is 0. The mean of the batch means would differ.
    """
    trainer = train(texts, tmp_path / "run", settings(epochs=1, evaluate_every=0, learning_rate=0.0))
    (told,) = (record["training_loss"] for record in metrics(tmp_path / "run"))
    assert told == pytest.approx(sentence_loss(trainer.task.network, trainer.task.pairs, CPU).per_example, rel=1e-6)
    with torch.inference_mode():
        means = [(float(trainer.task.loss(lines).mean), len(lines)) for lines in trainer.task.batches(0)]
    assert told != pytest.approx(sum(mean * size for mean, size in means) / 200, rel=1e-4)


def test_other_text_or_plugins_do_not_resume(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(texts, tmp_path / "run", settings())
    with pytest.raises(UserError, match="holds a run with another max_words"):
        train(texts, tmp_path / "run", settings(sentences=SentenceConfig(min_count=2, max_words=50)))
    with pytest.raises(UserError, match="holds a run with other sentences; give the same"):
        train((texts[1], texts[1]), tmp_path / "run", settings(warmup_updates=2))
    with pytest.raises(UserError, match="holds a run with other validation data; give the same"):
        train((texts[0], texts[0]), tmp_path / "run", settings())
    monkeypatch.setattr("phrasescore.training.training_config.loaded_plugins", lambda: {"my.py": "0123"})
    with pytest.raises(UserError, match="holds a run with other plugins"):
        train(texts, tmp_path / "run", settings())
