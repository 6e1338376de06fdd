from __future__ import annotations

import hashlib
import json
import math
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.ablation.config import Config, read_config
from experiments.ablation.page.page import write_page
from experiments.ablation.rows import BASELINE, Row, extended_by
from experiments.ablation.run import Ablation
from experiments.ablation.summary import shown, summary
from experiments.pages.results import Results
from experiments.steps import Steps
from moses_integration.evaluation import measure, p_value_over_runs
from moses_integration.ini import MosesIni, Weights
from moses_integration.nbest import NbestEntry
from moses_integration.placed.names import without_names
from moses_integration.rescoring.reranking import add_scores
from moses_integration.toolkits.embedded import EmbeddedToolkit
from phrasescore.device import choose_device
from phrasescore.errors import UserError

CONFIGS = Path(__file__).parents[3] / "experiments" / "ablation" / "configs"


def silent(text: str) -> None:
    pass


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_configurations_are_valid(path: Path) -> None:
    config = read_config(path)
    assert config.rows[0].name == BASELINE
    is_demo = path.stem == "demo"
    assert len(config.seeds) >= (2 if is_demo else 3)
    if path.stem == "multi30k-en-fr-s2s":
        # See test_seq2seq.py.
        return
    expected = {"+CTX"} if is_demo else {"+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP"}
    assert expected <= {row.name for row in config.rows}
    for option, words in ("network", _options("train")), ("language_model", _options("lm", "train")):
        assert {word for word in getattr(config, option) if word.startswith("--")} <= words


def _options(*command: str) -> set[str]:
    """The options of a command, as all of its help says."""
    done = subprocess.run(
        [sys.executable, "-m", "phrasescore", *command, "--help-all"], capture_output=True, check=True
    )
    return set(re.findall(r"--[a-z][a-z-]*", done.stdout.decode()))


