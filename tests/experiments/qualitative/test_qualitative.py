from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from safetensors.torch import load_file

from experiments.markdown import figures
from experiments.qualitative import probes
from experiments.qualitative.__main__ import analyse
from experiments.qualitative.loaded_table import LoadedTable, load_table
from experiments.qualitative.pictures import place_labels
from experiments.qualitative.probes import Probes, Settings, correlations, pair_scores, similar_in_words
from phrasescore.errors import UserError
from phrasescore.model_folder import save_tensors
from phrasescore.pictures import write_figure
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.table.reader import TableReader
from phrasescore.text import no_log
from tests.conftest import DATA, MINI
from tests.pictures import labels

MODEL, TABLE = DATA / "stored-model", MINI / "phrase-table.gz"
SMALL = Settings(pairs=200, phrases=60, words=60)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("qualitative") / "report"
    analyse(MODEL, TABLE, output, SMALL, "cpu", no_log)
    return output


@pytest.fixture(scope="module")
def report(folder: Path) -> Any:
    return json.loads((folder / "report.json").read_bytes())


def test_the_files_of_a_report(folder: Path, report: Any) -> None:
    pictures = {"scatter.svg", "words.svg", "phrases.svg"}
    assert set(report["files"]) == pictures
    assert {path.name for path in folder.iterdir()} == pictures | {"report.json", "report.md"}
    for name in pictures:
        assert (folder / name).read_bytes().startswith(b"<?xml")
    text = (folder / "report.md").read_text()
    for part in ("| retrieval, phrases | ", "![](phrases.svg)"):
        assert part in text


def test_figures_are_named_by_the_keys_that_lead_to_them() -> None:
    found = figures({"order": {"mean_margin": 1.2345, "pairs": 5000, "nothing": None}, "where": {"on": "cpu"}})
    assert list(found) == [("order, mean margin", "1.23"), ("order, pairs", "5,000"), ("where, on", "cpu")]


def test_where_the_numbers_come_from(report: Any) -> None:
    about = report["provenance"]
    assert about["table"]["pairs"] == 19_385
    assert len(about["model"]["sha256"]) == len(about["table"]["sha256"]) == 64
    assert about["settings"]["pairs"] == 200


def test_even_a_little_network_tells_good_from_bad(report: Any) -> None:
    probes = report["probes"]
    ranks = probes["retrieval"]["mean_reciprocal_rank"]
    assert ranks["phrase_vector"] > 2 * ranks["random"]
    assert probes["order"]["target"]["accuracy"] > 0.8
    assert probes["wrong_word"]["accuracy"] > 0.7
    assert probes["noise"]["area_under_curve"] > 0.7
    assert probes["noise"]["noise_below"] > probes["noise"]["true_below"]


def test_the_same_seed_gives_the_same_report(folder: Path, report: Any, tmp_path: Path) -> None:
    again = analyse(MODEL, TABLE, tmp_path, SMALL, "cpu", no_log)
    assert json.loads(json.dumps({**again, "seconds": 0})) == {**report, "seconds": 0}
    assert (tmp_path / "phrases.svg").read_bytes() == (folder / "phrases.svg").read_bytes()


@pytest.fixture(scope="module")
def table() -> LoadedTable:
    return load_table(TableReader(TABLE))


def scores_of(log_prob: list[float]) -> NDArray[np.float64]:
    return np.array(log_prob)


def test_each_vector_has_its_own_rank(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: EncoderDecoderScorer
) -> None:
    """Source and target vectors are ranked separately.

    Phrase vectors that identify the target have a mean reciprocal rank of 1. Vectors that identify only the
    source phrase do not find its paraphrases.
    """
    target_of = dict(zip(table.inputs, (table.outputs[pair] for pair in table.best_pair_S()), strict=True))

    def by(key: Callable[[bytes], bytes]) -> Callable[[EncoderDecoderScorer, list[bytes]], Any]:
        def vectors(scorer: EncoderDecoderScorer, phrases: list[bytes]) -> Any:
            return np.stack([np.random.default_rng(crc32(key(one))).standard_normal(64) for one in phrases])

        return vectors

    monkeypatch.setattr(probes, "phrase_vectors", by(lambda phrase: target_of[phrase]))
    monkeypatch.setattr(probes, "bag_of_embeddings", by(lambda phrase: phrase))
    found = Probes(scorer, table, SMALL).retrieval()
    assert found["mean_reciprocal_rank"]["phrase_vector"] == pytest.approx(1)
    assert found["mean_reciprocal_rank"]["bag_of_embeddings"] < 0.5
    assert found["mean_reciprocal_rank"].keys() == found["mean_reciprocal_rank_of_other_words"].keys()


def test_paraphrases_in_like_words_can_be_left_out(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: EncoderDecoderScorer
) -> None:
    excluded: list[Any] = []

    def rank(vectors: Any, groups: Any, without: Any = None) -> float:
        excluded.append(without)
        return 0.0

    monkeypatch.setattr(probes, "mean_reciprocal_rank", rank)
    Probes(scorer, table, SMALL).retrieval()
    assert [without is None for without in excluded] == [True] * 3 + [False] * 3


