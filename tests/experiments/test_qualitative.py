from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from experiments.qualitative import preferences, probes, prune, pruned_systems
from experiments.qualitative.__main__ import analyse
from experiments.qualitative.agreement import correlations
from experiments.qualitative.labels import place_labels
from experiments.qualitative.maps import Region, dense_regions
from experiments.qualitative.preferences import choose_sources
from experiments.qualitative.probes import Probes, alike_in_words
from experiments.qualitative.settings import Settings
from phrasescore.analysis.loaded_table import LoadedTable, load_table
from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.model_folder import load_model
from phrasescore.pictures import write_figure
from phrasescore.scoring.engine import Scorer, Scores
from phrasescore.table.reader import TableReader
from tests.conftest import DATA, MINI
from tests.pictures import labels

MODEL, TABLE, FIVE = DATA / "stored-model", MINI / "phrase-table.gz", MINI / "phrase-table.5.gz"
SMALL = Settings(sources=2, samples=20, pairs=200, phrases=60, words=60, regions=2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("qualitative") / "report"
    analyse(MODEL, TABLE, output, SMALL, "cpu", lambda text: None)
    return output


@pytest.fixture(scope="module")
def report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_bytes())


def test_the_files_of_a_report(folder: Path, report: Any) -> None:
    pictures = {f"{name}.{suffix}" for name in ("scatter", "noise", "words", "phrases") for suffix in ("png", "svg")}
    assert set(report["files"]) == pictures
    assert {path.name for path in folder.iterdir()} == pictures | {"report.json", "report.md"}
    for name in pictures:
        head = (folder / name).read_bytes()[:5]
        assert head == (b"\x89PNG\r" if name.endswith("png") else b"<?xml")
    text = (folder / "report.md").read_text()
    for part in ("Long frequent sources", "Long rare sources", "bag of embeddings", "![](phrases.png)"):
        assert part in text


def test_where_the_numbers_come_from(report: Any) -> None:
    about = report["provenance"]
    assert about["table"]["pairs"] == 19_385
    assert len(about["model"]["weights_sha256"]) == len(about["table"]["sha256"]) == 64
    assert about["settings"]["pairs"] == 200


def test_preferred_targets_are_in_order(report: Any) -> None:
    assert {name: len(rows) for name, rows in report["preferences"].items()} == {"frequent": 2, "rare": 2}
    for row in [*report["preferences"]["frequent"], *report["preferences"]["rare"]]:
        assert len(row["source"].split()) >= 4
        probabilities = [one["probability"] for one in row["by_table"]]
        scores = [one["ln_p"] for one in row["by_network"]]
        assert probabilities == sorted(probabilities, reverse=True)
        assert scores == sorted(scores, reverse=True)
        assert len(scores) == 3
        assert 0 <= row["samples_in_table"] <= 1


def test_even_a_little_network_tells_good_from_bad(report: Any) -> None:
    probes = report["probes"]
    ranks = probes["retrieval"]["mean_reciprocal_rank"]
    assert ranks["phrase_vector"] > 2 * ranks["random"]
    assert probes["order"]["target"]["accuracy"] > 0.8
    assert probes["wrong_word"]["accuracy"] > 0.7
    assert probes["noise"]["area_under_curve"] > 0.7
    assert probes["noise"]["noise_below"] > probes["noise"]["true_below"]


def test_the_same_seed_gives_the_same_report(folder: Path, report: Any, tmp_path: Path) -> None:
    again = analyse(MODEL, TABLE, tmp_path, SMALL, "cpu", lambda text: None)
    assert json.loads(json.dumps({**again, "seconds": 0})) == {**report, "seconds": 0}
    assert (tmp_path / "phrases.svg").read_bytes() == (folder / "phrases.svg").read_bytes()


def test_sources_are_long_and_have_a_choice_of_targets() -> None:
    table = load_table(TableReader(TABLE), "target-given-source")
    for name, sources in choose_sources(table).items():
        assert sources
        for source in sources:
            assert table.inputs[source].count(b" ") >= 3
            assert len(table.pairs_of(source)) >= 3
            assert (name == "rare") == (table.input_count_S[source] <= 5)


@pytest.fixture(scope="module")
def table() -> LoadedTable:
    return load_table(TableReader(TABLE), "target-given-source")


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    return Scorer(load_model(MODEL), choose_device("cpu", "fp32"))


def scores_of(log_prob: list[float]) -> Scores:
    nothing = np.zeros(len(log_prob), np.int64)
    return Scores(np.array(log_prob), nothing + 1, nothing, nothing, "target-given-source")


