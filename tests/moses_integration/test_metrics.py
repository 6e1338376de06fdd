"""BLEU equals sacreBLEU's, and significance tests follow the paper."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest

from moses_integration import metrics
from moses_integration.metrics import evaluate, measure
from moses_integration.per_text.position_tags import tag_word
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.cli.running import succeed

REFERENCE = MINI / "dev.fr"


@pytest.fixture(autouse=True)
def few_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reduce the number of trials from 10,000."""
    monkeypatch.setattr(metrics, "TRIALS", 100)


def sacrebleu(*arguments: str | Path, seed: int = 1) -> Any:
    command = [sys.executable, "-m", "sacrebleu", *map(str, arguments), "--format", "json", "-w", "10", "--force"]
    done = subprocess.run(command, capture_output=True, check=True, env={**os.environ, "SACREBLEU_SEED": str(seed)})
    return json.loads(done.stdout)


def write_changed(path: Path, share: int, text: Path = REFERENCE) -> Path:
    """Write a text with one line in `share` reversed."""
    lines = text.read_text().splitlines()
    changed = (" ".join(line.split()[::-1]) if row % share == 0 else line for row, line in enumerate(lines))
    path.write_text("\n".join(changed) + "\n")
    return path


class Comparison(NamedTuple):
    """The BLEU scores of a system and a baseline."""

    bleu: float
    baseline_bleu: float
    p_value: float


def compare(system: Path, base: Path, tokenise: str = "13a", reference: Path = REFERENCE, **options: Any) -> Comparison:
    """Compare one system with a baseline, without confidence intervals."""
    before, after = evaluate([system], [reference], base, tokenise, resamples=1, **options)
    assert after.p_value is not None
    bleu, baseline_bleu = (one.metrics["BLEU"].score for one in (after, before))
    return Comparison(bleu, baseline_bleu, after.p_value)


@pytest.mark.parametrize(("words", "said"), [(3, ["has no line of four words or more"]), (4, [])])
def test_lines_that_are_too_short_for_bleu(words: int, said: list[str], tmp_path: Path) -> None:
    """Lines shorter than four words are scored, although BLEU counts n-grams of up to four words."""
    text, found = tmp_path / "text", list[str]()
    text.write_text("".join(f"{' '.join(line.split()[:words])}\n" for line in REFERENCE.read_text().splitlines()))
    evaluate([text], [text], tokenise="none", resamples=1, log=found.append)
    assert [
        sentence.removeprefix(f"{text}: ").split(",")[0] for sentence in found if "tokenised" not in sentence
    ] == said


def test_position_tags_are_no_part_of_a_translation(tmp_path: Path) -> None:
    tagged = tmp_path / "tagged"
    tagged.write_bytes(b"".join(b"%b\n" % tag_word(line, 0, 0) for line in REFERENCE.read_bytes().splitlines()))
    assert measure(tagged, [REFERENCE]) == measure(REFERENCE, [REFERENCE])


def test_chrf_and_ter_are_those_of_sacrebleu(tmp_path: Path) -> None:
    system = write_changed(tmp_path / "other.fr", 5)
    ours = measure(system, [REFERENCE])
    chrf, ter = sacrebleu(REFERENCE, "-i", system, "-m", "chrf", "ter")
    for name, theirs in (("chrF", chrf), ("TER", ter)):
        assert ours[name].score == pytest.approx(theirs["score"], abs=1e-9)
        assert ours[name].signature == theirs["signature"]
    assert ours["TER"].score > 0


@pytest.mark.parametrize("tokenise", ["13a", "none"])
def test_bleu_is_that_of_sacrebleu(tmp_path: Path, tokenise: str) -> None:
    system = MINI / "decode/default.out"
    other = write_changed(tmp_path / "other.fr", 5, system)
    ours = measure(system, [REFERENCE, other], tokenise)["BLEU"]
    theirs = sacrebleu(REFERENCE, other, "-i", system, "--tokenize", tokenise)
    assert ours.score == pytest.approx(theirs["score"], abs=1e-9)
    assert ours.signature == theirs["signature"]
    assert ours.score > measure(system, [REFERENCE], tokenise)["BLEU"].score


def test_capitals_count_unless_they_are_not_to(tmp_path: Path) -> None:
    system, base = tmp_path / "system", write_changed(tmp_path / "base", 5)
    system.write_text(REFERENCE.read_text().upper())
    [ours] = evaluate([system], [REFERENCE], lowercase=True, resamples=1)
    assert math.isnan(ours.metrics["BLEU"].half_interval)
    theirs = sacrebleu(REFERENCE, "-i", system, "--lowercase")
    assert ours.metrics["BLEU"].score == pytest.approx(100) == theirs["score"]
    assert ours.metrics["BLEU"].signature == theirs["signature"]
    assert "|case:lc|" in theirs["signature"]
    assert measure(system, [REFERENCE])["BLEU"].score < 50
    result = compare(system, base, lowercase=True)
    assert result.bleu == pytest.approx(100)
    assert result.p_value == pytest.approx(1 / 101)
    assert compare(system, base).bleu < 50


