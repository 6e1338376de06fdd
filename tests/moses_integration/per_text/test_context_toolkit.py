"""A system with a column in context is tuned and decoded with the same translation options."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from moses_integration.decoder.phrases import Floats
from moses_integration.ini import MosesIni, add_column_in_context
from moses_integration.nbest import read_nbest
from moses_integration.per_text import context_toolkit as toolkit_module
from moses_integration.per_text.context_column import ContextColumn
from moses_integration.per_text.context_sections import keep_option_weights, option_weights
from moses_integration.per_text.context_toolkit import ContextToolkit
from moses_integration.per_text.positions import Positions
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.toolkit import NbestRequest, Toolkit, TuningRequest
from moses_integration.tuning.tunings import TuningConfig
from phrasescore.files import read_lines, write_lines
from phrasescore.scoring.columns import Column
from phrasescore.text import no_log
from tests.conftest import MINI
from tests.moses_integration.decoder.small_system import Line, SmallSystem

OPTIONS = 9


class PrefersLast(ContextColumn):
    """A column that rises from -0.9 to -0.1 with an option's position in the table."""

    column = Column("score")

    def __init__(self) -> None:
        self.log = no_log

    def values(self, positions: Positions, scratch: Path) -> Floats:
        targets = [target for one in positions if not one.phrase.is_copied for target in one.phrase.targets]
        return np.array([(int(target[0][1:]) - OPTIONS) / 10 for target in targets])


@pytest.fixture
def ini(tmp_path: Path) -> MosesIni:
    """A system with a phrase of nine options, whose first ones have the best table scores; a decoder uses two."""
    lines = [Line((b"a",), (b"X%02d" % number,), (0.9**number,)) for number in range(OPTIONS)]
    weights = {"U": [1.0], "W": [0.0], "P": [0.0], "T": [0.5], "D": [0.3]}
    (tmp_path / "system").mkdir()
    system = SmallSystem(lines=lines, weights=weights, table_limit=2).write(tmp_path / "system")
    add_column_in_context(system, 0.0)
    write_lines(tmp_path / "text", [b"a"])
    return system


@pytest.fixture(params=["written", "in memory"])
def toolkit(request: pytest.FixtureRequest) -> Toolkit:
    return in_context(PrefersLast())[request.param == "in memory"]


def in_context(column: ContextColumn) -> tuple[Toolkit, Toolkit]:
    """Return a toolkit that writes per-text tables, as for Moses, and one that has their options in memory."""
    return ContextToolkit(EmbeddedToolkit(1), column), EmbeddedToolkit(1).with_context_column(column)


def test_options_are_those_of_tuning_whatever_the_weights_are(ini: MosesIni, toolkit: Toolkit, tmp_path: Path) -> None:
    """Options are those of tuning for any weights.

    Weights that favour the column may contradict all other features and would choose the worst options.
    """
    ini.set_weights({"T": [0.5, -1.0]})
    keep_option_weights(ini)
    ini.set_weights({"T": [-0.5, 1.0]})
    (tmp_path / "work").mkdir()
    with toolkit.translator(ini, tmp_path / "text", tmp_path / "work") as translate:
        translate(ini.weights(), tmp_path / "out")
    assert (tmp_path / "out").read_bytes() == b"X01\n"
    # Resumed tuning does not choose them anew either.
    keep_option_weights(ini)
    weights = option_weights(ini)
    assert weights is not None
    assert weights["T"] == [0.5, -1.0]
    assert option_weights(MosesIni([])) is None


def test_a_long_text_is_translated_in_parts_as_one(
    ini: MosesIni, toolkit: Toolkit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolkit_module, "_CHUNK_SENTENCES", 2)
    write_lines(tmp_path / "text", [b"a", b"x", b"a"])
    (tmp_path / "work").mkdir()
    shown: list[tuple[int, int]] = []
    with toolkit.translator(ini, tmp_path / "text", tmp_path / "work") as translate:
        request = NbestRequest(tmp_path / "list", 2)
        translate(ini.weights(), tmp_path / "out", request, lambda done, of: shown.append((done, of)))
    assert (tmp_path / "out").read_bytes() == b"X00\nx\nX00\n"
    assert [entry.sentence for entry in read_nbest(tmp_path / "list")] == [0, 0, 1, 2, 2]
    assert shown == sorted(shown)
    assert shown[-1] == (3, 3)


class Noise(PrefersLast):
    """A column of random values, some of them below what a table can hold."""

    def values(self, positions: Positions, scratch: Path) -> Floats:
        options = sum(len(one.phrase.targets) for one in positions if not one.phrase.is_copied)
        return np.random.default_rng(1).gumbel(-2.0, 20.0, options).clip(max=0.0)


def test_options_in_memory_are_those_of_the_written_table(small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    """Translations, n-best lists and tuned weights are identical."""
    source, reference = small_dev
    ini, found = MosesIni.read(MINI / "moses.ini"), []
    add_column_in_context(ini)
    write_lines(tmp_path / "text", [*read_lines(source), b"", b"letter xyzzy the men", b"the the the the"])
    for number, toolkit in enumerate(in_context(Noise())):
        work = tmp_path / str(number)
        work.mkdir()
        [tuning] = toolkit.tune(ini, TuningRequest(source, [reference], [1], TuningConfig(2, 20, 2), work))
        with toolkit.translator(ini, tmp_path / "text", work) as translate:
            unknown = translate(tuning.weights, work / "out", NbestRequest(work / "list", 20))
        found.append((tuning.weights, tuning.bleu, unknown, (work / "out").read_bytes(), (work / "list").read_bytes()))
    assert found[0] == found[1]
    assert b"xyzzy" in found[0][3]
