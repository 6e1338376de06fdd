"""Run the commands of docs/moses.md and docs/ems.md with a real Moses and its EMS."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from moses_integration.ini import MosesIni
from tests.conftest import MINI

pytestmark = [pytest.mark.moses, pytest.mark.timeout(600)]

PAGE = "\n".join((Path(__file__).parents[2] / "docs" / f"{name}.md").read_text() for name in ("moses", "ems"))
HOOK = "TRAINING:custom-phrase-table-pruning"
SMALL_NETWORK = "--max-updates 2 --hidden 8 --set model.embedding=4 --set model.output_rank=4"

# Settings unrelated to the hook; alignment and language model are given, so neither GIZA nor lmplz is needed.
CONFIG = """\
[GENERAL]
working-dir = {work}
input-extension = en
output-extension = fr
pair-extension = en-fr
moses-src-dir = {moses}
moses-bin-dir = $moses-src-dir/bin
moses-script-dir = $moses-src-dir/scripts
external-bin-dir = $moses-bin-dir
decoder = $moses-bin-dir/moses

[CORPUS]

[CORPUS:mini]
post-split-factorized-stem = {mini}/train

[LM]
type = 8
order = 3

[LM:mini]
binlm = {mini}/lm.fr.arpa

[TRAINING]
script = $moses-script-dir/training/train-model.perl
word-alignment = {work}/aligned
alignment-symmetrization-method = grow-diag-final-and
lexicalized-reordering = msd-bidirectional-fe
max-phrase-length = 5

[TUNING]
tuning-script = $moses-script-dir/training/mert-moses.pl
tuning-settings = "-mertdir $moses-bin-dir --maximum-iterations 1 --predictable-seeds"
nbest = 20
filter-settings = ""
decoder-settings = "-threads 1"
input = {dev[0]}
reference = {dev[1]}

[EVALUATION]
decoder-settings = "-threads 1"
multi-bleu = $moses-script-dir/generic/multi-bleu.perl

[EVALUATION:test]
input = {dev[0]}
tokenized-reference = {dev[1]}

[REPORTING]
"""


@pytest.fixture
def moses(moses_home: Path) -> Path:
    """A Moses installation with all programs that build binary tables."""
    if not (moses_home / "bin/processPhraseTableMin").exists():
        pytest.skip("this Moses was built without cmph, which compact tables need")
    return moses_home


def block(start: str) -> str:
    """Return the code block of the pages that has a line with this prefix."""
    blocks: list[str] = re.findall(r"^```\w+\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = (one.strip() for one in blocks if re.search(rf"^{re.escape(start)}", one, re.MULTILINE))
    return found


def environment(moses_home: Path, more: Mapping[str, str]) -> dict[str, str]:
    """An environment with Moses and our programs."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "MOSES_HOME": str(moses_home), "OMP_NUM_THREADS": "1", **more}


