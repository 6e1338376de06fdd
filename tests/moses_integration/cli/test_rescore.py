"""`phrasescore-smt rescore`: tune on one n-best list, apply to another."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest, write_nbest
from moses_integration.per_text.position_tags import tag_word
from moses_integration.rescoring.reranking import ListTuning, tune_on_list
from moses_integration.tuning.bleu import read_references
from phrasescore.files import read_lines, sha256_of, write_lines
from tests.cli.running import last_of_each
from tests.conftest import DATA, MINI
from tests.moses_integration.cli.running import sentence_of, write_without_language_model
from tests.moses_integration.corpus_bleu import corpus_bleu

NETWORK = DATA / "stored-model"
SENTENCES = 30
# DATA is replaced with the folder of the fixture `data`.
DEV = ("--nbest", "DATA/nbest", "--source", "DATA/dev.en", "--prepared")
TUNE = (*DEV, "--reference", "DATA/dev.fr", "--ini", MINI / "moses.ini")
SERIAL = ("--processes", "1")
QUICK = (*SERIAL, "--precision", "fp32")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first dev sentences and their n-best list."""
    folder = tmp_path_factory.mktemp("rescore")
    for name in ("dev.en", "dev.fr"):
        (folder / name).write_bytes(b"".join((MINI / name).read_bytes().splitlines(keepends=True)[:SENTENCES]))
    entries = read_nbest(MINI / "decode/default.nbest.gz")
    write_nbest(folder / "nbest", (entry for entry in entries if entry.sentence < SENTENCES))
    return folder


class Rescore(Protocol):
    def __call__(self, *arguments: object) -> int: ...


@pytest.fixture(scope="module")
def rescore(data: Path) -> Rescore:
    """Run the command; return its exit code."""
    return lambda *arguments: main(["rescore", *last_of_each(str(one).replace("DATA", str(data)) for one in arguments)])


@pytest.fixture(scope="module")
def tuned(data: Path, rescore: Rescore) -> Path:
    """Weights of two scorers of one network, tuned on the n-best list."""
    path = data / "weights.json"
    scorers = ("--scorer", f"RNN={NETWORK}", "--scorer", f"WP=unknown-target:{NETWORK}")
    assert rescore(*TUNE, *QUICK, *scorers, "-o", path, "-q") == 0
    return path


def test_tuning_reports_and_applying_keeps_the_promise(
    rescore: Rescore, data: Path, tuned: Path, tmp_path: Path
) -> None:
    report = json.loads(tuned.read_text())
    assert [(one["label"], one["column"], one["path"]) for one in report["scorers"]] == [
        ("RNN", None, str(NETWORK)),
        ("WP", "unknown-target", str(NETWORK)),
    ]
    assert all(len(one["sha256"]) == 64 for one in report["scorers"])
    assert report["entries"] == len(list(read_nbest(data / "nbest")))
    files = [report["ini"], report["list"], report["source"], *report["references"]]
    given = [MINI / "moses.ini", data / "nbest", data / "dev.en", data / "dev.fr"]
    assert files == [{"path": str(path), "sha256": sha256_of(path)} for path in given]
    assert report["computing"] == {"device": "cpu", "precision": "fp32"}
    assert {"phrasescore", "torch"} < report["versions"].keys()
    assert list(report["weights"])[-2:] == ["RNN", "WP"]
    dev_bleu = report["dev_bleu"]
    assert dev_bleu["before"] < dev_bleu["tuned"] < dev_bleu["oracle"] + 1
    assert 0 < dev_bleu["held_out"] < dev_bleu["tuned"]
    out, nbest = tmp_path / "out", tmp_path / "nbest.gz"
    assert rescore(*DEV, "--weights", tuned, "-o", out, "--nbest-output", nbest, "--precision", "fp32", "-q") == 0
    lines = list(read_lines(out))
    assert 100 * corpus_bleu(lines, read_references([data / "dev.fr"])) == pytest.approx(dev_bleu["tuned"])
    entries = list(read_nbest(nbest))
    assert [next(e.words for e in entries if e.sentence == number) for number in range(SENTENCES)] == lines
    assert {tuple(entry.features())[-2:] for entry in entries} == {("RNN", "WP")}
    assert sorted(entry.words for entry in entries) == sorted(entry.words for entry in read_nbest(data / "nbest"))


