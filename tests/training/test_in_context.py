"""Training on phrase pairs in context: sampling, loss and resumption."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from phrasescore.aligned_phrases import extract_phrases
from phrasescore.cli import main
from phrasescore.errors import UsageError, UserError
from phrasescore.model_folder import load_model
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.parallel_text import ParallelText, SentenceConfig, read_sentences
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import in_sentences
from phrasescore.training.loop import Trainer
from phrasescore.training.ranks import ALONE
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from phrasescore.training.tasks import ContextTask
from phrasescore.training.training_config import TrainingConfig
from tests.conftest import MINI
from tests.nn.family import config_of
from tests.training.runs import CPU, metrics, outcome, run_until

MODEL = replace(config_of("Luong with input feeding"), in_context=True)


@pytest.fixture
def texts(tmp_path: Path) -> tuple[ParallelText, ParallelText]:
    """Training and validation sentences."""
    parts = []
    for name, lines in (("train", slice(0, 150)), ("valid", slice(150, 180))):
        paths = [tmp_path / f"{name}.{end}" for end in ("en", "fr", "align")]
        for path in paths:
            path.write_bytes(b"".join((MINI / f"train{path.suffix}").read_bytes().splitlines(keepends=True)[lines]))
        parts.append(ParallelText(*paths))
    return parts[0], parts[1]


def settings(model: ModelConfig = MODEL, data: DataConfig | None = None, **training: Any) -> Settings:
    config = TrainingConfig(**{"batch_size": 16, "epochs": 2, "evaluate_every": 10, "warmup_updates": 5, **training})
    return Settings(model, data or DataConfig(held_out_limit=300), config, SentenceConfig())


def prepared(texts: tuple[ParallelText, ParallelText | None], folder: Path, settings: Settings) -> Trainer[ContextTask]:
    return prepare(texts[0], folder, settings, CPU, texts[1])


def train(
    texts: tuple[ParallelText, ParallelText | None], folder: Path, settings: Settings, stop_after: int | None = None
) -> Trainer[ContextTask]:
    return run_until(prepared(texts, folder, settings), stop_after)


def test_a_resumed_run_equals_one_never_stopped(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    chosen = settings(replace(MODEL, dropout=0.3))
    whole = train(texts, tmp_path / "whole", chosen).progress
    for stop in (3, 14):
        assert train(texts, tmp_path / "parts", chosen, stop_after=stop).progress.update == stop
    train(texts, tmp_path / "parts", chosen)
    assert whole.update == 20
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")


def test_the_loss_falls_and_is_that_of_pairs_in_their_sentences(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path
) -> None:
    chosen = settings(data=DataConfig(), epochs=8, learning_rate=5e-3, evaluate_every=20)
    train(texts, tmp_path / "run", chosen)
    losses = [record["validation"]["per_pair"] for record in metrics(tmp_path / "run")]
    assert min(losses) < 0.97 * losses[0]
    scorer = EncoderDecoderScorer(load_model(tmp_path / "run"), CPU)
    total, pairs = 0.0, 0
    lines = [[line.split() for line in path.read_bytes().splitlines()] for path in (texts[1].source, texts[1].target)]
    found = _occurrences(texts[1], tmp_path)
    for number, (source, target) in enumerate(zip(*lines, strict=True)):
        here = found.take(np.flatnonzero(found.source.sentence_S == number))
        spans = zip(here.source.first_S, here.source.end_S, here.target.first_S, here.target.end_S, strict=True)
        phrases = [(b" ".join(source), (int(a), int(b)), b" ".join(target[c:d])) for a, b, c, d in spans]
        total += float(scorer.score(in_sentences(phrases)).first_N.sum())
        pairs += len(phrases)
    assert min(losses) == pytest.approx(-total / pairs, rel=1e-4)


def _occurrences(text: ParallelText, folder: Path) -> Any:
    from phrasescore.parallel_text import read_sentences

    return extract_phrases(read_sentences(text, folder, DataConfig(), SentenceConfig()).pairs)


def test_each_visit_draws_other_pairs_in_any_company(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    task = prepared(texts, tmp_path / "run", settings(long_pairs=0.1)).task
    found = extract_phrases(task.sentences)
    is_short = (found.source.lengths <= 4) & (found.target.lengths <= 4)
    drawn: list[set[int]] = []
    for number in range(2):
        visits = np.arange(len(task.sentences)) + number * len(task.sentences)
        drawn.append(set(task.drawn(visits, found).tolist()))
        few = extract_phrases(task.sentences.take(np.array([7, 3])))
        alone = few.take(task.drawn(visits[[7, 3]], few))
        whole = found.take(np.array(sorted(drawn[-1])))
        for at, sentence in enumerate((7, 3)):
            one, other = (
                alone.take(np.flatnonzero(alone.source.sentence_S == at)),
                whole.take(np.flatnonzero(whole.source.sentence_S == sentence)),
            )
            assert sorted(one.source.first_S) == sorted(other.source.first_S)
    assert drawn[0] != drawn[1]
    counts = Counter(found.source.sentence_S[sorted(drawn[0])].tolist())
    occurring = np.bincount(found.source.sentence_S, minlength=len(task.sentences))
    assert all(counts[number] == min(4, pairs) for number, pairs in enumerate(occurring.tolist()))
    chosen = np.array(sorted(drawn[0]))
    assert is_short[chosen].mean() > 1.2 * is_short.mean()


def test_without_other_text_sentences_are_held_out(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    trainer = prepared((texts[0], None), tmp_path / "run", settings(data=DataConfig(held_out=0.1, held_out_limit=20)))
    assert len(trainer.task.lines) == 135
    assert len(trainer.task.held_out) == 20
    assert trainer.task.validation is None


def test_no_pass_visits_a_sentence_that_is_held_out(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    task = prepared((texts[0], None), tmp_path / "run", settings(data=DataConfig(held_out=0.2))).task
    assert len(task.lines) < len(task.sentences)
    visits = [np.concatenate(list(task.batches(number))) for number in range(3)]
    assert all(sorted(some % len(task.sentences)) == task.lines.tolist() for some in visits)
    assert len({*np.concatenate(visits).tolist()}) == 3 * len(task.lines)


def test_a_batch_without_pairs_teaches_nothing(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    assert texts[0].alignment is not None
    texts[0].alignment.write_bytes(b"\n" * 149 + b"0-0\n")
    task = prepared(texts, tmp_path / "run", settings()).task
    loss = task.loss(np.arange(16))
    assert (loss.mean.item(), loss.terms) == (0.0, 0)
    ALONE.backward(task.network, task.loss, np.arange(16))
    # Without gradients, an optimiser with momentum leaves the weights unchanged.
    assert all(weight.grad is None for weight in task.network.parameters())


def test_shares_of_a_batch_add_up_to_its_loss(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """The ranks of a training weight their shares by the number of pairs."""
    task = prepared(texts, tmp_path / "run", settings()).task
    losses = [task.loss(examples) for examples in (np.arange(16), np.arange(5), np.arange(5, 16))]
    whole, *shares = [loss.mean.item() * loss.terms for loss in losses]
    assert sum(shares) == pytest.approx(whole, rel=1e-5)
    assert losses[0].terms > 16


def test_batches_without_pairs_have_no_loss(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """Batches without phrase pairs do not count as a loss of zero.

    With a text too small for a held-out part, that zero would select untrained weights as the best.
    """
    alignment = texts[0].alignment
    assert alignment is not None
    lines = alignment.read_bytes().splitlines()[:30]
    for path in (texts[0].source, texts[0].target):
        Path(path).write_bytes(b"".join(Path(path).read_bytes().splitlines(keepends=True)[:30]))
    alignment.write_bytes(b"".join(b"\n" if number % 3 else line + b"\n" for number, line in enumerate(lines)))
    small = settings(batch_size=1, epochs=None, max_updates=12, evaluate_every=1)
    trainer = train((texts[0], None), tmp_path / "run", small)
    records = metrics(tmp_path / "run")
    unknown = [record for record in records if record["training_loss"] is None]
    assert 0 < len(unknown) < len(records)
    assert not any(record["best"] for record in unknown)
    losses = {record["update"]: record["training_loss"] for record in records if record["training_loss"] is not None}
    assert trainer.progress.best_loss == losses[trainer.progress.best_update] == min(losses.values())
    alignment.write_bytes(b"\n" * 29 + b"0-0\n")
    with pytest.raises(UserError, match="none of the sentences of 1 update has a phrase pair; train longer, or"):
        train(
            (texts[0], None),
            tmp_path / "none",
            replace(small, training=replace(small.training, max_updates=1, warmup_updates=1)),
        )


def test_sentences_held_out_may_have_no_pairs(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    alignment = texts[0].alignment
    assert alignment is not None
    alignment.write_bytes(b"\n" * 149 + b"0-0\n")
    assert not len(prepared((texts[0], None), tmp_path / "run", settings()).task.held_out)


@pytest.mark.parametrize("part", [0, 1])
def test_an_alignment_without_points_is_rejected(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path, part: int
) -> None:
    alignment = texts[part].alignment
    assert alignment is not None
    alignment.write_bytes(b"\n" * len(alignment.read_bytes().splitlines()))
    with pytest.raises(
        UserError, match=f"{alignment}: (has no alignment point|gives no phrase pairs for the validation loss)"
    ):
        prepared(texts, tmp_path / "run", settings())
    assert not (tmp_path / "run").exists()


def test_something_must_be_measured(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="`held_out_limit` also limits the validation pairs"):
        prepared(texts, tmp_path / "run", settings(data=DataConfig(held_out_limit=0)))


def test_the_other_direction_is_rejected_from_every_caller(
    texts: tuple[ParallelText, ParallelText], tmp_path: Path
) -> None:
    """The target-to-source direction is an error, because alignment points have the source index first."""
    with pytest.raises(UsageError, match=r"^direction: in context only the target can be predicted"):
        prepared(texts, tmp_path / "run", settings(data=DataConfig(direction="source-given-target")))
    assert not (tmp_path / "run").exists()


def test_the_digest_tells_alignments_apart(texts: tuple[ParallelText, ParallelText], tmp_path: Path) -> None:
    """The digest distinguishes alignments, including ones that differ only in the line of a point."""
    source, target, alignment = (tmp_path / name for name in ("s", "t", "a"))
    source.write_text("a b c\na b c\n")
    target.write_text("x\nx\n")
    digests = set()
    for points in ("0-0 1-0\n2-0\n", "0-0\n1-0 2-0\n"):
        alignment.write_text(points)
        text = ParallelText(source, target, alignment)
        digests.add(read_sentences(text, tmp_path, DataConfig(), SentenceConfig()).digest)
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--source={s}", "--target={t}", "--set=model.in_context=true"], "unknown key `in_context`"),
        (["{s}", "--alignment={a}"], "--alignment: is for parallel text"),
        (["{s}", "--preset=context"], "--preset context: is for parallel text with a word alignment"),
        (["--source={s}", "--target={t}", "--alignment={a}", "--direction=source-given-target"], "--direction: in con"),
        (
            ["--source={s}", "--target={t}", "--alignment={a}", "--set=sentences.measured_loss=free-running"],
            "`measured_loss`: has no effect in context",
        ),
        (
            ["--source={s}", "--target={t}", "--set=training.pairs_a_sentence=3"],
            "`pairs_a_sentence`: has no",
        ),
        (
            ["--source={s}", "--target={t}", "--validation-alignment={a}"],
            "give both or neither",
        ),
        (
            ["--source={s}", "--target={t}", "--alignment={a}", "--validation-source={s}", "--validation-target={t}"],
            "give both or neither",
        ),
        (
            ["--source={s}", "--target={t}", "--alignment={a}", "--set", "model.reverse_source=true"],
            "leave `reverse_source` out",
        ),
    ],
)
def test_conflicting_options_are_rejected(
    texts: tuple[ParallelText, ParallelText],
    tmp_path: Path,
    options: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    names = {"s": texts[0].source, "t": texts[0].target, "a": texts[0].alignment}
    assert main(["train", *(option.format(**names) for option in options), "-o", str(tmp_path / "run")]) in (1, 2)
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