def test_both_sides_are_shuffled_each_for_itself(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: EncoderDecoderScorer
) -> None:
    pairs = {(table.inputs[s], table.outputs[p]) for p, s in enumerate(table.input_of_pair_P)}
    outputs = set(table.outputs)

    def made_up(scorer: EncoderDecoderScorer, sources: list[bytes], targets: list[bytes]) -> NDArray[np.float64]:
        """Score a pair of the table 2, an unknown target -1, and a known target of another source 3."""
        kinds = (
            2.0 if (s, t) in pairs else 3.0 if t in outputs else -1.0 for s, t in zip(sources, targets, strict=True)
        )
        return scores_of(list(kinds))

    monkeypatch.setattr(probes, "pair_scores", made_up)
    found = Probes(scorer, table, SMALL).order()
    assert found["target"]["accuracy"] > 0.9
    assert found["source"]["accuracy"] < 0.1


def test_a_threshold_is_measured_where_it_was_not_chosen(
    monkeypatch: pytest.MonkeyPatch, table: LoadedTable, scorer: EncoderDecoderScorer
) -> None:
    chosen_on: list[Any] = []
    measured_on: list[Any] = []

    def choose(true: Any, noise: Any) -> float:
        chosen_on.extend([true, noise])
        return -1.0

    def area(true: Any, noise: Any) -> float:
        measured_on.extend([true, noise])
        return 0.5

    monkeypatch.setattr(probes, "best_threshold", choose)
    monkeypatch.setattr(probes, "area_under_curve", area)
    found = Probes(scorer, table, SMALL).noise()
    assert [len(one) for one in chosen_on + measured_on] == [found["pairs"] // 2] * 2 + [-(-found["pairs"] // 2)] * 2
    for chosen, measured in zip(chosen_on, measured_on, strict=True):
        assert chosen.tolist() != measured[: len(chosen)].tolist()
    assert found["true_below"] == pytest.approx((measured_on[0] < -1).mean())
    assert found["noise_below"] == pytest.approx((measured_on[1] < -1).mean())


def test_pairs_have_the_scores_that_are_stored(scorer: EncoderDecoderScorer) -> None:
    stored = [line.split(b"\t") for line in (DATA / "stored-model-scores.tsv").read_bytes().splitlines()]
    found = pair_scores(scorer, [source for source, _, _ in stored], [target for _, target, _ in stored])
    assert found == pytest.approx([float(score) for _, _, score in stored], abs=1e-4)


def test_correlations_of_a_monotone_relation() -> None:
    table = pd.Series([-3.0, -2.0, -1.0, 0.0])
    found = correlations(pd.DataFrame({"table": table, "network": -np.exp(-table), "network_per_word": -table}))
    assert found["spearman"] == pytest.approx(1)
    assert found["spearman_per_word"] == pytest.approx(-1)
    assert 0.8 < found["pearson"] < 1
    constant = pd.DataFrame({"table": [0.0, 0.0], "network": [-1.0, -2.0], "network_per_word": [-1.0, -2.0]})
    assert correlations(constant)["pearson"] is None


def test_dollar_signs_in_a_label_are_no_formula(tmp_path: Path) -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots()
    place_labels(axis, np.full((1, 2), 0.5), ["$$ and $a_$"])
    write_figure(figure, tmp_path / "map.svg")
    assert "$$ and $a_$" in labels(tmp_path / "map.svg")


def test_labels_without_room_are_left_out() -> None:
    from matplotlib import pyplot as plt

    figure, axis = plt.subplots(figsize=(4, 4))
    crowd = np.full((30, 2), 0.5) + np.arange(30)[:, None] * 1e-3
    axis.set_xlim(0, 1)
    axis.set_ylim(0, 1)
    place_labels(axis, crowd, ["the same long label for all of them"] * 30)
    boxes = [text.get_window_extent() for text in axis.texts]
    assert 1 < len(boxes) < 30
    for index, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:index])
    plt.close(figure)


def test_phrases_with_identical_words() -> None:
    similar = similar_in_words([b"a b c", b"a b d", b"a e f", b"x"])
    assert [one.tolist() for one in similar] == [[0, 1], [0, 1], [2], [3]]


def test_phrases_too_short_for_a_map(tmp_path: Path) -> None:
    lines = [
        line for line in gzip.decompress(TABLE.read_bytes()).splitlines(keepends=True) if line.split()[1] == b"|||"
    ]
    (tmp_path / "table").write_bytes(b"".join(lines))
    analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", no_log)
    files = json.loads((tmp_path / "report/report.json").read_bytes())["files"]
    assert "words.svg" in files
    assert "phrases.svg" not in files


def test_a_table_without_probabilities(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0 0 0 0\n")
    with pytest.raises(UserError, match="is 0, which is not a probability"):
        analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", no_log)
    assert not (tmp_path / "report").exists()


def test_a_table_without_moses_scores(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| b ||| 0.5\n")
    with pytest.raises(UserError, match="has 1 score columns"):
        analyse(MODEL, tmp_path / "table", tmp_path / "report", SMALL, "cpu", no_log)


def test_a_network_of_the_other_direction_is_rejected(tmp_path: Path) -> None:
    """A target-to-source network is an error, because the report assumes target given source."""
    reverse = shutil.copytree(MODEL, tmp_path / "reverse")
    description = json.loads((reverse / "config.json").read_bytes())
    (reverse / "config.json").write_text(json.dumps({**description, "direction": "source-given-target"}))
    save_tensors(reverse, load_file(reverse / "weights.safetensors"))
    with pytest.raises(UserError, match="reverse: was trained for source-given-target; give a network trained for"):
        analyse(reverse, TABLE, tmp_path / "report", SMALL, "cpu", no_log)
    assert not (tmp_path / "report").exists()
