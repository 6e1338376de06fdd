"""`phrasescore choice` as a user runs it."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from phrasescore.cli import main
from tests.cli.running import MODEL
from tests.conftest import MINI

TABLE, DEV = MINI / "phrase-table.5.gz", ("--dev", MINI / "dev.en", MINI / "dev.fr")
Choose = Callable[..., tuple[int, str, str]]


@pytest.fixture
def choose(capsys: pytest.CaptureFixture[str]) -> Choose:
    """Run the command in this process; return its exit code and what it says."""

    def run(*arguments: str | Path) -> tuple[int, str, str]:
        code = main(["choice", "--precision", "fp32", "--device", "cpu", *map(str, arguments)])
        return code, *capsys.readouterr()

    return run


def rows_of(text: str) -> dict[str, list[str]]:
    return {line.split("  ")[0]: line.split("  ")[1:] for line in text.splitlines()[1:]}


def test_columns_and_networks(choose: Choose, tmp_path: Path) -> None:
    report, language_model = tmp_path / "report.json", MINI / "lm.fr.arpa"
    code, out, err = choose(TABLE, *DEV, "--language-model", language_model, "-m", MODEL, "--report", report)
    assert code == 0
    assert "1,267 choices among the options of 305 sources, in 100 of 100 sentences" in err
    rows = rows_of(out)
    assert list(rows) == ["base", "column 5", MODEL, "all"]
    assert rows["base"][-1].strip() == "0.5729"
    found = json.loads(report.read_text())
    assert found["table"]["sha256"] == hashlib.sha256(TABLE.read_bytes()).hexdigest()
    assert found["language_model"]["sha256"] == hashlib.sha256(language_model.read_bytes()).hexdigest()
    assert (found["dev_table"], found["trace"]) == (None, None)
    assert found["counts"] | {"options": 0} == {
        "sentences": 100, "sentences_with_choices": 100, "sources": 352, "options": 0, "choices": 1267
    }  # fmt: skip
    base, *others = found["results"]
    assert base["difference"] is None
    for row in others:
        assert row["difference"]["nats"] == pytest.approx(row["nats"] - base["nats"])
        assert f"{row['nats']:.4f}" in " ".join(rows[row["name"]])
    assert set(others[-1]["weights"]) - set(base["weights"]) == {"column 5", MODEL}


def test_a_network_is_judged_as_its_column_would_be(choose: Choose, tmp_path: Path) -> None:
    annotated = tmp_path / "annotated.gz"
    arguments = ["annotate", MINI / "phrase-table.gz", "-m", MODEL, "-o", annotated, "--precision", "fp32", "-q"]
    assert main([str(argument) for argument in arguments]) == 0
    _, as_column, _ = choose(annotated, *DEV, "-q")
    _, as_network, _ = choose(MINI / "phrase-table.gz", *DEV, "-m", MODEL, "-q")
    assert rows_of(as_column)["column 5"][1:] == rows_of(as_network)[MODEL][1:]


def test_phrase_pairs_and_traces(choose: Choose, tmp_path: Path) -> None:
    code, out, err = choose(TABLE, "--dev-table", MINI / "phrase-table.gz", "--base-columns", "5")
    assert code == 0
    assert list(rows_of(out)) == ["base"]
    assert "choices among the options of" in err
    assert "sentences" not in err
    # A decoder that translates word by word.
    lines = [line.split() for line in (MINI / "dev.en").read_text().splitlines()]
    trace = tmp_path / "trace"
    trace.write_text("".join(" ".join(f"x |{i}-{i}|" for i in range(len(line))) + "\n" for line in lines))
    code, traced, err = choose(TABLE, *DEV, "--trace", trace)
    assert code == 0
    assert int(err.split(" choices")[0].split()[-1].replace(",", "")) < 1267
    assert rows_of(traced)["base"] != rows_of(choose(TABLE, *DEV)[1])["base"]


def test_a_text_that_is_prepared_in_another_way(choose: Choose, tmp_path: Path) -> None:
    lines = (MINI / "dev.en").read_text().splitlines()
    some = [line if number % 3 == 0 else line.upper().replace(" .", "!") for number, line in enumerate(lines)]
    (tmp_path / "some").write_text("\n".join(some) + "\n")
    code, _, err = choose(TABLE, "--dev", tmp_path / "some", MINI / "dev.fr")
    assert code == 0
    assert "in 34 of 100 sentences" in err
    assert "so few have any that the text may be tokenised or cased in another way than the table" in err


def one_line_short(folder: Path) -> list[str | Path]:
    (folder / "short").write_bytes((MINI / "dev.fr").read_bytes().rsplit(b"\n", 2)[0] + b"\n")
    return ["table", "--dev", MINI / "dev.en", folder / "short"]


def upper_case(folder: Path) -> list[str | Path]:
    (folder / "upper").write_text((MINI / "dev.en").read_text().upper().replace(".", ""))
    return ["table", "--dev", folder / "upper", MINI / "dev.fr"]


def no_table_with_options(folder: Path) -> list[str | Path]:
    (folder / "once").write_text("the ||| le ||| 1 1 1 1\n")
    return [folder / "once", *DEV]


def one_source(folder: Path) -> list[str | Path]:
    (folder / "one").write_text("the ||| le ||| 1 1 1 1\nthe ||| la ||| 1 1 1 1\n")
    return [folder / "one", *DEV]


def other_words(folder: Path) -> list[str | Path]:
    (folder / "other").write_text(100 * "xyzzy\n")
    return ["table", "--dev", MINI / "dev.en", folder / "other"]


def empty(folder: Path) -> list[str | Path]:
    (folder / "empty").write_text("")
    return ["table", "--dev", folder / "empty", folder / "empty"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (one_line_short, "short: ends before line 100 of"),
        (upper_case, "has two options or more for none of the"),
        (no_table_with_options, "once: has two options or more for none of the"),
        (one_source, "there are choices among the options of 1 sources, too few"),
        (empty, "has no phrases; give text that the table is to translate"),
        (other_words, "none of its targets is among the opt"),
        (lambda folder: ["table", *DEV, "--base-columns", "6"], "has fewer score columns (5) than --base-columns asks"),
        (lambda folder: ["table", *DEV, "--language-model", folder / "no"], "no: is not there; give an ARPA file"),
        (lambda folder: ["table", *DEV, "-m", folder], "is not a model folder"),
    ],
)
def test_errors(
    arguments: Callable[[Path], list[Any]], sentence: str, choose: Choose, tmp_path: Path
) -> None:  # fmt: skip
    given = [TABLE if argument == "table" else argument for argument in arguments(tmp_path)]
    code, out, err = choose(*given)
    assert (code, out) == (1, "")
    assert sentence in err.splitlines()[-1]


def test_wrong_usage(choose: Choose) -> None:
    for wrong, sentence in (
        ([], "give either sentences to choose for by --dev, or phrase pairs by --dev-table"),
        ([*DEV, "--dev-table", TABLE], "give either sentences to choose for by --dev"),
        (["--dev-table", TABLE, "--trace", TABLE], "--trace: is of the sentences of --dev"),
    ):
        code, _, err = choose(TABLE, *wrong)
        assert code == 2
        assert sentence in err


def test_a_table_of_any_order_from_standard_input(choose: Choose, tmp_path: Path) -> None:
    lines = sorted(gzip.decompress(TABLE.read_bytes()).splitlines(keepends=True), key=lambda line: line[::-1])
    shutil.copyfile(TABLE, tmp_path / "table.gz")
    (tmp_path / "turned").write_bytes(b"".join(lines))
    assert choose(tmp_path / "turned", *DEV, "-q") == choose(tmp_path / "table.gz", *DEV, "-q")
