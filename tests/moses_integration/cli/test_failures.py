"""Every failure is one sentence with exit code 1, and leaves no partial output."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.prepared_text import work_folder
from moses_integration.toolkits.embedded import EmbeddedToolkit
from moses_integration.toolkits.moses_tables import check_folder_name
from moses_integration.tuning.tunings import Tuning
from tests.cli.running import last_of_each
from tests.conftest import MINI
from tests.moses_integration.cli.running import command, environment, run, sentence_of
from tests.moses_integration.fake_moses import fake_moses, program

QUICK = ("--iterations", "2", "--restarts", "1", "--nbest", "5", "--processes", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with invalid files of all kinds."""
    (tmp_path / "two").write_text("the letter .\nthe women .\n")
    (tmp_path / "three").write_text("a .\nb .\nc .\n")
    (tmp_path / "bar").write_text("a .\nb|c .\n")
    (tmp_path / "named").write_text("a\ufdd0a\ufdd0a .\n")
    (tmp_path / "empty").write_text("")
    (tmp_path / "blank").write_text("\n\n")
    (tmp_path / "wide").write_bytes("the letter .\nthe women .\n".encode("utf-16-le"))
    (tmp_path / "latin").write_bytes("the letter .\nthe café .\n".encode("latin-1"))
    (tmp_path / "sub").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "cut.gz").write_bytes((MINI / "phrase-table.5.gz").read_bytes()[:5000])
    shutil.copy(MINI / "phrase-table.gz", tmp_path / "own.gz")
    ini = (MINI / "moses.ini").read_text()
    (tmp_path / "lost.ini").write_text(ini)
    (tmp_path / "own.ini").write_text(ini.replace("path=phrase-table.gz", "path=cut.gz"))
    (tmp_path / "my system").mkdir()
    (tmp_path / "my system/moses.ini").write_text(ini)
    (tmp_path / "overriding.ini").write_text(ini + "[weight-overwrite]\nLM0= 1\n")
    (tmp_path / "old.ini").write_text("[ttable-file]\n0 0 0 5 t.gz\n[weight-t]\n1\n[weight-p]\n1\n")
    (tmp_path / "unknown.ini").write_text(re.sub(r"(?m)^Distortion(?=0=|$)", "Distorsion", ini))
    (tmp_path / "weights.ini").write_text(ini.replace("TranslationModel0= 0.2 0.2", "TranslationModel0= 0.2"))
    zeros = re.sub(r"(?m)^(?!Unknown)(\w+= ).*$", lambda line: line[1] + "0 " * (len(line[0].split()) - 1), ini)
    (tmp_path / "zeros.ini").write_text(zeros)
    (tmp_path / "indexed.ini").write_text(re.sub(r"path=reordering\S*", "property-index=0", ini))
    (tmp_path / "brackets").write_text("the [ letter .\nthe [X] .\n")
    (tmp_path / "compact.ini").write_text(ini.replace("PhraseDictionaryMemory", "PhraseDictionaryCompact"))
    return tmp_path