def test_networks_for_sentences_need_no_segmentation(rescore: Rescore, data: Path, tmp_path: Path) -> None:
    """Networks for sentences score a list without segmentation. Tuning and applying write the same new list."""
    network, bare, weights = tmp_path / "s2s", tmp_path / "bare", tmp_path / "weights.json"
    shutil.copytree(NETWORK, network)
    described = json.loads((network / "config.json").read_text())
    (network / "config.json").write_text(json.dumps({**described, "sentences": {}}))
    write_nbest(bare, (replace(entry, extras=()) for entry in read_nbest(data / "nbest")))
    outputs = [tmp_path / "tuned.nbest", tmp_path / "applied.nbest"]
    tune = (*TUNE, *QUICK, "--nbest", bare, "--scorer", f"S2S={network}", "-o", weights)
    apply = (*DEV, *QUICK, "--nbest", bare, "--weights", weights, "-o", tmp_path / "out")
    for arguments, output in zip((tune, apply), outputs, strict=True):
        assert rescore(*arguments, "--nbest-output", output, "-q") == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()
    assert [*next(read_nbest(outputs[0])).features()][-1] == "S2S"


def test_no_scorer_tunes_the_old_weights(rescore: Rescore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "weights.json"
    assert rescore(*TUNE, *SERIAL, "-o", path) == 0
    said = capsys.readouterr().err
    assert f"translations of {SENTENCES} sentences" in said
    assert ", held-out dev BLEU " in said
    assert set(json.loads(path.read_text())["weights"]) == set(MosesIni.read(MINI / "moses.ini").weights()) - {
        "UnknownWordPenalty0"
    }


def test_weights_without_a_gain_are_reported(
    rescore: Rescore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def without_gain(*arguments: Any) -> ListTuning:
        return replace(tune_on_list(*arguments), held_out=1.0)

    monkeypatch.setattr("moses_integration.rescoring.rescorer.tune_on_list", without_gain)
    assert rescore(*TUNE, *SERIAL, "-o", tmp_path / "weights.json") == 0
    assert "no higher than with the ini's weights: do not use these weights" in capsys.readouterr().err


def test_plain_text(rescore: Rescore, plain_texts: Path, plain_system: Path, tmp_path: Path) -> None:
    ini, source, reference = plain_system / "moses.ini", plain_texts / "dev.en", plain_texts / "dev.fr"
    nbest, weights, out = tmp_path / "nbest", tmp_path / "weights.json", tmp_path / "out"
    decode = ("decode", ini, "--source", source, "--nbest", nbest, "10", "-o", out, "--toolkit", "embedded", "-q")
    assert main([*map(str, decode), "--processes", "1"]) == 0
    common = ("--nbest", nbest, "--source", source)
    scorer = ("--scorer", f"RNN=per-word:{NETWORK}")
    assert rescore(*common, "--reference", reference, "--ini", ini, *scorer, *QUICK, "-o", weights, "-q") == 0
    assert rescore(*common, "--weights", weights, "-o", out, "-q") == 0
    lines = out.read_text().splitlines()
    assert len(lines) == 12
    for line in lines:
        assert line[0].isupper()
        assert line.endswith(".")
        assert "' " not in line


def test_numbers_of_another_list(
    rescore: Rescore, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = len(list(read_nbest(data / "nbest")))
    numbers, weights, out = tmp_path / "numbers", tmp_path / "weights.json", tmp_path / "out"
    numbers.write_text("".join(f"{row % 7}\n" for row in range(count)))
    assert rescore(*TUNE, *SERIAL, "--scorer", f"X={numbers}", "-o", weights, "-q") == 0
    assert rescore(*DEV, "--weights", weights, "-o", out, "-q") == 1
    assert not out.exists()
    assert rescore(*DEV, "--weights", weights, "--scorer", f"X={numbers}", "-o", out, "-q") == 0
    assert len(out.read_bytes().splitlines()) == SENTENCES
    for wrong, message in (("1 2", "has 2 numbers for each entry where"), ("1e39", "is not a finite 32-bit number")):
        numbers.write_text(f"{wrong}\n" * count)
        capsys.readouterr()
        assert rescore(*DEV, "--weights", weights, "--scorer", f"X={numbers}", "-o", tmp_path / "other", "-q") == 1
        assert message in capsys.readouterr().err


def test_tagged_words_count_as_words_without_tags(rescore: Rescore, data: Path, tuned: Path, tmp_path: Path) -> None:
    """Position tags, which `text-table` adds and a decoder copies, do not change how words count."""
    source, nbest = tmp_path / "dev.en", tmp_path / "nbest"
    named = [
        b" ".join(tag_word(word, number, place) for place, word in enumerate(line.split(b" ")))
        for number, line in enumerate(read_lines(data / "dev.en"))
    ]
    write_lines(source, named)
    entries = [replace(one, words=tag_word(one.words, one.sentence, 0)) for one in read_nbest(data / "nbest")]
    write_nbest(nbest, entries)
    given = ("--nbest", nbest, "--source", source, "--prepared")
    again = tmp_path / "weights.json"
    scorers = ("--scorer", f"RNN={NETWORK}", "--scorer", f"WP=unknown-target:{NETWORK}")
    tune = ("--reference", "DATA/dev.fr", "--ini", MINI / "moses.ini", *QUICK, *scorers)
    assert rescore(*given, *tune, "-o", again, "-q") == 0
    reports = [json.loads(path.read_text()) for path in (again, tuned)]
    assert reports[0]["weights"] == reports[1]["weights"]
    written = []
    for number, (texts, weights) in enumerate(((given, again), (DEV, tuned))):
        out, extended = tmp_path / f"{number}.out", tmp_path / f"{number}.nbest"
        assert rescore(*texts, "--weights", weights, "-o", out, "--nbest-output", extended, "-q") == 0
        written.append((out.read_bytes(), extended.read_bytes()))
    assert written[0] == written[1]


def test_a_list_that_has_the_features_already(
    rescore: Rescore, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    extended, out = tmp_path / "extended", tmp_path / "out"
    assert rescore(*DEV, "--weights", tuned, "--nbest-output", extended, "-o", out, "-q") == 0
    code = rescore(*DEV, "--nbest", extended, "--weights", tuned, "-o", out, "-q")
    assert "extended: has a feature RNN already; give a list" in sentence_of(code, capsys.readouterr().err.encode())


def test_prepared_text_needs_no_ini(rescore: Rescore, tuned: Path, tmp_path: Path) -> None:
    report = json.loads(tuned.read_text())
    weights, out = tmp_path / "weights.json", tmp_path / "out"
    weights.write_text(json.dumps({**report, "ini": {"path": str(tmp_path / "gone.ini")}}))
    apply = (*DEV, "--weights", weights, "-o", out, "-q")
    assert rescore(*apply) == 0
    assert len(out.read_bytes().splitlines()) == SENTENCES


def test_another_network_is_rejected(
    rescore: Rescore, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Other weights than those of tuning are an error; a moved folder is not."""
    report = json.loads(tuned.read_text())
    for one in report["scorers"]:
        one["path"] = str(tmp_path / "gone")
    weights, out, moved = tmp_path / "weights.json", tmp_path / "out", tmp_path / "moved"
    weights.write_text(json.dumps(report))
    shutil.copytree(NETWORK, moved)
    apply = (*DEV, "--weights", weights, "-o", out, "-q")
    assert "gone: is not a model folder" in sentence_of(rescore(*apply), capsys.readouterr().err.encode())
    given = ("--scorer", f"RNN={moved}", "--scorer", f"WP=unknown-target:{moved}")
    assert rescore(*apply, *given) == 0
    report["scorers"][0]["sha256"] = "0" * 64
    weights.write_text(json.dumps(report))
    out.unlink()
    code = rescore(*apply, *given)
    assert "moved: is not the model that " in sentence_of(code, capsys.readouterr().err.encode())
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            [*TUNE, "--scorer", f"LM0={NETWORK}"],
            "/nbest: has a feature LM0 already; give a list without it",
        ),
        ([*TUNE, "--scorer", "RNN=FOLDER"], "is not a model folder"),
        (
            [*TUNE, "--nbest", "FOLDER/bare", "--scorer", f"RNN={NETWORK}"],
            "bare: an entry of sentence 0 has no segmentation",
        ),
        ([*TUNE, "--nbest", "FOLDER/empty"], "FOLDER/empty: is empty"),
        (
            [*TUNE, "--nbest", "FOLDER/one"],
            "FOLDER/one: has translations of 1 sentence; give a dev set of some hundred",
        ),
        ([*TUNE, "--nbest", "FOLDER/nowhere"], "nowhere: cannot be read"),
        ([*TUNE, "--reference", "FOLDER/two"], "/two has 2; give files of the same sentences"),
        (
            [*DEV, "--ini", MINI / "moses.ini", "--source", "FOLDER/two", "--reference", "FOLDER/two"],
            "nbest: has a sentence 2 (from 0) where the source has 2 lines",
        ),
        (
            # The ini is checked before the scorers are loaded.
            [*TUNE, "--ini", "FOLDER/none.ini", "--scorer", "RNN=FOLDER"],
            "/none.ini: does not belong to ",
        ),
        ([*DEV, "--weights", MINI / "moses.ini"], "moses.ini: is not JSON"),
        ([*DEV, "--weights", "FOLDER/list.json"], "list.json: is no object of JSON; tune again"),
        ([*DEV, "--weights", "FOLDER/nan.json"], "nan.json: has a number that is not finite; tune again"),
        ([*DEV, "--weights", "FOLDER/types.json"], "is not a file of weights that `rescore` wrote"),
        ([*DEV, "--weights", "TUNED", "--scorer", f"CSLM={NETWORK}"], "has no weight for it"),
        (
            [*DEV, "--weights", "TUNED", "--nbest", "FOLDER/five"],
            "five: has 5 values of the feature TranslationModel0 where",
        ),
        ([*DEV, "--weights", "TUNED", "-o", "FOLDER"], "is a folder; give the name of a file"),
    ],
)
def test_faults_are_one_sentence(
    rescore: Rescore,
    arguments: list[object],
    message: str,
    data: Path,
    tuned: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "two").write_text("the letter .\nthe women .\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "list.json").write_text("[1]")
    weights = json.loads(tuned.read_text())
    weights["weights"]["LM0"] = [math.nan]
    (tmp_path / "nan.json").write_text(json.dumps(weights))
    weights["weights"]["LM0"] = 3
    (tmp_path / "types.json").write_text(json.dumps(weights))
    write_without_language_model(tmp_path / "none.ini")
    write_nbest(
        tmp_path / "bare", (type(e)(e.sentence, e.words, e.scores, e.total) for e in read_nbest(data / "nbest"))
    )
    write_nbest(tmp_path / "one", (entry for entry in read_nbest(data / "nbest") if entry.sentence == 0))
    five = read_nbest(MINI / "decode/five.nbest.gz")
    write_nbest(tmp_path / "five", (entry for entry in five if entry.sentence < SENTENCES))
    before = {path.name for path in tmp_path.iterdir()}
    given = [str(one).replace("FOLDER", str(tmp_path)).replace("TUNED", str(tuned)) for one in arguments]
    code = rescore("-o", tmp_path / "out", *given, "-q")
    assert message.replace("FOLDER", str(tmp_path)) in sentence_of(code, capsys.readouterr().err.encode())
    assert {path.name for path in tmp_path.iterdir()} == before


def test_a_feature_without_a_line_of_weights_weighs_1(
    rescore: Rescore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A feature without weights in the ini has the weight 1, as in both decoders."""
    told = []
    for weight in (["LM0= 1\n"], []):
        ini = MosesIni.read(MINI / "moses.ini")
        ini.lines = [new for line in ini.lines for new in (weight if line.startswith("LM0=") else [line])]
        ini.write(tmp_path / "moses.ini")
        assert rescore(*TUNE, "--ini", tmp_path / "moses.ini", "-o", tmp_path / "weights.json", *SERIAL) == 0
        told.append(capsys.readouterr().err)
    note = f"{tmp_path / 'moses.ini'}: [weight] has no LM0, so these weights are 1, as in Moses\n"
    assert told[1].replace(note, "") == told[0]
    assert note in told[1]
    assert "LM0=" not in (tmp_path / "moses.ini").read_text()


def test_scorers_with_one_label(rescore: Rescore, capsys: pytest.CaptureFixture[str]) -> None:
    assert rescore(*TUNE, "-o", "x", "--scorer", "A=a", "--scorer", "A=b") == 2
    assert "--scorer A=: is given twice; give each scorer a label of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*DEV, "--weights", "TUNED", "--ini", "x"], "--ini: changes nothing with --weights and --prepared"),
        ([*DEV, "--weights", "TUNED", "--backoff", "lm"], "--backoff: changes nothing without a neural language model"),
        ([*TUNE, "--device", "cpu"], "--device: changes nothing without a network; leave it out"),
        ([*TUNE, "--backoff", "lm"], "--backoff: changes nothing without a neural language model"),
    ],
)
def test_options_without_effect_are_rejected(
    rescore: Rescore, arguments: list[object], message: str, tuned: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rescore(*(tuned if one == "TUNED" else one for one in arguments), "-o", "y", "-q") == 2
    assert message in capsys.readouterr().err


MARIAN = """\
0 ||| la lettre . ||| F0=-1.5 ||| -0.375
0 ||| la lettre est arrivée . ||| F0=-2.25 ||| -0.32
1 ||| les femmes . ||| F0=-1 ||| -0.25
1 ||| des femmes jouent là . ||| F0=-3.5 ||| -0.58
"""
"""An n-best list as Marian writes it; several models give `F0= -1.5 F1= -2`."""


@pytest.fixture
def marian(tmp_path: Path) -> list[object]:
    """Arguments for a Marian n-best list whose first translations are too short."""
    (tmp_path / "nbest").write_text(MARIAN)
    (tmp_path / "source").write_text("the letter has arrived .\nwomen play there .\n")
    (tmp_path / "reference").write_text("la lettre est arrivée .\ndes femmes jouent là .\n")
    (tmp_path / "lengths").write_text("3\n5\n3\n5\n")
    common = ["--nbest", tmp_path / "nbest", "--source", tmp_path / "source", "--prepared", "-q"]
    return [*common, "--scorer", f"Length={tmp_path / 'lengths'}"]


@pytest.mark.parametrize(
    ("before", "after", "label"),
    [("", "", "F0"), ("F0=", "F0= ", "F0"), ("F0=", "F0= -3 F1= ", "F1"), (r" F0=\S+ \|\|\|", "", "Total0")],
    ids=["one model", "with a blank", "two models", "totals alone"],
)
def test_a_list_of_marian(
    rescore: Rescore, marian: list[object], tmp_path: Path, before: str, after: str, label: str
) -> None:
    (tmp_path / "nbest").write_text(re.sub(before, after, MARIAN))
    weights, out, nbest = tmp_path / "weights.json", tmp_path / "out", tmp_path / "new"
    assert rescore(*marian, "--reference", tmp_path / "reference", *QUICK[:2], "-o", weights) == 0
    report = json.loads(weights.read_text())
    assert report["ini"] is None
    assert [*report["weights"]][-2:] == [label, "Length"]
    assert report["dev_bleu"]["before"] < 70
    assert report["dev_bleu"]["tuned"] == pytest.approx(100)
    assert rescore(*marian, "--weights", weights, "-o", out, "--nbest-output", nbest) == 0
    assert out.read_bytes() == (tmp_path / "reference").read_bytes()
    assert [*next(read_nbest(nbest)).features()][-2:] == [label, "Length"]


def test_weights_of_a_list_of_marian(rescore: Rescore, marian: list[object], tmp_path: Path) -> None:
    """The BLEU before tuning is that of the weights of an ini, which may have only weights."""
    before = []
    for number in (1, -1):
        (tmp_path / "ini").write_text(f"[weight]\nF0= {number}\n")
        tune = ("--reference", tmp_path / "reference", "--ini", tmp_path / "ini", *QUICK[:2])
        assert rescore(*marian, *tune, "-o", tmp_path / "weights.json") == 0
        before.append(json.loads((tmp_path / "weights.json").read_text())["dev_bleu"]["before"])
    assert before[0] < 50
    assert before[1] == pytest.approx(100)


def test_a_list_without_an_ini_needs_prepared_text(
    rescore: Rescore, marian: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tune, weights = ("--reference", tmp_path / "reference", *QUICK[:2]), tmp_path / "weights.json"
    lm = tmp_path / "lm"
    lm.mkdir()
    (lm / "config.json").write_text('{"kind": "neural-language-model"}')
    assert rescore(*DEV[:-1], "--reference", "DATA/dev.fr", "-o", weights) == 2
    assert "says how its text is prepared; give --ini, or prepared text and --prepared\n" in capsys.readouterr().err
    assert rescore(*marian, *tune, "--scorer", f"A={lm}", "-o", weights) == 2
    assert "--scorer: a language model needs an n-gram model; give --backoff, or --ini" in capsys.readouterr().err
    assert rescore(*marian, *tune, "-o", weights) == 0
    plain = [one for one in marian if one != "--prepared"]
    assert rescore(*plain, "--weights", weights, "-o", tmp_path / "out") == 2
    assert "weights.json: was tuned on prepared text, without a moses.ini; give prep" in capsys.readouterr().err


def test_sparse_features_are_named(
    rescore: Rescore, data: Path, tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sparse features are an error that names them; Moses lists only the nonzero ones of a translation."""
    lines = (data / "nbest").read_text().splitlines()
    lines[5] = lines[5].replace(" Distortion0=", " TM_le~chat= 1 Distortion0=")
    nbest = tmp_path / "nbest"
    nbest.write_text("".join(f"{line}\n" for line in lines))
    for mode in (TUNE[-4:], ("--weights", tuned)):
        code = rescore(*DEV, "--nbest", nbest, *mode, "-o", tmp_path / "out", "-q")
        said = sentence_of(code, capsys.readouterr().err.encode())
        assert f"{nbest}: has the sparse feature TM_le~chat in sentence 0, but only features that all" in said


@pytest.mark.parametrize(
    "arguments",
    [
        [*DEV, "-o", "x"],
        [*DEV, "--reference", "a", "--weights", "b", "-o", "x"],
        [*TUNE, "-o", "x", "--scorer", "phrases:rnn"],
        [*TUNE, "-o", "x", "--scorer", "RNN="],
    ],
)
def test_wrong_usage(rescore: Rescore, arguments: list[object], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        rescore(*arguments)
    assert end.value.code == 2
    assert "usage: phrasescore-smt rescore" in capsys.readouterr().err
