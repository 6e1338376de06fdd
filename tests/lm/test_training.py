from __future__ import annotations

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from phrasescore.device import Device
from phrasescore.errors import UsageError, UserError
from phrasescore.lm.lm_scorer import NeuralLmScorer
from phrasescore.lm.lm_settings import LmSettings, TextConfig
from phrasescore.lm.lm_training import TextTask, prepare
from phrasescore.lm.ngrams import read_rows
from phrasescore.lm.text_scores import TextScores
from phrasescore.model_folder import load_language_model
from phrasescore.nn.architecture import NeuralLmConfig
from phrasescore.parallel_text import ParallelText
from phrasescore.scoring.columns import UNNORMALISED
from phrasescore.training.loop import Start, Trainer
from phrasescore.training.training_config import TrainingConfig
from phrasescore.vocabulary import Vocabulary
from tests.conftest import DATA, MINI
from tests.lm.conftest import ARPA
from tests.training.runs import metrics, outcome, run_until

TEXT, OTHER = MINI / "train.fr", MINI / "dev.fr"
SETTINGS = LmSettings(
    NeuralLmConfig(order=4, embedding=8, first_hidden=16, second_hidden=12, initialisation="scaled", dropout=0.1),
    TextConfig(vocabulary=60, held_out=0.1),
    TrainingConfig(batch_size=256, epochs=2, evaluate_every=0, warmup_updates=5, learning_rate=1e-2, sampled_words=40),
)


def train(
    folder: Path,
    device: Device,
    settings: LmSettings = SETTINGS,
    *,
    validation: Path | None = None,
    stop_after: int | None = None,
) -> Trainer[TextTask]:
    return run_until(prepare(TEXT, folder, settings, device, validation), stop_after)


def test_a_resumed_run_equals_one_never_stopped(tmp_path: Path, cpu: Device) -> None:
    """A resumed run equals one never stopped, interrupted within an epoch and after the last update."""
    whole = train(tmp_path / "whole", cpu)
    per_pass = whole.task.batches_per_epoch
    for stop in (10, per_pass, per_pass + 7):
        assert train(tmp_path / "parts", cpu, stop_after=stop).progress.update == stop
    assert train(tmp_path / "parts", cpu).progress.update == whole.progress.update == 2 * per_pass
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    assert [record["epoch"] for record in metrics(tmp_path / "whole")] == [1, 2]


def test_a_pass_has_every_ngram_once(tmp_path: Path, cpu: Device) -> None:
    trainer = prepare(TEXT, tmp_path / "run", SETTINGS, cpu)
    task = trainer.task
    batches = list(task.batches(0))
    assert len(batches) == task.batches_per_epoch
    assert max(map(len, batches)) - min(map(len, batches)) <= 1
    assert sorted(number for batch in batches for number in batch.tolist()) == list(range(len(task.ngrams)))
    assert [batch.tolist() for batch in task.batches(0)] == [batch.tolist() for batch in batches]
    assert [batch.tolist() for batch in task.batches(1)] != [batch.tolist() for batch in batches]
    words = sum(len(line.split()) + 1 for line in TEXT.read_bytes().splitlines())
    assert len(task.ngrams) + len(task.held_out) == words


def test_the_held_out_perplexity_decides_when_to_stop(tmp_path: Path, cpu: Device) -> None:
    training = replace(SETTINGS.training, epochs=100, learning_rate=0.3, schedule="constant", patience=2)
    progress = train(tmp_path / "run", cpu, replace(SETTINGS, training=training), validation=OTHER).progress
    assert progress.finished == "the measured loss no longer falls"
    records = metrics(tmp_path / "run")
    assert [record["best"] for record in records[-2:]] == [False, False]
    assert records[-3]["update"] == progress.best_update
    assert all(record["held_out"] is None for record in records)


def test_the_loss_is_the_perplexity_that_the_scorer_finds(tmp_path: Path, cpu: Device) -> None:
    train(tmp_path / "run", cpu, validation=OTHER)
    best = min(record["validation"]["per_word"] for record in metrics(tmp_path / "run"))
    scorer = NeuralLmScorer.load(tmp_path / "run", cpu)
    sentences = [line.split(b" ") for line in OTHER.read_bytes().splitlines()]
    scores = scorer.sentence_log_probs(sentences)
    assert -sum(scores) / sum(len(sentence) + 1 for sentence in sentences) == pytest.approx(best, abs=1e-5)
    assert math.exp(best) < 25