INI = str(MINI / "moses.ini")
BUILD = ["build", "-o", "FOLDER/system", "--source-language", "en", "--target-language", "fr"]
TEXTS = [*BUILD, "--source", "x", "--target", "y"]
TUNE = ["tune", INI, "--prepared", "-o", "FOLDER/tuned.ini", *QUICK]
TEXT_TABLE = ["text-table", "--prepared", "-o", "FOLDER/indexed"]
RESCORE = ["rescore", "--nbest", "FOLDER/bar", "--source", "FOLDER/two"]
DEV = ["--source", "FOLDER/two", "--reference", "FOLDER/two"]
DECODE = ["decode", "--prepared", "-o", "FOLDER/out", "--processes", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([*BUILD, "--source", "FOLDER/nowhere", "--target", "FOLDER/two"], "nowhere: cannot be read (No such file"),
        ([*BUILD, "--source", "FOLDER/three", "--target", "FOLDER/two"], "three: has 3 lines but FOLDER"),
        (
            [*BUILD, "--source", "FOLDER/empty", "--target", "FOLDER/empty"],
            "FOLDER/empty: is empty like FOLDER/empty; give texts",
        ),
        (
            [*BUILD, "--source", "FOLDER/blank", "--target", "FOLDER/blank"],
            "fit for training: 0 of 2 pairs kept (2 empty)",
        ),
        (["build", "-o", "FOLDER/s", "--source", "FOLDER/two", "--target", "FOLDER/two"], "does not end in a language"),
        (
            [*BUILD, "--source", "-", "--target", "b"],
            "standard input: can be read only once, but `build` reads its inputs several",
        ),
        (
            [*BUILD, "--source", "a", "--target", "b", "--target-language", "FR"],
            "-language: `FR` cannot be a language; give a code of two or three small letters",
        ),
        (
            [*BUILD, "--source", "a", "--target", "b", "--source-language", "../en"],
            "--source-language: `../en` cannot be a language; give a code of two",
        ),
        (
            [*BUILD, "--source", "a", "--target", "b", "--source-language", "align", "--tokenised"],
            "`align` cannot be a language; give letters and digits",
        ),
        (
            [*BUILD, "--source", "FOLDER/pipe", "--target", "b"],
            "pipe: can be read only once, but `build` reads its inputs",
        ),
        (["build", "-o", "FOLDER/s", "--source", "a.en", "--target", "b.en"], "are both `en`; give --source-language"),
        (
            ["build", "-o", "FOLDER/two", "--source", "a.en", "--target", "b.fr"],
            "two: is a file; give the name of a folder",
        ),
        (
            [*TUNE, "--source", "FOLDER/two", "--reference", "FOLDER/three"],
            "three: has 3 lines but FOLDER/two has 2; give files",
        ),
        (
            ["tune", INI, "--source", "FOLDER/two", "--reference", "FOLDER/two", "-o", "x"],
            "there is no preparation.json beside it",
        ),
        ([*TUNE, "--source", "FOLDER/empty", "--reference", "FOLDER/empty"], "empty: is empty; give some hundred dev"),
        ([*TUNE, "--source", "FOLDER/bar", "--reference", "FOLDER/two"], "FOLDER/bar: line 2: has a `|`, which"),
        ([*DECODE, INI, "--source", "FOLDER/bar"], "FOLDER/bar: line 2: has a `|`, which separates the factors"),
        ([*DECODE, "FOLDER/nowhere.ini"], "nowhere.ini: cannot be read"),
        ([*DECODE, "FOLDER/sub"], "sub: is a folder, a pipe or a device; give the moses.ini"),
        ([*DECODE, INI, "--source", "FOLDER/nowhere"], "nowhere: cannot be read"),
        ([*DECODE, "FOLDER/lost.ini", "--source", "FOLDER/two"], "does not exist, but the ini names it"),
        ([*DECODE, "FOLDER/unknown.ini", "--source", "FOLDER/two"], "does not support Distorsion; remove it, or use"),
        *(
            (
                arguments,
                "zeros.ini: all weights except that of UnknownWordPenalty are 0, so all translations are equally",
            )
            for arguments in (
                [*TEXT_TABLE, INI, "--source", "FOLDER/two", "--weights", "FOLDER/zeros.ini"],
                ["tune", "FOLDER/zeros.ini", "--prepared", "-o", "FOLDER/tuned.ini", *DEV],
                ["estimate-gain", "FOLDER/zeros.ini", "--prepared", *DEV],
                ["expected-bleu", "FOLDER/zeros.ini", "-o", "FOLDER/function"],
            )
        ),
        (
            [*DECODE, "FOLDER/indexed.ini", "--source", "FOLDER/two"],
            "line 22: LexicalReordering0 has no path=; add it",
        ),
        (
            [*TEXT_TABLE, INI, "--source", "FOLDER/brackets"],
            "FOLDER/brackets: line 2: has `[X]`, which Moses takes for a non-terminal of a grammar; write its brackets",
        ),
        ([*DECODE, "FOLDER/compact.ini", "--source", "FOLDER/two"], "does not support PhraseDictionaryCompact"),
        ([*DECODE, "FOLDER/weights.ini", "--source", "FOLDER/two"], "has 4 features but 3 weights"),
        ([*DECODE, INI, "--source", "FOLDER/cut.gz"], "cut.gz: the compressed data is truncated"),
        (["decode", INI, "--source", "FOLDER/two"], "unknown; give text that is tokenised"),
        (
            ["decode", "FOLDER/lost.ini", "--source", "FOLDER/two"],
            "gz does not exist, relative to FOLDER; move the ini back",
        ),
        (["decode", INI, "-o", "FOLDER/no/out"], "out: cannot be written, for FOLDER/no is no folder"),
        ([*DECODE, INI, "--nbest", "FOLDER/no/nbest", "3"], "nbest: cannot be written, for FOLDER/no is no folder"),
        ([*TUNE, "--source", "x", "--reference", "y", "-o", "FOLDER/no/x.ini"], "x.ini: cannot be written, for"),
        ([*TUNE, "--source", "x", "--reference", "y", "-o", "FOLDER/sub"], "sub: is a folder; give the name of a"),
        (
            [*TUNE, "--source", "x", "--reference", "y", "--report", "FOLDER/no/r"],
            "r: cannot be written, for FOLDER/no",
        ),
        ([*TUNE, "--source", "x", "--reference", "y", "--work", "FOLDER/two"], "two: is a file; give the name of a"),
        (
            [*TUNE, "--source", "x", "--reference", "y", "--work", "FOLDER"],
            "has files that no earlier run left; give a new",
        ),
        (
            [*TEXT_TABLE, INI, "--source", "FOLDER/two", "-o", "FOLDER"],
            "has files that no earlier run left; give a new",
        ),
        ([*TEXT_TABLE, INI, "--source", "FOLDER/bar"], "Moses expects 1 factor a word, separated by `|`; write"),
        (
            [*TEXT_TABLE, INI, "--source", "FOLDER/named"],
            "FOLDER/named: line 1: has U+FDD0, which is no character of text",
        ),
        (
            [*TEXT_TABLE, "FOLDER/compact.ini", "--source", "FOLDER/two"],
            "does not support PhraseDictionaryCompact",
        ),
        (
            [*TEXT_TABLE, "FOLDER/lost.ini", "--source", "FOLDER/two"],
            "gz does not exist, relative to FOLDER; move the ini",
        ),
        (
            [*TEXT_TABLE, INI, "--source", "FOLDER/two", "--weights", "FOLDER/weights.ini"],
            "FOLDER/weights.ini: TranslationModel0 has 4 features but 3 weights",
        ),
        (
            [*TEXT_TABLE, INI, "--source", "FOLDER/two", "-o", "FOLDER/my indexed"],
            "cannot be written, because a space ends a value",
        ),
        (["strip-tags", "FOLDER/wide"], "FOLDER/wide: line 1: has a NUL"),
        (
            ["tune", "FOLDER/my system/moses.ini", "--source", "x", "--reference", "y", "-o", "FOLDER/tuned.ini"],
            "cannot be written, because a space ends a value",
        ),
        (
            ["add-column", INI, "--table", "FOLDER/own.gz", "-o", "FOLDER/o"],
            f"own.gz: has 4 scores per line, but {INI} has num-features=4 and 1 to be added; run `phrasescore "
            f"annotate` on the table that {INI} names, and give its output",
        ),
        (
            ["tune", "FOLDER/overriding.ini", "--source", "x", "--reference", "y", "-o", "FOLDER/tuned.ini"],
            "overriding.ini: line 38: [weight-overwrite] overrides [weight]; move its weights there",
        ),
        (
            ["add-column", "FOLDER/old.ini", "--table", "x", "-o", "FOLDER/o"],
            "FOLDER/old.ini: line 2: [ttable-file] belongs to the format before 2013; convert the file with Moses' "
            "`scripts/training/convert-moses-ini-to-v2.perl < OLD > NEW`, and add the weight of [weight-p], which "
            "the script drops",
        ),
        (
            ["add-column", INI, "--table", "x", "--feature", "TM", "-o", "FOLDER/o"],
            "has no feature `TM`; give one of Un",
        ),
        ([*TUNE, "--source", "FOLDER/two", "--reference", "FOLDER/latin"], "FOLDER/latin: line 2: is not UTF-8"),
        (["evaluate", "FOLDER/two", "--reference", "FOLDER/two", "--baseline", "FOLDER/x"], "x: cannot be read"),
    ],
)
def test_errors_are_one_sentence(
    folder: Path, arguments: list[str], message: str, capfdbinary: pytest.CaptureFixture[bytes], no_moses: None
) -> None:
    before = sorted(folder.rglob("*"))
    code = main(last_of_each(argument.replace("FOLDER", str(folder)) for argument in arguments))
    assert message.replace("FOLDER", str(folder)) in sentence_of(code, capfdbinary.readouterr().err)
    after = [path for path in sorted(folder.rglob("*")) if path not in before]
    assert after == []


