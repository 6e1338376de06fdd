"""+CTX columns: train a network in context, tune with it, and translate with it."""

from __future__ import annotations

import gzip
import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from moses_integration.cli import main
from moses_integration.decoder.declaration import declare_model
from moses_integration.ini import IN_CONTEXT, MosesIni
from moses_integration.nbest import read_nbest, segments_of
from moses_integration.per_text import context_column as per_text
from moses_integration.per_text.context_sections import (
    NETWORKS,
    NETWORKS_SHA256,
    OPTIONS_BY,
    networks_of,
    with_column,
)
from moses_integration.per_text.position_tags import MARK
from phrasescore import annotate
from phrasescore.cli import main as phrasescore
from phrasescore.errors import UsageError, UserError
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.scoring.occurrences import in_sentences
from phrasescore.scoring.scorer import Scores, load_scorer
from tests.conftest import MINI
from tests.moses_integration.cli.running import run, sentence_of, train_with_plugin
from tests.moses_integration.conftest import write_small_dev
from tests.moses_integration.fake_moses import fake_moses

INI = str(MINI / "moses.ini")
CPU = ["--device", "cpu", "--precision", "fp32"]
ONE_CPU = ["--processes", "1", *CPU]
SHARED = ["--prepared", "-q", *ONE_CPU]
ALONE = ["--toolkit", "embedded", "--processes", "1", "--prepared", "-q"]
EMBEDDED = ["--toolkit", "embedded", *SHARED]
QUICK = ["--iterations", "2", "--restarts", "2", "--nbest", "20"]
SMALL = "--hidden 16 --set model.embedding=8 --set model.output_rank=8 --max-updates 20 --learning-rate 0.01 -q"
SMALL_LM = "--order 3 --set model.embedding=4 --set model.first_hidden=4 --set model.second_hidden=4 --epochs 1 -q"


def train(folder: Path, *options: str, source: Path = MINI / "train.en") -> None:
    texts = [f"--source={source}", f"--target={MINI / 'train.fr'}", f"--alignment={MINI / 'train.align'}"]
    assert phrasescore(["train", *texts, "-o", str(folder), *SMALL.split(), "--device", "cpu", *options]) == 0


def train_language_model(folder: Path) -> None:
    train_it = ["lm", "train", str(MINI / "dev.fr"), "-o", str(folder)]
    assert phrasescore([*train_it, *SMALL_LM.split(), "--device", "cpu"]) == 0


def text_table(text: Path | str, folder: Path, ini: Path | str = INI) -> list[str]:
    """Return the command that writes the tables of a text."""
    return ["text-table", str(ini), "--source", str(text), "--prepared", "-o", str(folder)]


@pytest.fixture(scope="session")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("in-context") / "network"
    train(folder)
    return folder


