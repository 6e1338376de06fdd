"""The choice of the language model estimator, its report and its errors."""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from moses_integration.building import language_model
from moses_integration.building.kneser_ney import estimate, memory_needed
from moses_integration.building.language_model import build_language_model, estimate_embedded, find_kenlm_program
from phrasescore.errors import UserError
from tests.conftest import MINI

# It writes its arguments and its text in place of a model.
STAND_IN = """\
#!{python}
import sys
print(sys.argv[1:])
sys.stdout.write(sys.stdin.read())
"""
FAILING = """\
#!{python}
import sys
print("half a model")
sys.stderr.write('''=== 1/5 Counting and sorting n-grams ===
----5---10---15---20---25---30---35---40---45---50---55---60---65---70---75---80---85---90---95--100
********************************
No space left on device
''')
sys.exit(3)
"""

SLEEPING = """\
#!{python}
import os, time
open("{folder}/started", "w").write(str(os.getpid()))
time.sleep(100)
"""


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text"
    path.write_bytes(b"a b a\nb a\n")
    return path


@pytest.fixture
def empty_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as PATH, and no MOSES_HOME."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.delenv("MOSES_HOME", raising=False)
    return folder


def install(folder: Path, script: str) -> Path:
    program = folder / "lmplz"
    program.write_text(script.format(python=sys.executable))
    program.chmod(0o755)
    return program


def test_embedded_model(tmp_path: Path) -> None:
    output = tmp_path / "lm.arpa.gz"
    estimate_embedded(MINI / "train.fr", output, 3)
    content = gzip.decompress(output.read_bytes())
    assert content.startswith(b"\\data\\\nngram 1=112\nngram 2=1647\nngram 3=4782\n\n\\1-grams:\n")
    assert content.endswith(b"\n\n\\end\\\n")


def test_white_space_between_words(text: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"\ta\rb  a \r\nb\ra")
    models = [tmp_path / "lm.arpa", tmp_path / "other.arpa"]
    for path, model in zip((text, other), models, strict=True):
        estimate_embedded(path, model, 3)
    assert models[0].read_bytes() == models[1].read_bytes()


@pytest.mark.parametrize("has_lmplz", [False, True])
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "text: has no words"),
        (b"\n \t\n", "text: has no words"),
        (b"a\n\nb <s> c\n", "text: line 3: `<s>`"),
        (b"a<s>\n</s>\n", "text: line 2: `</s>`"),
        (b"a\n" * 300_000 + b"<unk>", "text: line 300001: `<unk>`"),
    ],
    ids=["empty", "blank", "begin", "end", "unknown"],
)
def test_rejected_text(
    content: bytes, message: str, has_lmplz: bool, text: Path, empty_path: Path, tmp_path: Path
) -> None:
    if has_lmplz:
        install(empty_path, STAND_IN)
    text.write_bytes(content)
    output = tmp_path / "lm.arpa"
    output.write_bytes(b"old")
    with pytest.raises(UserError) as error:
        build_language_model(text, output, 2)
    assert message in str(error.value)
    assert output.read_bytes() == b"old"


def test_symbols_inside_words_are_text(text: Path, tmp_path: Path) -> None:
    text.write_bytes(b"a<s>b <unk>s\n")
    estimate_embedded(text, tmp_path / "lm.arpa", 2)
    assert b"\nngram 1=5\nngram 2=3\n" in (tmp_path / "lm.arpa").read_bytes()


def test_lmplz_where_it_is_installed(text: Path, empty_path: Path, tmp_path: Path) -> None:
    program = install(empty_path, STAND_IN)
    output = tmp_path / "lm.arpa"
    assert build_language_model(text, output, 2, "1G") == str(program)
    arguments = ["-o", "2", "-S", "1G", "-T", str(tmp_path), "--discount_fallback"]
    assert output.read_text() == f"{arguments}\na b a\nb a\n"


def test_an_infinite_back_off_of_lmplz_is_finite(text: Path, empty_path: Path, tmp_path: Path) -> None:
    """KenLM writes it for some tiny texts, and does not read it."""
    install(empty_path, "#!{python}\nprint('0\\t<s>\\t-inf')\nprint('-1\\ta\\t-0.5')\n")
    build_language_model(text, tmp_path / "lm.arpa", 2)
    assert (tmp_path / "lm.arpa").read_bytes() == b"0\t<s>\t-99\n-1\ta\t-0.5\n"