@pytest.mark.parametrize(
    "options",
    [
        ["tune", INI, "-o", "FOLDER/x", "--source", "-", "--reference", "-"],
        ["estimate-gain", "-", "--source", "FOLDER/two", "--reference", "-"],
        ["evaluate", "-", "--reference", "-"],
        ["evaluate", "FOLDER/two", "--reference", "-", "--baseline", "-"],
        ["decode", "-"],
        ["text-table", INI, "--weights", "-", "-o", "FOLDER/x"],
    ],
)
def test_standard_input_is_one_input(folder: Path, capsys: pytest.CaptureFixture[str], options: list[str]) -> None:
    assert main([option.replace("FOLDER", str(folder)) for option in options]) == 2
    assert "-: standard input can be one input only; give files for the others" in capsys.readouterr().err


def test_two_outputs_in_one_place_are_wrong_usage(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["decode", INI, "--nbest", "-", "3"]) == 2
    assert "standard output: is given for two outputs; give each a file of its own" in capsys.readouterr().err
    assert main(["decode", INI, "--nbest", f"{folder}/x", "3", "-o", f"{folder}/../{folder.name}/x"]) == 2
    assert f"{folder}/x: is given for two outputs; give each a file of its own" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ([*TUNE, "--source", "FOLDER/two", "--reference", "FOLDER/latin", "--report", "FOLDER/latin"], "latin"),
        ([*DECODE, INI, "--source", "FOLDER/two", "--nbest", "FOLDER/two", "9"], "two"),
        (
            ["estimate-gain", INI, "--source", "FOLDER/two", "--reference", "FOLDER/two", "--report", "FOLDER/two"],
            "two",
        ),
        ([*RESCORE, "--reference", "FOLDER/two", "-o", "FOLDER/two"], "two"),
        ([*RESCORE, "--reference", "FOLDER/two", "--ini", "FOLDER/lost.ini", "-o", "FOLDER/lost.ini"], "lost.ini"),
        ([*RESCORE, "--weights", "FOLDER/three", "-o", "FOLDER/three"], "three"),
        ([*RESCORE, "--weights", "FOLDER/three", "-o", "FOLDER/bar"], "bar"),
        ([*RESCORE, "--weights", "FOLDER/three", "-o", "FOLDER/x", "--nbest-output", "FOLDER/two"], "two"),
        (["add-column", "FOLDER/lost.ini", "--table", "FOLDER/cut.gz", "-o", "FOLDER/cut.gz"], "cut.gz"),
        ([*RESCORE, "--weights", "x", "--scorer", "X=FOLDER/three", "-o", "FOLDER/three"], "three"),
        (["add-lm", "FOLDER/lost.ini", "--model", "m", "--backoff", "FOLDER/two", "-o", "FOLDER/two"], "two"),
        (
            ["add-lm", "FOLDER/lost.ini", "--model", "FOLDER", "--backoff", "x", "-o", "FOLDER/config.json"],
            "config.json",
        ),
        ([*RESCORE, "--weights", "x", "--scorer", "X=FOLDER", "-o", "FOLDER/config.json"], "config.json"),
        # Files that an ini names are inputs as well.
        ([*DECODE, "FOLDER/own.ini", "--source", "FOLDER/two", "-o", "FOLDER/cut.gz"], "cut.gz"),
        (["tune", "FOLDER/own.ini", *TUNE[2:], *DEV, "--report", "FOLDER/cut.gz"], "cut.gz"),
        (["estimate-gain", "FOLDER/own.ini", *DEV, "--report", "FOLDER/cut.gz"], "cut.gz"),
        ([*RESCORE, "--reference", "FOLDER/two", "--ini", "FOLDER/own.ini", "-o", "FOLDER/cut.gz"], "cut.gz"),
    ],
)
def test_no_output_takes_the_place_of_an_input(
    folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], name: str
) -> None:
    (folder / "config.json").touch()
    before = (folder / name).read_bytes()
    assert main(last_of_each(option.replace("FOLDER", str(folder)) for option in options)) == 2
    assert f"{folder / name}: is an input, which would be lost; give another output" in capsys.readouterr().err
    assert (folder / name).read_bytes() == before