def test_the_best_targets_are_shown_and_not_others(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: Scorer
) -> None:
    def made_up(scorer: Scorer, sources: list[bytes], targets: list[bytes]) -> Scores:
        return scores_of([-float(crc32(target)) for target in targets])

    monkeypatch.setattr(preferences, "pair_scores", made_up)
    rows = preferences.preferences(scorer, table, replace(SMALL, sources=20))["frequent"]
    assert max(row["targets"] for row in rows) > 3
    for row in rows:
        pairs = table.pairs_of(table.inputs.index(row["source"].encode()))
        targets = [table.outputs[pair] for pair in pairs]
        by_network = sorted(targets, key=crc32)[:3]
        assert [one["target"].encode() for one in row["by_network"]] == by_network
        best = sorted(table.probability_P[pairs].tolist(), reverse=True)[:3]
        assert [one["probability"] for one in row["by_table"]] == pytest.approx(best)


def test_each_vector_has_its_own_rank(monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: Scorer) -> None:
    """Vectors that tell the target are never wrong; those that tell the source's words find none of other words."""
    target_of = dict(zip(table.inputs, (table.outputs[pair] for pair in table.best_pair_S()), strict=True))

    def by(key: Callable[[bytes], bytes]) -> Callable[[Scorer, list[bytes]], Any]:
        def vectors(scorer: Scorer, phrases: list[bytes]) -> Any:
            return np.stack([np.random.default_rng(crc32(key(one))).standard_normal(64) for one in phrases])

        return vectors

    monkeypatch.setattr(probes, "phrase_vectors", by(lambda phrase: target_of[phrase]))
    monkeypatch.setattr(probes, "bag_of_embeddings", by(lambda phrase: phrase))
    found = Probes(scorer, table, SMALL).retrieval()
    assert found["mean_reciprocal_rank"]["phrase_vector"] == pytest.approx(1)
    assert found["mean_reciprocal_rank"]["bag_of_embeddings"] < 0.5
    assert found["mean_reciprocal_rank"].keys() == found["mean_reciprocal_rank_of_other_words"].keys()


def test_paraphrases_in_like_words_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: Scorer
) -> None:
    excluded: list[Any] = []

    def rank(vectors: Any, groups: Any, without: Any = None) -> float:
        excluded.append(without)
        return 0.0

    monkeypatch.setattr(probes, "mean_reciprocal_rank", rank)
    Probes(scorer, table, SMALL).retrieval()
    assert [without is None for without in excluded] == [True] * 3 + [False] * 3


def test_both_sides_are_shuffled_each_for_itself(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: Scorer
) -> None:
    pairs = {(table.inputs[s], table.outputs[p]) for p, s in enumerate(table.input_of_pair_P)}
    outputs = set(table.outputs)

    def made_up(scorer: Scorer, sources: list[bytes], targets: list[bytes]) -> Scores:
        """2 for a pair of the table, -1 for a target that it has not, 3 for another source of one that it has."""
        kinds = (
            2.0 if (s, t) in pairs else 3.0 if t in outputs else -1.0 for s, t in zip(sources, targets, strict=True)
        )
        return scores_of(list(kinds))

    monkeypatch.setattr(probes, "pair_scores", made_up)
    found = Probes(scorer, table, SMALL).order()
    assert found["target"]["accuracy"] > 0.9
    assert found["source"]["accuracy"] < 0.1


def test_a_threshold_is_measured_where_it_was_not_chosen(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: Scorer
) -> None:
    chosen_on: list[Any] = []

    def choose(true: Any, noise: Any) -> float:
        chosen_on.extend([true, noise])
        return -1.0

    monkeypatch.setattr(probes, "best_threshold", choose)
    found, true, noise = Probes(scorer, table, SMALL).noise()
    half = len(true) // 2
    assert [one.tolist() for one in chosen_on] == [true[:half].tolist(), noise[:half].tolist()]
    assert found["noise_below"] == pytest.approx((noise[half:] < -1).mean())
    assert found["true_below"] == pytest.approx((true[half:] < -1).mean())


def test_correlations_of_a_monotone_relation() -> None:
    table = pd.Series([-3.0, -2.0, -1.0, 0.0])
    found = correlations(pd.DataFrame({"table": table, "network": -np.exp(-table), "network_per_word": -table}))
    assert found["spearman"] == pytest.approx(1)
    assert found["spearman_per_word"] == pytest.approx(-1)
    assert 0.8 < found["pearson"] < 1
    constant = pd.DataFrame({"table": [0.0, 0.0], "network": [-1.0, -2.0], "network_per_word": [-1.0, -2.0]})
    assert correlations(constant)["pearson"] is None


