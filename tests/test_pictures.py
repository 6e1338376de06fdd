from __future__ import annotations

from pathlib import Path

import pytest

from phrasescore.errors import UserError
from phrasescore.pictures import load_pyplot, write_figure


def test_only_the_suffix_decides_the_format(tmp_path: Path) -> None:
    plt = load_pyplot("--gates")
    figure = plt.figure()
    with pytest.raises(UserError, match=r"a\.txt: is not an image format .* ends in \.png"):
        write_figure(figure, tmp_path / "a.txt")
    figure = plt.figure()
    figure.suptitle("$$")
    with pytest.raises(ValueError, match="Expected end of text"):
        write_figure(figure, tmp_path / "a.svg")
    assert not plt.get_fignums()
    assert not list(tmp_path.iterdir())