def test_two_runs_in_one_folder(folder: Path, capsys: pytest.CaptureFixture[str], no_moses: None) -> None:
    arguments = [*DECODE, INI, "--source", f"{folder}/two", "--work", f"{folder}/work"]
    arguments = [argument.replace("FOLDER", str(folder)) for argument in arguments]
    with work_folder(folder / "work"):
        assert main(arguments) == 1
        assert "work: another run is at work in it; wait for it or give another folder" in capsys.readouterr().err
    assert main(arguments) == 0


def test_a_temporary_folder_whose_random_name_begins_with_gz(monkeypatch: pytest.MonkeyPatch) -> None:
    """Moses' scripts remove the first `.gz` of a path."""
    monkeypatch.setattr(tempfile, "_get_candidate_names", lambda: iter(["gz_12345"]))
    with work_folder(None) as temporary:
        check_folder_name(temporary)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--escaped"], "--escaped: tokenising would take the escapes apart; give --tokenised, too"),
        (["--alignment", "a", "--aligner", "hmm"], "--aligner: changes nothing with --alignment, which is of"),
    ],
)
def test_options_of_build_that_do_not_fit_together(
    options: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*TEXTS, *options]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_moses_cannot_use_is_rejected_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOSES_HOME", str(fake_moses(tmp_path / "moses")))
    texts = ["--source", "nowhere.en", "--target", "nowhere.fr", "-o", f"{tmp_path}/my system"]
    assert main(["build", *texts, "--toolkit", "moses"]) == 1
    message = f"{tmp_path}/my system: Moses' scripts cannot use a folder with ` ` in its path"
    assert message in capsys.readouterr().err


