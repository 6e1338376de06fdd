from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from experiments.ablation.config import Config, read_config
from experiments.ablation.report import side_by_side, table, write_report
from experiments.ablation.rows import BASELINE, Row, extended_by
from experiments.ablation.run import Ablation
from experiments.steps import Steps
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError

CONFIGS = Path(__file__).parents[2] / "experiments" / "ablation" / "configs"


def silent(text: str) -> None:
    pass


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_configurations_are_valid(path: Path) -> None:
    config = read_config(path)
    assert config.rows[0].name == BASELINE
    assert len(config.seeds) > 1


def test_network_options_become_those_of_train(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n[network]\nmax_minutes = 2\npreset = 'small'\n")
    config = read_config(tmp_path / "a.toml")
    assert config.network == ("--max-minutes", "2", "--preset", "small")
    assert config.seeds == (7,)


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
        ("rows = [", "is not TOML"),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match=message.replace("+", r"\+")):
        read_config(tmp_path / "a.toml")


def test_a_row_is_its_parts() -> None:
    row = Row.parse("+WP+CSLM+RNN")
    assert row == Row.parse(row.name)
    assert row.name == "+RNN+CSLM+WP"
    assert Row.parse(BASELINE).name == BASELINE
    assert [(column.name, column.width) for column in row.columns()] == [("rnn-wp", 2)]
    assert (row.listed, row.decoded) == ((), row)
    listed = Row.parse("+RNN+CSLM+RESCORING+S2S")
    assert (listed.listed, listed.decoded.name) == (("CSLM", "S2S"), "+RNN")
    assert Row.parse("+CSLM+S2S").decoded.name == "+CSLM"
    many = Row.parse("+RNN+REVERSE+ENSEMBLE+PER-WORD").columns()
    assert [(column.name, len(column.networks)) for column in many] == [("ensemble-per-word", 3), ("reverse", 1)]


def test_a_row_is_compared_with_the_largest_that_it_extends() -> None:
    rows = [Row.parse(name) for name in (BASELINE, "+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP")]
    names = [other.name if (other := extended_by(row, rows)) else None for row in rows]
    assert names == [None, None, None, "+RNN", "+RNN+CSLM"]


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


def fake_row(dev: float, tests: list[float]) -> dict[str, Any]:
    seeds = [
        {"seed": i, "dev_bleu": dev, "test_bleu": t, "signature": "sig", "weights": {}} for i, t in enumerate(tests)
    ]
    mean = sum(tests) / len(tests)
    return {
        "seeds": seeds,
        "seconds": 60.0,
        "dev_bleu": {"mean": dev, "standard_deviation": 0.0},
        "test_bleu": {"mean": mean, "standard_deviation": 0.5},
        "against": {BASELINE: {"difference": 1.5, "p_value": 0.0123}},
    }


def fake_report() -> dict[str, Any]:
    part = {"sentences": 10, "references": 1}
    return {
        "toolkit": "embedded",
        "data": {
            "settings": {"name": "toy", "source": "en", "target": "fr"},
            "sizes": {"train": part, "dev": part, "test": part},
        },
        "build": {"tables": {"phrase_pairs": 1234}},
        "networks": {"rnn": {"best": {"held_out": {"per_pair": 2.5}, "validation": None}}},
        "rows": {BASELINE: {**fake_row(50.0, [40.0, 41.0]), "against": {}}, "+RNN": fake_row(51.0, [41.5, 42.5])},
    }


def test_the_table_shows_difference_and_significance(tmp_path: Path) -> None:
    text = table(fake_report())
    assert "| +RNN | 51.00 ± 0.00 | 42.00 ± 0.50 | +1.50 (p = 0.0123) |  | 1.0 min |" in text
    assert "rnn: 2.50 nats per pair on held-out pairs of the table.\n" in text
    write_report(fake_report(), tmp_path)
    assert (tmp_path / "report.md").read_text() == text
    assert (tmp_path / "bleu.png").read_bytes().startswith(b"\x89PNG")


def test_examples_are_sentences_translated_differently(tmp_path: Path) -> None:
    texts = {"source": "a\nb\nc\n", "reference": "A\nB\nC\n", "base": "x\ny\nz\n", "other": "x\nY\nz\n"}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    outputs = {BASELINE: tmp_path / "base", "+RNN": tmp_path / "other"}
    shown = side_by_side(tmp_path / "source", [tmp_path / "reference"], outputs, 5)
    assert shown == "source     b\nreference  B\nbaseline   y\n+RNN       Y\n"


@pytest.mark.timeout(300)
def test_an_ablation_from_text_to_report(tmp_path: Path, multi30k_of_mini: Path) -> None:
    """The whole way on a few sentences; run again, it finds everything done."""
    (tmp_path / "a.toml").write_text("""
        toolkit = "embedded"
        seeds = [1]
        rows = ["baseline", "+RNN", "+RNN+CSLM+WP", "+RNN+CSLM+RESCORING+S2S", "+RNN+REVERSE+ENSEMBLE"]
        [build]
        aligner = "ibm1"
        order = 2
        [decoder]
        stack = 50
        [network]
        max_updates = 5
        hidden = 16
        [language_model]
        max_updates = 5
        order = 3
        embedding = 4
        first_hidden = 5
        second_hidden = 4
        [sentence_network]
        max_updates = 5
        hidden = 16
        [tuning]
        nbest = 10
        iterations = 1
        restarts = 1
    """)
    config: Config = read_config(tmp_path / "a.toml")
    said: list[str] = []
    folder = tmp_path / "out"
    report = Ablation(config, folder, {"origin": multi30k_of_mini}, said.append, processes=1).run()
    rows = report["rows"]
    widths = {name: len(row["seeds"][0]["weights"]["TranslationModel0"]) for name, row in rows.items()}
    assert list(widths.values()) == [4, 5, 6, 5, 6]
    assert [("CSLM0" in row["seeds"][0]["weights"]) for row in rows.values()] == [False, False, True, False, False]
    assert {"CSLM", "S2S"} <= rows["+RNN+CSLM+RESCORING+S2S"]["seeds"][0]["weights"].keys()
    assert set(report["networks"]) == {"rnn", "rnn-2", "rnn-3", "reverse", "cslm", "s2s"}
    assert set(rows["+RNN"]["against"]) == {BASELINE}
    assert set(rows["+RNN+CSLM+WP"]["against"]) == {BASELINE, "+RNN"}
    assert all(0 <= one["p_value"] <= 1 for one in rows["+RNN+CSLM+WP"]["against"].values())
    assert report["rows"][BASELINE]["test_bleu"]["mean"] > 20
    assert json.loads((folder / "report.json").read_bytes())["rows"].keys() == report["rows"].keys()
    assert MosesIni.read(folder / "rows" / "baseline.seed1" / "moses.ini").values("stack") == ["50"]
    said.clear()
    again = Ablation(config, folder, {"origin": multi30k_of_mini}, said.append, processes=1)
    assert again.run()["rows"] == report["rows"]
    assert all(line.endswith("done before") for line in said)
    assert again.examples(3).startswith("source") or again.examples(3) == "\n"
    shutil.rmtree(folder)
