from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.ablation.config import Config, read_config
from experiments.ablation.page.page import write_page
from experiments.ablation.rows import BASELINE, Row
from experiments.ablation.run import Ablation
from experiments.ablation.summary import shown, summary
from experiments.pages.results import Results
from experiments.significance import p_value_over_runs
from experiments.steps import Json
from moses_integration.ini import MosesIni, Weights
from moses_integration.metrics import measure
from moses_integration.nbest import NbestEntry
from moses_integration.per_text.context_sections import networks_of
from moses_integration.rescoring.reranking import add_scores
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.toolkit import TuningRequest
from moses_integration.tuning.tunings import Tuning
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.text import no_log

pytestmark = pytest.mark.timeout(300)

RESCORED, CONTEXT = "+RNN+CSLM+RESCORING+S2S+CHANNEL", "+NNJM+XBLEU+CTX+ENSEMBLE"
CONFIG = """\
title = "Captions"
toolkit = "embedded"
seeds = [1]
rows = [
    "baseline", "+RNN", "+RNN+CSLM+WP", "+RNN+CSLM+RESCORING+S2S+CHANNEL", "+RNN+REVERSE+ENSEMBLE",
    "+NNJM+XBLEU+CTX+ENSEMBLE",
]
[data]
test = ["2016", "2017"]
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
rescored = 20
[sentence_network]
max_updates = 5
hidden = 16
[context_network]
max_updates = 5
hidden = 16
[expected_bleu]
sentences = 30
[tuning]
nbest = 10
iterations = 2
restarts = 1
sentences = 10
"""


def test_moses_has_no_neural_language_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Moses:
        name = "moses"

    monkeypatch.setattr("experiments.ablation.run.choose_toolkit", lambda name, processes: Moses())
    rows = [Row.parse(name) for name in (BASELINE, "+CSLM+RESCORING", "+CSLM+S2S")]
    Ablation(Config(rows=tuple(rows[:2])), tmp_path, {}, no_log)
    with pytest.raises(UserError, match=r"\+CSLM\+S2S: Moses has no neural language model"):
        Ablation(Config(rows=tuple(rows)), tmp_path, {}, no_log)


def test_a_section_that_the_decoder_does_not_know_is_rejected(tmp_path: Path) -> None:
    Ablation(Config(decoder={"search-algorithm": 1}), tmp_path, {}, no_log)
    with pytest.raises(
        UserError, match=r"\[decoder\]: line 4: the embedded decoder does not support \[search-algoritm\]"
    ):
        Ablation(Config(decoder={"stack": 5, "search-algoritm": 1}), tmp_path, {}, no_log)


