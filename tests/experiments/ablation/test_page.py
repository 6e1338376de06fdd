from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from experiments.ablation.page import translations
from experiments.ablation.page.charts import learning_chart, row_chart
from experiments.ablation.page.page import AblationPage, write_page
from experiments.ablation.page.translations import word_differences

VOID = {"meta", "br", "hr", "img", "input", "link", "path", "rect", "use", "wbr"}


class Checker(HTMLParser):
    """Collects improperly nested tags and external resources."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.faults: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.links += [str(given[key]) for key in ("href", "src") if key in given]
        if given.get("id"):
            self.ids.append(str(given["id"]))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID and (not self.open or self.open.pop() != tag):
            self.faults.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        """Return the approximate visible text."""
        return " ".join("".join(self.texts).split())


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    assert checker.open == []
    assert checker.faults == []
    return checker


def row(test: list[float], against: dict[str, Any], columns: int = 5) -> dict[str, Any]:
    seeds = [
        {
            "training": 1,
            "seed": number,
            "dev_bleu": 51.0,
            "test_bleu": bleu,
            "weights": {"LM0": [0.25], "TranslationModel0": [0.15] * columns, "UnknownWordPenalty0": [1.0]},
        }
        for number, bleu in enumerate(test, 1)
    ]
    means = {"mean": sum(test) / len(test), "standard_deviation": 0.5}
    dev = {"mean": 51.0, "standard_deviation": 0.0}
    figures = {"seeds": seeds, "test_bleu": means, "against": against}
    return {**figures, "seconds": 90.0, "dev_bleu": dev, "tests": {}}


def evaluation(**losses: Any) -> dict[str, Any]:
    known = {"update": 5, "epoch": 1.5, "seconds": 60.0, "training_loss": 3.0, "best": True}
    return {**known, "held_out": None, "validation": None, **losses}


def network(**losses: Any) -> dict[str, Any]:
    found = evaluation(**losses)
    return {"config": {}, "parameters": 8, "weights_sha256": "c0", "best": found, "evaluations": [found]}


def make_report() -> dict[str, Any]:
    part = {"sentences": 3, "references": 1}
    return {
        "version": "0.1",
        "machine": {"cpu": "a quick one"},
        "signatures": {"bleu": "a<b"},
        "config": {"title": "toy", "rows": ["baseline", "+RNN"]},
        "toolkit": "embedded",
        "data": {
            "settings": {"name": "toy", "source": "en", "target": "fr"},
            "tokenised": True,
            "sizes": {"train": part, "dev": part, "test": part},
            "sha256": {"train.en": "e5"},
        },
        "tests": {"2016": "test"},
        "build": {"tables": {"phrase_pairs": 1234}},
        "networks": {"rnn": network(held_out={"per_pair": 2.5, "per_word": 0.5})},
        "phrase_pair_models": {},
        "commands": {"rnn": "phrasescore train system/phrase-table.gz --hidden 8 -o rnn"},
        "rows": {
            "baseline": row([40.0, 41.0], {}, columns=4),
            "+RNN": row([41.5, 42.5], {"baseline": {"difference": 1.5, "p_value": 0.0123}}),
        },
    }


def write(folder: Path, report: dict[str, Any]) -> AblationPage:
    """Write the output files of `experiments.ablation`, with text that needs escaping in HTML."""
    (folder / "data").mkdir(parents=True, exist_ok=True)
    (folder / "data" / "test.en").write_text("a <b> &amp; c\nd\ne\n")
    (folder / "data" / "test.fr").write_text("A <B> &amp; C\nD\nE\n")
    texts = {"baseline": "A <B> C\nD\nX\n", "+RNN": "A <B> &amp; C\nY\nE\n"}
    for name in report["rows"]:
        work = folder / "rows" / f"{name}.seed1"
        work.mkdir(parents=True, exist_ok=True)
        (work / "test.out").write_text(texts.get(name, "A\nD\nE\n"))
    return AblationPage(folder, report)


@pytest.fixture
def part(tmp_path: Path) -> AblationPage:
    """An ablation of two rows."""
    return write(tmp_path / "ablation", make_report())


def page(part: AblationPage) -> Checker:
    write_page(part.report, part.folder)
    return checked((part.folder / "report.html").read_text())


def test_the_page_is_whole_and_fetches_nothing(part: AblationPage) -> None:
    found = page(part)
    for figure in ("42.00 ± 0.50", "+1.50", "0.012", "2.50", "a quick one", "25.0 %", "phrasescore train system/"):
        assert figure in found.text
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert {link[1:] for link in found.links if link.startswith("#")} <= set(found.ids)
    assert "<B>" not in (part.folder / "report.html").read_text()
    assert "a column of the table: ln p(target | source)" in found.text
    assert "a neural language model as a feature" not in found.text
    assert "UnknownWordPenalty" not in found.text.split("Provenance")[0]


def test_pictures_refer_to_nothing_outside_themselves(part: AblationPage) -> None:
    page(part)
    drawn = [one.group() for one in re.finditer(r"<svg.*?</svg>", (part.folder / "report.html").read_text(), re.DOTALL)]
    assert len(drawn) == 3
    for picture in drawn:
        names = set(re.findall(r' id="([^"]+)"', picture))
        assert set(re.findall(r'(?:url\(|href=")#([^")]+)', picture)) == names


@pytest.mark.parametrize(
    ("difference", "p_value", "conclusion"),
    [
        (1.5, 0.0123, "+RNN has 42.00 BLEU on the test text, 1.50 more than the baseline (p = 0.012)."),
        (
            -0.25,
            0.3,
            "+RNN has 42.00 BLEU on the test text, 0.25 less than the baseline (p = 0.30), which may be random.",
        ),
    ],
)
def test_the_page_begins_with_its_conclusion(
    tmp_path: Path, difference: float, p_value: float, conclusion: str
) -> None:
    report = make_report()
    report["rows"]["+RNN"]["against"]["baseline"] = {"difference": difference, "p_value": p_value}
    text = page(write(tmp_path / "a", report)).text
    assert conclusion in text
    assert text.index(conclusion) < text.index("test BLEU")
    html = (tmp_path / "a" / "report.html").read_text()
    assert ('class="significant">0.' in html) == (p_value < 0.05)


def test_a_network_for_sentences_has_its_loss_too(tmp_path: Path) -> None:
    report = make_report()
    report["networks"]["s2s"] = network(validation={"teacher_forced_per_word": 1.25, "free_running_per_word": 4.5})
    assert "kept: 1.25" in page(write(tmp_path / "a", report)).text


def test_each_test_set_has_its_columns_and_chart(tmp_path: Path) -> None:
    report = make_report()
    report["tests"]["2017"] = "test.2017"
    report["data"]["sizes"]["test.2017"] = {"sentences": 2, "references": 1}
    report["rows"]["baseline"]["tests"] = {"2017": row([20.0, 21.0], {})}
    report["rows"]["+RNN"]["tests"] = {"2017": row([22.0, 23.0], {"baseline": {"difference": 2.0, "p_value": 0.5}})}
    part = write(tmp_path / "a", report)
    columns = ["test BLEU", "against baseline", "p", "test BLEU, 2017", "against baseline, 2017", "p"]
    assert part.rows.head() == ["row", *columns, "dev BLEU", "minutes"]
    assert part.rows.body()[1][1:7] == ["42.00 ± 0.50", "+1.50", "0.012", "22.50 ± 0.50", "+2.00", "0.50"]
    assert "those of 2016, as are the translations" in page(part).text
    assert len(part.bleu_charts) == 3
    assert part.kept["corpus"]["tests"] == {"2017": {"sentences": 2, "references": 1}}


def test_the_best_row_is_not_one_whose_dev_bleu_flatters(tmp_path: Path) -> None:
    report = make_report()
    report["rows"]["+S2S"] = {**report["rows"]["baseline"], "dev_bleu": {"mean": 99.0, "standard_deviation": 0.0}}
    assert write(tmp_path / "a", report).best == "+RNN"
    del report["rows"]["+RNN"]
    assert write(tmp_path / "b", report).best == "+S2S"


def test_the_cost_of_translating_is_reported(tmp_path: Path) -> None:
    report = make_report()
    cold, warm = {"seconds": 0.5, "queries": 300.0, "served": 0.4}, {"seconds": 0.05, "queries": 300.0, "served": 1.0}
    report["rows"]["+RNN"]["translating"] = {"sentences": 3, "device": "cpu", "cold": cold, "warm": warm}
    part = write(tmp_path / "a", report)
    assert part.costs.head() == ["row", "s/sentence", "s/sentence, warm cache", "LM queries", "cache hits"]
    assert part.costs.body()[1] == ["+RNN", "0.500", "0.050", "300", "40 %"]
    assert "Cost of translating a sentence" in page(part).text


def test_a_language_model_has_perplexities_and_losses_per_word(tmp_path: Path) -> None:
    report = make_report()
    perplexity = {"network": 21.0, "backoff": 20.0, "interpolation": 17.0}
    scored = {"weight": 0.61, "perplexity": perplexity}
    report["networks"]["cslm"] = {**network(validation={"per_word": 2.0}), "perplexities": [scored]}
    part = write(tmp_path / "a", report)
    assert part.networks[0] == ["network", "rnn", "cslm"]
    lines = {first: cells for first, *cells in part.networks}
    assert lines["interpolated"] == ["", "17.00"]
    assert lines["nats per word of the dev set"] == ["", "2.00"]
    assert "kept: 2.00" in page(part).text


def test_changed_translations_are_shown_with_the_originals(part: AblationPage) -> None:
    """Translations are shown beside the scores that changed.

    The row is better in the first and the last sentence and worse in the second.
    """
    first, second, third = part.translations
    assert (second.change, third.change) == pytest.approx((-100, 100))
    assert first.given == [("source", "a <b> & c"), ("reference", "A <B> & C")]
    assert [(name, str(line)) for name, line, _ in first.translations] == [
        ("baseline", "A &lt;B&gt; C"),
        ("+RNN", "A &lt;B&gt; <ins>&amp;</ins> C"),
    ]
    html = (page(part), (part.folder / "report.html").read_text())[1]
    assert re.findall(r'data-number="(\d)" data-change="([-\d.]+)"', html)[1:] == [("2", "-100.00"), ("3", "100.00")]


def test_a_page_shows_so_many_sentences_at_most(part: AblationPage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "_SHOWN", 2)
    assert len(re.findall("Sentence [0-9]", page(part).text)) == 2


def test_a_page_without_the_test_text_has_no_translations(part: AblationPage) -> None:
    assert "Search" in page(part).text
    (part.folder / "data" / "test.en").unlink()
    assert "Search" not in page(part).text


def test_rows_without_results_are_left_out(tmp_path: Path) -> None:
    report = make_report()
    report["networks"], report["commands"] = {}, {}
    del report["rows"]["+RNN"]
    text = page(write(tmp_path / "a", report)).text
    assert "baseline has 40.50 BLEU on the test text." in text
    # The row is in the configuration but has no results.
    shown = text.split("Provenance")[0]
    assert not any(word in shown for word in ("+RNN", "Search", "Networks", "Cost", "Commands"))


def test_a_row_chart_names_rows_and_means_for_those_who_cannot_see_it() -> None:
    drawn = row_chart("test BLEU", "test_bleu", {"baseline": row([57.0, 58.0], {}), "a<b": row([60.0], {})})
    assert 'aria-label="test BLEU: baseline 57.50; a&lt;b 60.00"' in drawn
    assert "a&lt;b" in checked(drawn).text or "a<b" in checked(drawn).text


def test_a_learning_chart_has_a_line_for_each_loss_and_rings_what_was_kept() -> None:
    first = evaluation(held_out={"per_pair": 2.5}, validation={"per_pair": 2.75})
    last = {**first, "update": 10, "validation": {"per_pair": 3.0}}
    drawn = learning_chart("rnn", {"best": first, "evaluations": [first, last]})
    assert {"rnn", "nats per pair", "training", "dev set", "held out", "kept: 2.75"} <= set(checked(drawn).texts)
    assert 'aria-label="rnn, nats per pair: training ends at 3.00, dev set ends at 3.00, held out ends at' in drawn


def test_a_network_that_nothing_measured_has_its_training_loss() -> None:
    texts = checked(learning_chart("rnn", network())).texts
    assert "nats per pair" in texts
    assert not any(text.startswith("kept") for text in texts)


def test_words_are_new_gone_or_the_same() -> None:
    assert word_differences("a b c", "a x c d") == "a <ins>x</ins> c <ins>d</ins>"
    assert word_differences("a b c", "a c") == "a <del>b</del> c"
    assert word_differences("a", "a") == "a"