def test_a_failed_step_of_moses_keeps_its_log(folder: Path) -> None:
    """A failed step of Moses keeps its log, and the message names it; without --work it is in a temporary folder."""
    program(folder / "bin/moses", "echo no such luck >&2; exit 1")
    (folder / "tmp").mkdir()
    home = {"MOSES_HOME": str(folder), "TMPDIR": str(folder / "tmp")}
    done = run("decode", INI, "--prepared", "--source", folder / "two", more=home)
    sentence = sentence_of(done.returncode, done.stderr)
    assert "decoding: `" in sentence
    assert "its last messages are: no such luck" in sentence
    log = Path(sentence.rsplit("; see ")[1].split(", or use --toolkit embedded")[0])
    assert "no such luck" in log.read_text()
    run("decode", INI, "--prepared", "--source", folder / "nowhere", more=home)
    assert len(list((folder / "tmp").iterdir())) == 1


@pytest.mark.parametrize(("name", "number"), [("INT", signal.SIGINT), ("TERM", signal.SIGTERM)])
def test_a_stopped_tuning_leaves_nothing(
    small_dev: tuple[Path, Path], tmp_path: Path, name: str, number: signal.Signals
) -> None:
    (tmp_path / "tmp").mkdir()
    arguments = ["tune", INI, "--prepared", "--source", str(small_dev[0]), "--reference", str(small_dev[1])]
    arguments += ["-o", str(tmp_path / "tuned.ini"), "--iterations", "1000", "--seeds", *map(str, range(1000))]
    arguments += ["--nbest", "5", "--restarts", "0", "--processes", "2", "--toolkit", "embedded"]
    process = subprocess.Popen(
        command(*arguments),
        stderr=subprocess.PIPE,
        env=environment({"TMPDIR": str(tmp_path / "tmp"), "PYTHONUNBUFFERED": "1"}),
        start_new_session=True,
    )
    assert process.stderr is not None
    first = process.stderr.readline()
    assert b"dev BLEU" in first
    time.sleep(0.3)
    # A terminal sends the signal to all processes of the group.
    os.killpg(process.pid, number)
    _, messages = process.communicate(timeout=60)
    assert process.returncode == 128 + number
    lines = [line for line in messages.splitlines() if b"dev BLEU" not in line]
    assert lines == ([b"phrasescore-smt tune: stopped"] if number == signal.SIGINT else [])
    assert list((tmp_path / "tmp").iterdir()) == []
    assert {path.name for path in tmp_path.iterdir()} == {"tmp", *(text.name for text in small_dev)}


