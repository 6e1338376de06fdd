"""What `phrasescore-smt tune` says at its end."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.cli.options import say_spread
from moses_integration.tuning.tunings import Tuning
from phrasescore.cli.console import Reporter
from tests.conftest import MINI


def test_the_next_command_takes_text_of_the_same_kind(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    tuned = tmp_path / "tuned.ini"
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    quick = ["--iterations", "1", "--nbest", "5", "--restarts", "1", "--processes", "1"]
    assert main(["tune", str(MINI / "moses.ini"), *texts, *quick, "-o", str(tuned)]) == 0
    assert f"next: phrasescore-smt decode {tuned} --prepared < TEXT > TRANSLATIONS\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bleu", "said"),
    [(0.0, "no translation has 4 words in a row"), (1.4, "dev BLEU is no higher than chance makes it"), (2.5, "")],
)
def test_a_reference_of_other_sentences_is_told_of(bleu: float, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    say_spread([Tuning(1, {}, bleu)], Reporter(quiet=False))
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert ("check that the dev text and its reference belong together" in told) == bool(said)
