"""Warnings about text that is not as declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building.preparation import SystemText, TextSettings
from moses_integration.building.text_form import form_of
from tests.conftest import DATA

MINI = DATA / "mini"
PLAIN = [f"When we came, Mr. Brown had {number} apples, and a pear." for number in range(30)]
TOKENISED = [f"When we came , Mr. Brown had {number} apples , and a pear ." for number in range(30)]


def warnings_for(lines: list[str], tmp_path: Path, language: str = "en", *, tokenise: bool = True) -> list[str]:
    raw, warned = tmp_path / "raw", list[str]()
    raw.write_text("".join(f"{line}\n" for line in lines))
    settings = TextSettings(language, "xx", tokenise, casing="lower")
    SystemText(tmp_path, settings).prepare("source", raw, tmp_path / "prepared", warned.append)
    return [sentence.removeprefix(f"{raw}: ") for sentence in warned]


def test_text_as_declared_gives_no_warning(tmp_path: Path) -> None:
    assert warnings_for(PLAIN, tmp_path) == []
    assert warnings_for(TOKENISED, tmp_path, tokenise=False) == []
    # Too little text, or text without such characters, allows no decision.
    assert warnings_for(TOKENISED[:1], tmp_path) == []
    assert warnings_for(["one word"] * 30, tmp_path) == []
    assert warnings_for(["今天天气很好，我们出去。"] * 30, tmp_path, "zh") == []
    assert warnings_for(["Oui, je viens, et vous ?"] * 30, tmp_path, "fr") == []


def test_text_that_is_not_as_declared(tmp_path: Path) -> None:
    (tokenised,) = warnings_for(TOKENISED, tmp_path)
    assert tokenised.startswith(
        "looks tokenised (90 of 90 commas and final full stops are separate tokens), but is treated as plain text; "
    )
    assert tokenised.endswith(
        "; give tokenised to `build`, or prepared if the text is like that in the system's corpus/"
    )
    (plain,) = warnings_for(PLAIN, tmp_path, tokenise=False)
    assert plain.startswith("looks like plain text (90 of 90 commas and final full stops are joined to a word), but ")
    (escaped,) = warnings_for([f"{line} it&apos;s" for line in PLAIN], tmp_path)
    assert escaped.startswith("has 30 of Moses' escapes, as &apos;, which are treated as text; ")


def test_training_text_without_capitals(tmp_path: Path) -> None:
    warned: list[str] = []
    text, train = SystemText(tmp_path, TextSettings("fr", "en")), MINI / "train.fr"
    text.prepare("source", train, tmp_path / "out", warned.append, learns_case=True)
    tokenised, lower_cased = warned
    assert "/train.fr: looks tokenised (" in tokenised
    assert lower_cased.endswith(
        "has no capital in 1000 lines, but translations will begin with one; give text with capitals, or casing='keep' "
        "to `build`"
    )


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (PLAIN, PLAIN, None),
        (PLAIN, TOKENISED, "one is tokenised and the other is plain text"),
        (PLAIN, [line.lower() for line in PLAIN], "one has capitals and the other has none"),
        (
            [f"{line} '" for line in PLAIN],
            [f"{line} &apos;" for line in PLAIN],
            "one has Moses' escapes, as &apos;, and the other has none",
        ),
        (PLAIN, [f"{line} &apos;" for line in PLAIN], None),
        (PLAIN, PLAIN[:3], None),
        (["a small text"] * 20, ["a small text"] * 19, None),
        (PLAIN, [], None),
    ],
)
def test_difference_between_texts(one: list[str], other: list[str], difference: str | None) -> None:
    assert form_of(one).difference(form_of(other)) == form_of(other).difference(form_of(one)) == difference
