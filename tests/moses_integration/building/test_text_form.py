"""What a text looks like, and what is said of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building.prepare import Preparation, prepare_file, prepare_training_file
from moses_integration.building.text_form import form_of
from tests.conftest import DATA

MINI = DATA / "mini"
PLAIN = [f"When we came, Mr. Brown had {number} apples, and a pear." for number in range(30)]
TOKENISED = [f"When we came , Mr. Brown had {number} apples , and a pear ." for number in range(30)]


def said_of(lines: list[str], preparation: Preparation, tmp_path: Path) -> list[str]:
    raw, said = tmp_path / "raw", list[str]()
    raw.write_text("".join(f"{line}\n" for line in lines))
    prepare_file(raw, tmp_path / "prepared", preparation, say=said.append)
    return [sentence.removeprefix(f"{raw}: ") for sentence in said]


def test_text_that_is_what_it_is_given_as_is_not_spoken_of(tmp_path: Path) -> None:
    assert said_of(PLAIN, Preparation("en"), tmp_path) == []
    assert said_of(TOKENISED, Preparation("en", tokenise=False), tmp_path) == []
    # Three sentences say nothing for sure, nor does text without such marks.
    assert said_of(TOKENISED[:1], Preparation("en"), tmp_path) == []
    assert said_of(["one word"] * 30, Preparation("en"), tmp_path) == []
    assert said_of(["今天天气很好，我们出去。"] * 30, Preparation("zh"), tmp_path) == []
    assert said_of(["Oui, je viens, et vous ?"] * 30, Preparation("fr"), tmp_path) == []


def test_text_that_is_not_what_it_is_given_as(tmp_path: Path) -> None:
    (tokenised,) = said_of(TOKENISED, Preparation("en"), tmp_path)
    assert tokenised.startswith(
        "looks tokenised, for 90 of 90 commas and final full stops stand apart, but is taken as"
    )
    assert tokenised.endswith(
        "; give text as the system was built of, or --prepared if it is as in the system's corpus/"
    )
    (plain,) = said_of(PLAIN, Preparation("en", tokenise=False), tmp_path)
    assert plain.startswith("looks like plain text, for 90 of 90 commas and final full stops are joined to a word; ")
    (escaped,) = said_of([f"{line} it&apos;s" for line in PLAIN], Preparation("en"), tmp_path)
    assert escaped.startswith("has 30 of Moses' escapes, as &apos;, which are taken for text; ")


def test_training_text_is_said_what_option_to_give_for(tmp_path: Path) -> None:
    said: list[str] = []
    prepare_training_file(
        MINI / "train.fr", tmp_path / "out", Preparation("fr", casing="true"), tmp_path / "t", said.append
    )
    tokenised, lower_cased = said
    assert "/train.fr: looks tokenised, for " in tokenised
    assert tokenised.endswith("; if it is, give --tokenised, or translations will not look like it")
    assert lower_cased.endswith(
        "has no capital in 1000 lines, but translations will begin with one; give --casing keep if they should not"
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
def test_texts_that_should_look_alike(one: list[str], other: list[str], difference: str | None) -> None:
    assert form_of(one).unlike(form_of(other)) == form_of(other).unlike(form_of(one)) == difference