def test_regions_are_the_dense_places() -> None:
    random = np.random.default_rng(1)
    crowds = [centre + random.standard_normal((20, 2)) * 0.05 for centre in ((0.0, 0.0), (5.0, 5.0))]
    points = np.concatenate((random.uniform(-10, 10, (300, 2)), *crowds))
    first, second = dense_regions(points, 2)
    assert {round(first.x), round(second.x)} == {0, 5}
    assert len(first.holds(points)) >= 15
    assert not first.is_near(second)
    assert Region(0, 0, 1).is_near(Region(3.5, 0.5, 1))
    assert not Region(0, 0, 1).is_near(Region(4.5, 0.5, 1))


def test_dollar_signs_in_a_label_are_no_formula(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots()
    assert place_labels(axis, np.full((1, 2), 0.5), ["$$ and $a_$"], 9, "black") == 1
    write_figure(figure, tmp_path / "map.svg")
    assert "$$ and $a_$" in labels(tmp_path / "map.svg")


def test_labels_do_not_hide_each_other() -> None:
    from matplotlib import pyplot as plt
    from matplotlib.text import Text

    figure, axis = plt.subplots(figsize=(4, 4))
    points = np.array([[0.5, 0.5], [0.52, 0.5], [0.5, 0.53], [0.05, 0.95]])
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    assert place_labels(axis, points, ["one label", "another label", "a third", "a corner"], 9, "black") == 4
    figure.canvas.draw()
    frame = axis.get_window_extent()
    # The extent of an annotation would include its line.
    boxes = [Text.get_window_extent(text) for text in axis.texts]
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
        assert frame.x0 <= box.x0
        assert box.x1 <= frame.x1
    # No room at all: no label rather than a heap of them.
    crowd = np.full((30, 2), 0.5) + np.arange(30)[:, None] * 1e-3
    assert place_labels(axis, crowd, ["the same long label for all of them"] * 30, 9, "black") < 30
    plt.close(figure)


def test_phrases_alike_in_words() -> None:
    alike = alike_in_words([b"a b c", b"a b d", b"a e f", b"x"])
    assert [one.tolist() for one in alike] == [[0, 1], [0, 1], [2], [3]]


def run_prune(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["prune", str(TABLE), *map(str, arguments)])
    return prune.run(prune.parse_arguments())


def test_pruning_from_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out.gz"
    options: list[str | Path] = ["-o", output, "--share", "0.05", "--by", "network", "-m", MODEL, "--device", "cpu"]
    assert run_prune(monkeypatch, *options) == 0
    lines = gzip.decompress(output.read_bytes()).splitlines()
    printed = json.loads(capsys.readouterr().out)
    assert printed["lines_written"] == len(lines) == 19_385 - round(0.05 * 19_385)
    assert printed["output"]["bytes"] == output.stat().st_size
    assert printed["output"]["sha256"] == hashlib.sha256(output.read_bytes()).hexdigest()
    assert printed["table"]["sha256"] == hashlib.sha256(TABLE.read_bytes()).hexdigest()
    assert printed["judge"]["weights"]["sha256"] == load_model(MODEL).weights_digest
    assert printed["judge"]["computing"].keys() == {"device", "precision"}
    assert "torch" in printed["machine"]["versions"]
    # What the share dropped is what lies below that score, but for pairs with the very same one.
    options = ["-o", output, f"--threshold={printed['best_dropped']}", *options[4:]]
    assert run_prune(monkeypatch, *options) == 0
    assert 0 < json.loads(capsys.readouterr().out)["lines_written"] - len(lines) < 5


def test_a_table_pruned_in_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "table.gz"
    shutil.copy(TABLE, table)
    monkeypatch.setattr("sys.argv", ["prune", str(table), "-o", str(table), "--share", "0.5", "--by", "random"])
    assert prune.run(prune.parse_arguments()) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["table"]["sha256"] == hashlib.sha256(TABLE.read_bytes()).hexdigest()
    assert printed["output"]["sha256"] == hashlib.sha256(table.read_bytes()).hexdigest()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--share", "0.5", "--by", "column", "--column", "9"], "has no score column 9"),
        (["--share", "0.5", "--by", "network", "-m", "nowhere"], "nowhere: is not a model folder"),
    ],
)
def test_faults_of_pruning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        run_prune(monkeypatch, "-o", tmp_path / "out.gz", *arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--share", "2", "--by", "random"], "argument --share: 2 is not a number from 0 to 1"),
        (["--share", "all", "--by", "random"], "argument --share: all is not a number from 0 to 1"),
        (["--by", "random"], "give --share, --threshold or both"),
        (
            ["--share", "0.5", "--by", "random", "--seed", "-1"],
            "argument --seed: -1 is not a number from 0 to 2147483647",
        ),
        (["--share", "0.5", "--by", "network"], "needs a network; give --model"),
        (["--share", "0.5", "--by", "column"], "needs the number of a score column"),
    ],
)
def test_wrong_usage_of_pruning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        run_prune(monkeypatch, "-o", "out.gz", *arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def pruned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ini: Path, *options: str) -> Any:
    """Return the report of `pruned_systems` on 20 sentences; the fifth column is a made-up score."""
    for language in ("en", "fr"):
        lines = (MINI / f"test.{language}").read_bytes().splitlines(keepends=True)[:20]
        (tmp_path / f"test.{language}").write_bytes(b"".join(lines))
    command = ["pruned_systems", ini, "--by", "column", "--column", "5", *options]
    command += ["--processes", "1", "--output", tmp_path / "report"]
    command += ["--source", tmp_path / "test.en", "--reference", tmp_path / "test.fr"]
    monkeypatch.setattr("sys.argv", [str(word) for word in command])
    assert pruned_systems.run(pruned_systems.parse_arguments()) == 0
    return json.loads((tmp_path / "report/report.json").read_bytes())


