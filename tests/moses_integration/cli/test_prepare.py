"""`phrasescore-smt prepare`: a text gets the form of the training text."""

from __future__ import annotations

from pathlib import Path

import pytest

import moses_integration as smt
import phrasescore
from tests.conftest import MINI


def test_a_text_is_prepared_as_the_training_text(plain_texts: Path, plain_system: Path, tmp_path: Path) -> None:
    ini, plain = plain_system / "moses.ini", tmp_path / "plain"
    plain.write_bytes((plain_texts / "train.en").read_bytes())
    prepared = smt.prepare(ini, plain, tmp_path / "prepared")
    assert prepared == (plain_system / "corpus/train.en").read_text().splitlines()
    assert prepared == (tmp_path / "prepared").read_text().splitlines()
    assert prepared != plain.read_text().splitlines()
    with pytest.raises(phrasescore.UserError, match=r"there is no preparation\.json"):
        smt.prepare(MINI / "moses.ini", plain)
