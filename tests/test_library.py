"""The Python interface of `phrasescore`."""

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
from phrasescore.beam_search import Hypothesis, Numbers
from phrasescore.cli import main
from phrasescore.phrases import Phrases
from phrasescore.translator import Translator
from tests.conftest import DATA, MINI

MODEL = DATA / "stored-model"
TINY: dict[str, Any] = {"hidden": 8, "embedding": 5, "output_rank": 3, "batch_size": 32, "evaluate_every": 20}


@pytest.fixture(scope="module")
def scorer() -> phrasescore.PhraseScorer:
    return phrasescore.load_scorer(MODEL, precision="fp32")


@pytest.fixture(scope="module")
def ctx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network in context, trained briefly."""
    folder = tmp_path_factory.mktemp("ctx") / "ctx"
    text = phrasescore.ParallelText(MINI / "train.en", MINI / "train.fr", MINI / "train.align")
    phrasescore.train(text, folder, device="cpu", hidden=8, embedding=5, output_rank=4, max_updates=2)
    return folder


def test_networks_of_sentences_and_in_context_are_trained(tmp_path: Path) -> None:
    """Training on sentences and in context uses the preset for such data by default."""
    points = tmp_path / "points"
    points.write_bytes(b"\n".join((MINI / "train.align").read_bytes().splitlines()[:200]) + b"\n")
    source, target = (tmp_path / name for name in ("source", "target"))
    for text, suffix in ((source, "en"), (target, "fr")):
        text.write_bytes(b"\n".join((MINI / f"train.{suffix}").read_bytes().splitlines()[:200]) + b"\n")
    options: dict[str, Any] = {"device": "cpu", "hidden": 8, "embedding": 5, "max_updates": 20}
    shares: list[float | None] = []
    lines: list[str] = []
    others = phrasescore.ParallelText(MINI / "dev.en", MINI / "dev.fr")
    scorer = phrasescore.train(
        phrasescore.ParallelText(str(source), str(target)),
        tmp_path / "translator",
        validation=others,
        log=lines.append,
        progress=lambda share, text: shares.append(share),
        evaluate_every=10,
        **options,
    )
    assert len(shares) > 1
    assert [line.partition(",")[0] for line in lines if line.startswith("update ")] == ["update 10", "update 20"]
    assert phrasescore.read_report(tmp_path / "translator")["model"]["attention"] == "concat"
    assert scorer.unit == "sentence"
    aligned = phrasescore.ParallelText(source, target, points)
    assert phrasescore.train(aligned, tmp_path / "ctx", **options).in_context
    with pytest.raises(phrasescore.UserError, match="validation_source and validation_alignment: belong together"):
        phrasescore.train(aligned, tmp_path / "ctx", validation=others, **options)


def test_a_table_and_pairs_are_scored(small_table: Path, tmp_path: Path) -> None:
    """A table and a list of pairs get the same scores."""
    output = tmp_path / "out"
    counts = phrasescore.annotate(small_table, MODEL, output, columns=["score", "unknown-target"], processes=1)
    assert counts.lines_written == 600
    scorer = phrasescore.load_scorer(MODEL)
    lines = [line.split(b" ||| ") for line in output.read_bytes().splitlines()]
    found = phrasescore.score([(line[0], line[1]) for line in lines], scorer)
    assert found == pytest.approx([math.log(float(line[2].split()[-2])) for line in lines], abs=0.1)
    assert phrasescore.check(output, num_features=6).problems == {}
    assert phrasescore.check(output, num_features=5, limit=9).problems.total() == 9


def test_pairs_may_be_texts_bytes_or_a_frame(scorer: phrasescore.PhraseScorer) -> None:
    pairs = [("the black dogs", "les chiens noirs"), ("the dog", "le chien")]
    expected = phrasescore.score(pairs, scorer).tolist()
    assert phrasescore.score([(source.encode(), target) for source, target in pairs], scorer).tolist() == expected
    frame = pandas.DataFrame(pairs, columns=["source", "target"], index=[7, 3])
    frame["score"] = phrasescore.score(frame, scorer)
    assert frame["score"].tolist() == expected
    assert phrasescore.score(frame[["source", "target"]].itertuples(index=False), scorer).tolist() == expected
    assert phrasescore.score([(source + "\r", target + " \r") for source, target in pairs], scorer).tolist() == expected
    assert phrasescore.score([], scorer).tolist() == []


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
def test_other_objects_than_pairs_are_type_errors(scorer: phrasescore.PhraseScorer, pairs: Any, message: str) -> None:
    with pytest.raises(TypeError) as error:
        phrasescore.score(pairs, scorer)
    assert str(error.value).startswith(message)


def test_phrases_alone_have_no_score_in_a_sentence(scorer: phrasescore.PhraseScorer) -> None:
    with pytest.raises(phrasescore.UserError, match="stored-model: does not condition on the sentence"):
        phrasescore.score_in_context([("the dog", (0, 2), "le chien")], scorer)


def test_scores_are_those_of_words_and_may_be_a_word_s(scorer: phrasescore.PhraseScorer) -> None:
    # Not grouped by source, so that scores must be restored to the input order.
    pairs = [("the dog", "le chien"), ("the", "le"), ("the dog", "xyz"), ("the", "")]
    seen: list[tuple[int, int, int]] = []
    whole = phrasescore.score(
        pairs, scorer, progress=lambda scored, words: seen.append((scored, words.target, words.target_unknown))
    )
    assert seen == [(4, 4, 1)]
    words = phrasescore.word_scores(pairs, scorer)
    assert [len(one) for one in words] == [3, 2, 2, 1]
    assert [one.sum() for one in words] == pytest.approx(whole, abs=1e-4)
    assert phrasescore.score(pairs, scorer, column="per-word") == pytest.approx([one.mean() for one in words], abs=1e-4)
    assert phrasescore.word_scores([], scorer) == []


def test_phrases_of_many_sentences_are_scored_at_once(ctx: Path) -> None:
    phrases = [
        ("the black dogs sleep .", (0, 3), "les chiens noirs"),
        ("the dog", (0, 2), "le chien"),
        ("the black dogs sleep .", (3, 4), "dorment"),
        ("the black dogs sleep .", (0, 3), "le chien noir"),
    ]
    scorer = phrasescore.load_scorer(ctx, precision="fp32")
    alone = [float(phrasescore.score_in_context([phrase], scorer)[0]) for phrase in phrases]
    assert len({*alone}) == 4
    assert phrasescore.score_in_context(phrases, scorer) == pytest.approx(alone, abs=1e-4)
    lengths = [len(target.split()) + 1 for _, _, target in phrases]
    per_word = phrasescore.score_in_context(phrases, scorer, column="per-word")
    assert per_word * lengths == pytest.approx(alone, abs=1e-4)
    assert phrasescore.score_in_context([], scorer).tolist() == []


def test_a_network_is_trained_from_a_table(small_table: Path, tmp_path: Path) -> None:
    options = {**TINY, "max_updates": 40}
    scorer = phrasescore.train(small_table, tmp_path / "rnn", device="cpu", **options)
    assert phrasescore.score([("the dog", "le chien")], scorer)[0] < 0
    report = phrasescore.read_report(tmp_path / "rnn")
    assert report["model"]["hidden"] == 8
    assert [one["update"] for one in report["evaluations"]] == [20, 40]
    # A finished run is reused, and a run with other settings is an error.
    phrasescore.train(small_table, tmp_path / "rnn", device="cpu", **options)
    assert phrasescore.read_report(tmp_path / "rnn") == report
    with pytest.raises(phrasescore.UserError, match="hidden"):
        phrasescore.train(small_table, tmp_path / "rnn", device="cpu", **{**options, "hidden": 9})


def test_messages_arrive_at_once_and_prints_stay_where_they_go(
    small_table: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A callback may print; its output is neither collected nor logged."""
    lines: list[str] = []

    def log(line: str) -> None:
        lines.append(line)
        print("logged")
        assert capsys.readouterr().out == "logged\n"

    phrasescore.prune(small_table, tmp_path / "out", keep=0.5, log=log)
    assert lines[0] == "600 lines read, 300 written"
    assert len(lines) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"final_rate": 0.5, "schedule": "constant"}, "`final_rate`: has no effect with `schedule`"),
        ({"max_updates": 3, "attention_order": "before"}, "set `attention`, or leave `attention_order` out"),
        ({"schedule": "auto"}, "training.schedule=auto: schedule is 'auto'; choose one of constant, linear, cosine"),
        ({"held_out_limit": 0, "validation": "t"}, "`held_out_limit` also limits the validation pairs"),
        (
            {"share_units": True, "encoder_unit": "rnn", "decoder_unit": "gru"},
            "set `directions` to forward and `feed_context` to false",
        ),
    ],
)
def test_messages_name_keyword_arguments(options: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(phrasescore.UserError) as error:
        phrasescore.train("t", tmp_path / "m", preset="cho2014", **options)
    assert message in str(error.value)
    assert "--" not in str(error.value)


def test_a_phrase_is_inspected(scorer: phrasescore.PhraseScorer) -> None:
    found = phrasescore.inspect("the black dogs", scorer, table=MINI / "phrase-table.gz", top=2)
    assert len(found.neighbours) == 2
    best = found.targets[0]
    assert best.log_prob == pytest.approx(float(phrasescore.score([("the black dogs", best.text)], scorer)[0]))
    assert phrasescore.inspect(b"the", MODEL).candidates == 0
    with pytest.raises(phrasescore.UserError, match="the phrase is empty"):
        phrasescore.inspect(" ", scorer)
    with pytest.raises(phrasescore.UserError, match=r"^inspect\(\): top is 0; give at least 1$"):
        phrasescore.inspect("the", scorer, top=0)


def test_sentences_are_translated(scorer: phrasescore.PhraseScorer) -> None:
    (one, other), (empty, *_) = phrasescore.translate(["the black dogs", b"a"], scorer, beam=3, n_best=2)
    assert str(one).encode() == one.text
    assert one.value >= other.value
    assert empty.log_prob < 0
    assert phrasescore.translate([], MODEL) == []
    with pytest.raises(phrasescore.UserError, match="sentence 2: has a line end, which no word has; strip it"):
        phrasescore.translate(["a", "a\n"], scorer)
    with pytest.raises(phrasescore.UserError, match="sentence 1: has half of a surrogate pair"):
        phrasescore.translate(["\ud800"], scorer)


def test_long_sentences_are_translated_a_few_at_a_time(
    scorer: phrasescore.PhraseScorer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long sentences are translated in small batches, because attention memory is quadratic in their length."""
    sentences = ["the black dogs", "a", "the", "the letter of the man", "dogs"]
    together = phrasescore.translate(sentences, scorer, beam=2)
    sizes: list[int] = []

    class Counting(Translator):
        def _search(self, numbers: Numbers, sources: Phrases) -> list[list[Hypothesis]]:
            sizes.append(len(numbers))
            return super()._search(numbers, sources)

    monkeypatch.setattr("phrasescore.library.Translator", Counting)
    monkeypatch.setattr("phrasescore.translator._MOST_WORDS", 6)
    apart = phrasescore.translate(sentences, scorer, beam=2)
    assert sizes == [1, 2, 2]
    assert [some[0].words for some in apart] == [some[0].words for some in together]


def test_a_report_is_read(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text(json.dumps({"schema": 4}))
    assert phrasescore.read_report(tmp_path / "report.json") == {"schema": 4}
    with pytest.raises(phrasescore.UserError, match="missing: cannot be read"):
        phrasescore.read_report(tmp_path / "missing")


def test_annotating_without_a_folder_or_processes_is_rejected(
    scorer: phrasescore.PhraseScorer, small_table: Path, tmp_path: Path
) -> None:
    table, folder = small_table, tmp_path / "missing"
    with pytest.raises(phrasescore.UserError, match=f"out: cannot be written, for {folder} is no folder; check"):
        phrasescore.annotate(table, scorer, folder / "out")
    with pytest.raises(phrasescore.UserError, match=r"^annotate\(\): processes is 0; give at least 1$"):
        phrasescore.annotate(table, scorer, tmp_path / "out", processes=0)
    assert list(tmp_path.iterdir()) == [table]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"limit": 0}, "limit is 0; give at least 1"),
        ({"limit": "5"}, "limit is '5'; give a whole number"),
        ({"on_error": "skip"}, "on_error is 'skip'; choose one of stop, keep"),
        ({"shard": (1, 2)}, "shard is (1, 2); give a text"),
        ({"shard": "3/2"}, "shard: 3/2 is not a shard and a number of shards, as 3/16; shards count from 1"),
        ({"shard": "0/2"}, "shard: 0/2 is not a shard and a number of shards"),
        ({"shard": "x/2"}, "shard: x/2 is not a shard and a number of shards"),
        ({"processes": 2, "scheduler": "tcp://node1:8786"}, "processes and scheduler: are both given; leave one out"),
        ({"replace_last": 1}, "replace_last is 1; give a text"),
        ({"columns": "score"}, "columns is 'score'; give a list"),
        ({"columns": ["score", 1]}, "columns is 1; give a text"),
        ({"only_sources_in": "text.en"}, "only_sources_in is 'text.en'; give a list"),
        ({"columns": []}, "columns: must be one or more different names"),
        ({"columns": ["score", "score"]}, "columns: must be one or more different names"),
        (
            {"replace_last": "1", "on_error": "keep"},
            "replace_last: does not go with on_error='keep', because a faulty line may",
        ),
    ],
)
def test_values_that_annotating_cannot_use_are_rejected(
    options: dict[str, Any], message: str, scorer: phrasescore.PhraseScorer, small_table: Path, tmp_path: Path
) -> None:
    with pytest.raises(phrasescore.UserError) as error:
        phrasescore.annotate(small_table, scorer, tmp_path / "out", **options)
    assert str(error.value).removeprefix("annotate(): ").startswith(message)
    assert list(tmp_path.iterdir()) == [small_table]


def test_a_shard_of_a_pipe_is_rejected(scorer: phrasescore.PhraseScorer, tmp_path: Path) -> None:
    with pytest.raises(phrasescore.UserError, match=r"^standard input: can be read only once, but shard reads"):
        phrasescore.annotate("-", scorer, tmp_path / "out", shard="1/2")


def test_parts_of_a_table_and_some_sources_are_annotated_as_by_the_command(
    scorer: phrasescore.PhraseScorer, small_table: Path, tmp_path: Path
) -> None:
    (tmp_path / "text").write_text("a black dog\n")
    options: dict[str, Any] = {"only_sources_in": [tmp_path / "text"], "shard": "1/1", "processes": 1}
    counts = phrasescore.annotate(small_table, scorer, tmp_path / "out", **options)
    assert 0 < counts.lines_written < counts.lines_read
    arguments = [small_table, "-m", MODEL, "-o", tmp_path / "same", "--only-sources-in", tmp_path / "text"]
    main(["annotate", *map(str, arguments), "--shard", "1/1", "--processes", "1", "--precision", "fp32"])
    assert (tmp_path / "out").read_bytes() == (tmp_path / "same").read_bytes()


def test_wrong_values_are_rejected() -> None:
    half: Any = "fp16"
    with pytest.raises(
        phrasescore.UserError, match="precision `fp16`: there is none of this name; give auto, fp32, bf16, int8"
    ):
        phrasescore.load_scorer(MODEL, precision=half)
    number: Any = 0
    with pytest.raises(TypeError, match="not int"):
        phrasescore.check(number)
    several: Any = [MODEL]
    with pytest.raises(TypeError, match="model: is a list"):
        phrasescore.score([("a", "b")], several)
    with pytest.raises(TypeError, match="paths: is one file"):
        phrasescore.load_plugins("plugin.py")
    text: Any = "5"
    with pytest.raises(phrasescore.UserError, match=r"^check\(\): num_features is '5'; give a whole number$"):
        phrasescore.check("table", num_features=text)


def test_unknown_options_are_type_errors(scorer: phrasescore.PhraseScorer, tmp_path: Path) -> None:
    model: Any = tmp_path / "model"
    unlike: Any = [3]
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: phrasescore.train("t", model, hiden=3), "train() has no option `hiden`; did you mean `hidden`?"),
        (lambda: phrasescore.translate([""], scorer, bean=3), "translate() has no option `bean`; did you mean `beam`?"),
        (lambda: phrasescore.translate("a b", scorer), "sentence: is one text; give a list"),
        (lambda: phrasescore.translate(unlike, scorer), "sentence 1: is of type int; give str or bytes"),
        (lambda: phrasescore.annotate("t", scorer, None, column="score"), "annotate() has no option `column`; did you"),
    ]  # fmt: skip
    for call, message in calls:
        with pytest.raises(TypeError) as error:
            call()
        assert str(error.value).startswith(message)
    with pytest.raises(phrasescore.UserError, match=r"^hidden: `x` is not a whole number; give one$"):
        phrasescore.train("t", tmp_path / "m", hidden="x")
    with pytest.raises(phrasescore.UserError, match=r"^preset: `smal` is not a valid choice; did you mean `small`\?"):
        phrasescore.train("t", tmp_path / "m", preset="smal")
    with pytest.raises(phrasescore.UserError, match=r"^preset='context': is for parallel text with a word alignment"):
        phrasescore.train("t", tmp_path / "m", preset="context")
    assert list(tmp_path.iterdir()) == []


def test_importing_it_needs_no_library() -> None:
    code = "import sys\nfor name in ('torch', 'numpy', 'rich', 'pandas'): sys.modules[name] = None\n"
    code += "import phrasescore; assert 'train' in dir(phrasescore)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).stderr == b""


def test_other_names_are_attribute_errors() -> None:
    assert all(getattr(phrasescore, name) for name in phrasescore.__all__)
    with pytest.raises(AttributeError, match="'phrasescore' has no attribute 'nothing'"):
        phrasescore.nothing  # noqa: B018


def test_only_options_that_a_function_takes_are_named_otherwise(tmp_path: Path) -> None:
    """Messages use Python's names for options of the function only.

    Options of a command line and similar text in file names stay unchanged.
    """
    with pytest.raises(phrasescore.UserError, match=r"a --hidden/none\.gz: cannot be read"):
        phrasescore.train("a --hidden/none.gz", tmp_path / "m", max_updates=1)
    with pytest.raises(phrasescore.UserError, match="`pairs_a_sentence`: has no effect without a word alignment"):
        phrasescore.train("t", tmp_path / "m", pairs_a_sentence=7)
    with pytest.raises(TypeError, match="has no option `in_context`"):
        phrasescore.train("t", tmp_path / "m", in_context=True)


def test_a_scorer_needs_a_folder() -> None:
    with pytest.raises(phrasescore.UserError, match="no model folder is given"):
        phrasescore.load_scorer()


def test_shards_are_joined(small_table: Path, tmp_path: Path) -> None:
    part, joined = tmp_path / "part", tmp_path / "joined"
    phrasescore.annotate(small_table, MODEL, part, shard="1/1", processes=1)
    assert phrasescore.join([part], joined) == 600
    with pytest.raises(TypeError, match="shards: is one file; give a list"):
        phrasescore.join(part, joined)  # type: ignore[arg-type]
    with pytest.raises(phrasescore.UserError, match="shards: is empty"):
        phrasescore.join([], joined)
