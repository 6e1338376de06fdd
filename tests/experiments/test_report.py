from __future__ import annotations

import base64
import json
import re
import shutil
import struct
import sys
from argparse import Namespace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest

from experiments.report.__main__ import parse_arguments, run
from experiments.report.differences import choose, word_differences
from experiments.report.embedded import embedded
from experiments.report.loaded import LoadedAblation
from experiments.report.page import Contents, page
from experiments.report.results import results
from experiments.report.tuning import tuning
from phrasescore.errors import UsageError, UserError

VOID = {"meta", "br", "hr", "img", "input", "link", "circle", "line", "path", "polyline", "rect"}


class Checker(HTMLParser):
    """Notes tags that are not closed in order, and everything that would be fetched."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.links: list[str] = []
        self.ids: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [str(given[key]) for key in ("href", "src") if key in given]
        if given.get("id"):
            self.ids.add(str(given["id"]))
        if tag == "script":
            self.faults.append("a script")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.faults.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert checker.faults == []
    return checker


def row(test: list[float], against: dict[str, Any]) -> dict[str, Any]:
    iteration = {"weights": {}, "bleu": 50.25, "predicted": 51.5, "candidates": 10, "seconds": 1.0}
    seeds = [
        {
            "seed": number,
            "dev_bleu": 51.0,
            "test_bleu": bleu,
            "signature": "a<b",
            "weights": {"LM0": [0.25], "TranslationModel0": [0.1, 0.2, 0.3, 0.15]},
            "iterations": [iteration, iteration],
        }
        for number, bleu in enumerate(test, 1)
    ]
    means = {"mean": sum(test) / len(test), "standard_deviation": 0.5}
    dev = {"mean": 51.0, "standard_deviation": 0.0}
    return {"seeds": seeds, "seconds": 90.0, "dev_bleu": dev, "test_bleu": means, "against": against}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An ablation of two rows whose text has characters that HTML would take for its own."""
    folder = tmp_path / "ablation"
    part = {"sentences": 3, "references": 1}
    evaluation = {
        "update": 5,
        "epoch": 1.5,
        "seconds": 60.0,
        "training_loss": 3.0,
        "held_out": {"per_pair": 2.5, "per_word": 0.5},
        "validation": None,
        "best": True,
    }
    report = {
        "version": "0.1",
        "config": {
            "network": ["--hidden", "8"],
            "language_model": [],
            "rows": ["baseline", "+RNN"],
            "tuning": {"sentences": 0},
        },
        "toolkit": "embedded",
        "data": {
            "settings": {"name": "toy", "source": "en", "target": "fr"},
            "tokenised": True,
            "sizes": {"train": part, "dev": part, "test": part},
        },
        "build": {"tables": {"phrase_pairs": 1234}},
        "networks": {"rnn": {"config": {}, "best": evaluation, "evaluations": [evaluation]}},
        "rows": {
            "baseline": row([40.0, 41.0], {}),
            "+RNN": row([41.5, 42.5], {"baseline": {"difference": 1.5, "p_value": 0.0123}}),
        },
    }
    (folder / "data").mkdir(parents=True)
    (folder / "report.json").write_text(json.dumps(report))
    (folder / "data" / "test.en").write_text("a <b> & c\nd\ne\n")
    (folder / "data" / "test.fr").write_text("A <B> & C\nD\nE\n")
    for name, text in (("baseline", "A <B> C\nD\nX\n"), ("+RNN", "A <B> & C\nD\nE\n")):
        for seed in (1, 2):
            work = folder / "rows" / f"{name}.seed{seed}"
            work.mkdir(parents=True)
            (work / "test.out").write_text(text)
    return folder


@pytest.mark.parametrize(("p_value", "is_bold"), [(0.0123, True), (0.06, False)])
def test_what_chance_seldom_does_is_bold(folder: Path, p_value: float, is_bold: bool) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["rows"]["+RNN"]["against"]["baseline"]["p_value"] = p_value
    (folder / "report.json").write_text(json.dumps(report))
    html = page(Contents([LoadedAblation.read(folder)]))
    assert (f'<td class="significant">{p_value:.4f}</td>' in html) == is_bold
    assert f">{p_value:.4f}</td>" in html