def test_network_options_become_those_of_train(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n[network]\nmax_minutes = 2\npreset = 'small'\n")
    config = read_config(tmp_path / "a.toml")
    assert config.network == ("--max-minutes", "2", "--preset", "small")
    assert config.seeds == (7,)


def test_a_title_is_given_or_is_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n")
    assert read_config(tmp_path / "a.toml").title == "a"
    assert read_config(tmp_path / "a.toml", ["title = 'Captions'"]).title == "Captions"


def test_changes_come_after_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n[build]\norder = 3\n")
    config = read_config(tmp_path / "a.toml", ["build.aligner = 'hmm'", "seeds = [8, 9]"])
    assert (config.build.order, config.build.aligner, config.seeds) == (3, "hmm", (8, 9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sedes = [1]", "did you mean `seeds`"),
        ("[data]\nnaem = 'x'", "did you mean `name`"),
        ("rows = ['+XYZ']", "+XYZ is neither baseline nor made of +RNN"),
        ("rows = ['+WP']", "+WP has WP without RNN"),
        ("rows = ['RNN']", "RNN is neither"),
        ("rows = ['+RNN+CSLM+RNN']", "the row +RNN+CSLM+RNN has RNN twice; mend its name"),
        ("rows = ['+RNN+WP+WP-BOTH']", "has more than one of WP, WP-SOURCE, WP-BOTH"),
        ("rows = ['+RNN+CSLM', '+CSLM+RNN']", "rows has a row twice"),
        ("rows = 'baseline'", "give different names"),
        ("toolkit = 'mosses'", "toolkit is 'mosses'; choose one of auto, moses, embedded"),
        ("title = 3", "title is 3; give text"),
        ("seeds = '12'", "seeds is '12'; give different whole numbers"),
        ("seeds = []", "give different whole numbers"),
        ("seeds = [1, 1]", "give different whole numbers"),
        ("seeds = [true]", "give different whole numbers"),
        ("seeds = [-1]", "give different whole numbers"),
        ("network = 3", "`network` must be a section"),
        ("[build]\naligner = 'giza'", "aligner is 'giza'; choose one of ibm1"),
        ("[build]\norder = 7", "order is 7; give at most 6"),
        ("[build]\nlongest_phrase = 8", "longest_phrase is 8; give at most 7"),
        ("[decoder]\nstack = '50'", "stack is '50'; give a whole number"),
        ("[decoder]\nfeature = 3", "feature is what the rows differ by; leave it out"),
        ("[scoring]\nrescored = 0", "rescored is 0; give at least 1"),
        ("[scoring]\nunnormalised = true", "give language_model.self_normalise"),
        ("[network]\ndropout = 7", "[network]: --dropout: is 7.0; give"),
        ("[network]\ndirection = 'source-given-target'", "direction is what +RNN and +REVERSE say; leave it out"),
        ("[language_model]\nheld_out = 0.1", "[language_model]: --held-out: does nothing with --validation"),
        (
            "[network]\ndroput = 0.3",
            "[network]: --droput: is no option; did you mean `--dropout`?",
        ),
        ("[sentence_network]\nhidden = 'x'", "[sentence_network]: --hidden: `x` is not a whole number; give one"),
        ("[language_model]\nfeed_word = 3", "--feed-word: is no option; `phrasescore lm train --help` lists"),
        ("[expected_bleu]\nnbest = 0", "[expected_bleu]: --nbest"),
        ("[context_network]\nbleu_sentences = 3", "[context_network]: --bleu-sentences: is for training on whole"),
        ("rows = [", "is not TOML"),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match=re.escape(message)):
        read_config(tmp_path / "a.toml")


def test_a_row_is_its_parts() -> None:
    row = Row.parse("+WP+CSLM+RNN")
    assert row == Row.parse(row.name)
    assert row.name == "+RNN+CSLM+WP"
    assert Row.parse(BASELINE).name == BASELINE
    assert [(column.name, len(column.scores)) for column in row.columns()] == [("rnn-wp", 2)]
    assert (row.listed, row.decoded) == ((), row)
    listed = Row.parse("+RNN+CSLM+RESCORING+S2S")
    assert (listed.listed, listed.decoded.name) == (("CSLM", "S2S"), "+RNN")
    assert Row.parse("+CSLM+S2S").decoded.name == "+CSLM"
    sides = {name: Row.parse(f"+RNN+{name}").columns()[0] for name in ("WP", "WP-SOURCE", "WP-BOTH")}
    assert {name: column.options[-1] for name, column in sides.items()} == {
        "WP": "target",
        "WP-SOURCE": "source",
        "WP-BOTH": "both",
    }
    assert len({column.name for column in sides.values()}) == 3
    [per_word] = Row.parse("+RNN+PER-WORD").columns()
    assert (per_word.name, per_word.networks, per_word.options) == ("rnn-per-word", ("rnn",), ("--per-word",))
    [_, reverse] = Row.parse("+RNN+REVERSE").columns()
    assert (reverse.networks, reverse.options) == (("reverse",), ("--direction", "source-given-target"))
    many = Row.parse("+RNN+REVERSE+ENSEMBLE+PER-WORD").columns()
    assert [(column.name, len(column.networks)) for column in many] == [("ensemble-per-word", 3), ("reverse", 1)]


def test_a_row_is_compared_with_the_largest_that_it_extends() -> None:
    rows = [Row.parse(name) for name in (BASELINE, "+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP")]
    names = [[other.name for other in extended_by(row, rows)] for row in rows]
    assert names == [[], [], [], ["+RNN", "+CSLM"], ["+RNN+CSLM"]]


def test_a_step_is_done_once_for_the_same_settings(tmp_path: Path) -> None:
    done: list[int] = []

    def work() -> dict[str, int]:
        done.append(1)
        return {"value": len(done)}

    assert Steps(tmp_path, silent).run("a", {"x": 1}, work) == {"value": 1}
    assert Steps(tmp_path, silent).run("a", {"x": 1}, work) == {"value": 1}
    assert Steps(tmp_path, silent).run("a", {"x": 2}, work) == {"value": 2}
    assert Steps(tmp_path, silent).seconds("a") >= 0


def test_a_step_that_failed_is_done_again(tmp_path: Path) -> None:
    def fail() -> None:
        raise UserError("no")

    with pytest.raises(UserError):
        Steps(tmp_path, silent).run("a", 1, fail)
    assert Steps(tmp_path, silent).run("a", 1, lambda: 5) == 5


def test_moses_has_no_neural_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Moses:
        name = "moses"

        def ignored_sections(self, ini: MosesIni) -> list[str]:
            return []

    monkeypatch.setattr("experiments.ablation.run.choose_toolkit", lambda name, processes: Moses())
    rows = [Row.parse(name) for name in (BASELINE, "+CSLM+RESCORING", "+CSLM+S2S")]
    Ablation(Config(rows=tuple(rows[:2])), tmp_path, {}, silent)
    with pytest.raises(UserError, match=r"\+CSLM\+S2S: Moses has no neural language model"):
        Ablation(Config(rows=tuple(rows)), tmp_path, {}, silent)


def test_a_section_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    Ablation(Config(decoder={"search-algorithm": 1}), tmp_path, {}, silent)
    with pytest.raises(UserError, match=r"\[decoder\]: search-algoritm is passed over by the embedded toolkit"):
        Ablation(Config(decoder={"search-algoritm": 1}), tmp_path, {}, silent)


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("stack", -5, r"\[decoder\]: line 2: \[stack\] "),
        ("search-algorithm", 7, r"\[decoder\]: line 2: search algorithm 7 is neither 0 \(normal\) nor 1"),
    ],
)
def test_a_setting_that_the_decoder_refuses_is_refused_before_all_work(
    tmp_path: Path, section: str, value: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Ablation(Config(decoder={section: value}), tmp_path, {}, silent)


def likeliest(entries: list[NbestEntry], weights: Weights) -> list[bytes]:
    """Return the translation of each sentence whose features, weighed, are the highest."""
    best: dict[int, tuple[float, bytes]] = {}
    for entry in entries:
        features = entry.features()
        found = sum(float(np.dot(weights[label], values)) for label, values in features.items())
        if found > best.get(entry.sentence, (-math.inf, b""))[0]:
            best[entry.sentence] = (found, entry.words)
    return [translation for _, translation in best.values()]


@pytest.mark.timeout(300)
def test_an_ablation_from_text_to_report(
    tmp_path: Path, multi30k_of_mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The whole way on a few sentences; run again, it finds everything done."""
    lists = list[list[NbestEntry]]()

    def noted(*arguments: Any) -> list[NbestEntry]:
        lists.append(add_scores(*arguments))
        return lists[-1]

    monkeypatch.setattr("experiments.ablation.run.add_scores", noted)
    tuned_on, tune = set[bytes](), EmbeddedToolkit.tune

    def note_text(toolkit: EmbeddedToolkit, ini: MosesIni, source: Path, references: list[Path], *others: Any) -> Any:
        tuned_on.add(b"".join(path.read_bytes() for path in (source, *references)))
        return tune(toolkit, ini, source, references, *others)

    monkeypatch.setattr(EmbeddedToolkit, "tune", note_text)
    (tmp_path / "a.toml").write_text("""
        title = "Captions"
        toolkit = "embedded"
        seeds = [1]
        rows = ["baseline", "+RNN", "+RNN+CSLM+WP", "+RNN+CSLM+RESCORING+S2S", "+RNN+REVERSE+ENSEMBLE", "+XBLEU+CTX"]
        [build]
        aligner = "ibm1"
        order = 2
        [decoder]
        stack = 50
        [network]
        max_updates = 5
        hidden = 16
        seed = 2
        [language_model]
        max_updates = 5
        order = 3
        embedding = 4
        first_hidden = 5
        second_hidden = 4
        self_normalise = 0.1
        [scoring]
        unnormalised = true
        rescored = 20
        [sentence_network]
        max_updates = 5
        hidden = 16
        [context_network]
        max_updates = 5
        hidden = 16
        [expected_bleu]
        sentences = 30
        nbest = 5
        [tuning]
        nbest = 10
        iterations = 2
        restarts = 1
        sentences = 20
    """)
    config: Config = read_config(tmp_path / "a.toml")
    said: list[str] = []
    folder = tmp_path / "out"
    report = Ablation(config, folder, {"origin": multi30k_of_mini}, said.append, processes=1).run()
    rows = report["rows"]
    widths = {name: len(row["seeds"][0]["weights"]["TranslationModel0"]) for name, row in rows.items()}
    assert list(widths.values()) == [4, 5, 6, 5, 6, 6]
    assert [("CSLM0" in row["seeds"][0]["weights"]) for row in rows.values()] == [
        False,
        False,
        True,
        False,
        False,
        False,
    ]
    rescored = "+RNN+CSLM+RESCORING+S2S"
    assert {"CSLM", "S2S"} <= rows[rescored]["seeds"][0]["weights"].keys()
    # Of 30 the two first ones of every three.
    texts = [(folder / "prepared" / f"dev.{side}").read_bytes().splitlines() for side in ("source", "reference0")]
    chosen_lines = [line for text in texts for number, line in enumerate(text) if number % 3 < 2]
    # In context the words of the source have names.
    assert {without_names(text) for text in tuned_on} == {b"".join(line + b"\n" for line in chosen_lines)}
    assert len(tuned_on) == 2
    assert {entry.sentence for entry in lists[0]} == set(range(20))
    chosen = likeliest(lists[1], rows[rescored]["seeds"][0]["weights"])
    assert chosen == (folder / "rows" / f"{rescored}.seed1" / "test.tokens").read_bytes().splitlines()
    assert chosen != (folder / "rows" / f"{rescored}.seed1" / "test.before").read_bytes().splitlines()
    assert set(report["networks"]) == {"rnn", "rnn-2", "rnn-3", "reverse", "cslm", "s2s", "ctx"}
    seeds = {name: network["config"]["training"]["seed"] for name, network in report["networks"].items()}
    assert seeds == {"rnn": 2, "rnn-2": 3, "rnn-3": 4, "reverse": 2, "cslm": 1, "s2s": 1, "ctx": 1}
    assert set(rows["+RNN"]["against"]) == {BASELINE}
    assert set(rows["+RNN+CSLM+WP"]["against"]) == {BASELINE, "+RNN"}
    for name, other in [(name, other) for name, row in rows.items() for other in row["against"]]:
        compared, both = rows[name]["against"][other], (name, other)
        mean, before = (rows[one]["test_bleu"]["mean"] for one in both)
        assert compared["difference"] == pytest.approx(mean - before)
        runs, others = ([folder / "rows" / f"{one}.seed1" / "test.out"] for one in both)
        assert compared["p_value"] == p_value_over_runs(runs, others, [folder / "data" / "test.fr"], "none")
    assert report["rows"][BASELINE]["test_bleu"]["mean"] > 20
    assert [one["unnormalised"] for one in report["networks"]["cslm"]["perplexities"]] == [False, True]
    weights = {name: (folder / name / "weights.safetensors").read_bytes() for name in report["networks"]}
    for name, content in weights.items():
        assert report["networks"][name]["weights_sha256"] == hashlib.sha256(content).hexdigest()
    assert report["tables"]["phrase-table.rnn-wp"]["counts"]["columns_after"] == 6
    averaged = report["tables"]["phrase-table.ensemble"]["models"]
    assert [Path(one["folder"]).name for one in averaged] == ["rnn", "rnn-2", "rnn-3"]
    (function,) = report["tables"]["phrase-table.xbleu"]["models"]
    (of_function,) = summary(report)["functions"].values()
    digest = hashlib.sha256((folder / "xbleu/weights.safetensors").read_bytes()).hexdigest()
    assert function["weights_sha256"] == of_function["weights_sha256"] == digest
    assert of_function["nbest"] > 0
    assert report["machine"]["versions"]["torch"]
    costs = {name: row["translating"] for name, row in rows.items()}
    assert all(one[key]["seconds"] > 0 for one in costs.values() for key in ("cold", "warm"))
    assert {one["device"] for one in costs.values()} == {str(choose_device("auto", "fp32"))}
    assert [name for name, one in costs.items() if "rescoring" in one] == [rescored]
    assert [name for name, one in costs.items() if "placing" in one] == ["+XBLEU+CTX"]
    assert 0 < costs["+XBLEU+CTX"]["placing"] < costs["+XBLEU+CTX"]["warm"]["seconds"]
    assert [name for name, one in costs.items() if one["cold"]["queries"]] == ["+RNN+CSLM+WP"]
    inside = costs["+RNN+CSLM+WP"]
    assert inside["cold"]["served"] < inside["warm"]["served"]
    assert inside["warm"]["served"] > 0.999
    assert "unnormalised=true" in (folder / "rows" / "+RNN+CSLM+WP.seed1" / "moses.ini").read_text()
    times = {path.stem: json.loads(path.read_bytes())["seconds"] for path in (folder / "steps").glob("+RNN*.seed1.*")}
    parts = ("+RNN.seed1.tuning", "+RNN.seed1", f"{rescored}.seed1")
    assert rows[rescored]["seconds"] == pytest.approx(sum(times[part] for part in parts))
    for name, row in rows.items():
        found = measure(folder / "rows" / f"{name}.seed1" / "test.out", [folder / "data" / "test.fr"])
        assert row["chrf"]["mean"] == pytest.approx(found["chrF"].score)
        assert row["ter"]["mean"] == pytest.approx(found["TER"].score)
    kept = Results(folder).table("summary")
    assert kept.title == "Captions"
    assert kept.text("+RNN", "chrF") == f"{rows['+RNN']['chrf']['mean']:.2f}"
    assert kept.text("+RNN+CSLM+WP", "against +RNN").startswith(("+", "-"))
    words = {line.decode() for line in (folder / "data" / "test.fr").read_bytes().splitlines()}
    assert not any(line in (folder / "summary.json").read_text() for line in words)
    assert str(folder) not in json.dumps(report)
    assert report["networks"]["cslm"]["perplexities"][0]["backoff"]["path"].startswith("system/")
    assert f"| {rescored} | {rows[rescored]['dev_bleu']['mean']:.2f} | " in shown(summary(report))
    assert report["commands"]["rnn-2"].startswith("phrasescore train system/phrase-table.gz ")
    assert report["commands"]["xbleu"].startswith("phrasescore-smt expected-bleu xbleu.ini -o xbleu ")
    networks = Results(folder).table("summary/networks")
    assert networks.cell("s2s", "nats per word of the dev set")
    assert networks.cell("cslm", "interpolated")
    assert kept.cell("+XBLEU+CTX", "weight of network, in its sentence")
    assert kept.cell("+RNN+CSLM+WP", "weight of unknown target words")
    write_page(report, folder)
    assert "unknown target words" in (folder / "report.html").read_text()
    assert json.loads((folder / "report.json").read_bytes())["rows"].keys() == report["rows"].keys()
    assert MosesIni.read(folder / "rows" / "baseline.seed1" / "moses.ini").values("stack") == ["50"]
    said.clear()
    again = Ablation(config, folder, {"origin": multi30k_of_mini}, said.append, processes=1)
    assert again.run()["rows"] == report["rows"]
    assert all(line.endswith("done before") for line in said)
    for name in (f"{rescored}.seed1", f"{rescored}.translating"):
        (folder / "steps" / f"{name}.json").unlink()
    # What was done holds where the folder is moved to, too.
    folder = folder.rename(tmp_path / "moved")
    said.clear()
    moved = Ablation(config, folder, {"origin": multi30k_of_mini}, said.append, processes=1).run()["rows"]
    assert moved[rescored]["test_bleu"] == rows[rescored]["test_bleu"]
    assert {line.partition(":")[0] for line in said if not line.endswith(("done before", "..."))} == {
        f"{rescored}.seed1",
        f"{rescored}.translating",
    }
    (folder / "prepared" / "dev.reference7").write_text("of an earlier data set\n")
    changed = read_config(tmp_path / "a.toml", ['rows = ["+RNN"]', "network.hidden = 8", "build.order = 3"])
    networks = Ablation(changed, folder, {"origin": multi30k_of_mini}, silent, processes=1).run()["networks"]
    assert networks["rnn"]["config"]["model"]["hidden"] == 8
    assert not (folder / "prepared" / "dev.reference7").exists()
    shutil.rmtree(folder)
