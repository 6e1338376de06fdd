from __future__ import annotations

import os
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files import open_output


@pytest.mark.parametrize("name", ["out", "out.gz"])
def test_what_went_wrong_elsewhere_is_not_hidden_by_a_full_disk(tmp_path: Path, name: str) -> None:
    """Two files are written at once and the disk is full: the first to fail is told of, the other must not fail too."""

    def write() -> None:
        with open_output(tmp_path / name) as stream:
            stream.write(b"x" * 1000)
            full = os.open("/dev/full", os.O_WRONLY)
            os.dup2(full, stream.fileno())
            os.close(full)
            raise UserError("the other file cannot be written")

    with pytest.raises(UserError, match="the other file"):
        write()
    assert list(tmp_path.iterdir()) == []
