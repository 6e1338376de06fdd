"""Given derivations get the same scores as in the search."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.graph import Derivation
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import TargetPhrase, words_of
from moses_integration.decoder.pool import nbest_entry
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings
from moses_integration.ini import MosesIni
from moses_integration.nbest import Segment, parse_entry, segments_of
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from tests.conftest import MINI
from tests.moses_integration.decoder.derivations import score_derivations
from tests.moses_integration.decoder.small_system import Line, SmallSystem

WEIGHTS = {"U": [1.0], "W": [0.0], "P": [0.0], "T": [1.0], "D": [0.25]}


def small_model(folder: Path, *lines: Line) -> LogLinearModel:
    return load_model(
        SmallSystem(lines, WEIGHTS, distortion_limit=0).write(folder), [(b"a", b"b", b"zz")], DecoderSettings()
    )


def phrase_pairs(derivation: Derivation) -> list[tuple[int, int, TargetPhrase]]:
    return [(step.start, step.end, step.target) for step in derivation.steps]


def test_the_search_s_own_list_comes_back() -> None:
    sentences = [words_of(line) for line in read_lines(MINI / "hard.en")][:5]
    model = load_model(MosesIni.read(MINI / "moses.ini"), sentences, DecoderSettings())
    for number, sentence in enumerate(sentences):
        listed = Search(model, DecoderSettings(), sentence).run(keep_arcs=True).n_best(30, distinct=False)
        entries = [nbest_entry(model, number, one) for one in listed]
        again = score_derivations(model, sentence, [segments_of(entry) for entry in entries])
        assert [phrase_pairs(one) for one in again] == [phrase_pairs(one) for one in listed]
        np.testing.assert_allclose([one.values_F for one in again], [one.values_F for one in listed], atol=1e-5)
        np.testing.assert_allclose([one.score for one in again], [one.score for one in listed], atol=1e-5)


def test_limits_do_not_apply(tmp_path: Path) -> None:
    """Search limits do not apply to given derivations.

    The system's distortion limit is 0, but the derivation goes from right to left: 2 + 2 + 2.
    """
    model = small_model(tmp_path, Line((b"a",), (b"A",), (0.5,)), Line((b"b",), (), (0.25,)))
    segments = [Segment(2, 2, (b"zz",)), Segment(1, 1, ()), Segment(0, 0, (b"A",))]
    (derivation,) = score_derivations(model, (b"a", b"b", b"zz"), [segments])
    assert derivation.words == (b"zz", b"A")
    assert derivation.values_F[model.columns["D"]] == [-6]
    assert derivation.score == pytest.approx(np.log(0.125) - 6 * 0.25 - 100)


def test_of_equal_lines_the_best_counts(tmp_path: Path) -> None:
    model = small_model(tmp_path, *(Line((b"a",), (b"A",), (p,)) for p in (0.1, 0.7, 0.3)))
    assert score_derivations(model, (b"a",), [[Segment(0, 0, (b"A",))]])[0].score == pytest.approx(np.log(0.7))


def test_derivations_keep_their_order(tmp_path: Path) -> None:
    lines = Line((b"a",), (b"A",), (0.5,)), Line((b"a", b"b"), (b"B",), (0.5,)), Line((b"b",), (b"C",), (0.5,))
    model = small_model(tmp_path, *lines)
    short, long = [Segment(0, 1, (b"B",))], [Segment(0, 0, (b"A",)), Segment(1, 1, (b"C",))]
    found = score_derivations(model, (b"a", b"b"), [long, short, long])
    assert [one.words for one in found] == [(b"A", b"C"), (b"B",), (b"A", b"C")]


def test_an_empty_sentence_has_one_derivation(tmp_path: Path) -> None:
    (derivation,) = score_derivations(small_model(tmp_path), (), [[]])
    assert (derivation.steps, derivation.score) == ((), 0)


def test_empty_phrases_are_read_from_where_the_next_begins() -> None:
    entry = parse_entry(b"3 ||| A B C  ||| D= 0 ||| -1 ||| 1=0 0=0-1 4-5=2 2-3=2 6=3")
    assert segments_of(entry) == [
        Segment(1, 1, ()),
        Segment(0, 0, (b"A", b"B")),
        Segment(4, 5, ()),
        Segment(2, 3, (b"C",)),
        Segment(6, 6, ()),
    ]


def test_an_empty_first_phrase_is_read_as_moses_writes_it() -> None:
    entry = parse_entry(b"3 ||| A ||| D= 0 ||| -1 ||| 1=0-18446744073709551615 0=0")
    assert segments_of(entry) == [Segment(1, 1, ()), Segment(0, 0, (b"A",))]


def test_an_empty_sentence_has_no_phrases() -> None:
    assert segments_of(parse_entry(b"1 |||  ||| D= 0 ||| 0 ||| ||| ")) == []


@pytest.mark.parametrize("extra", [b"", b" ||| 0-0 1-1 ", b" ||| x=0"])
def test_an_entry_without_segmentation(extra: bytes) -> None:
    with pytest.raises(UserError, match="sentence 3 has no segmentation"):
        segments_of(parse_entry(b"3 ||| A B ||| D= 0 ||| -1" + extra))


@pytest.mark.parametrize(
    ("segments", "message"),
    [
        ([Segment(0, 0, (b"A",))], "do not cover each word once"),
        ([Segment(0, 1, (b"A",)), Segment(1, 1, (b"A",))], "do not cover each word once"),
        ([Segment(0, 0, (b"A",)), Segment(1, 1, (b"A",))], "table: does not translate `b` as `A`; give derivations of"),
        ([Segment(0, 1, (b"A",))], "does not translate `a b` as `A`"),
    ],
    ids=["gap", "overlap", "other words", "other span"],
)
def test_derivations_that_do_not_exist(segments: list[Segment], message: str, tmp_path: Path) -> None:
    model = small_model(tmp_path, Line((b"a",), (b"A",), (0.5,)), Line((b"b",), (b"B",), (0.5,)))
    with pytest.raises(UserError, match=message):
        score_derivations(model, (b"a", b"b"), [segments])


@pytest.mark.parametrize(
    "segmentation", [b"0=0 1=1 2=2", b"0=0-1 1=2", b"1=1 0=0", b"0=1 1=2", b"0=0 1=1-3", b"0=0 1=3"]
)
def test_a_segmentation_of_other_words(segmentation: bytes) -> None:
    with pytest.raises(UserError, match="sentence 3 has a segmentation that does not fit its words"):
        segments_of(parse_entry(b"3 ||| A B C D E ||| D= 0 ||| -1 ||| " + segmentation))
