"""Preparing text for Moses, and restoring plain text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from moses_integration.building import preparation
from moses_integration.building.preparation import SystemText, TextSettings, escape, unescape
from phrasescore import workers
from tests.conftest import MINI

PLAIN = TextSettings("en", "en", tokenise=False, casing="keep", escape=False)


def settings(language: str = "en", **options: Any) -> TextSettings:
    return TextSettings(language, language, **({"casing": "lower"} | options))


def prepare(folder: Path, text: bytes, settings: TextSettings, learns_case: bool = False) -> bytes:
    (folder / "raw").write_bytes(text)
    SystemText(folder, settings).prepare("source", folder / "raw", folder / "out", learns_case=learns_case)
    return (folder / "out").read_bytes()


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
def test_raw_text_is_tokenised_escaped_and_lowered(language: str, raw: str, prepared: str, tmp_path: Path) -> None:
    assert prepare(tmp_path, raw.encode(), settings(language)).decode() == f"{prepared}\n"


def test_unusual_spaces_and_control_characters_become_single_spaces() -> None:
    """Unusual spaces and control characters become single spaces, in tokenised text too.

    They include tab, NBSP, U+2028, next line, zero width space, ideographic space and byte order mark.
    """
    raw = "\ufeff a\tb\u00a0c\u2028d\x85e\u200bf\u3000g\x00h  i\x1f \r"
    for one in (PLAIN, settings()):
        assert list(one.tokenised([raw.encode()], "en")) == ["a b c d e f g h i"]


def test_tokenised_text_is_left_alone_but_for_what_is_asked(tmp_path: Path) -> None:
    text = b"Don't , e.g. 'x' | a.b\n"
    assert prepare(tmp_path, text, PLAIN) == text
    assert prepare(tmp_path, text, settings(tokenise=False, casing="keep")) == (
        b"Don&apos;t , e.g. &apos;x&apos; &#124; a.b\n"
    )
    assert prepare(tmp_path, text, settings(tokenise=False, escape=False)) == text.lower()


def test_bytes_that_are_not_utf_8_pass_through(tmp_path: Path) -> None:
    assert prepare(tmp_path, b"Caf\xe9 noir.", settings("fr")) == b"caf \xe9 noir .\n"
    assert prepare(tmp_path, b"caf\xe9\xff", PLAIN) == b"caf\xe9\xff\n"


def test_every_line_gives_a_line(tmp_path: Path) -> None:
    """Each input line gives one output line, also an empty line and a last line without a line feed."""
    assert prepare(tmp_path, b"\nOne.\n \xc2\xa0\n\nTwo.", settings()) == b"\none .\n\n\ntwo .\n"


@pytest.mark.parametrize("text", ["", "a & b | <c> 'd' \"e\" [f]", "&amp; &#124; &amp;apos; &;", "&lt;&&gt;", "]][["])
def test_escapes_come_back(text: str) -> None:
    assert not set("|<>'\"[]") & set(escape(text))
    assert unescape(escape(text)) == text


def test_many_lines_are_shared_among_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (MINI / "train.en").read_bytes().splitlines()[:70]
    alone = list(settings().tokenised(lines, "en"))
    monkeypatch.setattr(preparation, "_LINES_A_TASK", 8)
    monkeypatch.setattr(workers, "available_cores", lambda: 2)
    assert list(settings().tokenised(lines, "en")) == alone


def test_the_case_of_training_text_is_that_of_other_text(tmp_path: Path) -> None:
    train = b"We saw the Seine. The Seine is big.\n\nIn Paris, we saw it.\n"
    assert prepare(tmp_path, train, TextSettings("en", "fr"), learns_case=True) == (
        b"we saw the Seine . the Seine is big .\n\nIn Paris , we saw it .\n"
    )
    assert prepare(tmp_path, b"Saw it, the SEINE.", TextSettings("en", "fr")) == b"saw it , the Seine .\n"


def test_training_text_in_another_casing_teaches_nothing(tmp_path: Path) -> None:
    assert prepare(tmp_path, b"We saw Paris.", settings(), learns_case=True) == b"we saw paris .\n"
    assert {path.name for path in tmp_path.iterdir()} == {"raw", "out"}


def test_translations_become_plain_text_again(tmp_path: Path) -> None:
    raw = b"\"It's [5] dogs & cats,\" he said, isn't it?\n\nTwo. Three!\n"
    prepare(tmp_path, b"x it x two x three", settings(casing="true"), learns_case=True)
    prepared = prepare(tmp_path, raw, settings(casing="true"))
    assert prepared.startswith(b"&quot; it &apos;s &#91; 5 &#93; dogs &amp; cats , &quot; he said")
    assert b"\n".join(settings(casing="true").detokenise(prepared.split(b"\n"))) == raw


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
def test_plain_text_of_any_script_comes_back(language: str, raw: str, tmp_path: Path) -> None:
    prepare(tmp_path, b"", settings(language, casing="true"), learns_case=True)
    prepared = prepare(tmp_path, raw.encode(), settings(language, casing="true"))
    assert b"".join(settings(language, casing="true").detokenise([prepared.rstrip()])).decode() == raw


def test_detokenising_reverses_tokenising_only() -> None:
    assert list(PLAIN.detokenise([b"a , &amp; b ."])) == [b"a , &amp; b ."]
    assert list(settings(tokenise=False).detokenise([b"a , &amp; b ."])) == [b"a , & b ."]
    assert list(settings("fr", escape=False).detokenise([b"l' ami &amp; ."])) == [b"l'ami &amp;."]