@pytest.fixture(scope="session")
def first_tuned(network: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The original of `tuned`."""
    folder = tmp_path_factory.mktemp("tuned")
    source, reference = map(str, write_small_dev(folder))
    tune = ["tune", INI, "--source", source, "--reference", reference, "-o", f"{folder}/tuned.ini", *EMBEDDED, *QUICK]
    assert main([*tune, "--in-context", str(network)]) == 0
    return folder / "tuned.ini"


@pytest.fixture
def tuned(first_tuned: Path, tmp_path: Path) -> Path:
    """A copy of the ini of a system that was tuned with the network."""
    return Path(shutil.copy(first_tuned, tmp_path))


def test_an_ini_names_the_network_and_has_a_weight_for_it(tuned: Path, network: Path) -> None:
    ini = MosesIni.read(tuned)
    assert networks_of(ini) == [str(network)]
    assert len(ini.weights()["TranslationModel0"]) == 5
    assert with_column(ini).phrase_table().width == 5
    assert ini.phrase_table().width == 4
    assert ini.path_of(ini.phrase_table()) == MosesIni.read(Path(INI)).path_of(MosesIni.read(Path(INI)).phrase_table())


def test_an_ini_in_context_is_a_complete_system_for_no_decoder(tuned: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No decoder accepts the ini of an in-context system as it is.

    Its table lacks the column. moses2 would score the column as 0, so an unknown argument must stop it.
    """
    ini, before = MosesIni.read(tuned), MosesIni.read(Path(INI)).with_absolute_paths()
    table = ini.phrase_table()
    assert (table.width, table.arguments[IN_CONTEXT]) == (4, "1")
    # Added sections come last, and comments carry no information.
    assert [ini.lines[row].split()[0] for row, _ in enumerate(before.lines) if before.lines[row].strip()] == [
        line.split()[0] for line in before.lines if line.strip()
    ]
    assert [line for line in ini.lines if "#" in line] == [line for line in before.lines if "#" in line]
    with pytest.raises(UserError, match="does not support `in-context=1` of PhraseDictionaryMemory"):
        declare_model(ini)
    # The argument is enough to stop a decoder if the sections were removed by hand.
    for section in (NETWORKS, NETWORKS_SHA256, OPTIONS_BY):
        ini.set_values(section, [])
    ini.write(tuned.with_name("bare.ini"))
    assert main(["decode", str(tuned.with_name("bare.ini")), *ALONE]) == 1
    assert f"bare.ini: [{NETWORKS}], [{OPTIONS_BY}] and {IN_CONTEXT}= of" in capsys.readouterr().err


@pytest.mark.moses
@pytest.mark.parametrize("program", ["moses", "moses2"])
def test_moses_rejects_an_ini_in_context(moses_home: Path, tuned: Path, program: str) -> None:
    binary = moses_home / "bin" / program
    if not binary.exists():
        pytest.skip(f"this Moses has no {program}")
    ini = MosesIni.read(tuned)
    for section in (NETWORKS, NETWORKS_SHA256, OPTIONS_BY):
        done = subprocess.run([binary, "-f", tuned], input=b"the dog\n", capture_output=True, check=False)
        assert done.returncode
        assert not done.stdout
        # The argument alone stops Moses.
        ini.set_values(section, [])
        ini.write(tuned)
    done = subprocess.run([binary, "-f", tuned], input=b"the dog\n", capture_output=True, check=False)
    assert done.returncode
    assert f"{IN_CONTEXT}=1".encode() in done.stderr


@pytest.mark.parametrize("toolkit", ["embedded", "moses"])
def test_faults_are_at_the_lines_that_the_user_knows(
    network: Path,
    small_dev: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    toolkit: str,
) -> None:
    """Errors give line numbers of the user's ini, although the toolkit runs a modified copy."""
    monkeypatch.setenv("MOSES_HOME", str(fake_moses(tmp_path / "moses")))
    lines = [line for line in MosesIni.read(Path(INI)).with_absolute_paths().lines if "TranslationModel0=" not in line]
    faulty = tmp_path / "faulty.ini"
    faulty.write_text("".join([*lines, "\n[stack]\nmany\n"]))
    source, reference = map(str, small_dev)
    options = ["--source", source, "--reference", reference, "--in-context", str(network), "--toolkit", toolkit]
    train_language_model(tmp_path / "cslm")
    expected = f"{faulty}: line {len(lines) + 3}: [stack]: `many` is not a whole number"
    for command in (["tune", str(faulty), "-o", str(tmp_path / "tuned.ini")], ["estimate-gain", str(faulty)]):
        assert main([*command, *options, *SHARED]) == 1
        assert expected in capsys.readouterr().err
    faulty.write_text("".join([*lines, "\n[weight]\nNoSuch0= 1\n"]))
    assert main(["add-lm", str(faulty), "--model", str(tmp_path / "cslm"), "-o", str(tmp_path / "lm.ini")]) == 1
    assert f"{faulty}: line {len(lines) + 3}: the weights of `NoSuch0` have no feature" in capsys.readouterr().err


def test_the_table_of_a_text_translates_as_the_command_does(
    tuned: Path, network: Path, small_dev: tuple[Path, Path], tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    source, lists, folder = small_dev[0], tmp_path / "lists", tmp_path / "indexed"
    decode = ["decode", str(tuned), "--source", str(source), *EMBEDDED, "--nbest", str(lists), "5"]
    assert main(decode) == 0
    translations = capfdbinary.readouterr().out
    assert len(translations.splitlines()) == 12
    assert MARK not in translations + lists.read_bytes()
    assert len(next(iter(read_nbest(lists))).features()["TranslationModel0"]) == 5
    assert main([*text_table(source, folder, tuned), "-q", *ONE_CPU]) == 0
    out = tmp_path / "out"
    assert main(["decode", f"{folder}/moses.ini", "--source", f"{folder}/text", "-o", str(out), *ALONE]) == 0
    assert main(["strip-tags", str(out)]) == 0
    assert capfdbinary.readouterr().out == translations
    # A moved network folder is found if --in-context names it.
    moved = str(shutil.copytree(network, tmp_path / "moved"))
    ini = MosesIni.read(tuned)
    ini.set_values(NETWORKS, [str(tmp_path / "nowhere")])
    ini.write(tmp_path / "moved.ini")
    assert main(["decode", str(tmp_path / "moved.ini"), "--source", str(source), *EMBEDDED]) == 1
    err = capfdbinary.readouterr().err
    assert b"nowhere: is not a model folder" in err
    assert b"or give the new folder of the network of %b/moved.ini by --in-context\n" % bytes(tmp_path) in err
    assert main(["decode", str(tmp_path / "moved.ini"), "--source", str(source), *EMBEDDED, "--in-context", moved]) == 0
    assert capfdbinary.readouterr().out == translations


@pytest.mark.moses
def test_moses_translates_part_by_part_as_we_do(
    moses_home: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moses_integration.per_text.context_toolkit._CHUNK_SENTENCES", 5)
    decode = ["decode", str(tuned), "--source", str(small_dev[0]), "--prepared", "-q", "--processes", "1"]
    found = []
    for toolkit in ("embedded", "moses"):
        out, lists = tmp_path / f"{toolkit}.out", tmp_path / f"{toolkit}.lists"
        assert main([*decode, "--toolkit", toolkit, "-o", str(out), "--nbest", str(lists), "5"]) == 0
        found.append((out.read_bytes(), [(entry.sentence, entry.words) for entry in read_nbest(lists)]))
    assert found[0] == found[1]
    assert found[0][0].count(b"\n") == 12


@pytest.mark.moses
def test_moses_tunes_as_we_do_and_by_hand(
    moses_home: Path, network: Path, small_dev: tuple[Path, Path], tmp_path: Path
) -> None:
    """`tune` with Moses' scripts gives weights that work by hand as well.

    A user may run Moses on the files that `text-table` writes.
    """
    source, reference = map(str, small_dev)
    context = ["--in-context", str(network)]
    tune = ["tune", INI, "--source", source, "--reference", reference, "-o", str(tmp_path / "tuned.ini"), *QUICK]
    assert main([*tune, *context, *SHARED, "--toolkit", "moses"]) == 0
    outputs = []
    for toolkit in ("embedded", "moses"):
        out = tmp_path / toolkit
        decode = ["decode", str(tmp_path / "tuned.ini"), "--source", source, "-o", str(out), "--toolkit", toolkit]
        assert main([*decode, *SHARED]) == 0
        outputs.append(out.read_bytes())
    assert outputs[0] == outputs[1]
    assert outputs[0].count(b"\n") == 12
    # By hand, with the tuned weights but without the record of their options.
    found = with_column(MosesIni.read(tmp_path / "tuned.ini"))
    found.write(tmp_path / "found.ini")
    indexed = tmp_path / "indexed"
    index = [*text_table(source, indexed), "-q", "--weights", str(tmp_path / "found.ini")]
    assert main([*index, *context, *ONE_CPU]) == 0
    command = [str(moses_home / "bin/moses"), "-f", str(indexed / "moses.ini"), "-v", "0"]
    said = subprocess.run(command, input=(indexed / "text").read_bytes(), capture_output=True, check=True).stdout
    (tmp_path / "said").write_bytes(said.replace(b" \n", b"\n"))
    assert main(["strip-tags", str(tmp_path / "said"), "-o", str(tmp_path / "by-hand")]) == 0
    assert (tmp_path / "by-hand").read_bytes() == outputs[0]


def test_faults_of_a_text_are_reported_by_line(tuned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "text"
    text.write_text("the dog\nthe cat\nthe | men\n")
    assert main(["decode", str(tuned), "--source", str(text), "-o", str(tmp_path / "out"), *EMBEDDED]) == 1
    assert capsys.readouterr().err.startswith(f"phrasescore-smt decode: {text}: line 3: ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(("options", "column"), [((), "score"), (("--self-normalise", "0.1"), "unnormalised")])
def test_the_column_is_what_the_network_says_in_the_sentence(
    options: tuple[str, ...], column: str, tmp_path: Path
) -> None:
    network, text, folder = tmp_path / "network", tmp_path / "text", tmp_path / "indexed"
    train(network, *options)
    sentences = (MINI / "dev.en").read_bytes().splitlines()[:3]
    text.write_bytes(b"\n".join(sentences) + b"\n")
    assert main([*text_table(text, folder), "--in-context", str(network), "-q", *ONE_CPU]) == 0
    scorer = load_scorer(network, device="cpu", precision="fp32")
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
        occurrence = in_sentences([(sentences[number], (start, start + len(words)), target)])
        expected = scorer.score(occurrence, [scorer.column(column)]).first_N
        assert math.log(float(scores.split()[4])) == pytest.approx(float(expected[0]), abs=1e-3)
        checked += 1
    assert checked > 100


def test_tuned_weights_choose_no_other_options(network: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    """Translation options do not depend on tuned weights, neither from `tune` nor from Moses' scripts."""
    ini = MosesIni.read(Path(INI)).with_absolute_paths()
    ini.set_argument("TranslationModel0", "table-limit", "2")
    ini.write(tmp_path / "moses.ini")

    def options(folder: str, *more: str) -> list[list[bytes]]:
        index = text_table(small_dev[0], tmp_path / folder, tmp_path / "moses.ini")
        assert main([*index, "--in-context", str(network), "-q", *ONE_CPU, *more]) == 0
        lines = gzip.decompress((tmp_path / folder / "phrase-table.gz").read_bytes()).splitlines()
        return [line.split(b" ||| ")[:2] for line in lines]

    at_first, found = options("dev"), MosesIni.read(tmp_path / "dev/moses.ini")
    table = found.weights()["TranslationModel0"]
    found.set_weights({"TranslationModel0": [-weight for weight in table]})
    found.write(tmp_path / "mert.ini")
    assert options("test", "--weights", str(tmp_path / "mert.ini")) == at_first
    assert MosesIni.read(tmp_path / "test/moses.ini").weights()["TranslationModel0"] == [-weight for weight in table]


def test_several_processes_and_several_networks(network: Path, tmp_path: Path) -> None:
    """The score of several networks is their mean, for any number of processes."""
    text, other = tmp_path / "text", tmp_path / "other"
    text.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:25]))
    train(other, "--seed", "7")

    def column(folder: str, *options: str) -> list[float]:
        assert main([*text_table(text, tmp_path / folder), "-q", *CPU, *options]) == 0
        lines = gzip.decompress((tmp_path / folder / "phrase-table.gz").read_bytes()).splitlines()
        return [math.log(float(line.split(b" ||| ")[2].split()[4])) for line in lines]

    one = column("one", "--in-context", str(network), "--processes", "1")
    two = column("two", "--in-context", str(other), "--processes", "1")
    both = column("both", "--in-context", str(network), str(other), "--processes", "2")
    assert len(both) > 500
    assert both == pytest.approx([(a + b) / 2 for a, b in zip(one, two, strict=True)], abs=1e-3)
    assert one != pytest.approx(two, abs=0.1)


class KilledError(BaseException):
    """Simulates SIGKILL: no handler catches it."""


@pytest.fixture
def scoring(monkeypatch: pytest.MonkeyPatch) -> Scoring:
    """Score chunks of two sentences."""
    monkeypatch.setattr(per_text, "_SENTENCES_AT_ONCE", 2)
    found = Scoring(EncoderDecoderScorer.score)
    monkeypatch.setattr(EncoderDecoderScorer, "score", lambda self, *given: found.score(self, *given))
    return found


class Scoring:
    """Counts the scored chunks and raises KilledError after a number of them."""

    def __init__(self, inner: Callable[..., Scores]) -> None:
        self._inner = inner
        self.blocks, self.last = 0, -1

    def score(self, scorer: EncoderDecoderScorer, *given: Any) -> Scores:
        if self.blocks == self.last:
            raise KilledError
        self.blocks += 1
        return self._inner(scorer, *given)


def test_a_run_that_was_killed_is_resumed(
    network: Path, tmp_path: Path, scoring: Scoring, capsys: pytest.CaptureFixture[str]
) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:9]))

    def place(folder: str, *more: str, code: int = 0) -> bytes:
        assert main([*text_table(text, tmp_path / folder), "--in-context", str(network), *ONE_CPU, *more]) == code
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
    assert "scores: resuming after chunk 3 of an interrupted run" in capsys.readouterr().err
    # Scores of another text are not reused.
    scoring.last = 10 + 2
    with pytest.raises(KilledError):
        place("parts")
    text.write_bytes(text.read_bytes().splitlines()[0] + b"\n")
    scoring.last = -1
    capsys.readouterr()
    assert place("parts", code=1) == whole
    message = capsys.readouterr().err
    assert "scores: an earlier run had phrase pairs " in message
    assert ", text " in message
    assert message.endswith("; give the same to resume it, or --restart to discard its work\n")
    assert place("parts", "--restart") != whole


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
        # Two sentences a chunk: six chunks for twelve sentences.
        assert scoring.blocks == 6


