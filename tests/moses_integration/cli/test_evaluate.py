"""`phrasescore-smt evaluate`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moses_integration.cli import main
from tests.conftest import MINI


def printed(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> list[str]:
    """Return the lines of the printed table and signatures."""
    assert main(["evaluate", *map(str, arguments)]) == 0
    return capsys.readouterr().out.splitlines()


def test_without_regard_to_capitals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capitals, reference = tmp_path / "capitals", MINI / "dev.fr"
    capitals.write_text(reference.read_text().upper())
    command = (capitals, "--reference", reference, "--tokenise", "none")
    _, mixed, signature, *_ = printed(capsys, *command)
    assert "case:mixed" in signature
    assert "100.00" not in mixed.partition("±")[0]
    _, lower, signature, *_ = printed(capsys, *command, "--lowercase")
    assert "case:lc" in signature
    assert lower.split()[1:4] == ["100.00", "±", "0.00"]


def test_several_systems_in_one_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference, worse, same = MINI / "dev.fr", tmp_path / "worse", tmp_path / "same"
    worse.write_text(reference.read_text().replace("la ", "le "))
    same.write_text(reference.read_text())
    command = (same, worse, "--reference", reference, "--tokenise", "none")
    heading, first, second, *signatures = printed(capsys, *command)
    assert heading.split() == ["BLEU", "chrF", "TER"]
    assert first.split() == [str(same), "100.00", "±", "0.00", "100.00", "±", "0.00", "0.00", "±", "0.00"]
    assert [line.partition(":")[0] for line in signatures] == ["BLEU", "chrF", "TER"]
    _, base, compared, *signed = printed(capsys, same, "--baseline", worse, *command[2:])
    assert signed == [*signatures, "p: ar:10000|seed:1"]
    assert base == second.replace(str(second.split()[0]), str(worse))
    bleu = float(base.split()[1])
    assert compared.endswith(f"  {100 - bleu:+.2f} BLEU, p = 0.0001")
    found = json.loads("\n".join(printed(capsys, *command, "--json")))
    assert found["systems"][1]["metrics"]["BLEU"]["score"] == pytest.approx(bleu, abs=0.01)
    assert 0 < found["systems"][1]["metrics"]["TER"]["half_interval"] < 10


def test_some_samples_of_few_sentences_match_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bootstrap samples without any match or without a reference give finite scores."""
    (tmp_path / "short").write_text("a cat\n\n")
    (tmp_path / "whole").write_text("a cat\na dog\n")
    _, row, *_ = printed(capsys, tmp_path / "short", "--reference", tmp_path / "whole")
    assert row.endswith("50.00 ± 50.00")
    _, row, *_ = printed(capsys, tmp_path / "whole", "--reference", tmp_path / "short")
    assert row.endswith("100.00 ± 50.00")


def test_tokenised_text_is_reported_in_our_words(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", str(MINI / "dev.fr"), "--reference", str(MINI / "dev.fr")]) == 0
    assert capsys.readouterr().err == f"{MINI / 'dev.fr'}: looks tokenised; if all files are, give --tokenise none\n"


def test_translations_in_another_encoding_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = (MINI / "dev.fr").read_text()
    (tmp_path / "latin").write_text(reference.replace("’", "'").replace("œ", "oe"), "latin-1")
    command = ["--reference", str(MINI / "dev.fr"), "--tokenise", "none"]
    assert main(["evaluate", str(tmp_path / "latin"), *command]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].split()[1] != "100.00"
    assert err.startswith(f"{tmp_path}/latin: lines that are not UTF-8: ")


def test_lines_that_do_not_belong_together_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A system with the BLEU of unrelated text gives a warning; the other systems give none."""
    reference, reversed_ = MINI / "dev.fr", tmp_path / "reversed"
    lines = reference.read_text().splitlines()
    reversed_.write_text("".join(f"{' '.join(reversed(line.split()))}\n" for line in lines))
    assert main(["evaluate", str(reversed_), str(reference), "--reference", str(reference), "--tokenise", "none"]) == 0
    told = capsys.readouterr().err
    assert told.splitlines() == [
        f"{reversed_}: has the BLEU of unrelated text; check that its lines correspond to those of {reference}"
    ]
