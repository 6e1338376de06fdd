from __future__ import annotations

import gzip
import math
import os
import re
import sys
import threading
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from phrasescore.device import choose_device
from phrasescore.errors import UserError
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.scoring.annotate import Counts
from phrasescore.scoring.annotate_config import phrases_in_texts
from phrasescore.scoring.encoder_decoder import EncodedPairs, EncoderDecoderScorer
from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import load_scorer
from phrasescore.table.check import check_table
from phrasescore.vocabulary import WordCounts
from tests.conftest import DATA
from tests.nn.family import config_of
from tests.scoring.annotating import annotate

SCORER = EncoderDecoderScorer.load([DATA / "stored-model"], "cpu", "fp32")


def lines_of(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


def without_column(line: bytes, column: int) -> tuple[bytes, float]:
    fields = line.split(b" ||| ")
    scores = fields[2].split(b" ")
    number = float(scores.pop(column))
    fields[2] = b" ".join(scores)
    return b" ||| ".join(fields), number


def test_every_line_gets_one_number_and_nothing_else(mini_table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.gz"
    counts = annotate(mini_table, SCORER, output, chunk_lines=1000, processes=1)
    before, after = lines_of(mini_table), lines_of(output)
    assert len(after) == len(before) == counts.lines_written == 19_385
    stripped = [without_column(line, 4) for line in after]
    assert [line for line, _ in stripped] == before
    assert all(0 < number <= 1 for _, number in stripped)
    assert counts.columns_before == 4
    assert counts.columns_after == 5
    report = check_table(output, columns=5)
    assert not report.problems
    assert not report.notes


@pytest.mark.parametrize("name", ["tutorial", "reversed", "Bahdanau", "Luong with input feeding"])
def test_the_column_of_any_member_of_the_family_is_its_score(name: str, small_table: Path, tmp_path: Path) -> None:
    known = SCORER.model
    torch.manual_seed(1)
    network = EncoderDecoder(config_of(name), len(known.source_vocabulary), len(known.target_vocabulary)).eval()
    scorer = EncoderDecoderScorer(replace(known, network=network), choose_device("cpu", "fp32"))
    annotate(small_table, scorer, tmp_path / "out.gz", chunk_lines=100, processes=1)
    lines = [line.split(b" ||| ") for line in lines_of(tmp_path / "out.gz")]
    for fields in lines[::60]:
        alone = scorer.score(Occurrences([fields[0]], [fields[1]])).first_N
        assert math.log(float(fields[2].split()[-1])) == pytest.approx(float(alone[0]), abs=1e-4)
    assert len(lines) == 600


def test_clipped_scores_are_counted(tmp_path: Path) -> None:
    table = tmp_path / "table"
    table.write_bytes(b"the ||| " + b"zz " * 40 + b"||| 1\nthe ||| le ||| 1\n")
    assert annotate(table, SCORER, tmp_path / "out").pairs_clipped == 1


def test_unknown_words_are_counted_on_the_sides_of_the_table(tmp_path: Path) -> None:
    """Unknown words are counted by the table's sides, also if the network predicts the table's source."""
    table, output = tmp_path / "table", tmp_path / "out.gz"
    table.write_bytes(b"le zebre ||| the zebra zebra ||| 1\n")
    scorer = EncoderDecoderScorer(replace(SCORER.model, direction="source-given-target"), SCORER.device)
    counts = annotate(table, scorer, output, columns=["score", "unknown-target"])
    assert counts.words == WordCounts(2, 1, 3, 2)
    [line] = lines_of(output)
    assert math.log(float(line.split()[-1])) == pytest.approx(2, abs=1e-6)


def test_chunks_do_not_matter(small_table: Path, tmp_path: Path) -> None:
    numbers = []
    for size in (1, 50, 1000):
        output = tmp_path / f"{size}.gz"
        annotate(small_table, SCORER, output, chunk_lines=size, processes=1)
        numbers.append([without_column(line, 4)[1] for line in lines_of(output)])
    for other in numbers[1:]:
        assert other == pytest.approx(numbers[0], rel=1e-4)


def test_unknown_words_and_scores_per_word(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(b"the dog ||| le zebre zebre ||| 0.5\nzebra ||| le ||| 0.5\nthe ||| le ||| 0.5\n")
    annotate(path, SCORER, output, columns=["score", "unknown-target"])
    texts = [line.split(b" ||| ")[2].split(b" ")[2] for line in output.read_bytes().splitlines()]
    assert texts == [b"%.9g" % 2.718281828459045**count for count in (2, 0, 0)]
    annotate(path, SCORER, output)
    whole = [without_column(line, 1)[1] for line in output.read_bytes().splitlines()]
    annotate(path, SCORER, output, columns=["per-word"])
    per_word = [without_column(line, 1)[1] for line in output.read_bytes().splitlines()]
    assert per_word == pytest.approx([whole[0] ** (1 / 4), whole[1] ** (1 / 2), whole[2] ** (1 / 2)], rel=1e-5)


class Silent(EncoderDecoderScorer):
    """A scorer whose network must not run."""

    def _scores_of(self, pairs: EncodedPairs, *, unnormalised: bool = False) -> NDArray[np.float64]:
        raise AssertionError


def test_no_network_is_asked_for_counts_alone(small_table: Path, tmp_path: Path) -> None:
    outputs, columns = [tmp_path / "both", tmp_path / "counts"], ["unknown-target"]
    silent = Silent(SCORER.model, SCORER.device)
    whole = annotate(small_table, SCORER, outputs[0], columns=[*columns, "score"], processes=1)
    counts = annotate(small_table, silent, outputs[1], columns=columns, processes=1)
    lines = (path.read_bytes().splitlines(keepends=True) for path in outputs)
    assert [without_column(line, 5)[0] for line in next(lines)] == next(lines)
    assert replace(whole, columns_after=5, seconds=0.0) == replace(counts, seconds=0.0)
    with pytest.raises(AssertionError):
        annotate(small_table, silent, None, columns=[*columns, "per-word"], processes=1)


def test_the_only_score_can_be_replaced(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(b"the dog ||| le chien ||| 1 ||| 0-0 1-1\nthe ||| le ||| 1\n")
    counts = annotate(path, SCORER, output, columns=["score", "unknown-target"], replace_last="1")
    assert (counts.columns_before, counts.columns_after) == (1, 2)
    annotate(path, SCORER, tmp_path / "more", columns=["score", "unknown-target"])
    assert output.read_bytes() == (tmp_path / "more").read_bytes().replace(b"||| 1 ", b"||| ")


def test_doubled_spaces_make_no_words(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"the  zebra ||| le  ||| 0.5\nthe zebra |||  la ||| 0.5\n")
    counts = annotate(tmp_path / "table", SCORER, None)
    assert (counts.words.source, counts.words.source_unknown, counts.words.target) == (4, 2, 2)


def test_only_some_sources(mini_table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.gz"
    sources = [b"the dog", b"the", b"dog", b"nowhere"]
    counts = annotate(mini_table, SCORER, output, only_sources=sources)
    expected = [line for line in lines_of(mini_table) if line.split(b" ||| ")[0] in sources]
    assert [without_column(line, 4)[0] for line in lines_of(output)] == expected
    assert counts.lines_written == len(expected) > 0
    assert counts.lines_read - counts.lines_written == 19_385 - len(expected)


def test_faulty_lines_can_be_kept(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(
        b"the ||| le ||| 0.5\nbroken\n ||| le ||| 0.5\na ||| c ||| 0.1 1 ||| 0-0\nthe ||| la ||| 0.5\n"
        b"a ||| d ||| ||| 0-0"
    )
    counts = annotate(path, SCORER, output, columns=["score", "unknown-target"], on_error="keep")
    lines = output.read_bytes().splitlines()
    assert lines[1:4] == [b"broken", b" ||| le ||| 0.5 1 1", b"a ||| c ||| 0.1 1 1 1 ||| 0-0"]
    assert lines[5:] == [b"a ||| d ||| ||| 0-0"]
    assert counts.faulty_lines_kept == 4
    assert counts.first_fault is not None
    assert "line 2" in counts.first_fault
    assert annotate(path, SCORER, None, on_error="keep", chunk_lines=1, processes=1).first_fault == counts.first_fault


def test_faulty_lines_are_filtered_by_their_source_too(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(
        b"dog ||| chien ||| 0.5\nthe ||| x ||| one\nthe ||| le ||| 0.5\nbroken\ndog ||| y ||| one\nthe ||| z ||| 1 2\n"
    )
    counts = annotate(path, SCORER, output, only_sources=[b"the"], on_error="keep")
    lines = output.read_bytes().splitlines()
    assert [line.split(b" ||| ")[1] for line in lines] == [b"x", b"le", b"z"]
    assert (lines[0], lines[2]) == (b"the ||| x ||| one 1", b"the ||| z ||| 1 2 1")
    assert (counts.faulty_lines, counts.faulty_lines_kept, counts.lines_read - counts.lines_written) == (4, 2, 3)


def test_a_line_too_long_for_memory_is_passed_through_as_it_is(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    long = b"the ||| le ||| 0.5 ||| " + b"0-0 " * 600_000
    path.write_bytes(b"the ||| le ||| 0.5\n" + long + b"\nthe ||| la ||| 0.5\n")
    counts = annotate(path, SCORER, output, on_error="keep", processes=1)
    first, second, third = output.read_bytes().splitlines()
    assert second == long
    assert [line.count(b" ") for line in (first, third)] == [5, 5]
    assert (counts.lines_read, counts.lines_written, counts.faulty_lines_kept) == (3, 3, 1)
    counts = annotate(path, SCORER, output, only_sources=[b"the"], on_error="keep", processes=1)
    assert output.read_bytes().splitlines() == [first, third]
    assert counts.lines_read - counts.lines_written == 1


def test_a_phrase_too_long_to_be_one_gets_neutral_columns(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    long = b"the ||| %b||| 0.5" % (1001 * b"le ")
    path.write_bytes(long + b"\nthe ||| la ||| 0.5\n")
    with pytest.raises(UserError, match=r"line 1, field 2 \(target\): has more than 1,000 words or 10,000 bytes"):
        annotate(path, SCORER, output)
    counts = annotate(path, SCORER, output, on_error="keep")
    assert output.read_bytes().splitlines()[0] == long + b" 1"
    assert counts.faulty_lines_kept == 1


def test_tables_of_another_kind_are_rejected_even_so(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(b"the ||| le ||| 0.5\n[X][X] a [X] ||| b ||| 0.1\n")
    with pytest.raises(UserError, match="cannot be scored"):
        annotate(path, SCORER, output, on_error="keep")
    assert not output.exists()


def test_links_stay_links_and_devices_are_not_replaced(small_table: Path, tmp_path: Path) -> None:
    real, link, pipe = tmp_path / "real.gz", tmp_path / "link.gz", tmp_path / "pipe"
    real.write_bytes(b"old")
    real.chmod(0o640)
    link.symlink_to(real)
    annotate(small_table, SCORER, link)
    assert link.is_symlink()
    assert len(lines_of(real)) == 600
    assert real.stat().st_mode & 0o777 == 0o640
    annotate(small_table, SCORER, Path("/dev/null"))
    assert Path("/dev/null").is_char_device()
    os.mkfifo(pipe)
    received: list[bytes] = []
    reader = threading.Thread(target=lambda: received.append(pipe.read_bytes()))
    reader.start()
    annotate(small_table, SCORER, pipe)
    reader.join()
    assert len(received[0].splitlines()) == 600
    assert pipe.is_fifo()


def test_tables_of_no_line_and_of_one(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes(b"the ||| le ||| 1")
    counts = annotate(path, SCORER, output)
    assert counts.lines_written == len(output.read_bytes().splitlines()) == 1
    path.write_bytes(b"")
    with pytest.raises(UserError, match="table: has no line"):
        annotate(path, SCORER, output)
    assert len(output.read_bytes().splitlines()) == 1


@given(
    st.lists(
        st.tuples(st.sampled_from([b"the dog", b"a", b"\xc2\xa0"]), st.binary(max_size=5), st.integers(0, 1)),
        min_size=1,
        max_size=20,
    )
)
@settings(max_examples=40)
def test_lines_and_order_are_kept(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[bytes, bytes, int]]
) -> None:
    folder = tmp_path_factory.mktemp("rows")
    path, output = folder / "table", folder / "out"
    clean = [(s, bytes(set(t) - set(b"\n\r\0|[] ")), e) for s, t, e in rows]
    before = [s + b" ||| " + t + b" ||| 0.5 1" + (b" ||| 0-0\n", b"\n")[e] for s, t, e in clean]
    path.write_bytes(b"".join(before))
    annotate(path, SCORER, output, chunk_lines=3, processes=1)
    after = [without_column(line.rstrip(b"\n"), 2) for line in output.read_bytes().splitlines(keepends=True)]
    assert [line for line, _ in after] == [line.rstrip(b"\n") for line in before]
    assert all(0 < number <= 1 for _, number in after)


def test_lines_of_a_run_before_count_as_read_though_they_were_left_out(tmp_path: Path) -> None:
    path, output, sources = tmp_path / "table", tmp_path / "out", [b"the"]
    path.write_bytes(b"the ||| le ||| 0.5\ndog ||| chien ||| 0.5\nthe ||| la ||| 0.5\n")

    def stop(counts: Counts, share: float | None) -> None:
        if counts.lines_read == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate(path, SCORER, output, only_sources=sources, chunk_lines=1, processes=1, progress=stop)
    counts = annotate(path, SCORER, output, only_sources=sources, chunk_lines=1, processes=1)
    assert (counts.lines_of_run_before, counts.lines_read, counts.lines_written) == (2, 3, 2)


@pytest.mark.parametrize(
    ("what", "options"),
    [
        ("precision fp32 (now bf16)", {"scorer": load_scorer(DATA / "stored-model", device="cpu", precision="bf16")}),
        ("columns score (now per-word)", {"columns": ["per-word"]}),
        ("replace-last none (now 1)", {"replace_last": "1"}),
        (
            f"only-sources-in none (now {sha256(b'the').hexdigest()[:8]}...)",
            {"only_sources": [b"the"]},
        ),
        ("limit none (now 2)", {"limit": 2}),
        ("on-error stop (now keep)", {"on_error": "keep"}),
        ("lines of a chunk 1 (now 2)", {"chunk_lines": 2}),
    ],
)
def test_an_option_that_differs_from_the_interrupted_run_is_an_error(
    tmp_path: Path, what: str, options: dict[str, Any]
) -> None:
    """An option that differs from the interrupted run is an error.

    The partial output is kept, so the original options still resume the run.
    """
    path, output, said = tmp_path / "table", tmp_path / "out", list[str]()
    path.write_bytes(b"the ||| le ||| 1\ndog ||| chien ||| 1\n")
    before: dict[str, Any] = {"scorer": SCORER, "chunk_lines": 1, "processes": 1}

    def stop(counts: Counts, share: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate(path, output=output, **before, progress=stop)
    message = f"{output}: an earlier run had {what}; give the same to resume it, or restart to discard its work"
    with pytest.raises(UserError, match=f"^{re.escape(message)}$"):
        annotate(path, output=output, **{**before, **options})
    annotate(path, output=output, **before, log=said.append)
    assert said == [f"{output}: resuming after chunk 1 of an interrupted run"]


def test_an_edit_of_the_source_code_does_not_discard_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, output, said = tmp_path / "table", tmp_path / "out", list[str]()
    path.write_bytes(b"the ||| le ||| 1\ndog ||| chien ||| 1\n")

    def stop(counts: Counts, share: float | None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        annotate(path, SCORER, output, chunk_lines=1, processes=1, progress=stop)
    for name in list(sys.modules):
        if name.startswith("phrasescore") and hasattr(sys.modules[name], "code_version"):
            monkeypatch.setattr(f"{name}.code_version", lambda *_: "edited")
    annotate(path, SCORER, output, chunk_lines=1, processes=1, log=said.append)
    assert said == [f"{output}: resuming after chunk 1 of an interrupted run"]


def only_these_files(folder: Path, *names: str) -> bool:
    return {path.name for path in folder.iterdir()} == set(names)


def test_a_fault_leaves_no_output_and_no_harmed_old_one(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out.gz"
    path.write_bytes(b"the ||| le ||| 0.5\n" * 5000 + b"broken\n")
    with pytest.raises(UserError, match="line 5001"):
        annotate(path, SCORER, output, chunk_lines=100, processes=1)
    assert only_these_files(tmp_path, "table")
    output.write_bytes(b"old")
    with pytest.raises(UserError, match="line 5001"):
        annotate(path, SCORER, output, chunk_lines=100, processes=1)
    assert output.read_bytes() == b"old"
    assert only_these_files(tmp_path, "table", "out.gz")


def test_a_truncated_table_leaves_no_output(mini_table: Path, tmp_path: Path) -> None:
    mini_table.write_bytes(mini_table.read_bytes()[:-1000])
    with pytest.raises(UserError, match="truncated"):
        annotate(mini_table, SCORER, tmp_path / "out.gz", chunk_lines=1000, processes=1)
    assert only_these_files(tmp_path, mini_table.name)


def test_a_table_without_a_model_vocabulary_word_still_scores(tmp_path: Path) -> None:
    path, output = tmp_path / "table", tmp_path / "out"
    path.write_bytes("\u65e5\u672c ||| \xff\xfe ||| 1\n".encode("utf-8") + b"\xff ||| \xfe\xfd ||| 1\n")
    counts = annotate(path, SCORER, output)
    assert counts.words.source_unknown == counts.words.source == 2
    assert len(output.read_bytes().splitlines()) == 2


def test_every_run_of_words_is_a_phrase(tmp_path: Path) -> None:
    (tmp_path / "one").write_bytes(b"a b c\n\n")
    (tmp_path / "two").write_bytes("b\u00a0x  a\r\n".encode())
    found = phrases_in_texts([tmp_path / "one", tmp_path / "two"], longest=2)
    assert found == {b"a", b"b", b"c", b"a b", b"b c", "b\u00a0x".encode(), "b\u00a0x a".encode()}


def test_the_real_table(multi30k_table: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.gz"
    annotate(multi30k_table, SCORER, output, limit=20_000)
    with gzip.open(multi30k_table) as stream:
        for line, after in zip(stream, lines_of(output), strict=False):
            assert without_column(after, 4)[0] == line
    assert len(lines_of(output)) == 20_000
