from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from experiments.report.loaded import LoadedAblation
from experiments.report.page import Contents, page
from phrasescore.errors import UserError

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
        "config": {"network": ["--hidden", "8"], "language_model": [], "rows": ["baseline", "+RNN"]},
        "toolkit": "embedded",
        "data": {
            "settings": {"name": "toy", "source": "en", "target": "fr"},
            "tokenised": True,
            "sizes": {"train": part, "dev": part, "test": part},
        },
        "build": {"tables": {"phrase_pairs": 1234}},
        "networks": {"rnn": {"config": {}, "best": evaluation, "last": evaluation, "evaluations": [evaluation]}},
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


def test_the_page_is_whole_and_fetches_nothing(folder: Path) -> None:
    html = page(Contents([LoadedAblation.read(folder)]))
    found = checked(html)
    text = " ".join(found.texts)
    for figure in ("42.00 ± 0.50", "+1.50", "0.0123", "1,234", "2.50"):
        assert figure in text
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= found.ids
    assert "<B>" not in html
    assert "against the row it extends" not in html


def test_several_ablations_have_an_overview(folder: Path) -> None:
    both = page(Contents([LoadedAblation.read(folder)] * 2, sentences=0))
    assert "All data sets" in " ".join(checked(both).texts)


def test_what_is_missing_is_left_out(folder: Path) -> None:
    report = json.loads((folder / "report.json").read_text())
    report["networks"] = {}
    del report["rows"]["+RNN"]
    (folder / "report.json").write_text(json.dumps(report))
    checked(page(Contents([LoadedAblation.read(folder)])))


@pytest.mark.parametrize("content", ["{", "[]", '{"version": "0.1"}'])
def test_a_faulty_report_is_one_sentence(tmp_path: Path, content: str) -> None:
    (tmp_path / "report.json").write_text(content)
    with pytest.raises(UserError, match=r"report\.json: "):
        LoadedAblation.read(tmp_path)