def write_without_words(path: Path, seed: int) -> Path:
    """Write a text without a tenth of its words."""
    draw = Random(seed)
    lines = (
        " ".join(word for word in line.split() if draw.random() > 0.1) for line in REFERENCE.read_text().splitlines()
    )
    path.write_text("\n".join(lines) + "\n")
    return path


def test_the_p_value_is_that_of_sacrebleu_where_no_trial_ties(tmp_path: Path) -> None:
    system, base = (write_without_words(tmp_path / str(seed), seed) for seed in (1, 2))
    ours = compare(system, base, "none")
    theirs = sacrebleu(REFERENCE, "-i", base, system, "--tokenize", "none", "--paired-ar", "--paired-ar-n", "100")
    assert (ours.baseline_bleu, ours.bleu) == (theirs[0]["BLEU"]["score"], theirs[1]["BLEU"]["score"])
    assert 0.01 < ours.p_value < 1
    assert ours.p_value == theirs[1]["BLEU"]["p_value"]


@pytest.mark.parametrize(("sentences", "trials"), [(37, 300), (100, 128), (3, 1000)])
def test_trials_in_blocks_are_those_drawn_at_once(sentences: int, trials: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "TRIALS", trials)
    draw = np.random.default_rng(5)
    base_S10, system_S10 = (draw.integers(1, 20, (sentences, 10)) for _ in range(2))
    exchanged_TS = np.random.default_rng(1).integers(2, size=(trials, sentences), dtype=bool)
    totals_T10 = exchanged_TS @ base_S10 + ~exchanged_TS @ system_S10
    both_10, difference = base_S10.sum(axis=0) + system_S10.sum(axis=0), metrics._difference
    observed = difference(base_S10.sum(axis=0), system_S10.sum(axis=0))
    as_large = sum(difference(totals_10, both_10 - totals_10) >= observed for totals_10 in totals_T10)
    assert metrics.p_value_of(base_S10, system_S10) == (as_large + 1) / (trials + 1)
    assert 0 < as_large < trials


def test_equal_translations_do_not_differ() -> None:
    system = MINI / "decode/default.out"
    result = compare(system, system)
    assert result.p_value == 1
    assert result.bleu == result.baseline_bleu


def test_one_sentence_is_no_evidence(tmp_path: Path) -> None:
    """One sentence is not significant, because exchanging it leaves the difference equally large."""
    system = write_changed(tmp_path / "system", 1000)
    result = compare(system, REFERENCE, "none")
    assert result.bleu < result.baseline_bleu
    assert result.p_value == 1


def test_a_clearly_better_system_is_significant(tmp_path: Path) -> None:
    result = compare(write_changed(tmp_path / "system", 10), write_changed(tmp_path / "base", 2), "none")
    assert result.bleu > result.baseline_bleu + 10
    assert result.p_value == pytest.approx(1 / 101)


def test_tokenised_text_is_expected_without_tokenisation(caplog: pytest.LogCaptureFixture) -> None:
    system = MINI / "decode/default.out"
    measure(system, [REFERENCE], "none")
    compare(system, system, "none")
    assert caplog.text == ""


def test_translations_from_standard_input_are_compared_too(tmp_path: Path) -> None:
    system, base = MINI / "decode/default.out", write_changed(tmp_path / "base", 5)
    arguments = ("--reference", REFERENCE, "--baseline", base, "--json")
    piped = succeed("evaluate", "-", *arguments, stdin=system.read_bytes()).stdout
    _, found = json.loads(piped)["systems"]
    assert found["metrics"]["BLEU"]["score"] == measure(system, [REFERENCE])["BLEU"].score
    assert 0 < found["p_value"] <= 1
    tagged = succeed("evaluate", system, *arguments).stdout
    assert tagged == piped.replace(b'"standard input"', json.dumps(str(system)).encode())
    noted = succeed("evaluate", system, "--reference", "-", stdin=REFERENCE.read_bytes()).stderr
    assert noted == b"standard input: looks tokenised; if all files are, give --tokenise none\n"


def test_files_of_different_length(tmp_path: Path) -> None:
    short = tmp_path / "short"
    short.write_text("un\ndeux\n")
    with pytest.raises(UserError, match=r"short: has 2 lines but .*dev\.fr has 100; give files of the same sentences"):
        measure(short, [REFERENCE])
    with pytest.raises(UserError, match="short: has 2 lines"):
        compare(REFERENCE, short)
    with pytest.raises(UserError, match=r"dev\.fr: has 100 lines but .*short has 2"):
        measure(REFERENCE, [REFERENCE, short])
    (tmp_path / "empty").write_text("")
    with pytest.raises(UserError, match="empty: is empty; give the reference translations"):
        measure(tmp_path / "empty", [tmp_path / "empty"])
    with pytest.raises(UserError, match="nowhere: cannot be read"):
        measure(tmp_path / "nowhere", [REFERENCE])


def test_empty_lines_and_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "system").write_bytes(b"\n\xff le chat noir mange .\n")
    (tmp_path / "reference").write_bytes(b"un chien .\nle chat noir mange .\n")
    result = compare(tmp_path / "system", tmp_path / "reference", reference=tmp_path / "reference")
    assert 0 < result.bleu < result.baseline_bleu
