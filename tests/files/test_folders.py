from __future__ import annotations

import re
from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.files import make_folder, require_folder


def test_a_folder_is_made_with_those_it_lies_in(tmp_path: Path) -> None:
    for _ in range(2):
        make_folder(tmp_path / "a/b")
    assert (tmp_path / "a/b").is_dir()
    require_folder(tmp_path / "a/b")


def test_what_is_not_there_may_become_a_folder(tmp_path: Path) -> None:
    require_folder(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("precious")
    for folder, message in ((path, "is a file; give the name of a folder"), (path / "a", "cannot be made (Not a dir")):
        with pytest.raises(UserError, match=f"^{re.escape(f'{folder}: {message}')}"):
            make_folder(folder)
    with pytest.raises(UserError, match="is a file; give the name of a folder"):
        require_folder(path)
    assert path.read_text() == "precious"
