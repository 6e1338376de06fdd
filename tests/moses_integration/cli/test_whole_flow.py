"""The complete workflow from parallel text to BLEU."""

from __future__ import annotations

import gzip
import hashlib
import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.metrics import measure
from moses_integration.nbest import read_nbest
from moses_integration.per_text.context_sections import networks_of
from phrasescore.cli import main as phrasescore
from tests.conftest import MINI
from tests.moses_integration.cli.running import environment, sentence_of, succeed

README = Path(__file__).parents[3] / "README.md"
QUICK = ("--iterations", "2", "--restarts", "2", "--nbest", "20", "--processes", "1")


def bleu_of(done: subprocess.CompletedProcess[bytes]) -> float:
    """Return the BLEU of the first system in the output of `evaluate`."""
    return float(done.stdout.splitlines()[1].split()[1])


def test_tokenised_text(system: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    source, reference = small_dev
    table = system / "phrase-table.rnn.gz"
    table.write_bytes((MINI / "phrase-table.5.gz").read_bytes())
    succeed("add-column", system / "moses.ini", "--table", table, "-o", system / "moses.rnn.ini")
    ini = MosesIni.read(system / "moses.rnn.ini")
    assert ini.phrase_table().arguments["path"] == "phrase-table.rnn.gz"
    assert ini.weights()["TranslationModel0"] == [0.2] * 5
    tuned = tmp_path / "tuned.ini"
    texts = ("--source", source, "--reference", reference, "--prepared")
    told = succeed("tune", system / "moses.rnn.ini", *texts, *QUICK, "-o", tuned)
    assert b"toolkit: embedded" in told.stderr
    assert b"seed 1: dev BLEU " in told.stderr
    assert MosesIni.read(tuned).path_of(MosesIni.read(tuned).phrase_table()) == table
    out, nbest = tmp_path / "out", tmp_path / "nbest.gz"
    succeed("decode", tuned, "--prepared", "--nbest", nbest, "5", "-o", out, "-q", stdin=source.read_bytes())
    entries = list(read_nbest(nbest))
    first = {entry.sentence: entry.words for entry in reversed(entries)}
    assert out.read_bytes().splitlines() == [first[number] for number in range(12)]
    assert len(entries[0].features()["TranslationModel0"]) == 5
    told = succeed("evaluate", out, "--reference", reference, "--baseline", out, "--tokenise", "none")
    assert b"  +0.00 BLEU, p = 1.0000\nBLEU: nrefs:1|bs:1000|seed:12345|case:mixed|eff:no|tok:none" in told.stdout
    bleu = bleu_of(told)
    assert bleu_of(succeed("evaluate", out, "--reference", reference)) == pytest.approx(bleu, abs=3)
    assert bleu > 85


def test_plain_text_in_and_plain_text_out(plain_texts: Path, plain_system: Path, tmp_path: Path) -> None:
    texts = ("--source", plain_texts / "dev.en", "--reference", plain_texts / "dev.fr")
    tuned, report = tmp_path / "tuned.ini", tmp_path / "report.json"
    told = succeed(
        "tune", plain_system / "moses.ini", *texts, *QUICK, "-o", tuned, "--report", report, "--seeds", "1", "2"
    )
    said = json.loads(report.read_text())
    models = said["models"]
    assert {"TranslationModel0", "LM0", "LexicalReordering0"} <= models.keys()
    files = [said["ini"], said["source"], *said["references"], *(model["path"] for model in models.values())]
    assert all(file["sha256"] == hashlib.sha256(Path(file["path"]).read_bytes()).hexdigest() for file in files)
    runs = said["runs"]
    assert [run["seed"] for run in runs] == [1, 2]
    assert f"dev BLEU {max(run['bleu'] for run in runs):.2f}".encode() in told.stderr
    assert b"dev BLEU of 2 seeds: mean " in told.stderr
    out = succeed("decode", tuned, "--processes", "1", stdin=(plain_texts / "dev.en").read_bytes()).stdout.decode()
    assert len(out.splitlines()) == 12
    for line in out.splitlines():
        assert line[0].isupper()
        assert line.endswith(".")
        assert not line.endswith(" .")
        assert "' " not in line
        assert "&apos;" not in line
    (tmp_path / "out").write_text(out)
    told = succeed("evaluate", tmp_path / "out", "--reference", plain_texts / "dev.fr", "--json")
    assert json.loads(told.stdout)["systems"][0]["metrics"]["BLEU"]["score"] > 60


def test_the_way_of_the_readme_with_the_best_column(
    plain_texts: Path, plain_system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The README's commands work, in a new folder with relative paths and plain text.

    The test trains and tunes less than the README does.
    """
    folder = tmp_path / "mine"
    shutil.copytree(plain_system.parent, folder)
    for side in ("en", "fr"):
        shutil.copy(plain_texts / f"dev.{side}", folder / f"test.{side}")
    small = "--hidden 16 --set model.embedding=8 --set model.output_rank=8 --max-updates 20 --device cpu"
    embedded = ["--toolkit", "embedded"]
    less = {"train": small.split(), "tune": [*QUICK, *embedded], "decode": embedded}
    section = README.read_text().split("\n## +CTX in five commands\n")[1]
    build, *commands = section.split("```sh\n")[1].split("```")[0].splitlines()
    assert shlex.split(build)[:2] == ["phrasescore-smt", "build"]
    assert len(commands) == 4
    monkeypatch.chdir(folder)
    for line in commands:
        # `--source` and `-o` replace the shell's redirections.
        program, command, *words = shlex.split(line.replace(" < ", " --source ").replace(" > ", " -o "))
        run_it = phrasescore if program == "phrasescore" else main
        assert run_it([command, *words, *less.get(command, [])]) == 0
    assert networks_of(MosesIni.read(Path("system/tuned.ctx.ini"))) == [str(folder / "ctx")]
    assert measure(Path("test.out"), [Path("test.fr")])["BLEU"].score > 60


def test_a_useless_dev_set_is_reported(
    plain_system: Path, plain_texts: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reference, tuned = tmp_path / "dev.fr", tmp_path / "tuned.ini"
    texts = ["--source", str(plain_texts / "dev.en"), "--reference", str(reference)]
    tune = ["tune", str(plain_system / "moses.ini"), *texts, *QUICK, "--toolkit", "embedded", "-o", str(tuned)]
    reference.write_text("x\n" * 12)
    assert main(tune) == 0
    assert "dev BLEU is 0, since no translation shares 4 words in a row with its reference" in capsys.readouterr().err
    assert tuned.exists()


def test_unusual_input_gives_a_line_for_each_line(plain_system: Path) -> None:
    text = "\n   \n[x] | <y> & \"z\" 'w'\nno\u00a0break\u2028same line\r\nThe letter".encode() + b" \xff\xfe"
    done = succeed("decode", plain_system / "moses.ini", "-q", "--processes", "1", stdin=text)
    lines = done.stdout.split(b"\n")
    assert lines[:2] == [b"", b""]
    assert len(lines) == 6
    assert lines[5] == b""
    for word in (b"[x]", b"|", b"<", b"y", b">", b"&", b'"'):
        assert word in lines[2].lower()
    assert b"\xff" in lines[4]
    assert b"\xfe" in lines[4]
    assert succeed("decode", plain_system / "moses.ini", "-q", stdin=b"").stdout == b""


def test_compressed_text(system: Path, small_dev: tuple[Path, Path], tmp_path: Path) -> None:
    """Compressed input is detected by its content, compressed output by its suffix."""
    source, out = small_dev[0], tmp_path / "out.gz"
    (tmp_path / "source").write_bytes(gzip.compress(source.read_bytes()))
    succeed("decode", system / "moses.ini", "--prepared", "--source", tmp_path / "source", "-o", out, "-q")
    plain = succeed("decode", system / "moses.ini", "--prepared", "-q", "--source", source)
    assert gzip.decompress(out.read_bytes()) == plain.stdout


@pytest.mark.moses
def test_auto_takes_moses_and_logs_it(
    moses_home: Path, system: Path, small_dev: tuple[Path, Path], tmp_path: Path
) -> None:
    source, reference = small_dev
    moses = {"MOSES_HOME": str(moses_home)}
    texts = ("--source", source, "--reference", reference, "--prepared")
    tuned, work = tmp_path / "tuned.ini", tmp_path / "work"
    told = succeed("tune", system / "moses.ini", *texts, *QUICK, "-o", tuned, "--work", work, more=moses)
    assert f"toolkit: Moses in {moses_home}".encode() in told.stderr
    assert (work / "mert.seed1/mert-moses.log").exists()
    assert MosesIni.read(tuned).phrase_table().kind == "PhraseDictionaryMemory"
    by_moses = succeed(
        "decode", tuned, "--prepared", "--source", source, "--nbest", tmp_path / "n", "3", "-q", more=moses
    )
    embedded = succeed("decode", tuned, "--prepared", "--source", source, "-q", "--toolkit", "embedded", more=moses)
    assert by_moses.stdout == embedded.stdout
    assert {entry.sentence for entry in read_nbest(tmp_path / "n")} == set(range(12))


# The command line itself


BUILD = ["build", "--source", MINI / "train.en", "--target", MINI / "train.fr", "-o", "system", "-q"]


@pytest.mark.parametrize(
    ("library", "arguments"),
    [
        ("kenlm", ["decode", MINI / "moses.ini", "--prepared", "--processes", "1", "--source", MINI / "dev.en"]),
        ("sacrebleu", ["evaluate", MINI / "dev.fr", "--reference", MINI / "dev.fr"]),
        ("scipy", ["expected-bleu", MINI / "moses.tuned.ini", "-o", "xbleu"]),
        ("scipy", ["combine", "a.nbest", "--prepared", "--source", MINI / "dev.en", "-o", "out"]),
        ("thot", [*BUILD, "--tokenised", "--escaped"]),
        ("sacremoses", BUILD),
    ],
)
def test_a_library_that_is_not_installed(library: str, arguments: list[str | Path], tmp_path: Path) -> None:
    code = f"import sys; sys.modules[{library!r}] = None; from moses_integration.cli import main; "
    code += f"sys.exit(main({list(map(str, arguments))}))"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, check=False, env=environment(), cwd=tmp_path)
    assert "; pip install " in sentence_of(done.returncode, done.stderr)
