"""The decoder reproduces the features and scores of Moses, and finds the derivations of its n-best lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moses_integration.decoder.declaration import declare_model, load_model
from moses_integration.decoder.model import LogLinearModel
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import nbest_entry, translation_line
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import DecoderSettings, read_settings
from moses_integration.ini import MosesIni
from moses_integration.nbest import NbestEntry, read_nbest, segments_of
from phrasescore.files import read_bytes, read_lines
from tests.conftest import MINI
from tests.moses_integration.decoder.derivations import score_derivations

LIST_SIZE = 50
WIDE: dict[str, Any] = {"stack": 5000, "beam_threshold": 0, "pop_limit": 0}


@dataclass(frozen=True)
class Golden:
    """A text that Moses decoded."""

    name: str
    ini: str = "moses.ini"
    text: str = "dev.en"
    distortion_limit: int = 6

    def entries(self) -> Iterator[tuple[int, list[NbestEntry]]]:
        """Yield the n-best list of each sentence."""
        entries = read_nbest(MINI / "decode" / f"{self.name}.nbest.gz")
        return ((number, list(group)) for number, group in groupby(entries, key=lambda entry: entry.sentence))


SEARCHED = [
    Golden("default"),
    Golden("cube"),
    Golden("monotone", distortion_limit=0),
    Golden("hard", text="hard.en"),
    Golden("tuned", ini="moses.tuned.ini", text="test.en"),
    Golden("five", ini="moses.5.ini"),
]
every_golden = pytest.mark.parametrize("golden", [*SEARCHED, Golden("wide")], ids=lambda golden: golden.name)
searched = pytest.mark.parametrize("golden", SEARCHED, ids=lambda golden: golden.name)


@cache
def load(ini_name: str, text: str) -> tuple[LogLinearModel, DecoderSettings, list[Words]]:
    ini = MosesIni.read(MINI / ini_name)
    sentences = [words_of(line) for line in read_lines(MINI / text)]
    settings = read_settings(ini)
    return load_model(ini, sentences, settings), settings, sentences


@cache
def decode(ini_name: str, text: str, distortion_limit: int) -> tuple[bytes, list[list[NbestEntry]]]:
    """Return our translations and n-best lists with the golden's settings."""
    model, settings, sentences = load(ini_name, text)
    settings = replace(settings, distortion_limit=distortion_limit)
    best, lists = [], []
    for number, sentence in enumerate(sentences):
        graph = Search(model, settings, sentence).run(keep_arcs=True)
        best.append(translation_line(graph.best()) + b" \n")
        listed = graph.n_best(LIST_SIZE, distinct=True)
        lists.append([nbest_entry(model, number, one) for one in listed])
    return b"".join(best), lists


def test_the_features_and_weights_that_moses_shows(tmp_path: Path) -> None:
    """`moses -show-weights`; no file that the ini names is needed."""
    (tmp_path / "moses.ini").write_bytes((MINI / "moses.ini").read_bytes())
    model = declare_model(MosesIni.read(tmp_path / "moses.ini"))
    lines = [line.split() for line in (MINI / "decode/show-weights.txt").read_text().splitlines()]
    assert [one.label for one in model.features] == [label.removesuffix("=") for label, *_ in lines]
    for feature, (_, *shown) in zip(model.features, lines, strict=True):
        if feature.tuneable:
            assert model.weights_F[model.columns[feature.label]].tolist() == [float(weight) for weight in shown]
        else:
            assert shown == ["UNTUNEABLE"]


@every_golden
def test_the_features_and_totals_of_every_derivation(golden: Golden) -> None:
    model, _, sentences = load(golden.ini, golden.text)
    ours, theirs = [], []
    for number, entries in golden.entries():
        derivations = score_derivations(model, sentences[number], [segments_of(entry) for entry in entries])
        for entry, derivation in zip(entries, derivations, strict=True):
            copied = sum(step.target.scores is None for step in derivation.steps)
            features = {"UnknownWordPenalty0": [-100.0 * copied], **entry.features()}
            theirs.append([*(value for label in model.columns for value in features[label]), float(entry.total)])
            ours.append([*derivation.values_F, derivation.score])
    assert len(ours) > 800
    # Moses prints six digits.
    np.testing.assert_allclose(ours, theirs, atol=1e-3, rtol=1e-5)


@searched
def test_the_best_translations(golden: Golden) -> None:
    best, _ = decode(golden.ini, golden.text, golden.distortion_limit)
    assert best == read_bytes(MINI / "decode" / f"{golden.name}.out")


@searched
def test_the_lists(golden: Golden) -> None:
    """n-best lists agree except for a few entries that one of the two searches pruned."""
    _, lists = decode(golden.ini, golden.text, golden.distortion_limit)
    expected = found = worse = equal = 0
    for number, entries in golden.entries():
        theirs, ours = by_words(entries), by_words(lists[number])
        assert len(theirs) == len(entries)
        assert len(lists[number]) == len(ours) <= LIST_SIZE
        expected += len(theirs)
        for words in theirs.keys() & ours.keys():
            found += 1
            worse += float(ours[words].total) < float(theirs[words].total) - 1e-3
            equal += ours[words].extras == theirs[words].extras
        assert float(lists[number][0].total) >= float(entries[0].total) - 1e-3
    assert found >= 0.99 * expected
    assert worse <= 0.001 * expected
    assert equal >= 0.99 * expected


def by_words(entries: list[NbestEntry]) -> Mapping[bytes, NbestEntry]:
    return {entry.words: entry for entry in entries}


@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.slow)], ids=["a fifth", "all"])
def test_a_wide_search_misses_nothing_that_moses_found(every: int) -> None:
    golden = Golden("wide")
    model, settings, sentences = load(golden.ini, golden.text)
    differences = []
    for number, entries in golden.entries():
        if number % every == 0:
            best = Search(model, replace(settings, **WIDE), sentences[number]).run().best()
            assert best is not None
            differences.append(best.score - float(entries[0].total))
    assert len(differences) == len(sentences) // every
    assert min(differences) > -1e-3


@pytest.mark.parametrize("narrow", [{"stack": 1}, {"beam_threshold": 0.9}, {"pop_limit": 1}], ids=str)
def test_a_narrow_search_finds_other_translations(narrow: dict[str, Any]) -> None:
    """Each limit changes the translations of two sentences whose best translations reorder phrases."""
    model, settings, sentences = load("moses.ini", "dev.en")
    for number in (66, 74):
        found = [
            translation_line(Search(model, one, sentences[number]).run().best())
            for one in (settings, replace(settings, **narrow))
        ]
        assert found[0] != found[1]


def test_a_search_that_failed_gives_an_empty_line() -> None:
    assert translation_line(None) == b""