def test_results_of_earlier_seeds_outlast_a_failure(
    folder: Path, monkeypatch: pytest.MonkeyPatch, small_dev: tuple[Path, Path], no_moses: None
) -> None:
    def tune(*given: object) -> Iterator[Tuning]:
        yield Tuning(4, {"LM0": [0.25]}, 30.0)
        yield Tuning(5, {"LM0": [0.75]}, 20.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(EmbeddedToolkit, "tune", tune)
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1])]
    outputs = ["-o", f"{folder}/tuned.ini", "--report", f"{folder}/report.json"]
    assert main(["tune", INI, "--prepared", *texts, *outputs, "--seeds", "4", "5", "6"]) == 130
    assert MosesIni.read(folder / "tuned.ini").weights()["LM0"] == [0.25]
    report = json.loads((folder / "report.json").read_text())
    assert [run["seed"] for run in report["runs"]] == [4, 5]
    assert report["dev_bleu"]["mean"] == 25


def test_of_equal_seeds_the_first_one_given_is_kept(
    folder: Path, monkeypatch: pytest.MonkeyPatch, small_dev: tuple[Path, Path], no_moses: None
) -> None:
    """With equal BLEU, the first seed given is chosen, in whatever order the tunings finish.

    The second one may be left from an earlier run.
    """

    def tune(*given: object) -> Iterator[Tuning]:
        yield Tuning(5, {"LM0": [0.75]}, 30.0)
        yield Tuning(4, {"LM0": [0.25]}, 30.0)

    monkeypatch.setattr(EmbeddedToolkit, "tune", tune)
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1])]
    assert main(["tune", INI, "--prepared", *texts, "-o", f"{folder}/tuned.ini", "--seeds", "4", "5"]) == 0
    assert MosesIni.read(folder / "tuned.ini").weights()["LM0"] == [0.25]
