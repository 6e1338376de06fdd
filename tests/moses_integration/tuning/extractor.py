"""Read the output of Moses' `extractor` for n-best lists. mert/Data.cpp writes:

    FEATURES_TXT_BEGIN_0 sentence lines columns LM0_0 WordPenalty0_0 ...
    -19.4909 -9
    FEATURES_TXT_END_0

and the same with SCORES, where the columns are the statistics of `moses_integration.tuning.bleu`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moses_integration.tuning.candidates import Candidates
from phrasescore.files import read_lines
from tests.conftest import MINI


def mert_lists(run: int) -> Candidates:
    """Return the n-best lists that were new in one iteration of Moses' tuning of the mini system."""
    names, features = _read(MINI / f"mert/run{run}.features.dat.gz")
    _, statistics = _read(MINI / f"mert/run{run}.scores.dat.gz")
    return Candidates.from_lists(names, features, [rows.astype(np.int32) for rows in statistics])


def _read(path: Path) -> tuple[list[str], list[NDArray[np.float64]]]:
    """Return the column names and the rows of each sentence, in order."""
    blocks: list[list[list[float]]] = []
    for line in read_lines(path):
        match line.decode().split():
            case ["FEATURES_TXT_BEGIN_0" | "SCORES_TXT_BEGIN_0", sentence, _, _, *names]:
                assert int(sentence) == len(blocks)
                blocks.append([])
            case ["FEATURES_TXT_END_0" | "SCORES_TXT_END_0"]:
                pass
            case numbers:
                blocks[-1].append([float(number) for number in numbers])
    return names, [np.array(rows) for rows in blocks]
