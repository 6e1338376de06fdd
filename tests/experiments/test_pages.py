"""The numbers on the pages come from docs/results only."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from argparse import Namespace
from pathlib import Path
from typing import Any

import pytest

from experiments.drawing import dot_plot
from experiments.pages.__main__ import APPENDIX, ROOT, run
from experiments.pages.appendix import appendix
from experiments.pages.markers import filled, untraced
from experiments.pages.results import Results
from phrasescore.errors import UserError


def ablation(test: float, gain: float) -> dict[str, Any]:
    rows = {
        "baseline": {"test_bleu": {"mean": test, "standard_deviation": 0.25}, "against": {}},
        "+RNN": {
            "test_bleu": {"mean": test + gain, "standard_deviation": None},
            "against": {"baseline": {"difference": gain, "p_value": 0.0904}},
            "weights": {"TranslationModel0: network": 0.067},
        },
    }
    return {
        "kind": "ablation",
        "title": "toy",
        "corpus": {"name": "toy", "source": "en", "target": "fr", "sentence_pairs": 1234},
        "rows": rows,
        "networks": {"rnn": {"validation": {"per_pair": 7.5}}},
        "provenance": {},
        "recorded": {"from": "a test", "missing": []},
    }


def table() -> dict[str, Any]:
    return {
        "kind": "table",
        "title": "speeds",
        "description": "On two cores.",
        "columns": {"what": "", "lines/s": ",.0f", "share": ".0%"},
        "rows": [["annotate", 12345, 0.28], ["score", None, 0.5]],
        "recorded": {"from": "a test", "missing": []},
    }


@pytest.fixture
def results(tmp_path: Path) -> Results:
    """Three ablations and a table."""
    folder = tmp_path / "docs" / "results"
    folder.mkdir(parents=True)
    made = {"a": ablation(40, 1.5), "b": ablation(50, -0.25), "even": ablation(50, -0.001), "speed": table()}
    for name, result in made.items():
        (folder / f"{name}.json").write_text(json.dumps(result))
    return Results(folder)


def page(text: str, results: Results) -> str:
    return filled(text, Path("page.md"), results)[0]


def test_the_pages_of_this_repository_show_the_results() -> None:
    assert run(Namespace(check=True)) == 0


def test_every_file_of_results_has_a_description_and_figures() -> None:
    results = Results(ROOT / "docs" / "results")
    for name in results.names():
        assert results.read(name).get("description"), f"{name}: say what the figures are and under which conditions"
        found = results.table(name)
        assert any(found.cell(row, column) for row in found.rows for column in found.columns), name


def test_the_results_fit_on_one_page() -> None:
    assert len((ROOT / "docs" / "results.md").read_text().splitlines()) < 300


def test_a_section_of_the_appendix(results: Results) -> None:
    page = appendix(results)
    assert "| [even](#even) | toy |\n" in page
    assert page.endswith(
        "## speed\n\n"
        "**speeds.** On two cores.\n\n"
        "File: [speed.json](results/speed.json). Source: a test.\n\n"
        "| what | lines/s | share |\n| --- | --- | --- |\n| annotate | 12,345 | 28 % |\n| score |  | 50 % |\n"
    )
    section = page[page.index("\n## a\n") : page.index("\n## b\n")]
    assert "Corpus: toy, en-fr, 1,234 sentence pairs. Source: a test." in section
    assert "| +RNN | 41.50 | +1.50 | 0.090 |\n" in section
    assert "| network | nats per pair of the dev set |\n" in section


@pytest.mark.parametrize(
    ("address", "text"),
    [
        ("a; baseline; test BLEU", "40.00 ± 0.25"),
        ("a; baseline; test BLEU; .1f", "40.0"),
        ("a; +RNN; against baseline", "+1.50"),
        ("even; +RNN; against baseline", "+0.00"),
        ("a; +RNN; p against baseline", "0.090"),
        ("a; +RNN; weight of network", "6.7 %"),
        ("a/networks; rnn; nats per pair of the dev set", "7.50"),
        ("speed; annotate; lines/s", "12,345"),
    ],
)
def test_a_figure_is_named_by_file_row_and_column(results: Results, address: str, text: str) -> None:
    assert page(f"so <!--= {address} -->old<!--/-->.", results) == f"so <!--= {address} -->{text}<!--/-->."


@pytest.mark.parametrize(
    ("marker", "message"),
    [
        ("<!--= c; +RNN; test BLEU -->", r"c\.json"),
        ("<!--= a; +WP; test BLEU -->", r"page\.md:2: a has no row \+WP; there are baseline, \+RNN; fix"),
        ("<!--= a; +RNN; tset BLEU -->", r":2: a has no column tset BLEU; there are "),
        ("<!--= a; +RNN; chrF -->", r"a has nothing in row \+RNN, column chrF"),
        ("<!--= a; +RNN -->", r"is not `FILE; ROW; COLUMN`"),
        ("<!--= speed/networks; rnn; x -->", r"speed\.json: has no part networks"),
    ],
)
def test_a_figure_that_is_nowhere(results: Results, marker: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        page(f"\nso {marker}1<!--/-->", results)


@pytest.mark.parametrize("before", ["", "  ", "text\n", "- "])
def test_a_figure_at_the_beginning_of_a_line_would_break_the_paragraph(results: Results, before: str) -> None:
    with pytest.raises(UserError, match=r"page\.md:\d: .* begins with a comment.*; put a word before it"):
        page(f"{before}<!--= a; +RNN; test BLEU -->41.50<!--/--> BLEU", results)


def test_a_table_of_several_files_names_each_once(results: Results) -> None:
    marker = "<!-- table\na as first\nb as second\ncolumns: test BLEU; against baseline; p against baseline\n-->\n"
    assert page(f"{marker}old\n<!-- end -->", results) == (
        f"{marker}"
        "| corpus | row | test BLEU | against baseline | p |\n"
        "| --- | --- | --- | --- | --- |\n"
        "| first | baseline | 40.00 ± 0.25 |  |  |\n"
        "|  | +RNN | 41.50 | +1.50 | 0.090 |\n"
        "| second | baseline | 50.00 ± 0.25 |  |  |\n"
        "|  | +RNN | 49.75 | -0.25 | 0.090 |\n"
        "<!-- end -->"
    )


def test_a_matrix_has_a_line_for_each_file_and_a_column_for_each_row(results: Results) -> None:
    marker = "<!-- table\na as first\nb as second\nrows: baseline; +RNN\ncells: test BLEU\n-->\n"
    assert page(f"{marker}old\n<!-- end -->", results) == (
        f"{marker}"
        "| corpus | baseline | +RNN |\n"
        "| --- | --- | --- |\n"
        "| first | 40.00 ± 0.25 | 41.50 |\n"
        "| second | 50.00 ± 0.25 | 49.75 |\n"
        "<!-- end -->"
    )


def test_the_reference_of_a_command_comes_from_its_parser(results: Results) -> None:
    shown = page("<!-- commands\nphrasescore\n-->\nold\n<!-- end -->", results)
    assert "| [lm score](#lm-score) | " in shown
    assert "\n### check\n" in shown
    assert "\nphrasescore check TABLE [options]\n" in shown
    assert "\n| `--limit N` |  | read only the first N lines |\n" in shown
    assert "\n| `-o`, `--output FOLDER` | required | " in shown
    assert untraced(shown) == []


def test_a_plot_shows_one_column(results: Results) -> None:
    with pytest.raises(UserError, match=r"page\.md:1: a plot has no line `cells: COLUMN`; add it"):
        page("<!-- plot x.svg\na\ncolumns: test BLEU\n-->\n<!-- end -->", results)


def test_two_tables_must_not_have_one_name(results: Results) -> None:
    with pytest.raises(UserError, match=r"page\.md:1: has two tables called x; rename one"):
        page("<!-- table\na as x\nb as x\n-->\n<!-- end -->", results)


def test_columns_with_nothing_in_them_are_left_out(results: Results) -> None:
    shown = page("<!-- table\nspeed\nrows: score\n-->\n<!-- end -->", results)
    assert "| what | share |\n" in shown
    assert "| score | 50 % |\n" in shown


@pytest.mark.parametrize("line", ["rows: +WP", "columns: chfr", "cells: bleu"])
def test_a_table_of_what_is_nowhere(results: Results, line: str) -> None:
    with pytest.raises(UserError, match=r"page\.md:1: there is no (row \+WP|column chfr|column bleu); fix the marker"):
        page(f"<!-- table\na\n{line}\n-->\n<!-- end -->", results)


def test_a_figure_without_a_source_is_found() -> None:
    text = "It gains 1.5 BLEU\n(p = 0.03), 1,200 lines/s, 40 pairs a second, +2 BLEU, 12 %\nand 3 BLEU."
    figures = [(1, "1.5"), (2, "0.03"), (2, "1,200"), (2, "40"), (2, "+2"), (2, "12"), (3, "3")]
    assert untraced(text) == figures


def test_text_without_figures_needs_no_source() -> None:
    text = (
        "In 2014, 29,000 pairs, `0.4`, [Cho](https://x.org/1406.1078), arXiv 1406.1078, Python 3.11, version 2.13.0\n"
        "    train --dropout 0.5\n<!--= a; b; c -->1.5<!--/--> BLEU\n<!-- table\na\n-->\n| 1.5 |\n<!-- end -->\n"
    )
    assert untraced(text) == []


def test_a_page_that_differs_fails_the_check_and_is_written_without_it(results: Results, tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(
        "It gains <!--= a; +RNN; against baseline -->?<!--/-->\n"
        "<!-- plot docs/bleu.svg\na\ncells: test BLEU\n-->\n<!-- end -->\n"
    )
    with pytest.raises(UserError, match=r"results-appendix\.md: differs from what `make pages` writes; run it"):
        run(Namespace(check=True), tmp_path)
    (tmp_path / APPENDIX).write_text(appendix(results))
    with pytest.raises(UserError, match=r"README\.md: differs from what `make pages` writes; run it"):
        run(Namespace(check=True), tmp_path)
    assert run(Namespace(check=False), tmp_path) == 0
    assert "+1.50" in readme.read_text()
    assert "![test BLEU. toy: baseline 40.00 ± 0.25, +RNN 41.50.](docs/bleu.svg)" in readme.read_text()
    assert run(Namespace(check=True), tmp_path) == 0
    # Another version of Matplotlib writes other bytes for the same values.
    picture = tmp_path / "docs" / "bleu.svg"
    drawn = picture.read_text()
    picture.write_text(drawn.replace("DejaVu Sans", "Sans"))
    assert run(Namespace(check=True), tmp_path) == 0
    picture.write_text(drawn.replace("41.5", "41.6"))
    with pytest.raises(UserError, match=r"bleu\.svg: differs from what `make pages` writes; run it"):
        run(Namespace(check=True), tmp_path)
    differences = readme.read_text().replace("cells: test BLEU", "cells: against baseline")
    readme.write_text(differences)
    assert run(Namespace(check=False), tmp_path) == 0
    assert "![against baseline. toy: +RNN +1.50.](docs/bleu.svg)" in readme.read_text()
    readme.write_text(readme.read_text() + "1.5 BLEU\n")
    with pytest.raises(UserError, match="1 figures have no source"):
        run(Namespace(check=True), tmp_path)


def test_the_plot_has_a_dot_for_each_figure() -> None:
    figures = {"first": {"baseline": 40.0, "+RNN": 41.5}, "second": {"+RNN": 49.75}}
    drawn = dot_plot("test BLEU", figures)
    assert drawn == dot_plot("test BLEU", figures)
    texts = [element.text for element in ElementTree.fromstring(drawn).iter("{http://www.w3.org/2000/svg}text")]
    assert {"first", "second", "baseline", "+RNN", "test BLEU"} <= set(texts)
    more = dot_plot("test BLEU", {**figures, "second": {"+RNN": 49.75, "baseline": 50.0}})
    assert more.count(b"<use ") - drawn.count(b"<use ") == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "tabel"}, r"x\.json: .*see result\.schema\.json"),
        ({"recorded": {"from": "here"}}, r"x\.json: recorded: 'missing' is a required property"),
        ({"rows": [["annotate", 1]]}, r"the row annotate has 2 cells for 3 columns"),
        ({"rows": [["annotate", [1], 2]]}, r"x\.json: rows/0/1: "),
    ],
)
def test_a_faulty_file_is_one_sentence(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    (tmp_path / "x.json").write_text(json.dumps({**table(), **change}))
    with pytest.raises(UserError, match=message):
        Results(tmp_path).table("x")


def test_figures_say_where_they_are_from(tmp_path: Path) -> None:
    """Each results file states its origin.

    Either the run records it completely, or the file states that it was copied and what is missing.
    """
    for name, result in (("t", table()), ("a", ablation(40, 1.5))):
        del result["recorded"]
        (tmp_path / f"{name}.json").write_text(json.dumps(result))
        with pytest.raises(UserError, match=rf"{name}\.json: "):
            Results(tmp_path).table(name)