def test_failure_of_lmplz(text: Path, empty_path: Path, tmp_path: Path) -> None:
    install(empty_path, FAILING)
    output = tmp_path / "lm.arpa"
    output.write_bytes(b"old")
    with pytest.raises(UserError, match=r"lmplz -o 2 .* exit code 3 .*`=== 1/5 Counting.* / No space left on device`"):
        build_language_model(text, output, 2)
    assert output.read_bytes() == b"old"


def test_where_lmplz_is_sought(empty_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_kenlm_program("lmplz") is None
    home = tmp_path / "moses" / "bin"
    home.mkdir(parents=True)
    monkeypatch.setenv("MOSES_HOME", str(home.parent))
    in_moses = install(home, STAND_IN)
    assert find_kenlm_program("lmplz") == str(in_moses)
    on_path = install(empty_path, STAND_IN)
    assert find_kenlm_program("lmplz") == str(on_path)


def test_without_lmplz(text: Path, empty_path: Path, tmp_path: Path) -> None:
    assert build_language_model(text, tmp_path / "lm.arpa", 2) == "embedded"


@pytest.mark.parametrize(("order", "needed"), [(2, 63_900_000), (5, 126_000_000)])
def test_a_text_larger_than_memory_is_rejected_early(
    empty_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: int, needed: int
) -> None:
    text, output = tmp_path / "text", tmp_path / "lm.arpa"
    # 700,000 words and 100,000 lines.
    text.write_bytes(b"a b c d a  b c\n" * 100_000)
    output.write_bytes(b"old")
    monkeypatch.setattr(language_model, "available_memory", lambda: needed - 1)
    tracemalloc.start()
    with pytest.raises(UserError) as rejection:
        build_language_model(text, output, order)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert str(rejection.value) == (
        f"{text}: a language model of order {order} of its 700,000 words takes about 0.1 GB of memory, but 0.1 GB are "
        "free; install KenLM's lmplz, which sorts on disk, or give less text or a lower order"
    )
    assert peak < needed / 2
    assert output.read_bytes() == b"old"
    monkeypatch.setattr(language_model, "available_memory", lambda: needed)
    build_language_model(text, output, order)
    assert b"\nngram 1=7\n" in output.read_bytes()


@pytest.mark.parametrize("order", [2, 4, 6])
def test_the_memory_that_an_estimation_takes(order: int) -> None:
    words = np.random.default_rng(1).zipf(1.3, 100_000) % 50_000
    text = b"".join(b" ".join(b"%d" % word for word in line) + b"\n" for line in words.reshape(-1, 20))
    tracemalloc.start()
    estimate([text], order)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # In so short a text, words and n-grams repeat less often.
    assert 0.9 < peak / memory_needed(110_000, order) < 1.6


@pytest.mark.moses
@pytest.mark.parametrize("order", [2, 3, 4, 6])
def test_the_two_estimators_agree(order: int, tmp_path: Path, moses_home: Path) -> None:
    ours, theirs = tmp_path / "ours.arpa", tmp_path / "theirs.arpa"
    estimate_embedded(MINI / "train.en", ours, order)
    build_language_model(MINI / "train.en", theirs, order, "200M")
    for our_line, their_line in zip(ours.read_bytes().split(b"\n"), theirs.read_bytes().split(b"\n"), strict=True):
        our_fields, their_fields = our_line.split(b"\t"), their_line.split(b"\t")
        if len(our_fields) == 1:
            assert our_line == their_line
        else:
            assert our_fields[1] == their_fields[1]
            for place in range(0, len(our_fields), 2):
                assert float(our_fields[place]) == pytest.approx(float(their_fields[place]), abs=1e-5)


def test_lmplz_ends_with_a_build_that_is_stopped(text: Path, empty_path: Path, tmp_path: Path) -> None:
    install(empty_path, SLEEPING.replace("{folder}", str(tmp_path)))
    code = (
        "import sys\nfrom pathlib import Path\nfrom phrasescore.signals import interrupt_on_signals\n"
        "from moses_integration.building.language_model import build_language_model\n"
        "with interrupt_on_signals(): build_language_model(*map(Path, sys.argv[1:]), 5)"
    )
    started = tmp_path / "started"
    process = subprocess.Popen([sys.executable, "-c", code, str(text), str(tmp_path / "lm.arpa")])
    while not (started.exists() and started.read_text()):
        assert process.poll() is None
        time.sleep(0.01)
    process.terminate()
    assert process.wait(50) == 143
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)
    assert not list(tmp_path.glob("*lm.arpa*"))
