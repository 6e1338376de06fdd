"""The options of sentences in memory, and which of them a server keeps."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from moses_integration.decoder.declaration import load_model
from moses_integration.decoder.phrases import TargetPhrase, Words
from moses_integration.decoder.settings import read_settings
from moses_integration.decoder.tables import PhraseTable
from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.per_text.options_in_context import OptionsInContext
from tests.conftest import MINI

WORDS: list[Words] = [(b"the",), (b"black",), (b"dogs",), (b"cat",), (b"house",)]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[Words]:
    """The source phrases that were read from the table."""
    phrases: list[Words] = []
    lookup = PhraseTable.lookup

    def record(table: PhraseTable, source: Words) -> list[TargetPhrase]:
        phrases.append(source)
        return lookup(table, source)

    monkeypatch.setattr(PhraseTable, "lookup", record)
    return phrases


def find_in_context() -> tuple[Callable[[Words], object], Callable[[int], None]]:
    ini = MosesIni.read(MINI / "moses.tuned.ini").with_absolute_paths()
    add_column_in_context(ini, 0.1)
    options = OptionsInContext(ini, WORDS, read_settings(MosesIni.read(MINI / "moses.tuned.ini")))
    return lambda words: list(options.positions([words])), options.limit_cache


def find_without() -> tuple[Callable[[Words], object], Callable[[int], None]]:
    ini = MosesIni.read(MINI / "moses.tuned.ini")
    model = load_model(ini, WORDS, read_settings(ini))
    return model.translations, model.limit_cache


def test_a_table_that_is_not_tuned_stays_so() -> None:
    ini = MosesIni.read(MINI / "moses.tuned.ini").with_absolute_paths()
    add_column_in_context(ini, 0.1)
    ini.set_argument("TranslationModel0", "tuneable", "false")
    options = OptionsInContext(ini, WORDS, read_settings(MosesIni.read(MINI / "moses.tuned.ini")))
    assert not options.model.tuneable_F[options.model.columns["TranslationModel0"]].any()


@pytest.mark.parametrize(("make", "kept"), [(find_in_context, 4), (find_without, 1)])
def test_the_most_recently_used_phrases_are_kept(
    make: Callable[[], tuple[Callable[[Words], object], Callable[[int], None]]], kept: int, found: list[Words]
) -> None:
    """`limit_cache(1)` keeps one phrase, or in context four, because there phrases without translations count, too."""
    find, limit_cache = make()
    for words in (*WORDS, WORDS[0]):
        assert find(words)
    assert found == WORDS
    limit_cache(1)
    latest = [WORDS[0], *WORDS[:0:-1]][:kept]
    for words in latest:
        assert find(words)
    assert found == WORDS
    assert find(WORDS[1])
    assert found == [*WORDS, WORDS[1]]