def test_a_joint_model_predicts_better_and_scores_as_it_learns(tmp_path: Path, cpu: Device) -> None:
    """The loss of a joint model is lower than that without the source, and the scorer's perplexity is the same."""
    text = ParallelText(MINI / "train.en", TEXT, MINI / "train.align")
    losses = []
    for folder, data in ((tmp_path / "joint", text), (tmp_path / "plain", TEXT)):
        run_until(prepare(data, folder, SETTINGS, cpu), None)
        losses.append(min(record["held_out"]["per_word"] for record in metrics(folder)))
    assert losses[0] < losses[1] - 0.2
    half = LmSettings(SETTINGS.model, replace(SETTINGS.text, held_out=0.0), SETTINGS.training)
    run_until(prepare(text, tmp_path / "measured", half, cpu, text), None)
    best = min(record["validation"]["per_word"] for record in metrics(tmp_path / "measured"))
    scores = TextScores.load(tmp_path / "measured", device="cpu", precision="fp32")
    assert sum(scores.score(read_rows(text), "text")) / -scores.words == pytest.approx(best, abs=1e-5)
    with pytest.raises(UserError, match="measured: is a joint model, which also reads source words; give source and"):
        list(scores.score(read_rows(TEXT), "text"))
    with pytest.raises(UserError, match="plain: is a model that reads no source; leave out source and alignment"):
        list(TextScores.load(tmp_path / "plain", device="cpu").score(read_rows(text), "text"))
    described = json.loads((tmp_path / "joint/config.json").read_bytes())
    assert described["training"]["text_source"] == str((MINI / "train.en").resolve())
    assert len(Vocabulary.load(tmp_path / "joint/vocab.source.txt")) == described["source_vocabulary"]["words"]
    other = ParallelText(MINI / "train.en", TEXT, tmp_path / "other.align")
    (tmp_path / "other.align").write_text("0-0\n" * 1000)
    with pytest.raises(UserError, match="another text"):
        prepare(other, tmp_path / "joint", SETTINGS, cpu)


def test_mean_and_deviation_of_ln_z_are_those_of_the_n_grams(tmp_path: Path, cpu: Device) -> None:
    task = prepare(TEXT, tmp_path / "run", SETTINGS, cpu, OTHER).task
    assert task.validation is not None
    found = task.measure(task.validation)
    contexts, words = task.validation.take(np.arange(len(task.validation)))
    with torch.no_grad():
        _, log_norms = task.network.eval()(torch.from_numpy(contexts), torch.from_numpy(words))
    assert found.mean_log_norm == pytest.approx(float(log_norms.mean()), abs=1e-5)
    assert found.log_norm_deviation == pytest.approx(float(log_norms.std()), rel=1e-3)


def test_ln_z_is_measured_on_sentences_that_are_held_out_or_others(tmp_path: Path, cpu: Device) -> None:
    settings = replace(SETTINGS, model=replace(SETTINGS.model, self_normalise=0.5))
    prepare(TEXT, tmp_path / "held-out", settings, cpu)
    settings = replace(settings, text=replace(settings.text, held_out=0.0))
    prepare(TEXT, tmp_path / "others", settings, cpu, OTHER)
    with pytest.raises(UsageError, match="needs held-out text to measure ln Z; give validation, or hold"):
        prepare(TEXT, tmp_path / "none", settings, cpu)


def test_self_normalised_networks_need_no_normalisation(tmp_path: Path, cpu: Device) -> None:
    settings = replace(SETTINGS, model=replace(SETTINGS.model, self_normalise=0.5))
    train(tmp_path / "self", cpu, settings, validation=OTHER)
    train(tmp_path / "plain", cpu, validation=OTHER)
    last = [metrics(tmp_path / name)[-1]["validation"] for name in ("self", "plain")]
    assert abs(last[0]["mean_log_norm"]) < 0.4 < abs(last[1]["mean_log_norm"])
    assert last[0]["log_norm_deviation"] < 0.4
    sentences = [line.split(b" ") for line in OTHER.read_bytes().splitlines()]
    scorer = NeuralLmScorer.load(tmp_path / "self", cpu, ARPA)
    assert scorer.context_column == UNNORMALISED
    exact, raw = (scorer.sentence_log_probs(sentences, unnormalised=one) for one in (False, True))
    words = sum(len(sentence) + 1 for sentence in sentences)
    assert max(abs(one - other) for one, other in zip(exact, raw, strict=True)) > 0.01
    # They differ by ln Z minus its mean on this text.
    assert sum(exact) / words == pytest.approx(sum(raw) / words, abs=1e-4)
    assert UNNORMALISED not in NeuralLmScorer.load(tmp_path / "plain", cpu).columns


