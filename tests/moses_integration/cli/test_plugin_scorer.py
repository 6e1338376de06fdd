"""A plugin scorer that conditions on the sentence, as a column of per-text phrase tables."""

from __future__ import annotations

import gzip
import math
from pathlib import Path

import pytest

from moses_integration.per_text.position_tags import MARK
from tests.cli.running import run as phrasescore
from tests.conftest import MINI
from tests.moses_integration.cli.running import run, succeed

EMBEDDED = ["--toolkit", "embedded", "--processes", "1", "-q"]
PLUGIN = '''
import hashlib

import numpy as np

from phrasescore import PhraseScorer, Scores, register_scorer


class RemainderScorer(PhraseScorer):
    """- the share of the sentence's words that the phrase leaves."""

    in_context = IN_CONTEXT

    @property
    def fingerprint(self):
        return hashlib.sha256((self.folders[0] / "config.json").read_bytes()).hexdigest()

    def score(self, occurrences, columns=()):
        context = occurrences.in_context()
        words_N = np.array([len(context.sentences[number].split()) for number in context.sentence_N])
        for source, number, start, end in zip(
            occurrences.sources, context.sentence_N, context.start_N, context.end_N, strict=True
        ):
            assert context.sentences[number].split()[start:end] == source.split()
        return Scores(((context.end_N - context.start_N) / words_N - 1)[:, np.newaxis])


@register_scorer("remainder")
def load(folders, device, precision):
    return RemainderScorer(folders)
'''


def write_scorer(folder: Path, *, in_context: bool) -> list[str]:
    """Write the plugin and a model folder; return their options."""
    (folder / "plugin.py").write_text(PLUGIN.replace("IN_CONTEXT", str(in_context)))
    (folder / "model").mkdir()
    (folder / "model/config.json").write_text('{"kind": "remainder"}')
    return ["--in-context", str(folder / "model"), "--plugin", str(folder / "plugin.py")]


def test_a_per_text_table_has_its_values(tmp_path: Path) -> None:
    options = write_scorer(tmp_path, in_context=True)
    sentences = (MINI / "dev.en").read_bytes().splitlines()[:30]
    (tmp_path / "text").write_bytes(b"\n".join(sentences) + b"\n")
    place = ("text-table", MINI / "moses.ini", "--source", tmp_path / "text", "--prepared", "-o", tmp_path / "table")
    succeed(*place, *options, "--processes", "2", "-q")
    length_of: dict[bytes, int] = {}
    for indexed in (tmp_path / "table/text").read_bytes().splitlines():
        length_of |= dict.fromkeys(indexed.split(), len(indexed.split()))
    lines = gzip.decompress((tmp_path / "table/phrase-table.gz").read_bytes()).splitlines()
    assert len(lines) > 1000
    for line in lines:
        source, _, scores = line.split(b" ||| ")[:3]
        words = source.split()
        tagged, *_ = (word for word in words if MARK in word)
        assert math.log(float(scores.split()[4])) == pytest.approx(len(words) / length_of[tagged] - 1, abs=1e-6)


def test_alone_a_phrase_is_its_own_sentence(tmp_path: Path) -> None:
    _, model, *plugin = write_scorer(tmp_path, in_context=True)
    output = tmp_path / "out.gz"
    done = phrasescore("annotate", MINI / "phrase-table.gz", "-m", model, *plugin, "--limit", "3", "-o", output)
    assert done.returncode == 0
    assert b"model: conditions on the sentence but scores these phrases without their sentences; `tune`" in done.stderr
    lines = gzip.decompress(output.read_bytes()).splitlines()
    assert [line.split(b" ||| ")[2].split()[4] for line in lines] == [b"1"] * 3


def test_its_gain_is_estimated(tmp_path: Path) -> None:
    options = write_scorer(tmp_path, in_context=True)
    dev = ["--source", str(MINI / "dev.en"), "--reference", str(MINI / "dev.fr"), "--prepared"]
    found = succeed("estimate-gain", MINI / "moses.tuned.ini", *dev, *EMBEDDED, "--nbest", "10", *options)
    assert b"without TranslationModel0, score 5 (of weight 0)" in found.stdout


def test_it_is_tuned_and_decoded_with(small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    options, tuned = write_scorer(tmp_path, in_context=True), tmp_path / "tuned.ini"
    dev = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    quick = ["--nbest", "10", "--iterations", "2", "--restarts", "1"]
    succeed("tune", MINI / "moses.tuned.ini", *dev, *EMBEDDED, *quick, *options, "-o", tuned)
    plugin = options[2:]
    done = succeed("decode", tuned, "--source", small_dev[0], "--prepared", *EMBEDDED, *plugin)
    assert len(done.stdout.splitlines()) == 12


def test_one_that_scores_phrases_alone_is_rejected(small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    options = write_scorer(tmp_path, in_context=False)
    place = ("text-table", MINI / "moses.ini", "--source", small_dev[0], "--prepared", "-o", tmp_path / "table")
    done = run(*place, *options)
    assert done.returncode == 1
    assert b"/model: does not condition on the sentence, so `annotate` writes its column once" in done.stderr
    assert not (tmp_path / "table").exists()