def shell(script: str, folder: Path, moses_home: Path, more: Mapping[str, str] | None = None) -> str:
    """Run a shell script in a folder; return its output."""
    done = subprocess.run(
        ["sh", "-ec", script],
        cwd=folder,
        env=environment(moses_home, more or {}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return done.stdout.decode()


def with_lines(config: str, block: str) -> str:
    """Insert lines into the sections of an EMS configuration."""
    for section in re.split(r"\n\n", block):
        header, _, lines = section.partition("\n")
        config = config.replace(f"{header}\n", f"{header}\n{lines}\n")
    return config


def steps(output: str) -> dict[str, str]:
    """Return EMS's decision for each step: `run`, or `re-using (1)`."""
    return dict(re.findall(r"^[0-9]+ (\S+) ->\t(.+)$", output, re.MULTILINE))


def test_the_experiment_manager(moses: Path, tmp_path: Path, small_dev: tuple[Path, Path]) -> None:
    work, config = tmp_path / "work", tmp_path / "config"
    (work / "model").mkdir(parents=True)
    (work / "aligned.grow-diag-final-and").symlink_to(MINI / "train.align")
    lines = block('score-settings = "--PhraseCount"').replace("/path/rnn", f"{tmp_path}/rnn")
    assert "'--max-minutes 60'" in lines
    lines = lines.replace("--max-minutes 60", SMALL_NETWORK)
    config.write_text(with_lines(CONFIG, lines).format(work=work, moses=moses, mini=MINI, dev=small_dev))
    # EMS sleeps before each step; without that, two steps started together would both create `model`.
    (tmp_path / "Hurry.pm").write_text(
        "package Hurry; BEGIN { *CORE::GLOBAL::sleep = sub { select undef, undef, undef, 0.1 } } 1;"
    )
    hurry = {"PERL5LIB": str(tmp_path), "PERL5OPT": "-MHurry"}
    commands = block("sed 's/^custom").replace("-exec", "-no-graph -exec")
    shell(commands, tmp_path, moses, hurry)

    crashes = {path.name: path.read_text() for path in work.glob("steps/1/*.digest")}
    assert not any(crashes.values())
    assert (work / "evaluation/report.1").stat().st_size > 0
    table = gzip.decompress((work / "model/phrase-table-pruned.1.gz").read_bytes())
    scores = [line.split(b" ||| ")[2].split() for line in table.splitlines()]
    assert {len(numbers) for numbers in scores} == {5}
    assert b"2.718" not in {numbers[4] for numbers in scores}
    for ini, kind in (
        ("model/moses.ini.1", "PhraseDictionaryMemory"),
        ("evaluation/test.filtered.ini.1", "PhraseDictionaryCompact"),
    ):
        feature = MosesIni.read(work / ini).phrase_table()
        assert (feature.kind, feature.width) == (kind, 5)
    assert len(MosesIni.read(work / "tuning/moses.tuned.ini.1").weights()["TranslationModel0"]) == 5
    bleu = re.match("BLEU = ([0-9.]+),", (work / "evaluation/test.multi-bleu.1").read_text())
    assert bleu is not None
    assert float(bleu[1]) > 50

    # Which steps run again, and when
    again = commands.replace(" -exec", "")
    assert set(steps(shell(again, tmp_path, moses)).values()) == {"re-using (1)"}
    shell(block("rm steps/"), work, moses)
    forgotten = steps(shell(again, tmp_path, moses))
    (work / "steps/1/TRAINING_custom-phrase-table-pruning.1.DONE").touch()
    assert set(steps(shell(again, tmp_path, moses)).values()) == {"re-using (1)"}
    config.write_text(config.read_text().replace(f"{tmp_path}/rnn", f"{tmp_path}/other"))
    changed = steps(shell(again, tmp_path, moses))
    for planned in (forgotten, changed):
        assert {planned[step] for step in (HOOK, "TUNING:filter", "TUNING:tune", "EVALUATION:test:decode")} == {"run"}
        assert planned["TRAINING:build-ttable"] == "re-using (1)"


@pytest.mark.parametrize("kind", ["PhraseDictionaryCompact", "ProbingPT", "PhraseDictionaryOnDisk"])
def test_binary_tables_of_the_filter(moses: Path, tmp_path: Path, kind: str) -> None:
    """The EMS filter can build binary tables without changing a translation, with a reordering table as well."""
    match kind:
        case "PhraseDictionaryCompact":
            line = block('score-settings = "--PhraseCount"')
        case "ProbingPT":
            shell(block("mkdir binarisers"), tmp_path, moses)
            line = PAGE.replace("/path/", f"{tmp_path}/")
        case _:
            line = PAGE
    program = {"PhraseDictionaryCompact": "Min", "ProbingPT": "ProbingPT", "PhraseDictionaryOnDisk": "OnDiskPt"}[kind]
    found = re.search(rf'ttable-binarizer = "?(\S*{program}[0-9 ]*)', line)
    assert found is not None
    binarizer = found[1].replace("$moses-bin-dir", f"{moses}/bin")
    MosesIni.read(MINI / "moses.5.ini").write(tmp_path / "moses.ini")
    command = f"filter-model-given-input.pl made moses.ini {MINI}/hard.en -Binarizer '{binarizer}'"
    shell(f"$MOSES_HOME/scripts/training/{command}", tmp_path, moses)
    assert MosesIni.read(tmp_path / "made/moses.ini").phrase_table().kind == kind
    text, binary = (
        shell(f"$MOSES_HOME/bin/moses -v 0 -f {ini} < {MINI}/hard.en", tmp_path, moses)
        for ini in ("moses.ini", "made/moses.ini")
    )
    assert text == binary


def test_binary_tables_by_hand(moses: Path, tmp_path: Path) -> None:
    ini = MosesIni.read(MINI / "moses.5.ini").with_absolute_paths()
    (tmp_path / "X.gz").symlink_to(MINI / "phrase-table.5.gz")
    by_hand = PAGE.split("\n## Edit moses.ini by hand\n")[1].split("\n## ")[0]
    translations = set()
    for program, kind in (("processPhraseTableMin", "PhraseDictionaryCompact"), ("CreateProbingPT", "ProbingPT")):
        command = re.search(rf"`({program} -[^`]*)`", by_hand)
        path = re.search(rf"`{kind}`[^`]*\s`path=([^`]*)`|`{kind}` with\s+`path=([^`]*)`", by_hand)
        assert command is not None
        assert path is not None
        shell(f"$MOSES_HOME/bin/{command[1]}", tmp_path, moses)
        made = ini.copy()
        made.lines = [line.replace("PhraseDictionaryMemory", kind) for line in made.lines]
        made.set_argument("TranslationModel0", "path", f"{tmp_path}/{path[1] or path[2]}")
        made.write(tmp_path / f"{kind}.ini")
        translations.add(shell(f"$MOSES_HOME/bin/moses -v 0 -f {kind}.ini < {MINI}/hard.en", tmp_path, moses))
    ini.write(tmp_path / "text.ini")
    translations.add(shell(f"$MOSES_HOME/bin/moses -v 0 -f text.ini < {MINI}/hard.en", tmp_path, moses))
    assert len(translations) == 1
