from __future__ import annotations

import itertools
import json
import math
from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest

from experiments import oracle
from experiments.oracle import Overlap, choose, measure_lists, reachable
from experiments.pages.results import Results
from moses_integration.ini import MosesIni
from moses_integration.tuning.bleu import bleu, bleu_statistics
from phrasescore.errors import UserError
from tests.conftest import MINI
from tests.moses_integration.decoder.searching import options_of

pytestmark = pytest.mark.timeout(120)


def lines(name: str, number: int) -> list[bytes]:
    return (MINI / name).read_bytes().splitlines()[:number]


def test_the_overlap_of_phrases_is_that_of_the_whole_translation() -> None:
    feature, phrases = Overlap([b"a b c d a"]), [(b"b", b"c"), (b"a",), (b"d", b"x"), (b"a", b"b", b"c", b"d", b"a")]
    state = feature.begin(options_of(phrases))
    # a | b c | d x | a b c d a
    total, order = 0.0, [1, 0, 2, 3]
    for number in order:
        values, states = feature.extend(np.array([state]), np.array([number]), is_end=number == 3)
        total, state = total + values[0, 0] + feature.alone([phrases[number]])[0][0, 0], states[0]
    # 9 words of 10, 7 pairs, 5 triples and 3 quadruples are in the reference, and so are the boundaries.
    weights = [1 / (4 * 0.85 * 0.72**n) for n in range(4)]
    assert total == pytest.approx(np.dot([9, 7, 5, 3], weights) + np.dot([1, 2, 2, 2], weights) - 10)


def test_the_best_choice_maximises_the_bleu_of_the_corpus() -> None:
    references = [[b"a b c d e f"], [b"g h i j k"], [b"l m n o p"]]
    lists = [[b"a b c d x", b"a b c d e"], [b"g h", b"g h i j k k k"], [b"l m n o", b"x m n o p l"]]
    statistics = [bleu_statistics(known, some) for known, some in zip(references, lists, strict=True)]
    every = [
        sum(some[one] for some, one in zip(statistics, choice, strict=True))
        for choice in itertools.product((0, 1), repeat=3)
    ]
    best = max(float(bleu(total)) for total in every)
    assert measure_lists(lists, [tuple(known) for known in references])[0] == pytest.approx(100 * best)
    assert len(choose(statistics)) == 3


def test_what_the_decoder_translates_is_reachable() -> None:
    ini = MosesIni.read(MINI / "moses.tuned.ini")
    # Recorded translations of Moses serve as references; its distortion limit is 6.
    translations = [line.rstrip() for line in lines("decode/tuned.out", 5)]
    found = reachable(ini, lines("test.en", 5), [(one,) for one in translations], 6, 20)
    bleu_found, reached = measure_lists(found, [(one,) for one in translations])
    assert (round(bleu_found, 6), reached) == (100, 1)


def test_the_table_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(oracle, "LISTS", (5, 20))
    monkeypatch.setattr(oracle, "LIMITS", ((0, 1), (math.inf, 20)))
    (tmp_path / "prepared").mkdir()
    for name, side in (("dev.source", "dev.en"), ("dev.reference0", "dev.fr")):
        (tmp_path / "prepared" / name).write_bytes(b"".join(line + b"\n" for line in lines(side, 8)))
    work = tmp_path / "rows" / "baseline.seed1"
    work.mkdir(parents=True)
    MosesIni.read(MINI / "moses.tuned.ini").write(work / "moses.ini")
    assert oracle.run(Namespace(folder=tmp_path, row="baseline", processes=1)) == 0
    rows = json.loads((tmp_path / "oracle.baseline.json").read_bytes())["rows"]
    first, of_5, of_20, strict, free = (row[1] for row in rows)
    assert first <= of_5 <= of_20 <= free
    assert strict < free
    table = Results(tmp_path).table("oracle.baseline")
    assert table.text("best of 20", "dev BLEU") == f"{of_20:.2f}"
    assert "| reachable, no distortion limit, 20 options | " in capsys.readouterr().out
    with pytest.raises(UserError, match=r"has no \+S2S\.seed\*/moses\.ini"):
        oracle.run(Namespace(folder=tmp_path, row="+S2S", processes=1))
