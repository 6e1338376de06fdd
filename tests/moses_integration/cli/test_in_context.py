"""A network that reads sentences as one more column: trained, tuned with, and translated with."""

from __future__ import annotations

import gzip
import math
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.nbest import read_nbest
from moses_integration.placed import IN_CONTEXT, context_column
from moses_integration.placed.names import MARK
from phrasescore.cli import main as phrasescore
from phrasescore.scoring.engine import EncodedPairs, Scorer
from phrasescore.scoring.scores import Scores
from tests.conftest import MINI

INI = str(MINI / "moses.ini")
EMBEDDED = ["--toolkit", "embedded", "--processes", "1", "--prepared", "-q", "--device", "cpu", "--precision", "fp32"]
QUICK = ["--iterations", "2", "--restarts", "2", "--nbest", "20"]
SMALL = ["--hidden", "16", "--embedding", "8", "--output-rank", "8", "--max-updates", "20", "--learning-rate", "0.01"]


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in-context") / "network"
    texts = [f"--{name}={MINI / f'train.{end}'}" for name, end in (("source", "en"), ("target", "fr"))]
    options = [*texts, f"--alignment={MINI / 'train.align'}", "-o", str(folder), *SMALL, "--device", "cpu", "-q"]
    assert phrasescore(["train", *options]) == 0
    return folder


