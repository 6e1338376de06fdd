"""The Python functions behind the commands of `phrasescore-smt`."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

import moses_integration as smt
import phrasescore
from moses_integration.cli import main
from moses_integration.ini import MosesIni
from tests.conftest import DATA, MINI
from tests.moses_integration.mini_system import mini_system

NETWORK = DATA / "stored-model"
INI = MINI / "moses.ini"
ALONE: dict[str, Any] = {"toolkit": "embedded", "processes": 1, "prepared": True}
QUICK: dict[str, Any] = {"iterations": 2, "restarts": 1, "nbest": 20}


@pytest.fixture
def dev(small_dev: tuple[Path, Path]) -> dict[str, Any]:
    source, reference = small_dev
    return {"source": source, "reference": reference}


def test_a_system_is_built_tuned_decoded_and_evaluated(dev: dict[str, Any], tmp_path: Path) -> None:
    said: list[str] = []
    shown: list[str] = []
    ini = smt.build(
        MINI / "train.en",
        MINI / "train.fr",
        tmp_path / "system",
        tokenised=True,
        escaped=True,
        alignment=MINI / "train.align",
        order=3,
        toolkit="embedded",
        processes=1,
        log=said.append,
        progress=lambda share, text: shown.append(text),
    )
    assert ini == tmp_path / "system/moses.ini"
    assert f"{ini}: written; tune its weights with `phrasescore-smt tune`" in said
    assert "step 1 of 4, text" in shown
    tuned = tmp_path / "tuned.ini"
    report = smt.tune(ini, tuned, **dev, **ALONE, **QUICK, seeds=range(3, 5))
    assert [run["seed"] for run in report["runs"]] == [3, 4]
    out = tmp_path / "out"
    translations = smt.decode(tuned, dev["source"], out, **ALONE)
    assert translations == out.read_text().splitlines()
    assert smt.decode(tuned, dev["source"], **ALONE) == translations
    (found,) = smt.evaluate(out, dev["reference"], tokenise="none")
    best = max(run["bleu"] for run in report["runs"])
    assert found.metrics["BLEU"].score == pytest.approx(best, abs=0.01)
    with pytest.raises(phrasescore.UserError, match="tokenise: is 'non'; did you mean `none`"):
        smt.evaluate(out, dev["reference"], tokenise="non")
    with pytest.raises(phrasescore.UserError, match="evaluate needs at least one file"):
        smt.evaluate(out, [])


def test_an_annotated_table_becomes_a_feature(tmp_path: Path) -> None:
    table, ini = tmp_path / "table.gz", tmp_path / "rnn.ini"
    phrasescore.annotate(MINI / "phrase-table.gz", NETWORK, table, processes=1)
    smt.add_column(INI, table, ini, weight=0.0)
    assert MosesIni.read(ini).weights()["TranslationModel0"][-1] == 0
    said: list[str] = []
    whole: dict[str, Any] = {"source": MINI / "dev.en", "reference": MINI / "dev.fr"}
    tuned = tmp_path / "asked.ini"
    smt.add_column(MINI / "moses.tuned.ini", table, tuned, weight=0.0)
    found = smt.estimate_gain(tuned, **whole, **ALONE, nbest=10, log=said.append)
    assert found["features"] == ["TranslationModel0_4"]
    assert found["gain"] == pytest.approx(found["with_all"] - found["without"])
    assert said[-1].startswith("expected BLEU of ")


def test_a_language_model_becomes_a_feature(dev: dict[str, Any], tmp_path: Path) -> None:
    mini_system(tmp_path)
    ini = tmp_path / "added.ini"
    said: list[str] = []
    smt.add_language_model(INI, tmp_path / "cslm", ini, weight=1.0, log=said.append)
    assert said == [f"{ini}: written, with {tmp_path / 'cslm'} as CSLM0, backed off by {MINI / 'lm.fr.arpa'}"]
    assert MosesIni.read(ini).weights()["CSLM0"] == [1.0]
    assert smt.decode(ini, dev["source"], **ALONE) != smt.decode(INI, dev["source"], **ALONE)


def test_an_n_best_list_is_rescored(dev: dict[str, Any], tmp_path: Path) -> None:
    nbest, weights = tmp_path / "nbest", tmp_path / "weights.json"
    best = smt.decode(INI, dev["source"], **ALONE, nbest=(nbest, 10))
    options: dict[str, Any] = {"prepared": True, "processes": 1, "device": "cpu"}
    tuned = smt.tune_rescoring(nbest, weights, **dev, **options, ini=INI, scorer=[f"RNN={NETWORK}"])
    assert "RNN" in tuned["weights"]
    chosen = smt.rescore(nbest, weights, source=dev["source"], **options)
    assert len(chosen) == len(best)
    assert chosen != best


def test_a_text_gets_a_table_of_its_own(dev: dict[str, Any], tmp_path: Path) -> None:
    ini = smt.text_table(INI, dev["source"], tmp_path / "table", prepared=True)
    lines = gzip.decompress((tmp_path / "table/phrase-table.gz").read_bytes()).splitlines()
    assert len(lines) > 100
    alone = smt.decode(INI, dev["source"], **ALONE)
    assert smt.decode(ini, tmp_path / "table/text", **ALONE) == alone
    assert smt.strip_tags(tmp_path / "table/text") == dev["source"].read_text().splitlines()


def test_a_file_whose_name_begins_with_a_hyphen(dev: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "-text").write_bytes(dev["source"].read_bytes())
    assert len(smt.strip_tags("-text")) == len(dev["source"].read_text().splitlines())


def test_values_are_checked_as_on_the_command_line(dev: dict[str, Any], tmp_path: Path, capfd: Any) -> None:
    with pytest.raises(TypeError, match=r"tune\(\) has no option `restart_s`; did you mean `restarts`\?"):
        smt.tune(INI, tmp_path / "out.ini", **dev, restart_s=3)
    with pytest.raises(phrasescore.UserError, match=r"^iterations: is 1; give at least 2$"):
        smt.tune(INI, tmp_path / "out.ini", **dev, iterations=1)
    with pytest.raises(phrasescore.UserError, match=r"nowhere\.ini: cannot be read"):
        smt.tune("nowhere.ini", tmp_path / "out.ini", **dev)
    with pytest.raises(phrasescore.UserError, match=r"^output: is a stream or a device, which cannot be read again"):
        smt.decode(INI, dev["source"], "-", **ALONE)
    with pytest.raises(phrasescore.UserError, match=r"^report: is a stream or a device, which cannot be read again"):
        smt.tune(INI, tmp_path / "out.ini", **dev, report="/dev/stdout")
    with pytest.raises(phrasescore.UserError, match=r"^output: is a stream or a device, which cannot be read again"):
        smt.tune_rescoring("dev.nbest", "-", **dev)
    assert capfd.readouterr() == ("", "")


def test_a_command_line_prints_as_before(dev: dict[str, Any], tmp_path: Path, capfd: Any) -> None:
    """A call from Python does not change what a later command line prints."""
    smt.text_table(INI, dev["source"], tmp_path / "one", prepared=True)
    assert main(["text-table", str(INI), "--source", str(dev["source"]), "--prepared", "-o", f"{tmp_path}/two"]) == 0
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith(f"{tmp_path}/two/moses.ini: written, with ")


def test_a_phrase_pair_model_is_trained(dev: dict[str, Any], tmp_path: Path) -> None:
    text: dict[str, Any] = {name: MINI / f"train.{suffix}" for name, suffix in (("source", "en"), ("target", "fr"))}
    scorer = smt.train_expected_bleu(
        MINI / "moses.tuned.ini",
        tmp_path / "xbleu",
        **text,
        alignment=MINI / "train.align",
        sentences=100,
        processes=1,
    )
    assert scorer.columns[0].name == "expected-bleu"
    assert phrasescore.score([("the dog", "le chien")], scorer).shape == (1,)