def test_in_context_needs_a_system_with_the_column(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = str(small_dev[0])
    assert main(["decode", INI, "--source", source, *EMBEDDED, "--in-context", str(network)]) == 1
    assert (
        f"{INI}: has no column for --in-context; give the ini that `tune` with --in-context wrote"
        in capsys.readouterr().err
    )
    phrases = tmp_path / "phrases"
    assert phrasescore(["train", str(MINI / "phrase-table.gz"), "-o", str(phrases), *SMALL.split()]) == 0
    decode = ["decode", str(tuned), "--source", source, *EMBEDDED, "--in-context", str(phrases)]
    assert main(decode) == 1
    assert f"{phrases}: does not condition on the sentence" in capsys.readouterr().err


def test_a_column_of_phrases_alone_is_not_what_it_was_trained_for(
    network: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    annotate = ["annotate", str(MINI / "phrase-table.gz"), "--limit", "3", "-o", str(tmp_path / "out.gz")]
    assert phrasescore([*annotate, "-m", str(network), "--device", "cpu"]) == 0
    logged = capsys.readouterr().err
    assert f"{network}: conditions on the sentence but scores these phrases without their sentences" in logged


def test_no_output_takes_the_place_of_a_network(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No output may overwrite a network, whether an option or an ini names it."""
    source, reference = map(str, small_dev)
    weights = network / "weights.safetensors"
    before, text = weights.read_bytes(), ["--source", source, *EMBEDDED]
    for command in (
        ["decode", str(tuned), *text, "-o", str(weights)],
        ["decode", INI, *text, "-o", str(weights), "--in-context", str(network)],
        ["tune", INI, *text, "--reference", reference, "-o", str(weights), "--in-context", str(network)],
        ["estimate-gain", INI, *text, "--reference", reference, "--report", str(weights), "--in-context", str(network)],
    ):
        assert main(command) == 2
        assert f"{weights}: is an input, which would be lost; give another output" in capsys.readouterr().err
    table = str(MINI / "phrase-table.gz")
    for command in (["annotate", table], ["translate", source]):
        assert phrasescore([*command, "-m", str(network), "-o", str(weights)]) == 2
        assert f"{weights}: is an input" in capsys.readouterr().err
    with pytest.raises(UsageError, match="is an input"):
        annotate(table, str(network), weights)
    assert weights.read_bytes() == before
    # Other files in the network folder may be written.
    for _ in range(2):
        assert main(["decode", str(tuned), *text, "-o", str(network / "out")]) == 0
    (network / "out").unlink()


def test_a_text_without_phrases_of_the_table_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, indexed = tmp_path / "text", tmp_path / "indexed"
    text.write_text("xyzzy foo\n\n")
    assert main(text_table(text, indexed)) == 0
    assert f"{text}: contains no phrase of the table; prepare it like the training text\n" in capsys.readouterr().err
    decode = ["decode", f"{indexed}/moses.ini", "--source", INI, "-o", str(tmp_path / "out"), *ALONE]
    assert main(decode) == 1
    assert "is not the text that the tables of" in capsys.readouterr().err


def test_input_that_moses_rejects_is_rejected_before_scoring(
    tuned: Path,
    network: Path,
    small_dev: tuple[Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Input that Moses rejects is an error before scoring, and the message has the user's file name."""
    monkeypatch.setenv("MOSES_HOME", str(fake_moses(tmp_path / "moses")))
    monkeypatch.setattr("moses_integration.per_text.context_column.ContextColumn.values", Mock(side_effect=KilledError))
    renamed = tmp_path / "renamed.ini"
    lines = [line.replace("LM0", "LM_0") for line in MosesIni.read(Path(INI)).with_absolute_paths().lines]
    MosesIni(lines, "renamed").write(renamed)
    source, reference = map(str, small_dev)
    options = ["--source", source, "-o", str(tmp_path / "out"), "--toolkit", "moses", *SHARED]
    tune = ["--reference", reference, "--in-context", str(network), *options]
    assert main(["tune", str(renamed), *tune]) == 1
    assert re.search(
        rf"{renamed}: line \d+: mert-moses.pl cannot tune a feature called `LM_0`", capsys.readouterr().err
    )
    brackets = tmp_path / "brackets"
    brackets.write_text(small_dev[0].read_text().replace("\n", " [X]\n", 1))
    for arguments in (["tune", INI, *tune], ["decode", str(tuned), *options]):
        assert main([str(brackets) if argument == source else argument for argument in arguments]) == 1
        assert f"{brackets}: line 1: has `[X]`, which Moses takes for a non-terminal" in capsys.readouterr().err
        assert main([*arguments, "--work", str(tmp_path / "w(x")]) == 1
        assert "Moses' scripts cannot use a folder with `(` in its path" in capsys.readouterr().err


def test_weights_are_for_the_network_that_they_were_sought_with(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = map(str, small_dev)
    other, out, ini = tmp_path / "other", str(tmp_path / "out"), MosesIni.read(tuned)
    train(other, "--seed", "7")
    (trained,) = ini.values(NETWORKS_SHA256)
    rejection = (
        "is not the network that {ini} was tuned with, or was trained further since; give the old one by --in-context, "
        "or tune again\n"
    )
    decode = ["decode", str(tuned), "--source", source, "-o", out, *EMBEDDED, "--in-context"]
    for folders in ([other], [network, network]):
        assert main([*decode, *map(str, folders)]) == 1
        assert capsys.readouterr().err.endswith(rejection.format(ini=tuned))
    # The same folder, retrained after tuning.
    ini.set_values(NETWORKS, [str(other)])
    ini.write(tmp_path / "since.ini")
    for command in (
        ["decode", f"{tmp_path}/since.ini", "--source", source, "-o", out, *EMBEDDED],
        [*text_table(source, tmp_path / "indexed", tmp_path / "since.ini"), "-q"],
    ):
        assert main(command) == 1
        assert capsys.readouterr().err.endswith(rejection.format(ini=f"{tmp_path}/since.ini"))
    index = text_table(source, tmp_path / "indexed")
    assert main([*index, "-q", "--weights", str(tuned), "--in-context", str(other)]) == 1
    assert capsys.readouterr().err.endswith(rejection.format(ini=tuned))
    # Tuning again accepts another network, because it finds new weights.
    tune = ["tune", f"{tmp_path}/since.ini", "--source", source, "--reference", reference, *EMBEDDED, *QUICK]
    assert main([*tune, "-o", f"{tmp_path}/again.ini"]) == 0
    again = MosesIni.read(tmp_path / "again.ini")
    assert networks_of(again) == [str(other)]
    assert again.values(NETWORKS_SHA256) not in ([], [trained])


def test_an_ini_without_option_weights_is_rejected(
    tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An ini without a record of its translation options is an error.

    Choosing options by tuned weights would give other options than in tuning, possibly the worst ones.
    """
    ini = MosesIni.read(tuned)
    assert ini.values(OPTIONS_BY)
    ini.set_values(OPTIONS_BY, [])
    ini.write(tmp_path / "older.ini")
    source, reference = map(str, small_dev)
    for command in (
        ["decode", "-o", str(tmp_path / "out")],
        ["text-table", "-o", str(tmp_path / "indexed")],
        ["tune", "-o", str(tmp_path / "again.ini"), "--reference", reference],
    ):
        options = ["--source", source, "--prepared", "--processes", "1", "-q"]
        assert main([command[0], str(tmp_path / "older.ini"), *command[1:], *options]) == 1
        assert re.search(
            rf"older\.ini: line \d+: \[{NETWORKS}\], \[{OPTIONS_BY}\] and .* together; run tune again",
            capsys.readouterr().err,
        )


@pytest.mark.parametrize("damage", ["LM0= zz", "LM0= 0.5 0.5", "Other0= 1", ""])
def test_weights_for_the_choice_of_options_are_those_of_all_features(
    tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], damage: str
) -> None:
    ini = MosesIni.read(tuned)
    kept = [line for line in ini.values(OPTIONS_BY) if not line.startswith("LM0=")]
    ini.set_values(OPTIONS_BY, [*kept, damage] if damage else kept)
    ini.write(tmp_path / "damaged.ini")
    decode = ["decode", str(tmp_path / "damaged.ini"), "--source", str(small_dev[0]), "-o", str(tmp_path / "out")]
    assert main([*decode, *EMBEDDED]) == 1
    wrong = "a weight of LM0 is not a number" if damage == "LM0= zz" else f"[{OPTIONS_BY}] does not fit the features"
    assert re.search(rf"damaged\.ini: line \d+: {re.escape(wrong)}", capsys.readouterr().err)


def test_a_feature_that_is_added_has_a_part_in_the_choice_of_options(
    tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, more = tuned.with_name("cslm"), tuned.with_name("more.ini")
    train_language_model(model)
    assert main(["add-lm", str(tuned), "--model", str(model), "-o", str(more)]) == 0
    before, after = MosesIni.read(tuned).values(OPTIONS_BY), MosesIni.read(more).values(OPTIONS_BY)
    (weight,) = MosesIni.read(more).weights()["CSLM0"]
    assert 0 < weight < 0.2
    assert after == [*before, f"CSLM0= {weight:.6g}"]
    # A per-text table is for Moses, which has no such feature.
    assert main(text_table(small_dev[0], tmp_path / "table", more)) == 1
    assert "CSLM0 is a CSLM, which Moses does not have" in capsys.readouterr().err


def test_a_network_with_a_part_of_ones_own(small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    """A network with a unit from a plugin works in worker processes as well."""
    plugin, network = train_with_plugin(tmp_path)
    index = [*text_table(small_dev[0], tmp_path / "indexed"), "--processes", "2"]
    assert sentence_of(1, run(*index, "--in-context", network).stderr).find("there is no unit `mine`") > 0
    done = run(*index, "--in-context", network, "--plugin", plugin)
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "indexed/text").read_bytes().splitlines()) == 12
    rejected = run("decode", INI, "--prepared", "--plugin", plugin)
    assert b"--plugin" in rejected.stderr
    assert rejected.returncode == 2


def test_many_unknown_words_are_reported(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    capitals, folder = tmp_path / "capitals.en", tmp_path / "network"
    capitals.write_text((MINI / "train.en").read_text().upper())
    train(folder, source=capitals)
    index = text_table(small_dev[0], tmp_path / "indexed")
    assert main([*index, "--in-context", str(folder), "--processes", "1"]) == 0
    said = capsys.readouterr().err
    assert re.search(
        rf"^[5-9][0-9]\.[0-9]+% of the source words are unknown to {folder}; check that", said, re.MULTILINE
    )
    assert "of the target words" not in said


def test_decoding_the_dev_text_gives_the_dev_bleu_of_tuning(
    network: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decoding the dev text gives the dev BLEU of tuning.

    It uses the translation options of tuning and the weights that chose them.
    """
    source, reference = map(str, small_dev)
    tune = ["tune", INI, "--source", source, "--reference", reference, "--in-context", str(network), *EMBEDDED, *QUICK]
    assert main([*tune, "-o", f"{tmp_path}/tuned.ini", "--report", f"{tmp_path}/report.json"]) == 0
    decode = ["decode", f"{tmp_path}/tuned.ini", "--source", source, "-o", f"{tmp_path}/out", *EMBEDDED]
    assert main(decode) == 0
    capsys.readouterr()
    evaluate = ["evaluate", f"{tmp_path}/out", "--reference", reference, "--tokenise", "none", "--json"]
    assert main(evaluate) == 0
    (system,) = json.loads(capsys.readouterr().out)["systems"]
    report = json.loads((tmp_path / "report.json").read_text())
    assert system["metrics"]["BLEU"]["score"] == pytest.approx(report["dev_bleu"]["mean"], abs=0.01)


def test_the_tables_of_a_text_are_for_no_other(
    network: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, indexed, out = str(small_dev[0]), tmp_path / "indexed", tmp_path / "out"
    assert main([*text_table(source, indexed), "-q"]) == 0
    ini = f"{indexed}/moses.ini"
    rejection = f"{source}: is not the text that the tables of {ini} were made for"
    for command in (
        ["decode", ini, "--source", source, "-o", str(out), *ALONE],
        [*text_table(source, indexed, ini), "-q"],
    ):
        assert main(command) == 1
        assert rejection in capsys.readouterr().err
    plain = [option for option in ALONE if option != "--prepared"]
    assert main(["decode", ini, "--source", source, "-o", str(out), *plain]) == 1
    assert f"{ini}: has the tables of one text; give that, `text` beside it, and --prepared" in capsys.readouterr().err
    other, named = tmp_path / "other", f"{tmp_path}/other/text"
    other.with_suffix(".en").write_text("the letter .\n")
    assert main([*text_table(f"{other}.en", other), "-q"]) == 0
    assert main(["decode", ini, "--source", named, "-o", str(out), *ALONE]) == 1
    assert f"{named}: is not the text that the tables of {ini} were made for; give the whole file `text`" in (
        capsys.readouterr().err
    )
    # mert-moses.pl writes its ini to another folder and drops comments.
    tuned = tmp_path / "mert/moses.ini"
    tuned.parent.mkdir()
    MosesIni.read(Path(ini)).without_comments().write(tuned)
    assert main(["decode", str(tuned), "--source", source, "-o", str(out), *ALONE]) == 1
    assert f"{source}: is not the text that the tables of {tuned} were made for" in capsys.readouterr().err
    (indexed / "text.json").write_text("{}")
    assert main(["decode", str(tuned), "--source", source, "-o", str(out), *ALONE]) == 1
    assert f"{indexed}/text.json: has no `text_sha256`; make the table again" in capsys.readouterr().err
    assert main([*text_table(source, indexed), "-q"]) == 0
    assert not out.exists()
    assert main(["decode", ini, "--source", f"{indexed}/text", "-o", str(out), *ALONE]) == 0


def test_options_of_a_network_that_is_not_there_are_rejected(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = ["--source", str(small_dev[0]), "--prepared", "-q"]
    index, decode = [*text_table(small_dev[0], tmp_path / "indexed"), "-q"], ["decode", INI, *text]
    for command in (
        [*decode, "--device", "cpu"],
        [*decode, "--precision", "bf16"],
        [*index, "--processes", "2"],
        [*index, "--scheduler", "tcp://nowhere:1"],
        ["serve", INI, "--device", "cpu"],
    ):
        assert main(command) == 2
        assert f"{command[-2]}: changes nothing without a network in context; leave it out" in capsys.readouterr().err
    assert main([*index, "--restart"]) == 2
    assert "--restart: changes nothing without a network in context; leave it out" in capsys.readouterr().err
    assert main([*decode, "--work", str(tmp_path / "work"), "--restart"]) == 2
    assert "--restart: changes nothing without a network in context; leave it out" in capsys.readouterr().err
    assert main([*decode, "--restart"]) == 2
    assert "--restart: changes nothing without --work; leave it out" in capsys.readouterr().err


def test_a_column_in_context_stays_the_last(
    network: Path, tuned: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = str(MINI / "phrase-table.gz")
    assert main(["add-column", str(tuned), "--table", table, "-o", str(tmp_path / "more.ini")]) == 1
    assert "has a column in context, which must remain the last column" in capsys.readouterr().err
    source, reference = map(str, small_dev)
    worth = ["estimate-gain", str(tuned), "--source", source, "--reference", reference, *EMBEDDED]
    assert main([*worth, "--in-context", str(network)]) == 1
    assert "has a column in context already" in capsys.readouterr().err


def test_a_folder_that_an_ini_cannot_name_is_rejected_before_work(
    network: Path, small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, reference = map(str, small_dev)
    for name in ("two\nlines", "blank ", "a#b"):
        folder = shutil.copytree(network, tmp_path / name)
        tune = ["tune", INI, "--source", source, "--reference", reference, "-o", str(tmp_path / "ini"), *EMBEDDED]
        assert main([*tune, "--in-context", str(folder)]) == 1
        assert (
            f"{str(folder)!r}: [{NETWORKS}] of {INI} cannot hold this value; use another name"
            in capsys.readouterr().err
        )


def test_rescoring_gives_the_network_the_sentence(network: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    """Rescoring conditions on the sentence as the per-text table does: it sums over the phrases of a derivation."""
    source, reference = map(str, small_dev)
    nbest, added, weights = (str(tmp_path / name) for name in ("nbest", "added", "weights.json"))
    assert main(["decode", INI, "--source", source, *ALONE, "--nbest", nbest, "5", "-o", str(tmp_path / "out")]) == 0
    rescore = ["rescore", "--nbest", nbest, "--source", source, "--reference", reference, "--ini", INI, "--prepared"]
    options = ["--scorer", f"A={network}", "--nbest-output", added, "--device", "cpu", "--precision", "fp32"]
    assert main([*rescore, *options, "--processes", "1", "-o", weights]) == 0
    scorer = load_scorer(network, device="cpu", precision="fp32")
    sentences = small_dev[0].read_bytes().splitlines()
    for entry in list(read_nbest(Path(added)))[:10]:
        sentence = sentences[entry.sentence]
        phrases = [(sentence, (one.start, one.end + 1), b" ".join(one.words)) for one in segments_of(entry)]
        expected = scorer.score(in_sentences(phrases)).first_N.sum()
        assert entry.features()["A"] == [pytest.approx(expected, abs=1e-2)]
