"""What Moses' `extractor` makes of n-best lists:

    FEATURES_TXT_BEGIN_0 sentence lines columns LM0_0 WordPenalty0_0 ...
    -19.4909 -9
    FEATURES_TXT_END_0

and the same with SCORES, where the columns are the statistics of `moses_integration.tuning.bleu` and their name is
BLEU. Moses: mert/Data.cpp, mert/FeatureArray.cpp, mert/ScoreArray.cpp.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np

from moses_integration.tuning.bleu import STATISTICS
from moses_integration.tuning.candidates import Candidates
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from phrasescore.words import split_words

Number = TypeVar("Number", int, float)


def read_candidates(features_path: Path, scores_path: Path) -> Candidates:
    """Read what Moses' `extractor` wrote.

    Raises:
        UserError: a file is damaged or binary, has sparse features, or the two do not belong together.
    """
    rows: dict[int, tuple[list[list[float]], list[list[int]]]] = {}
    names: tuple[str, ...] = ()
    score_blocks = _read_blocks(scores_path, b"SCORES", int)
    for block in _read_blocks(features_path, b"FEATURES", float):
        scores = next(score_blocks, None)
        names = names or block.names
        if block.names != names or len(names) != block.columns:
            raise UserError(
                f"{features_path}: line {block.line}: names the features {' '.join(block.names)} for {block.columns} "
                f"columns, the first list {' '.join(names)}; run the extractor again on lists of one system"
            )
        if scores is None or (block.sentence, len(block.rows)) != (scores.sentence, len(scores.rows)):
            raise UserError(
                f"{features_path}: line {block.line}: {scores_path} has no list of {len(block.rows)} candidates of "
                f"sentence {block.sentence} in this place; give the two files of one run of the extractor"
            )
        if len(scores.rows[0]) != STATISTICS:
            raise UserError(
                f"{scores_path}: line {scores.line}: has {len(scores.rows[0])} statistics per candidate where BLEU has "
                f"{STATISTICS}; run the extractor with --sctype BLEU"
            )
        features, statistics = rows.setdefault(block.sentence, ([], []))
        features += block.rows
        statistics += scores.rows
    if not rows:
        raise UserError(f"{features_path}: is empty; run the extractor again")
    if next(score_blocks, None):
        raise UserError(f"{scores_path}: has more lists than {features_path}; give the two files of one run")
    lists = [rows.get(sentence, ([], [])) for sentence in range(max(rows) + 1)]
    return Candidates.from_lists(
        names,
        [np.array(features, np.float64).reshape(-1, len(names)) for features, _ in lists],
        [np.array(statistics, np.int32).reshape(-1, STATISTICS) for _, statistics in lists],
        str(features_path),
    )


@dataclass(frozen=True)
class _Block(Generic[Number]):
    """What a file has from a BEGIN to an END: the candidates of one sentence."""

    line: int
    """Number of the BEGIN line, from 1."""
    sentence: int
    columns: int
    names: tuple[str, ...]
    rows: list[list[Number]]


def _read_blocks(path: Path, kind: bytes, parse: Callable[[bytes], Number]) -> Iterator[_Block[Number]]:
    """Yield the lists in a file of features or scores."""
    lines = enumerate(read_lines(path), 1)
    for first, header in lines:
        try:
            begin, sentence, count, columns, *names = split_words(header)
            if begin != kind + b"_TXT_BEGIN_0" or int(sentence) < 0 or int(count) < 1:
                raise ValueError
            rows: list[list[Number]] = []
            decoded = tuple(name.decode("utf-8", "surrogateescape") for name in names)
            block = _Block(first, int(sentence), int(columns), decoded, rows)
        except ValueError as error:
            raise UserError(
                f"{path}: line {first}: is not `{kind.decode()}_TXT_BEGIN_0 sentence lines columns names`; "
                "give a file that Moses' extractor wrote as text"
            ) from error
        for line, text in islice(lines, int(count)):
            try:
                rows.append([parse(token) for token in split_words(text)])
                if len(rows[-1]) != block.columns:
                    raise ValueError(f"has {len(rows[-1])} numbers")
            except ValueError as error:
                raise UserError(
                    f"{path}: line {line}: {error}, {block.columns} numbers are needed; sparse features are not "
                    "supported, and a damaged file must be made again"
                ) from error
        line, footer = next(lines, (first + 1 + len(rows), b""))
        if len(rows) < int(count) or split_words(footer) != [kind + b"_TXT_END_0"]:
            raise UserError(
                f"{path}: line {line}: should be `{kind.decode()}_TXT_END_0`, after {int(count)} candidates; "
                "the file is damaged or was cut, make it again"
            )
        yield block
