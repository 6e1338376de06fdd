"""Warnings about text that is not as declared."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building.prepare import Preparation, prepare_file, prepare_training_file
from moses_integration.building.text_form import form_of
from tests.conftest import DATA

MINI = DATA / "mini"
PLAIN = [f"When we came, Mr. Brown had {number} apples, and a pear." for number in range(30)]
TOKENISED = [f"When we came , Mr. Brown had {number} apples , and a pear ." for number in range(30)]


def warnings_for(lines: list[str], preparation: Preparation, tmp_path: Path) -> list[str]:
    raw, warned = tmp_path / "raw", list[str]()
    raw.write_text("".join(f"{line}\n" for line in lines))
    prepare_file(raw, tmp_path / "prepared", preparation, log=warned.append)
    return [sentence.removeprefix(f"{raw}: ") for sentence in warned]


def test_text_as_declared_gives_no_warning(tmp_path: Path) -> None:
    assert warnings_for(PLAIN, Preparation("en"), tmp_path) == []
    assert warnings_for(TOKENISED, Preparation("en", tokenise=False), tmp_path) == []
    # Too little text, or text without such characters, allows no decision.
    assert warnings_for(TOKENISED[:1], Preparation("en"), tmp_path) == []
    assert warnings_for(["one word"] * 30, Preparation("en"), tmp_path) == []
    assert warnings_for(["今天天气很好，我们出去。"] * 30, Preparation("zh"), tmp_path) == []
    assert warnings_for(["Oui, je viens, et vous ?"] * 30, Preparation("fr"), tmp_path) == []


def test_text_that_is_not_as_declared(tmp_path: Path) -> None:
    (tokenised,) = warnings_for(TOKENISED, Preparation("en"), tmp_path)
    assert tokenised.startswith(
        "looks tokenised (90 of 90 commas and final full stops are separate tokens), but is treated as plain text; "
    )
    assert tokenised.endswith(
        "; give text like the raw training text, or --prepared if it is like the text in the system's corpus/"
    )
    (plain,) = warnings_for(PLAIN, Preparation("en", tokenise=False), tmp_path)
    assert plain.startswith("looks like plain text (90 of 90 commas and final full stops are joined to a word); ")
    (escaped,) = warnings_for([f"{line} it&apos;s" for line in PLAIN], Preparation("en"), tmp_path)
    assert escaped.startswith("has 30 of Moses' escapes, as &apos;, which are treated as text; ")


def test_warnings_about_training_text_name_the_option(tmp_path: Path) -> None:
    warned: list[str] = []
    prepare_training_file(
        MINI / "train.fr", tmp_path / "out", Preparation("fr", casing="true"), tmp_path / "t", warned.append
    )
    tokenised, lower_cased = warned
    assert "/train.fr: looks tokenised (" in tokenised
    assert tokenised.endswith("; if it is, give --tokenised, or translations will not look like it")
    assert lower_cased.endswith(
        "has no capital in 1000 lines, but translations will begin with one; if they should not, give --casing keep"
    )


@pytest.mark.parametrize(
    ("one", "other", "difference"),
    [
        (PLAIN, PLAIN, None),
        (PLAIN, TOKENISED, "one is tokenised and the other is plain text"),
        (PLAIN, [line.lower() for line in PLAIN], "one has capitals and the other has none"),
        (PLAIN, [f"{line} &apos;" for line in PLAIN], "one has Moses' escapes, as &apos;, and the other has none"),
        (PLAIN, PLAIN[:3], None),
        (["a small text"] * 20, ["a small text"] * 19, None),
        (PLAIN, [], None),
    ],
)
def test_difference_between_texts(one: list[str], other: list[str], difference: str | None) -> None:
    assert form_of(one).difference(form_of(other)) == form_of(other).difference(form_of(one)) == difference
