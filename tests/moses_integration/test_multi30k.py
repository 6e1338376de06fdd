"""The embedded toolkit reproduces a Multi30k system of a real Moses. Needs the system's files beside the repository.

Its tables and language model are compared in `build/test_translation_tables.py` and `build/test_kneser_ney.py`.
"""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.phrases import Words, words_of
from moses_integration.decoder.pool import translation_line
from moses_integration.decoder.search import Search
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni
from moses_integration.metrics import measure
from moses_integration.nbest import NbestEntry, read_nbest, segments_of
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.toolkit import TuningRequest
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.files import read_lines, write_lines
from tests.conftest import SHARED
from tests.moses_integration.decoder.derivations import score_derivations

GOLDEN, TEXTS = SHARED / "golden/multi30k-en-fr", SHARED / "data/multi30k"
LISTED = 100
"""Sentences of the test text for which Moses' n-best lists exist."""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]


def text(part: str, language: str) -> Path:
    return TEXTS / f"{part}.lc.norm.tok.{language}.gz"


def sentences_of_test() -> list[Words]:
    return [words_of(line) for line in read_lines(text("test_2016_flickr", "en"))]


def moses_lists() -> Iterator[list[NbestEntry]]:
    entries = read_nbest(GOLDEN / "decode/first100.tuned.nbest.gz")
    return (list(group) for _, group in groupby(entries, key=lambda entry: entry.sentence))


@pytest.fixture(scope="module")
def system(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the system with its language model decompressed; skips the test if it is missing."""
    if not (GOLDEN.exists() and TEXTS.exists()):
        pytest.skip("needs the Multi30k corpus and what Moses made of it beside the repository")
    folder = tmp_path_factory.mktemp("system")
    for table in GOLDEN.glob("*-table*"):
        (folder / table.name).symlink_to(table)
    for ini in GOLDEN.glob("moses*.ini"):
        shutil.copy(ini, folder)
    with gzip.open(GOLDEN / "lm.fr.arpa.gz") as packed, (folder / "lm.fr.arpa").open("wb") as arpa:
        shutil.copyfileobj(packed, arpa)
    return folder


def test_the_features_and_totals_of_every_derivation(system: Path) -> None:
    ini, sentences = MosesIni.read(system / "moses.tuned.ini"), sentences_of_test()[:LISTED]
    model = load_model(ini, sentences, read_settings(ini))
    ours, theirs = [], []
    for sentence, entries in zip(sentences, moses_lists(), strict=True):
        derivations = score_derivations(model, sentence, [segments_of(entry) for entry in entries])
        for entry, derivation in zip(entries, derivations, strict=True):
            features = entry.features()
            values = [derivation.values_F[model.columns[label]] for label in features]
            ours.append([*np.concatenate(values), derivation.score])
            theirs.append([*(value for values in features.values() for value in values), float(entry.total)])
    assert len(ours) == 7706
    # Moses prints six digits.
    np.testing.assert_allclose(ours, theirs, atol=1e-3, rtol=1e-5)


def test_the_search_with_the_same_weights(system: Path, tmp_path: Path) -> None:
    """With the same weights, the scores of the best translations and BLEU equal those of Moses."""
    ini, sentences = MosesIni.read(system / "moses.tuned.ini"), sentences_of_test()
    settings = read_settings(ini)
    model = load_model(ini, sentences, settings)
    best = [Search(model, settings, sentence).run().best() for sentence in sentences]
    ours = [one.score for one in best[:LISTED] if one is not None]
    theirs = [float(entries[0].total) for entries in moses_lists()]
    assert np.mean(ours) >= np.mean(theirs) - 0.01
    write_lines(tmp_path / "out", map(translation_line, best))
    reference = [text("test_2016_flickr", "fr")]
    moses = measure(GOLDEN / "decode/test_2016_flickr.tuned.out", reference, "none")["BLEU"].score
    assert measure(tmp_path / "out", reference, "none")["BLEU"].score >= moses - 0.2


def test_tuning_from_where_moses_began(system: Path, tmp_path: Path) -> None:
    """Tuning from Moses' initial weights; `mert-moses.pl` reached BLEU 56.75 on the dev text."""
    ini = MosesIni.read(system / "moses.ini")
    source, references = text("val", "en"), [text("val", "fr")]
    [tuned] = EmbeddedToolkit().tune(ini, TuningRequest(source, references, [1], TuningConfig(), tmp_path))
    assert tuned.bleu >= 56.6
