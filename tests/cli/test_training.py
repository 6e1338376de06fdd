from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.cli import make_parser
from phrasescore.cli.console import duration
from phrasescore.cli.train import settings_of
from phrasescore.errors import UsageError
from phrasescore.training.batches import PairLoss
from phrasescore.training.loop import Evaluation, is_overfitting
from phrasescore.training.settings import Settings


def evaluation(training: float, validation: float | None) -> Evaluation:
    measured = None if validation is None else PairLoss(validation, validation / 5)
    return Evaluation(1, 0.1, 1.0, 1.0, 1e-3, training, PairLoss(training, training / 5), measured, best=False)


@pytest.mark.parametrize(
    ("losses", "by_heart"),
    [
        ([(9.0, 9.0), (7.0, 8.6), (5.0, 10.2)], True),
        ([(9.0, 0.66), (7.0, 0.65), (5.0, 0.652)], True),
        ([(9.0, 9.0), (7.0, 8.0), (5.0, 8.04)], False),
        ([(9.0, 9.0), (7.0, 8.6), (7.5, 10.2)], False),
        ([(9.0, 9.0), (7.0, 8.6)], False),
        ([(9.0, None), (2.0, None)], False),
        ([], False),
    ],
)
def test_overfitting_is_a_rising_validation_loss_and_a_falling_training_loss(
    losses: list[tuple[float, float | None]], by_heart: bool
) -> None:
    assert is_overfitting([evaluation(*pair) for pair in losses]) == by_heart


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "2 seconds"),
        (40.4, "40 seconds"),
        (100.0, "2 minutes"),
        (1080.0, "18 minutes"),
        (9000.0, "2.5 hours"),
    ],
)
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


def settings(*options: str) -> Settings:
    found = settings_of(make_parser().parse_args(["train", *options, "-o", "rnn"]))
    found.check()
    return found


@pytest.mark.parametrize(
    ("options", "by_size"),
    [
        ("", {"dropout", "max_updates", "evaluate_every"}),
        ("--dropout 0", {"max_updates", "evaluate_every"}),
        ("--max-minutes 4", {"dropout"}),
        ("--max-updates 400", {"dropout", "evaluate_every"}),
        ("--max-updates 400 --evaluate-every 7", {"dropout"}),
        ("--epochs 4 --evaluate-every 7", {"dropout"}),
        ("--epochs 4 --evaluate-every auto", {"dropout", "evaluate_every"}),
        ("--preset cho2014 --dropout auto", {"dropout"}),
        ("--preset cho2014", set()),
    ],
)
def test_given_settings_do_not_depend_on_the_table(options: str, by_size: set[str]) -> None:
    assert settings("table", *options.split()).by_size == by_size


def test_evaluations_follow_the_updates_that_are_given() -> None:
    assert settings("table", "--max-updates", "400").fitted(1_000_000).training.evaluate_every == 20
    assert settings("table", "--max-minutes", "4").fitted(1_000_000).training.evaluate_every == 1000


def test_in_context_the_updates_follow_the_text() -> None:
    text = ("--source", "a", "--target", "b", "--alignment", "c")
    assert settings(*text).by_size == {"dropout", "max_updates", "evaluate_every"}
    assert settings(*text, "--max-minutes", "4").by_size == {"dropout"}


def test_a_pass_takes_all_sentences() -> None:
    text = ("--source", "a", "--target", "b")
    settings(*text, "--preset", "small")
    with pytest.raises(UsageError, match="`long_pairs`: has no effect with parallel text"):
        settings(*text, "--set", "training.long_pairs=0.5")


@pytest.mark.parametrize("data", ["t", "--source a --target b --alignment c"])
def test_a_preset_of_subwords_is_for_parallel_text(data: str) -> None:
    with pytest.raises(UsageError, match=r"transformer'?: is for parallel text without a word alignment; give that"):
        settings(*data.split(), "--preset", "transformer")


ATTENTION_BEFORE = "--set model.attention=general --set model.attention_order=before"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--preset plain --set model.maxout=5", "`maxout`: has no effect with `readout` state; leave it out"),
        ("--vocabulary 9 --set data.source_vocabulary=9 --set data.target_vocabulary=9", "`vocabulary`: has no effect"),
        ("--preset plain --set model.summary=true", "`summary`: has no effect with"),
        ("--set model.feed_word=false --set training.teacher_forcing=0.5", "`teacher_forcing`: has no effect with"),
        (f"{ATTENTION_BEFORE} --set model.feed_context=false", "`feed_context`: has no effect with attention before"),
    ],
)
def test_settings_without_effect_are_rejected(options: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        settings("t", *options.split())


def test_settings_of_a_file_without_effect_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "settings.toml").write_text("[training]\nschedule = 'constant'\nfinal_rate = 0.7")
    with pytest.raises(UsageError, match="`final_rate`: has no effect with `schedule` constant"):
        settings("t", "--config", str(tmp_path / "settings.toml"))


@pytest.mark.parametrize("other", ["--hidden=9", "--set model.hidden=9"])
def test_a_setting_is_given_once(other: str) -> None:
    arguments = ["train", "t", "-o", "folder", "--set", "model.hidden=8", *other.split()]
    with pytest.raises(UsageError, match=r"^--set model\.hidden: is given twice; give it once$"):
        settings_of(make_parser().parse_args(arguments))