@pytest.fixture
def tuned(network: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> Path:
    source, reference = map(str, small_dev)
    ini = tmp_path / "tuned.ini"
    tune = ["tune", INI, "--source", source, "--reference", reference, "-o", str(ini), *EMBEDDED, *QUICK]
    assert main([*tune, "--in-context", str(network)]) == 0
    return ini


def test_an_ini_names_the_network_and_has_a_weight_for_it(tuned: Path, network: Path) -> None:
    ini = MosesIni.read(tuned)
    assert ini.remarks(IN_CONTEXT) == [str(network)]
    assert len(ini.weights()["TranslationModel0"]) == ini.phrase_table().width == 5
    assert ini.path_of(ini.phrase_table()) == MosesIni.read(Path(INI)).path_of(MosesIni.read(Path(INI)).phrase_table())


def test_the_table_of_a_text_translates_as_the_command_does(
    tuned: Path, network: Path, small_dev: tuple[Path, Path], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source, lists, folder = small_dev[0], tmp_path / "lists", tmp_path / "placed"
    decode = ["decode", str(tuned), "--source", str(source), *EMBEDDED, "--nbest", str(lists), "5"]
    assert main(decode) == 0
    translations = capfdbinary.readouterr().out
    assert len(translations.splitlines()) == 12
    assert MARK not in translations + lists.read_bytes()
    assert len(next(iter(read_nbest(lists))).features()["TranslationModel0"]) == 5
    place = ["place", str(tuned), "--source", str(source), "--prepared", "-o", str(folder), "--processes", "1", "-q"]
    assert main([*place, "--device", "cpu", "--precision", "fp32"]) == 0
    out = tmp_path / "out"
    assert main(["decode", f"{folder}/moses.ini", "--source", f"{folder}/text", "-o", str(out), *EMBEDDED]) == 0
    assert main(["unplace", str(out)]) == 0
    assert capfdbinary.readouterr().out == translations
    # Elsewhere, if that is said.
    moved = str(shutil.copytree(network, tmp_path / "moved"))
    ini = MosesIni.read(tuned)
    ini.set_remarks(IN_CONTEXT, [str(tmp_path / "nowhere")])
    ini.write(tmp_path / "moved.ini")
    assert main(["decode", str(tmp_path / "moved.ini"), "--source", str(source), *EMBEDDED]) == 1
    assert b"nowhere: is not a model folder" in capfdbinary.readouterr().err
    assert main(["decode", str(tmp_path / "moved.ini"), "--source", str(source), *EMBEDDED, "--in-context", moved]) == 0
    assert capfdbinary.readouterr().out == translations


def test_a_long_text_is_translated_part_by_part(
    tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the same translations and lists, with the numbers and the names that the user knows."""
    decode = ["decode", str(tuned), "--source", str(small_dev[0]), *EMBEDDED]
    found = []
    for size in (1000, 5):
        monkeypatch.setattr("moses_integration.placed.toolkit._PART", size)
        out, lists, work = (tmp_path / f"{name}{size}" for name in ("out", "lists", "work"))
        assert main([*decode, "-o", str(out), "--nbest", str(lists), "5", "--work", str(work)]) == 0
        assert len([*work.glob("placed*/moses.ini")]) == -(-12 // size)
        found.append((out.read_bytes(), [(entry.sentence, entry.words) for entry in read_nbest(lists)]))
    assert found[0] == found[1]
    assert {sentence for sentence, _ in found[0][1]} == set(range(12))


def test_faults_of_a_long_text_are_told_by_its_lines(
    tuned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("moses_integration.placed.toolkit._PART", 2)
    text = tmp_path / "text"
    text.write_text("the dog\nthe cat\nthe | men\n")
    assert main(["decode", str(tuned), "--source", str(text), "-o", str(tmp_path / "out"), *EMBEDDED]) == 1
    assert capsys.readouterr().err.startswith(f"phrasescore-smt decode: {text}: line 3: ")
    assert not (tmp_path / "out").exists()


def test_the_column_is_what_the_network_says_in_the_sentence(network: Path, tmp_path: Path) -> None:
    text, folder = tmp_path / "text", tmp_path / "placed"
    sentences = (MINI / "dev.en").read_bytes().splitlines()[:3]
    text.write_bytes(b"\n".join(sentences) + b"\n")
    place = ["place", INI, "--source", str(text), "--prepared", "-o", str(folder), "--in-context", str(network)]
    assert main([*place, "--processes", "1", "-q", "--device", "cpu", "--precision", "fp32"]) == 0
    scorer = Scorer.load(network, device="cpu", precision="fp32")
    named = [line.split() for line in (folder / "text").read_bytes().splitlines()]
    checked = 0
    for line in gzip.decompress((folder / "phrase-table.gz").read_bytes()).splitlines():
        source, target, scores = line.split(b" ||| ")[:3]
        words = source.split()
        found = [
            (number, start)
            for number, sentence in enumerate(named)
            for start in range(len(sentence))
            if sentence[start : start + len(words)] == words
        ]
        (number, start), *others = found
        assert not others
        expected = scorer.score_in_context(sentences[number], [((start, start + len(words)), target)])
        assert math.log(float(scores.split()[4])) == pytest.approx(float(expected[0]), abs=1e-3)
        checked += 1
    assert checked > 100


class KilledError(BaseException):
    """Stands for a kill, which no handler sees."""


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> Scoring:
    """Scores two sentences at a time."""
    monkeypatch.setattr(context_column, "_SENTENCES_AT_ONCE", 2)
    found = Scoring(Scorer.score_encoded)
    monkeypatch.setattr(Scorer, "score_encoded", lambda self, pairs: found.score(self, pairs))
    return found


class Scoring:
    """Counts the blocks that are scored, and is killed when so many are."""

    def __init__(self, inner: Callable[[Scorer, EncodedPairs], Scores]) -> None:
        self._inner = inner
        self.blocks, self.last = 0, -1

    def score(self, scorer: Scorer, pairs: EncodedPairs) -> Scores:
        if self.blocks == self.last:
            raise KilledError
        self.blocks += 1
        return self._inner(scorer, pairs)


def test_a_run_that_was_killed_is_gone_on_with(
    network: Path, tmp_path: Path, scoring: Scoring, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:9]))

    def place(folder: str) -> bytes:
        command = ["place", INI, "--source", str(text), "--prepared", "-o", str(tmp_path / folder)]
        options = ["--in-context", str(network), "--processes", "1", "--device", "cpu", "--precision", "fp32"]
        assert main([*command, *options]) == 0
        assert not list((tmp_path / folder).glob("*scores*"))
        return gzip.decompress((tmp_path / folder / "phrase-table.gz").read_bytes())

    whole = place("whole")
    assert scoring.blocks == 5
    scoring.last = 5 + 3
    with pytest.raises(KilledError):
        place("parts")
    scoring.last = -1
    assert place("parts") == whole
    assert scoring.blocks == 5 + 5
    assert "scores: goes on after the first 3 pieces, of a run that was stopped" in capsys.readouterr().err
    # Of another text nothing is taken.
    scoring.last = 10 + 2
    with pytest.raises(KilledError):
        place("parts")
    text.write_bytes(text.read_bytes().splitlines()[0] + b"\n")
    scoring.last = -1
    place("parts")
    assert "scores: starts over, for a run that was stopped had other options of the phrase table, text" in (
        capsys.readouterr().err
    )


def test_tuning_and_decoding_go_on_in_their_folders(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, scoring: Scoring
) -> None:
    source, reference = map(str, small_dev)
    tune = ["tune", INI, "--source", source, "--reference", reference, "-o", str(tmp_path / "again.ini"), *QUICK]
    decode = ["decode", str(tuned), "--source", source, "-o", str(tmp_path / "out")]
    for number, command in enumerate(([*tune, "--in-context", str(network)], decode)):
        command = [*command, *EMBEDDED, "--work", str(tmp_path / f"work{number}")]
        scoring.blocks, scoring.last = 0, 4
        with pytest.raises(KilledError):
            main(command)
        scoring.last = -1
        assert main(command) == 0
        # Of twelve sentences.
        assert scoring.blocks == 6


def test_what_cannot_be_is_refused(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(small_dev[0])
    assert main(["decode", INI, "--source", source, *EMBEDDED, "--in-context", str(network)]) == 1
    assert (
        f"{INI}: has no column for --in-context; give the ini that `tune --in-context` wrote" in capsys.readouterr().err
    )
    phrases = tmp_path / "phrases"
    train = ["train", str(MINI / "phrase-table.gz"), "-o", str(phrases), *SMALL, "--max-updates", "1", "-q"]
    assert phrasescore(train) == 0
    decode = ["decode", str(tuned), "--source", source, *EMBEDDED, "--in-context", str(phrases)]
    assert main(decode) == 1
    assert f"{phrases}: was trained on phrases alone" in capsys.readouterr().err


def test_a_column_of_phrases_alone_is_not_what_it_was_trained_for(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotate = ["annotate", str(MINI / "phrase-table.gz"), "--limit", "3", "-o", str(tmp_path / "out.gz")]
    assert phrasescore([*annotate, "-m", str(network), "--device", "cpu"]) == 0
    assert f"{network}: was trained on phrases in their sentences, and sees them alone here" in capsys.readouterr().err
