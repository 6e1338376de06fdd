"""`phrasescore-smt estimate-gain`."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import MINI

DEV = ["--source", str(MINI / "dev.en"), "--reference", str(MINI / "dev.fr"), "--prepared"]
QUICK = ["--toolkit", "embedded", "--processes", "1", "--nbest", "20", "-q"]


@pytest.fixture(scope="module")
def asked_ini(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tuned system with a column of weight 0 that duplicates the target length."""
    folder = tmp_path_factory.mktemp("worth")
    table = folder / "table.gz"
    with gzip.open(MINI / "phrase-table.gz") as lines, gzip.open(table, "wb") as wider:
        for line in lines:
            source, target, scores, *others = line.split(b" ||| ")
            wider.write(b" ||| ".join((source, target, scores + b" %g" % 0.5 ** len(target.split()), *others)))
    add = ["add-column", str(MINI / "moses.tuned.ini"), "--table", str(table), "--weight", "0"]
    assert main([*add, "-o", str(folder / "asked.ini")]) == 0
    return folder / "asked.ini"


def test_request_and_result_are_logged(asked_ini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = tmp_path / "report.json"
    assert main(["estimate-gain", str(asked_ini), *DEV, *QUICK, "--report", str(report)]) == 0
    found = json.loads(report.read_text())
    assert found["features"] == ["TranslationModel0_4"]
    assert found["sentences"] == len((MINI / "dev.en").read_bytes().splitlines())
    # A column that duplicates the word penalty has no gain.
    assert abs(found["gain"]) < 3 * found["standard_error"] + 0.05
    said = capsys.readouterr().out
    without = f"{found['without']:.2f} without TranslationModel0, score 5 (of weight 0)"
    assert said.startswith(f"expected BLEU of {found['sentences']} n-best lists: {without}")
    assert f"{found['gain']:+z.2f}, standard error" in said
    assert said.endswith("; not more than noise\n")


def test_something_must_be_asked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ini = str(MINI / "moses.tuned.ini")
    assert all(weight for weights in MosesIni.read(Path(ini)).weights().values() for weight in weights)
    assert main(["estimate-gain", ini, *DEV, *QUICK]) == 1
    assert f"{ini}: no tuned feature has weight 0, so there is no gain to estimate" in capsys.readouterr().err


def test_the_gain_of_untuned_features_is_not_estimated(
    asked_ini: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The unknown-word penalty is not estimated, because it is not tuned and n-best lists lack it."""
    few = ["--prepared"]
    for option, name in (("--source", "dev.en"), ("--reference", "dev.fr")):
        (tmp_path / name).write_bytes(b"".join((MINI / name).read_bytes().splitlines(keepends=True)[:30]))
        few += [option, str(tmp_path / name)]
    for ini, code in ((MINI / "moses.tuned.ini", 1), (asked_ini, 0)):
        unasked = MosesIni.read(ini).with_absolute_paths()
        unasked.set_weights({"UnknownWordPenalty0": [0.0]})
        unasked.write(tmp_path / "unasked.ini")
        assert main(["estimate-gain", str(tmp_path / "unasked.ini"), *few, *QUICK]) == code
    out, err = capsys.readouterr()
    assert "no tuned feature has weight 0" in err
    assert "without TranslationModel0, score 5 (of weight 0)" in out