@pytest.mark.parametrize(("tokenise", "by_sacrebleu"), [(True, "13a"), (False, "none")])
def test_text_that_came_as_tokens_is_not_tokenised_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenise: bool, by_sacrebleu: str
) -> None:
    shutil.copytree(MINI, tmp_path / "system")
    preparation = {"source_language": "en", "target_language": "fr", "tokenise": tokenise, "casing": "keep"}
    (tmp_path / "system/preparation.json").write_text(json.dumps(preparation | {"escape": False}))
    [whole] = pruned(tmp_path, monkeypatch, tmp_path / "system/moses.5.ini", "--shares")["points"]
    assert f"|tok:{by_sacrebleu}|" in whole["signature"]


def test_bleu_of_pruned_systems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--shares", "0.6", "--thresholds=-30", "--prepared")
    report = pruned(tmp_path, monkeypatch, MINI / "moses.5.ini", *options)
    assert {path.name for path in (tmp_path / "report").iterdir()} == {"report.json", "report.md"}
    assert [(one["per_word"], one["share"], one["threshold"]) for one in report["points"]] == [
        (False, 0, None),
        (False, 0.6, None),
        (True, 0.6, None),
        (True, None, -30),
    ]
    whole, plain, per_word, nothing = report["points"]
    assert whole["lines_written"] == nothing["lines_written"] == 19_385
    assert whole["sha256"] == nothing["sha256"] == hashlib.sha256(gzip.decompress(FIVE.read_bytes())).hexdigest()
    assert (nothing["bleu"], nothing["p_value"]) == (whole["bleu"], 1)
    assert plain["lines_written"] == per_word["lines_written"] < 19_385
    assert plain["bytes"] < whole["bytes"]
    assert plain["sha256"] != per_word["sha256"]
    assert plain["bleu"] != whole["bleu"]
    assert "| score per word, share 60% |" in (tmp_path / "report/report.md").read_text()


def test_phrases_too_short_for_a_map(tmp_path: Path) -> None:
    lines = [
        line for line in gzip.decompress(TABLE.read_bytes()).splitlines(keepends=True) if line.split()[1] == b"|||"
    ]
    (tmp_path / "table").write_bytes(b"".join(lines))
    analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", lambda text: None)
    files = json.loads((tmp_path / "report/report.json").read_bytes())["files"]
    assert "words.png" in files
    assert "phrases.png" not in files


def test_a_table_without_probabilities(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0 0 0 0\n")
    with pytest.raises(UserError, match="has no probability above 0"):
        analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", lambda text: None)
    assert not (tmp_path / "report").exists()


def test_a_table_without_moses_scores(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5\n")
    with pytest.raises(UserError, match="has 1 score columns"):
        analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", lambda text: None)


def test_a_network_of_the_other_direction_is_refused(tmp_path: Path) -> None:
    """All is said in words of target given source."""
    reverse = shutil.copytree(MODEL, tmp_path / "reverse")
    description = json.loads((reverse / "config.json").read_bytes())
    (reverse / "config.json").write_text(json.dumps({**description, "direction": "source-given-target"}))
    # Without the digest of the description that they belonged to.
    save_file(load_file(reverse / "weights.safetensors"), reverse / "weights.safetensors")
    with pytest.raises(UserError, match="reverse: was trained for source-given-target; give a network trained for"):
        analyse(reverse, TABLE, tmp_path / "report", SMALL, "cpu", lambda text: None)
    assert not (tmp_path / "report").exists()


def test_a_table_that_can_be_read_once_only_is_refused_before_the_work(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for table in (Path("-"), tmp_path / "pipe"):
        with pytest.raises(UserError, match="cannot be read twice; give a file"):
            analyse(MODEL, table, tmp_path / "report", SMALL, "cpu", lambda text: None)
    assert not (tmp_path / "report").exists()
