"""Preparing text for Moses, and restoring plain text."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building import preparation
from moses_integration.building.preparation import (
    Preparation,
    SystemText,
    TextSettings,
    Truecaser,
    escape,
    unescape,
)
from phrasescore import workers
from tests.conftest import MINI

PLAIN = Preparation("en", tokenise=False, casing="keep", escape=False)


def applied(preparation: Preparation, *texts: str) -> list[str]:
    return [line.decode() for line in preparation.apply(text.encode() for text in texts)]


@pytest.mark.parametrize(
    ("language", "raw", "prepared"),
    [
        ("en", "It's 5,300 dogs, isn't it?", "it &apos;s 5,300 dogs , isn &apos;t it ?"),
        ("fr", "L’homme d'ici… « oui »", "l&apos; homme d&apos; ici ... &quot; oui &quot;"),
        ("de", "Das Haus (alt).", "das haus ( alt ) ."),
        ("en", "Mr. Low-cost & co. [x] a|b <c>", "mr. low-cost &amp; co . &#91; x &#93; a &#124; b &lt; c &gt;"),
        ("en", "He lives in the U.S.", "he lives in the u.s ."),
    ],
)
def test_raw_text_is_tokenised_escaped_and_lowered(language: str, raw: str, prepared: str) -> None:
    assert applied(Preparation(language), raw) == [prepared]


def test_odd_blanks_and_control_characters_become_single_blanks() -> None:
    """Unusual spaces and control characters become single spaces, in tokenised text too.

    They include tab, NBSP, U+2028, next line, zero width space, ideographic space and byte order mark.
    """
    raw = "\ufeff a\tb\u00a0c\u2028d\x85e\u200bf\u3000g\x00h  i\x1f \r"
    assert applied(PLAIN, raw) == ["a b c d e f g h i"]
    assert applied(Preparation("en"), raw) == ["a b c d e f g h i"]


def test_tokenised_text_is_left_alone_but_for_what_is_asked() -> None:
    text = "Don't , e.g. 'x' | a.b"
    assert applied(PLAIN, text) == [text]
    assert applied(Preparation("en", tokenise=False, casing="keep"), text) == [
        "Don&apos;t , e.g. &apos;x&apos; &#124; a.b"
    ]
    assert applied(Preparation("en", tokenise=False, escape=False), text) == ["don't , e.g. 'x' | a.b"]


def test_bytes_that_are_not_utf_8_pass_through() -> None:
    assert list(Preparation("fr").apply([b"Caf\xe9 noir."])) == [b"caf \xe9 noir ."]
    assert list(PLAIN.apply([b"caf\xe9\xff"])) == [b"caf\xe9\xff"]


def test_every_line_gives_a_line(tmp_path: Path) -> None:
    """Each input line gives one output line, also an empty line and a last line without a line feed."""
    (tmp_path / "raw").write_bytes(b"\nOne.\n \xc2\xa0\n\nTwo.")
    text = SystemText(tmp_path, TextSettings("en", "fr", casing="lower"))
    text.prepare("source", tmp_path / "raw", tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"\none .\n\n\ntwo .\n"


@pytest.mark.parametrize("text", ["", "a & b | <c> 'd' \"e\" [f]", "&amp; &#124; &amp;apos; &;", "&lt;&&gt;", "]][["])
def test_escapes_come_back(text: str) -> None:
    assert not set("|<>'\"[]") & set(escape(text))
    assert unescape(escape(text)) == text


def test_many_lines_are_shared_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (MINI / "train.en").read_bytes().splitlines()[:70]
    alone = list(Preparation("en").apply(lines))
    monkeypatch.setattr(preparation, "_LINES_A_TASK", 8)
    monkeypatch.setattr(workers, "available_cores", lambda: 2)
    assert list(Preparation("en").apply(lines)) == alone
    monkeypatch.setattr(workers, "available_cores", lambda: 1)
    assert list(Preparation("en").apply(lines)) == alone


def test_what_training_text_taught_prepares_other_text(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("We saw the Seine. The Seine is big.\n\nIn Paris, we saw it.\n")
    (tmp_path / "test").write_text("Saw it, the SEINE.")
    text = SystemText(tmp_path, TextSettings("en", "fr"))
    text.prepare("source", tmp_path / "train", tmp_path / "train.out", learns_case=True)
    text.prepare("source", tmp_path / "test", tmp_path / "test.out")
    assert (tmp_path / "train.out").read_text() == "we saw the Seine . the Seine is big .\n\nIn Paris , we saw it .\n"
    assert (tmp_path / "test.out").read_text() == "saw it , the Seine .\n"


def test_training_text_in_another_casing_teaches_nothing(tmp_path: Path) -> None:
    (tmp_path / "train").write_text("We saw Paris.")
    text = SystemText(tmp_path, TextSettings("en", "fr", casing="lower"))
    text.prepare("source", tmp_path / "train", tmp_path / "out", learns_case=True)
    assert (tmp_path / "out").read_text() == "we saw paris .\n"
    assert {path.name for path in tmp_path.iterdir()} == {"train", "out"}


def test_translations_become_plain_text_again() -> None:
    raw = ["\"It's [5] dogs & cats,\" he said, isn't it?", "", "Two. Three!"]
    preparation = Preparation("en", casing="true")
    truecaser = Truecaser.learn(["x it x two x three"])
    prepared = list(preparation.apply((text.encode() for text in raw), truecaser))
    assert prepared[0].startswith(b"&quot; it &apos;s &#91; 5 &#93; dogs &amp; cats , &quot; he said")
    assert [line.decode() for line in preparation.detokenise(prepared)] == [
        "\"It's [5] dogs & cats,\" he said, isn't it?",
        "",
        "Two. Three!",
    ]


@pytest.mark.parametrize(
    ("language", "raw"),
    [
        ("vi", "Tie\u0302\u0301ng Vie\u0323\u0302t, [5] nga\u0300y."),
        ("fa", 'می\u200cخواهم "به" | خانه بروم، نه؟'),
        ("my", "မြန်မာနိုင်ငံသည် (ရှိသည်)။"),
        ("si", "ශ්\u200dරී ලංකාව & ලංකාව."),
        ("hi", "क़लम हिन्दी में।"),
        ("ka", "ქართული ენა. არის ენა."),
    ],
)
def test_plain_text_of_any_script_comes_back(language: str, raw: str) -> None:
    preparation = Preparation(language, casing="true")
    prepared = preparation.apply([raw.encode()], Truecaser({}))
    assert [line.decode() for line in preparation.detokenise(prepared)] == [raw]


def test_the_way_back_does_no_more_than_the_way_there() -> None:
    assert list(PLAIN.detokenise([b"a , &amp; b ."])) == [b"a , &amp; b ."]
    assert list(Preparation("en", tokenise=False).detokenise([b"a , &amp; b ."])) == [b"a , & b ."]
    assert list(Preparation("fr", escape=False).detokenise([b"l' ami &amp; ."])) == [b"l'ami &amp;."]
