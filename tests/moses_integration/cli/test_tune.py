"""`phrasescore-smt tune`: its report and resumption."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest

from moses_integration.cli import main
from moses_integration.ini import MosesIni
from moses_integration.tuning.tunings import Tuning, log_spread
from phrasescore.cli.console import Reporter
from tests.conftest import MINI

QUICK = ["--iterations", "2", "--nbest", "5", "--restarts", "1", "--processes", "1"]


def test_the_next_command_takes_text_of_the_same_kind(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    tuned = tmp_path / "tuned.ini"
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    assert main(["tune", str(MINI / "moses.ini"), *texts, *QUICK, "-o", str(tuned)]) == 0
    assert f"next: phrasescore-smt decode {tuned} --prepared < TEXT > TRANSLATIONS\n" in capsys.readouterr().err


def test_a_stream_gets_one_ini(
    small_dev: tuple[Path, Path], tmp_path: Path, capfd: pytest.CaptureFixture[str], no_moses: None
) -> None:
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared", "--seeds", "1", "2"]
    tune = ["tune", str(MINI / "moses.ini"), *texts, *QUICK, "-q"]
    assert main([*tune, "-o", "-"]) == 0
    assert main([*tune, "-o", str(tmp_path / "tuned.ini")]) == 0
    assert capfd.readouterr().out.count("[feature]") == 1


def test_a_feature_that_tuning_does_not_see_is_logged(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.set_argument("LM0", "tuneable", "False")
    ini.write(tmp_path / "moses.ini")
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    assert main(["tune", str(tmp_path / "moses.ini"), *texts, *QUICK, "-o", str(tmp_path / "tuned.ini")]) == 0
    assert ": LM0 has tuneable=false, so n-best lists lack its scores" in capsys.readouterr().err


def test_repeated_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    texts = ["--source", "dev.en", "--reference", "dev.fr", "-o", "tuned.ini"]
    assert main(["tune", str(MINI / "moses.ini"), *texts, "--seeds", "1", "2", "1"]) == 2
    assert "--seeds: 1 is given twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("bleu", "said"),
    [(0.0, "dev BLEU is 0, since no translation"), (1.4, "dev BLEU is no higher than that of random"), (2.5, "")],
)
def test_a_reference_of_other_sentences_is_reported(bleu: float, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    log_spread([Tuning(1, {}, bleu)], Reporter(quiet=False).log)
    told = capsys.readouterr().err
    assert told.startswith(said)
    assert ("check that the dev text and its reference belong together" in told) == bool(said)


def test_nothing_is_taken_of_a_tuning_with_another_table_whose_name_has_no_ending(
    small_dev: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], no_moses: None
) -> None:
    """A tuning does not resume after a table changes that the ini names without `.gz`.

    For the name PATH, Moses reads `PATH.gz`.
    """
    table, given = tmp_path / "reordering.gz", MINI / "reordering-table.wbe-msd-bidirectional-fe.gz"
    table.write_bytes(given.read_bytes())
    ini = MosesIni.read(MINI / "moses.ini").with_absolute_paths()
    ini.set_argument("LexicalReordering0", "path", str(tmp_path / "reordering"))
    ini.write(tmp_path / "moses.ini")
    texts = ["--source", str(small_dev[0]), "--reference", str(small_dev[1]), "--prepared"]
    outputs = ["-o", f"{tmp_path}/tuned.ini", "--report", f"{tmp_path}/report"]
    tune = ["tune", f"{tmp_path}/moses.ini", *texts, *QUICK, *outputs, "--work"]
    resumed = "tuned: resuming an earlier run"
    hashes: set[str | None] = set()
    for is_other in (False, False, True):
        if is_other:
            scores = re.sub(
                rb"\|\|\|[^|]*\n", b"||| 0.01 0.01 0.98 0.01 0.01 0.98\n", gzip.decompress(table.read_bytes())
            )
            table.write_bytes(gzip.compress(scores))
            assert main([*tune, f"{tmp_path}/work"]) == 1
            assert "tuned: an earlier run had models.LexicalReordering0.path.sha256 " in capsys.readouterr().err
        assert main([*tune, f"{tmp_path}/work", *(["--restart"] if is_other else [])]) == 0
        assert (resumed in capsys.readouterr().err) == (len(hashes) == 1 and not is_other)
        hashes.add(json.loads((tmp_path / "report").read_text())["models"]["LexicalReordering0"]["path"]["sha256"])
    assert len(hashes - {None}) == 2
    # The fingerprint depends on the content of files, not on their names.
    shutil.copy(tmp_path / "moses.ini", tmp_path / "same.ini")
    for name, code, said in (("same.ini", 0, resumed), ("other.ini", 1, "tuned: an earlier run had ini.sha256 ")):
        if name == "other.ini":
            ini.set_weights({"LM0": [0.25]})
            ini.write(tmp_path / name)
        assert main(["tune", f"{tmp_path}/{name}", *tune[2:], f"{tmp_path}/work"]) == code
        assert said in capsys.readouterr().err
