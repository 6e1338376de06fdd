from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from phrasescore.choice.options import MOST_OPTIONS, read_options
from phrasescore.errors import UserError

LINES = [
    b"a ||| x ||| 0.1 0.2 0.5 0.4\n",
    b"a ||| y ||| 1 0 0.25 1e-60\n",
    b"a ||| z w ||| 1 1 0.25 1\n",
    b"b ||| only ||| 1 1 1 1\n",
    b"c  d ||| ||| 1 1 0.5 1\n",
    b"c d ||| q ||| 1 1 0.75 1\n",
    b"other ||| q ||| 1 1 0.5 1\n",
    b"other ||| r ||| 1 1 0.5 1\n",
]
WANTED = {b"a", b"b", b"c d", b"not there"}


def test_sources_with_two_options_or_more(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"".join(LINES))
    options = read_options(tmp_path / "table", WANTED, 4)
    assert options.sources == [b"a", b"c d"]
    assert options.offsets.tolist() == [0, 3, 5]
    assert options.targets == [b"x", b"y", b"z w", b"q", b""]
    assert options.columns_OC[0] == pytest.approx(np.log([0.1, 0.2, 0.5, 0.4]))
    # Moses floors at -100.
    assert options.columns_OC[1, 1:].tolist() == pytest.approx([-100, np.log(0.25), -100])
    assert options.source_O.tolist() == [0, 0, 0, 1, 1]
    taken = options.take(np.array([1]))
    assert (taken.sources, taken.targets, taken.offsets.tolist()) == ([b"c d"], [b"q", b""], [0, 2])
    assert taken.columns_OC.tolist() == options.columns_OC[3:].tolist()


def test_the_order_of_the_lines_does_not_matter(tmp_path: Path) -> None:
    lines = [b"a ||| t%d ||| 1 1 %g 1\n" % (number, 1 / (1 + number // 3)) for number in range(5 * MOST_OPTIONS)]
    (tmp_path / "table").write_bytes(b"".join(lines))
    options = read_options(tmp_path / "table", {b"a"}, 4)
    assert len(options.targets) == MOST_OPTIONS
    best = sorted(range(len(lines)), key=lambda number: (number // 3, b"t%d" % number))[:MOST_OPTIONS]
    assert options.targets == [b"t%d" % number for number in best]
    random.Random(1).shuffle(lines)
    (tmp_path / "table").write_bytes(b"".join(lines))
    again = read_options(tmp_path / "table", {b"a"}, 4)
    assert (again.targets, again.columns_OC.tolist()) == (options.targets, options.columns_OC.tolist())


def test_a_base_of_fewer_columns_ranks_by_its_last(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"a ||| x ||| 0.1 0.9\na ||| y ||| 0.2 0.1\n")
    assert read_options(tmp_path / "table", {b"a"}, 1).targets == [b"y", b"x"]
    assert read_options(tmp_path / "table", {b"a"}, 2).targets == [b"x", b"y"]
    with pytest.raises(UserError, match=r"table: has fewer score columns \(2\) than --base-columns asks for \(4\)"):
        read_options(tmp_path / "table", {b"a"}, 4)


def test_no_options_at_all(tmp_path: Path) -> None:
    (tmp_path / "table").write_bytes(b"".join(LINES))
    options = read_options(tmp_path / "table", {b"b"}, 4)
    assert (options.sources, options.targets, options.columns_OC.shape) == ([], [], (0, 4))
