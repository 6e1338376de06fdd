"""What a program takes from `phrasescore`."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas
import pytest

import phrasescore
from phrasescore.training.loop import Evaluation
from tests.conftest import DATA

MODEL = DATA / "stored-model"
TINY: dict[str, Any] = {"hidden": 8, "embedding": 5, "output_rank": 3, "batch_size": 32, "evaluate_every": 20}


@pytest.fixture(scope="module")
def scorer() -> phrasescore.Scorer:
    return phrasescore.Scorer.load(MODEL, precision="fp32")


def test_a_table_and_pairs_are_scored(small_table: Path, tmp_path: Path) -> None:
    """With the same numbers."""
    output = tmp_path / "out"
    counts = phrasescore.annotate(small_table, MODEL, output, columns=["score", "unknown-target"], processes=1)
    assert counts.lines_written == 600
    scorer = phrasescore.Scorer.load(MODEL, direction="target-given-source")
    lines = [line.split(b" ||| ") for line in output.read_bytes().splitlines()]
    found = scorer.score((line[0], line[1]) for line in lines)
    assert found == pytest.approx([math.log(float(line[2].split()[-2])) for line in lines], abs=0.1)
    assert phrasescore.check(output, num_features=6).problems == {}
    assert phrasescore.check(output, num_features=5, limit=9).problems.total() == 9


def test_pairs_may_be_texts_bytes_or_a_frame(scorer: phrasescore.Scorer) -> None:
    pairs = [("the black dogs", "les chiens noirs"), ("the dog", "le chien")]
    expected = scorer.score(pairs).tolist()
    assert scorer.score([(source.encode(), target) for source, target in pairs]).tolist() == expected
    frame = pandas.DataFrame(pairs, columns=["source", "target"], index=[7, 3])
    frame["score"] = scorer.score(frame)
    assert frame["score"].tolist() == expected
    assert scorer.score(frame[["source", "target"]].itertuples(index=False)).tolist() == expected
    assert scorer.score([]).tolist() == []


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ("the dog", "pairs: are of type str; give a list of pairs"),
        (3, "pairs: are of type int; give a list of pairs"),
        (["ab"], "pair 1: is 'ab'; give a source and a target phrase, str or bytes"),
        ([("a", "b"), ("a",)], "pair 2: is ('a',); give a source and a target phrase"),
        ([("a", 1.5)], "pair 1: is ('a', 1.5); give a source"),
        (pandas.DataFrame({"source": ["a"]}), "pairs: have no column `target`; give a table with"),
    ],
)
def test_what_is_no_pair_is_a_wrong_type(scorer: phrasescore.Scorer, pairs: Any, message: str) -> None:
    with pytest.raises(TypeError) as error:
        scorer.score(pairs)
    assert str(error.value).startswith(message)


def test_phrases_alone_have_no_score_in_a_sentence(scorer: phrasescore.Scorer) -> None:
    with pytest.raises(phrasescore.UserError, match="stored-model: was trained on phrases alone"):
        scorer.score_in_context("the dog", [((0, 2), "le chien")])


def test_a_network_is_trained_from_a_table(small_table: Path, tmp_path: Path) -> None:
    told: list[Evaluation] = []
    options = {**TINY, "max_updates": 40}
    scorer = phrasescore.train(small_table, tmp_path / "rnn", device="cpu", on_evaluation=told.append, **options)
    assert [one.update for one in told] == [20, 40]
    assert scorer.score([("the dog", "le chien")])[0] < 0
    report = phrasescore.read_report(tmp_path / "rnn")
    assert report["model"]["hidden"] == 8
    assert [one["update"] for one in report["evaluations"]] == [20, 40]
    # One that is done is taken as it is, and another one is not trained in its place.
    phrasescore.train(small_table, tmp_path / "rnn", device="cpu", on_evaluation=told.append, **options)
    assert len(told) == 2
    with pytest.raises(phrasescore.UserError, match="hidden"):
        phrasescore.train(small_table, tmp_path / "rnn", device="cpu", **{**options, "hidden": 9})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_updates": 3, "attention_order": "before"}, "attention, or leave attention_order out"),
        ({"held_out_limit": 0, "validation": "t"}, "held_out_limit: is the most pairs of validation, too"),
        (
            {"share_units": True, "encoder_unit": "rnn", "decoder_unit": "gru"},
            "directions forward and feed_context=False",
        ),
    ],
)
def test_messages_name_what_a_program_gives(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(phrasescore.UserError) as error:
        phrasescore.train("t", tmp_path / "m", preset="cho2014", **options)
    assert message in str(error.value)
    assert "--" not in str(error.value)


def test_sentences_are_translated(scorer: phrasescore.Scorer) -> None:
    (one, other), (empty, *_) = phrasescore.translate(["the black dogs", b"a"], scorer, beam=3, n_best=2)
    assert str(one).encode() == one.text
    assert one.value >= other.value
    assert empty.log_prob < 0
    assert phrasescore.translate([], MODEL) == []


def test_a_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"schema": 4}))
    assert phrasescore.read_report(tmp_path / "report.json") == {"schema": 4}
    with pytest.raises(phrasescore.UserError, match="missing: cannot be read"):
        phrasescore.read_report(tmp_path / "missing")


def test_annotating_without_a_folder_or_processes_is_refused(
    scorer: phrasescore.Scorer, small_table: Path, tmp_path: Path
) -> None:
    table, folder = small_table, tmp_path / "missing"
    with pytest.raises(phrasescore.UserError, match=f"out: cannot be written, for {folder} is no folder; check"):
        phrasescore.annotate(table, scorer, folder / "out")
    with pytest.raises(phrasescore.UserError, match=r"^processes: is 0; give at least 1$"):
        phrasescore.annotate(table, scorer, tmp_path / "out", processes=0)
    assert list(tmp_path.iterdir()) == [table]


def test_wrong_values_are_refused() -> None:
    half: Any = "fp16"
    with pytest.raises(
        phrasescore.UserError, match="precision `fp16`: there is none of this name; give auto, fp32, bf16"
    ):
        phrasescore.Scorer.load(MODEL, precision=half)
    number: Any = 0
    with pytest.raises(TypeError, match="not int"):
        phrasescore.check(number)


def test_what_there_is_not_is_a_wrong_type(scorer: phrasescore.Scorer, tmp_path: Path) -> None:
    model: Any = tmp_path / "model"
    unlike: Any = [3]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: phrasescore.train("t", model, hiden=3), "train() has no option `hiden`; did you mean `hidden`?"),
        (lambda: phrasescore.translate([""], scorer, bean=3), "translate() has no option `bean`; did you mean `beam`?"),
        (lambda: phrasescore.translate("a b", scorer), "sentences: is one text; give a list of sentences"),
        (lambda: phrasescore.translate(unlike, scorer), "sentence 1: is of type int; give str or bytes"),
        (lambda: phrasescore.annotate("t", scorer, None, columns=["x"]), "columns: 'x' is none; known are"),
        (lambda: phrasescore.annotate("t", scorer, None, columns="score"), "columns: is one name; give a list, as"),
    ]  # fmt: skip
    for call, message in calls:
        with pytest.raises(TypeError) as error:
            call()
        assert str(error.value).startswith(message)
    with pytest.raises(phrasescore.UserError, match=r"^train\(\): hidden is 'x'; give a whole number$"):
        phrasescore.train("t", tmp_path / "m", hidden="x")
    with pytest.raises(phrasescore.UserError, match=r"^train\(\): preset is 'smal'; give one of cho2014"):
        phrasescore.train("t", tmp_path / "m", preset="smal")
    assert list(tmp_path.iterdir()) == []


def test_importing_it_needs_no_library() -> None:
    code = "import sys\nfor name in ('torch', 'numpy', 'rich', 'pandas'): sys.modules[name] = None\n"
    code += "import phrasescore; assert 'train' in dir(phrasescore)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stderr == b""


def test_there_is_nothing_else() -> None:
    assert all(getattr(phrasescore, name) for name in phrasescore.__all__)
    with pytest.raises(AttributeError, match="'phrasescore' has no attribute 'nothing'"):
        phrasescore.nothing  # noqa: B018
