"""A real Moses loads the annotated table, and its feature is our score. Needs MOSES_HOME; run with `-m moses`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from phrasescore.scoring.occurrences import Occurrences
from phrasescore.scoring.scorer import load_scorer
from tests.conftest import DATA, MINI
from tests.scoring.annotating import annotate

INI = """\
[input-factors]
0
[mapping]
0 T 0
[distortion-limit]
6
[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
{kind} name=TranslationModel0 num-features=5 path={table} input-factor=0 output-factor=0
Distortion
[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2 0.2
Distortion0= 0.3
"""


def as_it_is(programs: Path, table: Path) -> Path:
    return table


def compact(programs: Path, table: Path) -> Path:
    made = table.with_name("compact")
    program = programs / "processPhraseTableMin"
    if not program.exists():
        pytest.skip("this Moses was built without cmph")
    command = [str(program), "-in", str(table), "-out", str(made), "-nscores", "5", "-threads", "1"]
    subprocess.run(command, check=True, capture_output=True)
    return made


def probing(programs: Path, table: Path) -> Path:
    made = table.with_name("probing")
    command = [str(programs / "CreateProbingPT"), "--input-pt", str(table), "--output-dir", str(made)]
    subprocess.run([*command, "--num-scores", "5"], check=True, capture_output=True)
    return made


@pytest.mark.moses
@pytest.mark.parametrize(
    ("kind", "convert"),
    [("PhraseDictionaryMemory", as_it_is), ("PhraseDictionaryCompact", compact), ("ProbingPT", probing)],
)
def test_moses_sees_our_score(
    moses_home: Path, tmp_path: Path, kind: str, convert: Callable[[Path, Path], Path]
) -> None:
    """Moses reads our score: in each derivation, the fifth score is the sum of ln p over its phrase pairs.

    The table has several gzip members, all of which Moses' loaders read.
    """
    moses = moses_home / "bin" / "moses"
    table, nbest = tmp_path / "phrase-table.gz", tmp_path / "nbest"
    scorer = load_scorer(DATA / "stored-model", device="cpu", precision="fp32")
    annotate(MINI / "phrase-table.gz", scorer, table, chunk_lines=1000)
    (tmp_path / "moses.ini").write_text(INI.format(kind=kind, table=convert(moses.parent, table)))
    sentences = (MINI / "test.en").read_bytes().splitlines()[:20]
    command = [str(moses), "-f", str(tmp_path / "moses.ini"), "-n-best-list", str(nbest), "20"]
    command += ["-include-segmentation-in-n-best", "true"]
    subprocess.run(command, input=b"\n".join(sentences) + b"\n", check=True, capture_output=True)
    derivations = nbest.read_bytes().splitlines()
    assert len(derivations) > 100
    for line in derivations:
        number, target, features, _, segments = (field.strip() for field in line.split(b" ||| "))
        source, words = sentences[int(number)].split(), target.split()
        pairs = []
        for segment in segments.split():
            here, there = ([int(end) for end in span.split(b"-")] for span in segment.split(b"="))
            pairs.append((b" ".join(source[here[0] : here[-1] + 1]), b" ".join(words[there[0] : there[-1] + 1])))
        expected = float(scorer.score(Occurrences([s for s, _ in pairs], [t for _, t in pairs])).first_N.sum())
        scores = features.split(b"TranslationModel0= ")[1].split()
        assert np.isclose(float(scores[4]), expected, rtol=1e-5, atol=1e-4)