def test_a_network_for_sentences_has_its_loss_too(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    network = report["networks"]["rnn"]
    for one in (network["best"], *network["evaluations"]):
        one |= {"held_out": None, "validation": {"teacher_forced_per_word": 1.25, "free_running_per_word": 4.5}}
    (folder / "report.json").write_text(json.dumps(report))
    texts = checked(page(Contents([LoadedAblation.read(folder)]))).texts
    assert {"1.250", "3.49", "kept: 1.25"} <= set(texts)


def test_the_best_row_is_not_one_whose_dev_bleu_flatters(folder: Path) -> None:
    loaded = LoadedAblation.read(folder)
    loaded.rows["+S2S"] = {**loaded.rows["+RNN"], "dev_bleu": {"mean": 99.0, "standard_deviation": 0.0}}
    assert loaded.best == "+RNN"
    del loaded.rows["+RNN"]
    assert loaded.best == "+S2S"


def test_the_line_of_the_plot_goes_through_what_the_table_compares_with(folder: Path) -> None:
    loaded = LoadedAblation.read(folder)
    before = results(loaded)
    loaded.report["rows"] = dict(reversed(loaded.rows.items()))
    assert list(loaded.rows) == ["+RNN", "baseline"]
    plots = [re.findall("<figure>.*?</figure>", html, re.DOTALL) for html in (before, results(loaded))]
    assert len(plots[0]) == 2
    assert plots[0] == plots[1]


def test_ablations_of_one_data_set_are_told_apart_by_their_folders(folder: Path, tmp_path: Path) -> None:
    other = shutil.copytree(folder, tmp_path / "again" / folder.name)
    third = shutil.copytree(folder, tmp_path / "third")
    html = page(Contents([LoadedAblation.read(one) for one in (folder, other, third)]))
    headings = re.findall("<h2>(.*?)</h2>", html)
    assert headings[:3] == [f"toy en-fr ({folder})", f"toy en-fr ({other})", "toy en-fr (third)"]
    assert len(re.findall(r'\bid="', html)) == len(checked(html).ids)


@pytest.mark.parametrize("suffix", [".md", ".json"])
def test_the_page_is_not_written_where_its_companions_go(folder: Path, suffix: str) -> None:
    output = folder / f"report{suffix}"
    before = output.exists() and output.read_bytes()
    args = Namespace(folders=[folder], qualitative=[], measurements=[], sentences=1, output=output)
    with pytest.raises(UsageError, match="is where the page's Markdown or JSON would go; give a name"):
        run(args)
    assert (output.exists() and output.read_bytes()) == before


def test_the_page_is_whole_and_fetches_nothing(folder: Path) -> None:
    html = page(Contents([LoadedAblation.read(folder)]))
    found = checked(html)
    text = " ".join(found.texts)
    for figure in ("42.00 ± 0.50", "+1.50", "0.0123", "1,234", "2.50"):
        assert figure in text
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= found.ids
    assert "<B>" not in html
    assert "against the rows it extends" not in html


def test_translations_stand_under_what_they_are(folder: Path) -> None:
    """The best row is better in the first and the last sentence and worse in the second."""
    for row, text in (("baseline", "A <B> C\nD\nX\n"), ("+RNN", "A <B> & C\nY\nE\n")):
        (folder / "rows" / f"{row}.seed1" / "test.out").write_text(text)
    html = page(Contents([LoadedAblation.read(folder)], sentences=1))
    text = " ".join(" ".join(checked(html).texts).split())
    order = [
        "Largest gains",
        "Sentence 3 +RNN +100",
        "Largest losses",
        "Sentence 2 +RNN -100",
        "At random",
        "Sentence 1",
    ]
    assert [text.index(heading) for heading in order] == sorted(text.index(heading) for heading in order)
    assert re.search(r"\+RNN 2 1 0 0", text)
    assert "<ins>Y</ins>" in html


def test_measured_bleu_is_drawn_in_one_line_and_promised_bleu_in_a_dashed_one(folder: Path) -> None:
    html = tuning(LoadedAblation.read(folder))
    drawn = re.findall(r'<polyline points="[\d.]+,([\d.]+)[^"]*" class="([^"]*)"', html)
    # In the report 50.25 was measured and 51.5 promised, and higher places have smaller numbers.
    measured, promised = ([float(y) for y, style in drawn if ("dashed" in style) == dashed] for dashed in (False, True))
    assert len(measured) == len(promised) == 4
    assert min(measured) > max(promised)


def test_the_options_of_all_networks_are_shown_and_of_no_others(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["config"]["sentence_network"] = ["--preset", "attention"]
    report["config"]["language_model"] = ["--self-normalise", "0.1"]
    report["networks"]["s2s"] = report["networks"]["rnn"]
    (folder / "report.json").write_text(json.dumps(report))
    texts = {*checked(page(Contents([LoadedAblation.read(folder)]))).texts}
    assert {"phrasescore train … --hidden 8", "phrasescore train --source … --preset attention"} <= texts
    assert not any("lm train" in shown for shown in texts)


def test_several_ablations_have_an_overview(folder: Path) -> None:
    both = page(Contents([LoadedAblation.read(folder)] * 2, sentences=0))
    assert "All data sets" in " ".join(checked(both).texts)


def test_what_is_missing_is_left_out(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["networks"] = {}
    del report["rows"]["+RNN"]
    (folder / "report.json").write_text(json.dumps(report))
    text = " ".join(checked(page(Contents([LoadedAblation.read(folder)]))).texts)
    assert "40.50 ± 0.50" in text
    # The row stands in the configuration still, but nowhere else.
    shown = text.split("Provenance of")[0]
    assert not any(word in shown for word in ("+RNN", "Largest gains", "Networks", "Cost"))


@pytest.mark.parametrize("content", ["{", "[]", '{"version": "0.1"}'])
def test_a_faulty_report_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(UserError, match=r"report\.json: "):
        LoadedAblation.read(tmp_path)


def add_language_model(folder: Path) -> None:
    """Add a network with losses per word, a row that decodes with it, and one that rescores with it."""
    report = json.loads((folder / "report.json").read_text())
    evaluation = {
        "update": 7,
        "epoch": 2.0,
        "seconds": 30.0,
        "training_loss": 2.5,
        "held_out": None,
        "validation": {"per_word": 2.0},
        "best": True,
    }
    scored = {
        "unnormalised": False,
        "weight": 0.61,
        "perplexity": {"network": 21.0, "backoff": 20.0, "interpolation": 17.0},
        "text": {"words": 220, "sentences": 20, "outside_shortlist": 3},
    }
    report["networks"]["cslm"] = {
        "config": {"model": {"order": 7}},
        "weights_sha256": "abc123",
        "best": evaluation,
        "evaluations": [evaluation],
        "perplexities": [scored, {**scored, "unnormalised": True}],
    }
    counts = {"lines_written": 1500, "pairs_clipped": 2}
    counts |= {"source_words": 100, "source_words_unknown": 4, "target_words": 200, "target_words_unknown": 1}
    report["tables"] = {"phrase-table.rnn": {"counts": counts}}
    report["machine"] = {"cpu": "a quick one", "versions": {"torch": "9.9"}}
    warm = {"seconds": 0.05, "queries": 300.0, "served": 0.995}
    inside, listed = row([43.0, 44.0], {}), row([42.0, 43.0], {})
    report["rows"]["baseline"]["translating"] = {
        "sentences": 3,
        "device": "cpu fp32",
        **{key: {"seconds": 0.04, "queries": 0.0, "served": None} for key in ("cold", "warm")},
    }
    cold = {"seconds": 0.5, "queries": 300.0, "served": 0.4}
    inside["translating"] = {"sentences": 3, "device": "cpu fp32", "cold": cold, "warm": warm}
    for one in listed["seeds"]:
        del one["iterations"]
    report["rows"] |= {"+CSLM": inside, "+CSLM+RESCORING": listed}
    (folder / "report.json").write_text(json.dumps(report))
    for name in ("+CSLM", "+CSLM+RESCORING"):
        (folder / "rows" / f"{name}.seed1").mkdir(parents=True)
        (folder / "rows" / f"{name}.seed1" / "test.out").write_text("A\nD\nE\n")


def test_a_language_model_has_perplexities_costs_and_losses_per_word(folder: Path) -> None:
    add_language_model(folder)
    text = " ".join(checked(page(Contents([LoadedAblation.read(folder)]))).texts)
    for figure in (
        "cslm, outputs taken for ln p",
        "-15.0%",
        "0.61",
        "nats per word",
        "kept: 2.00",
        "4.00%",
        "0.5000",
        "12.5",
        "99.5%",
        "+CSLM+RESCORING: tuned on one n-best list",
        "a quick one",
        "abc123",
    ):
        assert figure in text, figure


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """A report with a table and a picture, as other experiments write them."""
    other = tmp_path / "what it learnt"
    other.mkdir()
    text = "# Learnt\n\n| source | target |\n|---|---|\n| a | b <i><br>c |\n\n![](scatter.png)\n"
    (other / "report.md").write_text(text)
    (other / "report.json").write_text('{"probes": 0.5}')
    (other / "scatter.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(8) + struct.pack(">II", 400, 200) + bytes(100))
    return other


def test_the_reports_of_other_experiments_are_on_the_page(other: Path) -> None:
    html = embedded(other)
    found = checked(f"<div>{html}</div>")
    assert re.search(r"<h3>\s*Learnt</h3>", html)
    assert "b &lt;i&gt;<br>c" in html
    [picture] = found.links
    assert base64.b64decode(picture.removeprefix("data:image/png;base64,")) == (other / "scatter.png").read_bytes()
    (other / "scatter.svg").write_text("<svg/>")
    [picture] = checked(f"<div>{embedded(other)}</div>").links
    assert base64.b64decode(picture.removeprefix("data:image/svg+xml;base64,")) == b"<svg/>"


@pytest.mark.parametrize(("content", "message"), [(None, r"scatter\.png"), (b"GIF89a", "is not a PNG")])
def test_a_picture_that_cannot_be_shown(other: Path, content: bytes | None, message: str) -> None:
    (other / "scatter.png").unlink()
    if content is not None:
        (other / "scatter.png").write_bytes(content)
    with pytest.raises(UserError, match=message):
        embedded(other)


def test_the_files_beside_the_page_hold_what_it_holds(
    folder: Path, other: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "results" / "all.html"
    unfinished = tmp_path / "unfinished"
    arguments = ["report", str(folder), str(unfinished), "--qualitative", str(other), "-o", str(output)]
    monkeypatch.setattr(sys, "argv", arguments)
    assert run(parse_arguments()) == 0
    assert f"{unfinished}: has no report.json yet, left out" in capsys.readouterr().err
    checked(output.read_text())
    text = output.with_suffix(".md").read_text()
    assert "| +RNN |" in text
    [place] = re.findall(r"!\[\]\((.*)\)", text)
    assert (output.parent / unquote(place)).resolve() == (other / "scatter.png").resolve()
    assert " " not in place
    reports = json.loads(output.with_suffix(".json").read_text())
    assert reports["ablations"][str(folder)]["rows"].keys() == {"baseline", "+RNN"}
    assert reports["qualitative"] == {str(other): {"probes": 0.5}}
    assert reports["measurements"] == {}


def test_without_any_finished_ablation_there_is_no_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["report", str(tmp_path), "-o", str(tmp_path / "a.html")])
    with pytest.raises(UserError, match=r"has no report\.json; run `python -m experiments\.ablation` first"):
        run(parse_arguments())
    assert not (tmp_path / "a.html").exists()


def test_nothing_is_written_where_another_report_is_missing(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other/report.md").write_text("a report\n")
    arguments = [str(folder), "--qualitative", str(tmp_path / "other"), "-o", str(tmp_path / "a.html")]
    monkeypatch.setattr(sys, "argv", ["report", *arguments])
    with pytest.raises(UserError, match=r"other/report\.json"):
        run(parse_arguments())
    assert not list(tmp_path.glob("a.*"))


def test_words_are_new_gone_or_the_same() -> None:
    assert word_differences("a b c", "a x c d") == [("same", "a"), ("new", "x"), ("same", "c"), ("new", "d")]
    assert word_differences("a b c", "a c") == [("same", "a"), ("gone", "b"), ("same", "c")]
    assert word_differences("a", "a") == [("same", "a")]


def test_sentences_are_chosen_by_gain_and_loss() -> None:
    changes = [0.0, 5.0, -3.0, 9.0, 0.0, -8.0, 0.0]
    chosen = choose(changes, 2)
    assert (chosen.gains, chosen.losses) == ([3, 1], [5, 2])
    assert len(chosen.random) == 2
    assert set(chosen.random) <= {0, 4, 6}
    assert choose(changes, 2) == chosen
    few = choose([0.0, 1.0], 5)
    assert (few.gains, few.losses, few.random) == ([1], [], [0])
