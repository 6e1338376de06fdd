from __future__ import annotations

import json
from pathlib import Path

import pytest

from experiments.seq2seq.config import read_config
from experiments.seq2seq.report import table
from experiments.seq2seq.run import Comparison
from phrasescore.errors import UserError

CONFIGS = Path(__file__).parents[2] / "experiments" / "seq2seq" / "configs"

SMALL = """
    title = "Two translators"
    [common]
    hidden = 8
    embedding = 4
    output-rank = 0
    readout = "state"
    feed-context = false
    min-count = 2
    max-updates = 4
    [[systems]]
    name = "plain"
    published = { perplexity = 10.6 }
    [[systems]]
    name = "more"
    extends = "plain"
    options = { attention = "general", readout = "attentional" }
    [[searches]]
    beam = 1
    [[searches]]
    beam = 3
    length-penalty = "wu"
"""


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_options_are_those_of_the_commands(path: Path) -> None:
    """Every option of every system is one of `train`, with a value that it takes; and so for searches."""
    from experiments.toml import command_options
    from phrasescore.cli import make_parser

    config, parser = read_config(path), make_parser()
    for system in config.systems:
        parser.parse_args(["train", "--source", "a", "--target", "b", "-o", "c", *system.command])
    for search in config.searches:
        parser.parse_args(["translate", "a", "-m", "b", *command_options(search)])


def test_a_system_has_what_it_extends(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(SMALL)
    plain, more = read_config(tmp_path / "a.toml", ["common.hidden = 9"]).systems
    assert "--no-feed-context" in plain.command
    assert plain.options.items() - more.options.items() == {("readout", "state")}
    assert more.options["hidden"] == 9


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 'x'", r"has no \[\[systems\]\]"),
        ("[[system]]\nname = 'x'", "has system; known are"),
        ("[[systems]]\nname = 'x'\nextends = 'y'", "system `x` has no name of its own, or extends none"),
        ("[[systems]]\nname = 'x'\n[[systems]]\nname = 'x'", "system `x`"),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match=message):
        read_config(tmp_path / "a.toml")


def test_a_comparison_from_text_to_table(tmp_path: Path, multi30k_of_mini: Path) -> None:
    """The whole way on a few sentences; run again, it finds everything done."""
    (tmp_path / "a.toml").write_text(SMALL)
    config, folder = read_config(tmp_path / "a.toml"), tmp_path / "out"
    said: list[str] = []
    report = Comparison(config, folder, multi30k_of_mini, "cpu", said.append).run()
    assert list(report["systems"]) == ["plain", "more"]
    perplexity = report["systems"]["plain"]["perplexity"]
    assert min(perplexity.values()) > 10
    assert abs(perplexity["tutorial"] / perplexity["free_running"] - 1) < 0.2
    assert report["systems"]["more"]["parameters"] > report["systems"]["plain"]["parameters"]
    assert [len(system["searches"]) for system in report["systems"].values()] == [2, 2]
    assert json.loads((folder / "report.json").read_bytes())["systems"].keys() == report["systems"].keys()
    text = table(report)
    assert "| plain | perplexity 10.6 | " in text
    assert "BLEU, beam 3, length penalty wu" in text
    said.clear()
    assert Comparison(config, folder, multi30k_of_mini, "cpu", said.append).run()["systems"] == report["systems"]
    assert all(line.endswith("done before") for line in said)
