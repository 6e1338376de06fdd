"""True-casing: case within sentences decides the case of the first word."""

from __future__ import annotations

from pathlib import Path

import pytest

from moses_integration.building.preparation import Truecaser, capitalise
from phrasescore.errors import UserError

TEXTS = [
    "The cat saw Paris .",
    "He saw the cat in Paris : The end .",
    '" Paris " is the IT city .',
    "Yes , IT ; it is .",
]


def test_the_first_word_gets_its_most_frequent_form() -> None:
    truecaser = Truecaser.learn(TEXTS)
    assert truecaser.apply("The Paris cat . Cat ? &quot; The IT") == "the Paris cat . cat ? &quot; the IT"


def test_other_words_keep_a_form_that_was_seen() -> None:
    truecaser = Truecaser.learn(TEXTS)
    assert truecaser.apply("see it , IT and PARIS") == "see it , IT and Paris"


def test_unknown_words_and_empty_lines_stay() -> None:
    truecaser = Truecaser.learn(TEXTS)
    assert truecaser.apply("Zürich . Über 12 %") == "Zürich . Über 12 %"
    assert truecaser.apply("") == ""


def test_words_that_begin_sentences_are_no_evidence() -> None:
    """Words that begin sentences are ignored in training, also after an opening quotation mark."""
    truecaser = Truecaser.learn(["Then . &quot; Then ! ( Then ? ' Then : Then , then"])
    assert truecaser.apply("Then") == "then"


def test_a_file_brings_the_same_truecaser_back(tmp_path: Path) -> None:
    truecaser = Truecaser.learn(TEXTS)
    truecaser.save(tmp_path / "model")
    lines = (tmp_path / "model").read_text().splitlines()
    assert "Paris (2/2)" in lines
    assert "IT (2/3) it (1)" in lines
    assert all(line[0].isalpha() for line in lines), "what has no case says nothing"
    text = "The it IT . PARIS &quot; Cat It"
    assert Truecaser.load(tmp_path / "model").apply(text) == truecaser.apply(text)


@pytest.mark.parametrize("line", ["word", "word (x/2)", "word (1/2) other", ""])
def test_a_damaged_file_is_rejected(line: str, tmp_path: Path) -> None:
    (tmp_path / "model").write_text(f"good (1/1)\n{line}\n")
    with pytest.raises(UserError, match="model: line 2: "):
        Truecaser.load(tmp_path / "model")


def test_capitalise_begins_sentences() -> None:
    assert capitalise('the end . élan ? " in Paris ! 7 a') == 'The end . Élan ? " In Paris ! 7 a'
    # Georgian has capitals for whole words only, and ß has no single-letter capital.
    assert capitalise("ენა . ßa . ǆa") == "ენა . ßa . ǅa"