def test_the_shortlist(tmp_path: Path, cpu: Device) -> None:
    """The shortlist omits rare words, so that the network learns the probability of unknown words."""
    training = replace(SETTINGS.training, warmup_updates=None)
    settings = replace(SETTINGS, text=TextConfig(min_count=3, vocabulary=1000), training=training)
    text = tmp_path / "text"
    text.write_bytes(b"a a a b b c\na c c\n\n")
    prepare(text, tmp_path / "run", replace(settings, text=replace(settings.text, held_out=0.0)), cpu)
    described = json.loads((tmp_path / "run/config.json").read_bytes())
    assert described["text"]["min_count"] == 3
    assert described["training"]["text"] == str(text)
    assert len(described["training"]["digests"]["text"]) == 64
    assert (tmp_path / "run/vocab.txt").read_text() == "<unk>\n<eos>\na\nc\n"
    assert described["training"].items() >= {"lines": 3, "words": 9, "coverage": 7 / 9}.items()


def test_other_texts_and_settings_do_not_resume(tmp_path: Path, cpu: Device) -> None:
    train(tmp_path / "run", cpu, stop_after=3)
    with pytest.raises(UserError, match="another order"):
        prepare(TEXT, tmp_path / "run", replace(SETTINGS, model=replace(SETTINGS.model, order=3)), cpu)
    with pytest.raises(UserError, match=r"another (text|shortlist)"):
        prepare(OTHER, tmp_path / "run", SETTINGS, cpu)
    with pytest.raises(UserError, match="other validation data"):
        prepare(TEXT, tmp_path / "run", SETTINGS, cpu, OTHER)
    trainer = prepare(TEXT, tmp_path / "other", SETTINGS, cpu, OTHER)
    run_until(trainer, 1)
    with pytest.raises(UserError, match="other validation data"):
        prepare(TEXT, tmp_path / "other", SETTINGS, cpu, MINI / "test.fr")
    (tmp_path / "empty").write_bytes(b"\n\n")
    with pytest.raises(UserError, match="has no words"):
        prepare(tmp_path / "empty", tmp_path / "new", SETTINGS, cpu)


def test_a_stopped_run_is_a_model_already(tmp_path: Path, cpu: Device) -> None:
    train(tmp_path / "run", cpu, stop_after=3)
    model = load_language_model(tmp_path / "run")
    assert model.network.config == SETTINGS.model
    assert len(model.vocabulary) == 62


@pytest.mark.parametrize("restart", [False, True])
def test_the_folder_of_another_kind_stays_as_it_is(tmp_path: Path, cpu: Device, restart: bool) -> None:
    folder = shutil.copytree(DATA / "stored-model", tmp_path / "rnn")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(UserError, match="rnn: holds a network of the kind encoder-decoder; give another folder"):
        prepare(TEXT, folder, SETTINGS, cpu, start=Start(restart=restart))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_starts_over_with_other_settings(tmp_path: Path, cpu: Device) -> None:
    folder = tmp_path / "run"
    train(folder, cpu)
    other = replace(SETTINGS, model=replace(SETTINGS.model, first_hidden=17), text=TextConfig(vocabulary=50))
    trainer = prepare(TEXT, folder, other, cpu, start=Start(restart=True))
    run_until(trainer, 1)
    train(folder, cpu, other)
    model = load_language_model(folder)
    assert (model.network.config.first_hidden, len(model.vocabulary)) == (17, 52)
    state = folder / "training-state/checkpoint.safetensors"
    state.write_bytes(state.read_bytes()[:-1])
    with pytest.raises(UserError, match=r"checkpoint\.safetensors: is damaged"):
        train(folder, cpu, other)
    assert load_language_model(folder).weights_digest == model.weights_digest