@pytest.mark.parametrize(
    ("section", "value", "message"),
    [
        ("stack", -5, r"\[decoder\]: line 2: \[stack\]"),
        ("search-algorithm", 7, r"\[decoder\]: line 2: \[search-algorithm\]: algorithm 7 is neither 0 \(normal\)"),
    ],
)
def test_a_setting_that_the_decoder_rejects_is_rejected_before_all_work(
    tmp_path: Path, section: str, value: int, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        Ablation(Config(decoder={section: value}), tmp_path, {}, no_log)


def likeliest(entries: list[NbestEntry], weights: Weights) -> list[bytes]:
    """Return the translation of each sentence with the highest weighted feature score."""
    best: dict[int, tuple[float, bytes]] = {}
    for entry in entries:
        features = entry.features()
        found = sum(float(np.dot(weights[label], values)) for label, values in features.items())
        if found > best.get(entry.sentence, (-math.inf, b""))[0]:
            best[entry.sentence] = (found, entry.words)
    return [translation for _, translation in best.values()]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@dataclass(frozen=True)
class Ran:
    """A finished ablation with what the test recorded during the run."""

    config: Path
    origin: Path
    folder: Path
    report: Json
    lists: list[list[NbestEntry]]
    """N-best lists with network scores: the lists used for tuning and the lists to choose from."""
    tuned_on: set[bytes]
    """Source and references."""

    @property
    def rows(self) -> Json:
        """Return the results of each row."""
        found: Json = self.report["rows"]
        return found

    def translation(self, row: str, part: str = "test") -> Path:
        """Return a row's translation of a test set."""
        return self.folder / "rows" / f"{row}.seed1" / f"{part}.out"

    def again(self, folder: Path, *changes: str) -> tuple[Json, list[str]]:
        """Run the ablation again in a folder; return the report and the log."""
        return run(read_config(self.config, changes), folder, self.origin)


def run(config: Config, folder: Path, origin: Path) -> tuple[Json, list[str]]:
    """Run an ablation; return the report and the log."""
    said: list[str] = []
    return Ablation(config, folder, {"origin": origin}, said.append, processes=1).run(), said


@pytest.fixture(scope="module", autouse=True)
def few_trials() -> Iterator[None]:
    """Compute p-values from few trials."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("moses_integration.metrics.TRIALS", 100)
        yield


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, multi30k_of_mini: Path) -> Iterator[Ran]:
    """A complete ablation on a few sentences."""
    root = tmp_path_factory.mktemp("ablation")
    config, folder = root / "a.toml", root / "out"
    config.write_text(CONFIG)
    lists = list[list[NbestEntry]]()
    tuned_on, tune = set[bytes](), EmbeddedToolkit.tune

    def note_list(*arguments: Any) -> list[NbestEntry]:
        lists.append(add_scores(*arguments))
        return lists[-1]

    def note_text(toolkit: EmbeddedToolkit, ini: MosesIni, request: TuningRequest) -> Iterator[Tuning]:
        tuned_on.add(b"".join(path.read_bytes() for path in (request.source, *request.references)))
        return tune(toolkit, ini, request)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("experiments.ablation.run.add_scores", note_list)
        patched.setattr(EmbeddedToolkit, "tune", note_text)
        report, _ = run(read_config(config), folder, multi30k_of_mini)
    yield Ran(config, multi30k_of_mini, folder, report, lists, tuned_on)
    shutil.rmtree(folder)


@pytest.fixture
def copy(ran: Ran) -> Iterator[Path]:
    """A copy of the ablation's folder at the same path; the original is moved away meanwhile."""
    kept = ran.folder.rename(ran.folder.with_name("kept"))
    # The caches only save time, and take 250 MB each.
    yield shutil.copytree(kept, ran.folder, ignore=shutil.ignore_patterns("*.cache"))
    shutil.rmtree(ran.folder, ignore_errors=True)
    kept.rename(ran.folder)


def test_tuned_systems_are_complete(ran: Ran) -> None:
    systems = Ablation(read_config(ran.config), ran.folder, {"origin": ran.origin}, no_log).tuned_systems()
    assert [*systems] == [name for name in ran.rows if name != RESCORED]
    assert [bool(networks_of(MosesIni.read(ini))) for ini in systems.values()] == ["CTX" in name for name in systems]
    for ini in systems.values():
        MosesIni.read(ini).require_files()


def test_a_row_has_the_features_that_its_name_says(ran: Ran) -> None:
    weights = {name: row["seeds"][0]["weights"] for name, row in ran.rows.items()}
    assert [len(found["TranslationModel0"]) for found in weights.values()] == [4, 5, 6, 5, 6, 6]
    for label, row in (("CSLM0", "+RNN+CSLM+WP"), ("NNJM0", CONTEXT)):
        assert [name for name, found in weights.items() if label in found] == [row]
    assert {"CSLM", "S2S", "CHANNEL"} <= weights[RESCORED].keys()


def test_the_decoder_is_set_as_the_configuration_says(ran: Ran) -> None:
    assert MosesIni.read(ran.folder / "rows" / "baseline.seed1" / "moses.ini").values("stack") == ["50"]


def test_weights_are_tuned_on_a_part_of_the_dev_set(ran: Ran) -> None:
    """Weights are tuned on a part of the dev set: the first two of every three of its 15 sentences."""
    texts = [(ran.folder / "prepared" / f"dev.{side}").read_bytes().splitlines() for side in ("source", "reference0")]
    chosen = [line for text in texts for number, line in enumerate(text) if number % 3 < 2]
    assert ran.tuned_on == {b"".join(line + b"\n" for line in chosen)}
    assert {entry.sentence for entry in ran.lists[0]} == set(range(10))


def test_networks_choose_from_lists(ran: Ran) -> None:
    work = ran.folder / "rows" / f"{RESCORED}.seed1"
    chosen = likeliest(ran.lists[1], ran.rows[RESCORED]["seeds"][0]["weights"])
    assert chosen == (work / "test.tokens").read_bytes().splitlines()
    assert chosen != (work / "test.before").read_bytes().splitlines()


def test_rows_are_measured(ran: Ran) -> None:
    assert ran.rows[BASELINE]["test_bleu"]["mean"] > 20
    for name, row in ran.rows.items():
        found = measure(ran.translation(name), [ran.folder / "data" / "test.fr"])
        assert row["chrf"]["mean"] == pytest.approx(found["chrF"].score)
        assert row["ter"]["mean"] == pytest.approx(found["TER"].score)
        assert row["tests"].keys() == {"2017"}
        more = measure(ran.translation(name, "test.2017"), [ran.folder / "data" / "test.2017.fr"])
        assert row["tests"]["2017"]["chrf"]["mean"] == pytest.approx(more["chrF"].score)


def test_rows_are_compared(ran: Ran) -> None:
    assert set(ran.rows["+RNN"]["against"]) == {BASELINE}
    assert set(ran.rows["+RNN+CSLM+WP"]["against"]) == {BASELINE, "+RNN"}
    for name, other in [(name, other) for name, row in ran.rows.items() for other in row["against"]]:
        compared, both = ran.rows[name]["against"][other], (name, other)
        mean, before = (ran.rows[one]["test_bleu"]["mean"] for one in both)
        assert compared["difference"] == pytest.approx(mean - before)
        runs, others = ([ran.translation(one)] for one in both)
        assert compared["p_value"] == p_value_over_runs(runs, others, [ran.folder / "data" / "test.fr"], "none")
    found, runs, others = (
        ran.rows["+RNN"]["tests"]["2017"]["against"][BASELINE],
        *([ran.translation(one, "test.2017")] for one in ("+RNN", BASELINE)),
    )
    assert found["p_value"] == p_value_over_runs(runs, others, [ran.folder / "data" / "test.2017.fr"], "none")


def test_a_row_takes_the_time_of_its_steps(ran: Ran) -> None:
    """The time of a row is the sum of its steps; rescoring includes the time of making the n-best lists."""
    names = [f"{row}.seed1{end}" for row in ("+RNN", RESCORED) for end in (".tuning", "", ".2017")]
    steps = [ran.folder / "steps" / f"{name}.json" for name in names]
    seconds = sum(json.loads(step.read_bytes())["seconds"] for step in steps)
    assert ran.rows[RESCORED]["seconds"] == pytest.approx(seconds)


def test_networks_are_trained_for_the_rows(ran: Ran) -> None:
    networks = ran.report["networks"]
    seeds = {name: network["config"]["training"]["seed"] for name, network in networks.items()}
    ensembles = {"rnn": 2, "rnn-2": 3, "rnn-3": 4, "ctx": 1, "ctx-2": 2, "ctx-3": 3}
    assert seeds == {**ensembles, "reverse": 2, "cslm": 1, "nnjm": 1, "s2s": 1, "channel": 1}
    for name, network in networks.items():
        assert network["weights_sha256"] == digest(ran.folder / name / "weights.safetensors")
    [perplexities] = networks["cslm"]["perplexities"]
    assert perplexities["perplexity"]["interpolation"] > 1


def test_tables_and_models_are_reported_with_their_origin(ran: Ran) -> None:
    tables = ran.report["tables"]
    assert tables["phrase-table.rnn-wp"]["counts"]["columns_after"] == 6
    averaged = tables["phrase-table.ensemble"]["scorer"]
    assert [Path(folder).name for folder in averaged["folders"]] == ["rnn", "rnn-2", "rnn-3"]
    (of_model,) = summary(ran.report)["phrase_pair_models"].values()
    expected = digest(ran.folder / "xbleu/weights.safetensors")
    assert tables["phrase-table.xbleu"]["scorer"]["sha256"] == of_model["weights_sha256"] == expected
    assert of_model["hypotheses"] > 0


def test_the_cost_of_translating(ran: Ran) -> None:
    costs = {name: row["translating"] for name, row in ran.rows.items()}
    assert all(one[key]["seconds"] > 0 for one in costs.values() for key in ("cold", "warm"))
    assert {one["device"] for one in costs.values()} == {str(choose_device("auto", "fp32"))}
    assert [name for name, one in costs.items() if "rescoring" in one] == [RESCORED]
    assert [name for name, one in costs.items() if "indexing" in one] == [CONTEXT]
    assert 0 < costs[CONTEXT]["indexing"] < costs[CONTEXT]["warm"]["seconds"]
    assert [name for name, one in costs.items() if one["cold"]["queries"]] == ["+RNN+CSLM+WP", CONTEXT]
    inside = costs["+RNN+CSLM+WP"]
    assert inside["cold"]["served"] < inside["warm"]["served"]
    assert inside["warm"]["served"] > 0.999


def test_a_report_does_not_depend_on_the_folder(ran: Ran) -> None:
    assert str(ran.folder) not in json.dumps(ran.report)
    assert ran.report["networks"]["cslm"]["perplexities"][0]["backoff"]["path"].startswith("system/")
    assert ran.report["commands"]["rnn-2"].startswith("phrasescore train system/phrase-table.gz ")
    assert ran.report["commands"]["xbleu"].startswith("phrasescore-smt expected-bleu xbleu.ini -o xbleu ")
    assert ran.report["machine"]["versions"]["torch"]
    assert json.loads((ran.folder / "report.json").read_bytes())["rows"].keys() == ran.rows.keys()


def test_a_summary_is_a_file_of_results_without_the_text(ran: Ran) -> None:
    rows, networks = (Results(ran.folder).table(name) for name in ("summary", "summary/networks"))
    assert rows.title == "Captions"
    assert rows.text("+RNN", "chrF") == f"{ran.rows['+RNN']['chrf']['mean']:.2f}"
    assert rows.text("+RNN+CSLM+WP", "against +RNN").startswith(("+", "-"))
    assert rows.cell(CONTEXT, "weight of network, in context")
    assert rows.text("+RNN", "against baseline, 2017").startswith(("+", "-"))
    assert rows.cell("+RNN+CSLM+WP", "weight of unknown target words")
    assert networks.cell("s2s", "nats per word of the dev set")
    assert networks.cell("cslm", "interpolated")
    lines = {line.decode() for line in (ran.folder / "data" / "test.fr").read_bytes().splitlines()}
    assert not any(line in (ran.folder / "summary.json").read_text() for line in lines)


def test_the_rows_are_shown_as_a_table_and_as_a_page(ran: Ran) -> None:
    assert f"| {RESCORED} | {ran.rows[RESCORED]['dev_bleu']['mean']:.2f} | " in shown(summary(ran.report))
    write_page(ran.report, ran.folder)
    assert "unknown target words" in (ran.folder / "report.html").read_text()


def test_finished_steps_are_not_repeated(ran: Ran, copy: Path) -> None:
    again, said = ran.again(copy)
    assert again["rows"] == ran.rows
    assert all(line.endswith("done before") for line in said)


def test_another_test_set_repeats_no_build_training_or_tuning(ran: Ran, copy: Path) -> None:
    steps = {path.name: path.read_bytes() for path in (copy / "steps").iterdir()}
    for name in (name for name in steps if ".2017." in name):
        (copy / "steps" / name).unlink()
    alone, _ = ran.again(copy, "data.test = ['2016']", "rows = ['baseline', '+RNN']")
    assert alone["rows"][BASELINE]["tests"] == {}
    both, said = ran.again(copy)
    assert both["rows"][BASELINE]["test_bleu"] == ran.rows[BASELINE]["test_bleu"]
    made = {line.removesuffix(" ...") for line in said if line.endswith(" ...")}
    assert "+RNN.seed1.2017" in made
    assert all(name.startswith("annotate.") or name.endswith(".2017") for name in made)


def test_another_training_repeats_nothing_and_adds_its_runs(ran: Ran, copy: Path) -> None:
    more, said = ran.again(copy, "trainings = 2", "rows = ['baseline', '+RNN']")
    made = {line.removesuffix(" ...") for line in said if line.endswith(" ...")}
    run = {f"+RNN.training2.seed1{end}" for end in (".tuning", "", ".2017")}
    again = {f"+RNN.against.baseline{end}" for end in ("", ".2017")}
    # The network was trained for the ensemble.
    assert made == {"annotate.phrase-table.rnn-2", *run, *again}
    row = more["rows"]["+RNN"]
    assert [(one["training"], one["seed"]) for one in row["seeds"]] == [(1, 1), (2, 1)]
    assert row["seeds"][0]["test_bleu"] == ran.rows["+RNN"]["test_bleu"]["mean"]
    assert row["test_bleu"]["training"] == pytest.approx(row["test_bleu"]["standard_deviation"])
    assert row["test_bleu"]["tuning"] is None
    runs = [copy / "rows" / f"+RNN{name}.seed1" / "test.out" for name in ("", ".training2")]
    p_value = p_value_over_runs(runs, [ran.translation(BASELINE)], [copy / "data" / "test.fr"], "none")
    assert row["against"][BASELINE]["p_value"] == p_value
    assert "| test BLEU | ± training | against baseline | p |" in shown(summary(more))


def test_finished_steps_stay_finished_in_a_moved_folder(ran: Ran, copy: Path, tmp_path: Path) -> None:
    for name in (f"{RESCORED}.seed1", f"{RESCORED}.translating"):
        (copy / "steps" / f"{name}.json").unlink()
    moved, said = ran.again(copy.rename(tmp_path / "moved"))
    assert moved["rows"][RESCORED]["test_bleu"] == ran.rows[RESCORED]["test_bleu"]
    assert {line.partition(":")[0] for line in said if not line.endswith(("done before", "..."))} == {
        f"{RESCORED}.seed1",
        f"{RESCORED}.translating",
    }


def test_steps_that_depend_on_changed_settings_run_again(ran: Ran, copy: Path) -> None:
    (copy / "prepared" / "dev.reference7").write_text("of an earlier data set\n")
    changed, _ = ran.again(copy, 'rows = ["+RNN"]', "network.hidden = 8", "build.order = 3")
    assert changed["networks"]["rnn"]["config"]["model"]["hidden"] == 8
    assert not (copy / "prepared" / "dev.reference7").exists()
