"""`phrasescore-decoder` with Moses' switches."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from moses_integration.cli.decoder import main
from moses_integration.cli.switches import Switches
from moses_integration.decoder.pool import translation_line
from moses_integration.decoder.settings import read_settings
from moses_integration.ini import MosesIni, add_columns_in_context
from moses_integration.nbest import read_nbest
from moses_integration.per_text.context_sections import name_networks
from phrasescore.errors import UserError
from phrasescore.text import no_log
from tests.conftest import MINI
from tests.forked import ForkedPopen
from tests.moses_integration.cli.running import CRASH_WORDS
from tests.moses_integration.decoder.small_system import Line, SmallSystem

INI = str(MINI / "moses.ini")
WEIGHTS = {"U": [1.0], "W": [-1.0], "P": [0.2], "T": [0.5], "D": [0.3]}
Capture = pytest.CaptureFixture[bytes]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """Nine sentences, enough for two processes; the last one is empty."""
    path = tmp_path / "text"
    path.write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:8]) + b"\n")
    return path


def parse_switches(arguments: list[str]) -> Switches:
    return Switches.parse(arguments, no_log)


def run(capture: Capture, *arguments: str | Path) -> tuple[int, bytes, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capture.readouterr()
    return code, out, err.decode()


def require_one_sentence(capture: Capture, expected: int, message: str, *arguments: str | Path) -> None:
    code, out, err = run(capture, *arguments)
    assert (code, out) == (expected, b"")
    assert err.startswith("phrasescore-decoder: ")
    assert message in err
    assert err.count("\n") == 1


def decoded(capture: Capture, *arguments: str | Path) -> bytes:
    code, out, err = run(capture, "-f", INI, *arguments)
    assert (code, err) == (0, "")
    return out


def test_switches_and_values() -> None:
    arguments = ["-f", "x.ini", "--stack", "50", "-b", "-0.5", "-n-best-list", "-", "10", "distinct", "-t", "-dl", "-1"]
    assert parse_switches(arguments) == {
        "config": ["x.ini"],
        "stack": ["50"],
        "beam-threshold": ["-0.5"],
        "n-best-list": ["-", "10", "distinct"],
        "report-segmentation": [],
        "distortion-limit": ["-1"],
    }


def test_of_repeated_switches_the_first_counts() -> None:
    """Of a repeated switch, the first occurrence counts, as in Moses; values are not merged."""
    logged: list[str] = []
    switches = Switches.parse(["-s", "5", "-dl", "3", "--stack", "9", "10"], logged.append)
    assert switches == {"stack": ["5"], "distortion-limit": ["3"]}
    assert logged == ["--stack: is given twice; only the first counts, as in Moses"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "-f", INI], "x: is not a switch"),
        (["-f", INI, "-xyz"], "-xyz: is no switch of this decoder; `phrasescore-decoder -h` lists them"),
        (["-f", INI, "-n-best-lst", "f"], "-n-best-lst: is no switch of this decoder; did you mean `-n-best-list`?"),
        (["-v", "0"], "-config: has no value"),
        (["-f", INI, "-n-best-list", "x"], "-n-best-list: needs a file and a size"),
        (["-f", INI, "-n-best-list", "x", "distinct"], "-n-best-list: needs a file and a size"),
        (["-f", INI, "-n-best-list", "x", "500000000000"], "-n-best-list: needs a file and a size up to 1,000,000,000"),
        (["-f", INI, "-n-best-list", "-t"], "-n-best-list: has no value; `phrasescore-decoder -h` lists"),
        (["-f", INI, "-stack", "-t"], "-stack: has no value"),
        (["-f", INI, "-t", "false"], "-report-segmentation: Moses ignores its value; give it none"),
        (
            ["-f", INI, "-t", "-n-best-list", "x", "5"],
            "-report-segmentation: Moses would write the ranges into the n-best list, too",
        ),
        (["-f", INI, "-s", "1e2"], "-stack: `1e2` is not a whole number"),
        (["-f", INI, "-s", "1_0"], "-stack: `1_0` is not a whole number"),
        (["-f", INI, "-du", "true", "true"], "-drop-unknown: has more than one value; give true or false"),
        (["-f", INI, "-s", "many"], "-stack: `many` is not a whole number"),
        (["-f", INI, "-s", "-5"], "-stack: `-5` is not a whole number from 0 to"),
        (["-f", INI, "-cbp", "-5"], "-cube-pruning-pop-limit: `-5` is not a whole"),
        (["-f", INI, "-b", "x"], "-beam-threshold: `x` is not at least 0 and below 1"),
        (["-f", INI, "-b", "nan"], "-beam-threshold: `nan` is not at least 0 and below 1"),
        (["-f", INI, "-search-algorithm", "1", "-cbp", "0"], "-cube-pruning-pop-limit: cube pruning of 0 candidates"),
        (["-f", INI, "-th", "x"], "-threads: `x` is not a whole number"),
        (["-f", INI, "-th", "0"], "-threads: `0` is not a whole number from 1"),
        (["-f", INI, "-inputtype", "1"], "-inputtype: "),
    ],
)
def test_wrong_usage_is_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, text: Path, capfdbinary: Capture
) -> None:
    require_one_sentence(capfdbinary, 2, message, *arguments, "-i", text)


def test_an_ini_in_context_is_for_another_command(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    ini = MosesIni.read(Path(INI)).with_absolute_paths()
    add_columns_in_context(ini, 1)
    name_networks(ini, ["network"])
    ini.write(tmp_path / "ctx.ini")
    message = "ctx.ini: has a column in context, which this decoder cannot compute"
    require_one_sentence(capfdbinary, 1, message, "-f", tmp_path / "ctx.ini", "-i", text)


def test_weights_of_nothing_but_zeros_translate_nothing(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    ini = MosesIni.read(Path(INI)).with_absolute_paths()
    ini.set_weights({label: [0] * len(weights) for label, weights in ini.weights().items() if "Unknown" not in label})
    ini.write(tmp_path / "zeros.ini")
    zeros = ["-f", str(tmp_path / "zeros.ini"), "-i", str(text)]
    require_one_sentence(capfdbinary, 1, "all weights except that of UnknownWordPenalty are 0", *zeros)
    for more in (["-show-weights"], ["-weight-overwrite", "LM0= 0.5"]):
        assert main([*zeros, *more]) == 0
        assert capfdbinary.readouterr().out
    overwritten = (
        "-weight-overwrite",
        " ".join(f"{label}= {'0 ' * len(weights)}" for label, weights in ini.weights().items()),
    )
    message = "all weights except that of UnknownWordPenalty are 0"
    require_one_sentence(capfdbinary, 1, message, "-f", INI, "-i", text, *overwritten)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-weight-file", "nowhere"], "nowhere: cannot be read"),
        (["-weight-file", INI], "moses.ini: line 6: is the weight of a sparse feature, which"),
        (["-search-algorithm", "2"], "-search-algorithm: algorithm 2 is neither"),
        (["-weight-overwrite", "LM0= one"], "-weight-overwrite: `one` is no weight of `LM0`"),
        (["-weight-overwrite", "0.5"], "-weight-overwrite: `0.5` is no weight of ``"),
        (["-weight-overwrite", "LM0= 0.5 x"], "-weight-overwrite: `x` is no weight of `LM0`"),
        (["-weight-overwrite", "LM0= nan"], "-weight-overwrite: `nan` is no weight of `LM0`"),
        (["-weight-overwrite", "LM0= 1_0"], "-weight-overwrite: `1_0` is no weight of `LM0`"),
        (["-weight-overwrite", "LM0= 0.5 1"], "-weight-overwrite: LM0 has 1 features but 2 weights"),
        (["-weight-overwrite", "LM9= 0.5"], "-weight-overwrite: the weights of `LM9` have no feature"),
        (["-f", "nowhere.ini"], "nowhere.ini: cannot be read"),
    ],
)
def test_one_sentence_and_exit_code_1(arguments: list[str], message: str, text: Path, capfdbinary: Capture) -> None:
    config = [] if "-f" in arguments else ["-f", INI]
    require_one_sentence(capfdbinary, 1, message, *arguments, *config, "-i", text)


@pytest.mark.parametrize("word", ["a|b", "|", "|||"])
def test_factors_in_the_input_are_errors(word: str, tmp_path: Path, capfdbinary: Capture) -> None:
    (tmp_path / "text").write_text(f"the letter\nthe {word} letter\n")
    message = f"{tmp_path}/text: line 2: has a `|`, which separates the factors of a word; escape it as `&#124;`"
    require_one_sentence(capfdbinary, 1, message, "-f", INI, "-i", tmp_path / "text")


def test_without_arguments_it_shows_its_switches(capfdbinary: Capture) -> None:
    code, out, _ = run(capfdbinary)
    assert code == 2
    assert out.startswith(b"usage: phrasescore-decoder -f moses.ini ")
    assert run(capfdbinary, "-h")[0] == 0
    assert run(capfdbinary, "-version")[1].startswith(b"phrasescore-decoder ")


def test_show_weights_needs_no_files(tmp_path: Path, capfdbinary: Capture) -> None:
    ini = tmp_path / "moses.ini"
    ini.write_bytes((MINI / "moses.ini").read_bytes())
    code, out, _ = run(capfdbinary, "-config", ini, "-inputtype", "0", "-show-weights")
    assert (code, out) == (0, (MINI / "decode/show-weights.txt").read_bytes())


def test_weights_are_overwritten(capfdbinary: Capture) -> None:
    out = decoded(capfdbinary, "-show-weights", "-weight-overwrite", "LM0= -0.25 TranslationModel0= x 0 x 1e-1")
    assert b"\nLM0= -0.250000\n" in out
    assert b"\nTranslationModel0= 0.200000 0.000000 0.200000 0.100000\n" in out
    assert b"\nWordPenalty0= -1.000000\n" in out


def test_a_file_without_sparse_weights_changes_nothing(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    (tmp_path / "weights").write_text("# none\n\n")
    assert decoded(capfdbinary, "-i", text, "-weight-file", tmp_path / "weights") == decoded(capfdbinary, "-i", text)


def test_overwritten_weights_decode_otherwise(text: Path, capfdbinary: Capture) -> None:
    plain = decoded(capfdbinary, "-i", text)
    assert plain == b"".join((MINI / "decode/default.out").read_bytes().splitlines(keepends=True)[:8]) + b"\n"
    short = decoded(capfdbinary, "-i", text, "-weight-overwrite", "WordPenalty0= 2 LM0= 0.05")
    assert len(short.split()) < len(plain.split())


def test_an_n_best_list_beside_the_translations(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    path = tmp_path / "nbest.gz"
    out = decoded(capfdbinary, "-i", text, "-n-best-list", path, "3", "distinct")
    entries = list(read_nbest(path))
    best = {entry.sentence: entry.words for entry in reversed(entries)}
    assert [best[number] + b" " * bool(best[number]) for number in range(9)] == out.splitlines()
    assert len({(entry.sentence, entry.words) for entry in entries}) == len(entries)
    assert max(Counter(entry.sentence for entry in entries).values()) == 3
    assert all(entry.extras == () for entry in entries)
    # An empty sentence has one entry, whose values are zeros.
    assert not any(value for values in entries[-1].features().values() for value in values)
    assert (entries[-1].words, entries[-1].total) == (b"", b"0")


@pytest.mark.moses
@pytest.mark.parametrize("segmentation", [False, True])
@pytest.mark.parametrize("alignment", [False, True])
def test_an_empty_line_is_listed_as_by_a_real_moses(
    moses_home: Path, segmentation: bool, alignment: bool, text: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    switches = ["-include-segmentation-in-n-best", "true"] if segmentation else []
    switches += ["-print-alignment-info-in-n-best", "true"] if alignment else []
    given = ["-f", INI, "-i", str(text), "-n-best-list", f"{tmp_path}/list", "1", "distinct", *switches]
    moses = [str(moses_home / "bin/moses"), *given, "-v", "0"]
    subprocess.run(moses, cwd=MINI, check=True, capture_output=True, timeout=100)
    theirs = (tmp_path / "list").read_bytes().splitlines()
    assert [entry.to_line()[:-1] for entry in read_nbest(tmp_path / "list")] == theirs
    decoded(capfdbinary, *given[2:])
    assert (tmp_path / "list").read_bytes().splitlines()[8] == theirs[8]


@pytest.mark.parametrize("name", ["-", "/dev/stdout"])
def test_a_list_on_standard_output_takes_the_place_of_the_translations(
    name: str, text: Path, tmp_path: Path, capfdbinary: Capture
) -> None:
    switches = ["-include-segmentation-in-n-best", "true", "-print-alignment-info-in-n-best"]
    out = decoded(capfdbinary, "-i", text, "-n-best-list", name, "2", *switches)
    first = out.splitlines()[0]
    assert first.startswith(b"0 ||| ")
    assert re.fullmatch(rb"[-=0-9 ]+=[-0-9]+ \|\|\| (\d+-\d+ )+", first.split(b" ||| ", 4)[4])
    decoded(capfdbinary, "-i", text, "-n-best-list", tmp_path / "list", "2", *switches)
    assert (tmp_path / "list").read_bytes() == out


def test_segmentation(text: Path, capfdbinary: Capture) -> None:
    plain = decoded(capfdbinary, "-i", text)
    traced = decoded(capfdbinary, "-i", text, "-t")
    assert re.sub(rb"\|\d+-\d+\| ", b"", traced) == plain
    first, source = traced.splitlines()[0], text.read_bytes().splitlines()[0].split()
    ranges = [(int(start), int(end)) for start, end in re.findall(rb"\|(\d+)-(\d+)\|", first)]
    assert sorted(position for start, end in ranges for position in range(start, end + 1)) == list(range(len(source)))


@pytest.fixture
def jumping_text(tmp_path: Path) -> Path:
    """Two sentences whose best translations reorder phrases, and that a narrower search translates differently."""
    lines = (MINI / "dev.en").read_bytes().splitlines(keepends=True)
    path = tmp_path / "jumping"
    path.write_bytes(lines[66] + lines[74])
    return path


def ranges(traced: bytes) -> list[list[tuple[int, int]]]:
    """Return the source ranges of each line's phrases; fail if there are none."""
    found = [
        [(int(start), int(end)) for start, end in re.findall(rb"\|(\d+)-(\d+)\|", line)] for line in traced.splitlines()
    ]
    assert all(found)
    return found


def test_the_distortion_limit_forbids_jumps(jumping_text: Path, capfdbinary: Capture) -> None:
    plain = ranges(decoded(capfdbinary, "-i", jumping_text, "-t"))
    assert len(plain) == 2
    assert all(line != sorted(line) for line in plain)
    monotone = ranges(decoded(capfdbinary, "-i", jumping_text, "-t", "-dl", "0"))
    assert len(monotone) == 2
    assert all(line == sorted(line) for line in monotone)


def test_phrases_are_no_longer_than_asked_for(jumping_text: Path, capfdbinary: Capture) -> None:
    plain = ranges(decoded(capfdbinary, "-i", jumping_text, "-t"))
    assert any(start < end for line in plain for start, end in line)
    words = ranges(decoded(capfdbinary, "-i", jumping_text, "-t", "-max-phrase-length", "1"))
    assert len(words) == 2
    assert all(start == end for line in words for start, end in line)


@pytest.mark.parametrize("switches", [["-s", "1"], ["-b", "0.9"], ["-cbp", "1"]], ids=lambda switches: switches[0])
def test_a_narrow_search_finds_other_translations(
    switches: list[str], jumping_text: Path, capfdbinary: Capture
) -> None:
    plain = decoded(capfdbinary, "-i", jumping_text).splitlines()
    narrow = decoded(capfdbinary, "-i", jumping_text, *switches).splitlines()
    assert len(plain) == len(narrow) == 2
    assert all(one != other for one, other in zip(plain, narrow, strict=True))


def test_normal_search_heeds_no_pop_limit(jumping_text: Path, capfdbinary: Capture) -> None:
    normal = decoded(capfdbinary, "-i", jumping_text, "-cbp", "1", "-search-algorithm", "0")
    assert normal == decoded(capfdbinary, "-i", jumping_text)


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ([], {"stack": 200, "beam_threshold": 1e-5, "pop_limit": 500, "distortion_limit": 6, "longest_phrase": 20}),
        (["-s", "7"], {"stack": 7}),
        (["-b", "0.25"], {"beam_threshold": 0.25}),
        (["-cbp", "9"], {"pop_limit": 9}),
        (["-dl", "-1"], {"distortion_limit": -1}),
        (["-max-phrase-length", "3"], {"longest_phrase": 3}),
        (["-search-algorithm", "0"], {"pop_limit": 0}),
        (["-search-algorithm", "1", "-cbp", "9"], {"pop_limit": 9}),
    ],
)
def test_each_switch_sets_its_part_of_the_search_alone(switches: list[str], expected: dict[str, Any]) -> None:
    ini = MosesIni.read(Path(INI))
    settings = read_settings(ini, parse_switches(switches))
    assert settings == replace(read_settings(ini), **expected)


@pytest.mark.parametrize(
    ("sections", "switches", "expected"),
    [
        ({"search-algorithm": "1", "cube-pruning-pop-limit": "5000"}, ["-search-algorithm", "1"], 5000),
        ({"search-algorithm": "0"}, ["-cbp", "100"], 0),
        ({"cube-pruning-pop-limit": "70"}, ["-search-algorithm", "1"], 70),
        ({"search-algorithm": "1"}, ["-cbp", "100"], 100),
        ({"search-algorithm": "0", "cube-pruning-pop-limit": "70"}, ["-search-algorithm", "1"], 70),
    ],
)
def test_a_switch_does_not_change_other_settings_of_the_ini(
    sections: dict[str, str], switches: list[str], expected: int
) -> None:
    ini = MosesIni.read(Path(INI))
    for section, value in sections.items():
        ini.set_values(section, [value])
    assert read_settings(ini, parse_switches(switches)).pop_limit == expected


def test_cube_pruning_of_nothing() -> None:
    ini = MosesIni.read(Path(INI))
    ini.set_values("search-algorithm", ["1"])
    with pytest.raises(UserError, match="-cube-pruning-pop-limit: cube pruning of 0 candidates translates nothing"):
        read_settings(ini, parse_switches(["-cbp", "0"]))


@pytest.mark.parametrize(
    ("section", "switches", "expected"),
    [
        ("", [], b"zz A "),
        ("", ["-du"], b"A "),
        ("", ["-du", "false"], b"zz A "),
        ("true", ["-du", "false"], b"zz A "),
        ("false", ["-du", "1"], b"A "),
        ("false", ["-du"], b"zz A "),
        ("", ["-t"], b"zz |0-0| A |1-1| "),
        ("", ["-du", "-t"], b"A |1-1| "),
    ],
)
def test_unknown_words(
    section: str, switches: list[str], expected: bytes, tmp_path: Path, capfdbinary: Capture
) -> None:
    """[drop-unknown] and its switch decide whether unknown words are dropped.

    A section without a value has no effect; a switch without one keeps the section's value (moses/Parameter.cpp).
    """
    system = SmallSystem([Line((b"a",), (b"A",), (0.5,))], WEIGHTS, distortion_limit=0)
    replace(system, settings={"drop-unknown": section}).write(tmp_path)
    (tmp_path / "text").write_bytes(b"\tzz  a \r\n")
    code, out, err = run(capfdbinary, "-f", tmp_path / "moses.ini", "-i", tmp_path / "text", "-v", "0", *switches)
    assert (code, out, err) == (0, expected + b"\n", "")


@pytest.mark.moses
@pytest.mark.parametrize("last", ["zzz", "letter"])
def test_scores_with_dropped_words_are_those_of_a_real_moses(
    moses_home: Path, last: str, tmp_path: Path, capfdbinary: Capture
) -> None:
    (tmp_path / "text").write_text(f"the red child zzz {last}\n")
    given = ["-f", INI, "-i", f"{tmp_path}/text", "-n-best-list", f"{tmp_path}/list", "5", "distinct", "-du"]
    moses = [str(moses_home / "bin/moses"), *given, "-v", "0"]
    subprocess.run(moses, cwd=MINI, check=True, capture_output=True, timeout=100)
    theirs = {entry.words: entry for entry in read_nbest(tmp_path / "list")}
    decoded(capfdbinary, *given[2:], "-v", "0")
    ours = {entry.words: entry for entry in read_nbest(tmp_path / "list")}
    assert len(theirs.keys() & ours.keys()) >= 4
    for words in theirs.keys() & ours.keys():
        assert float(ours[words].total) == pytest.approx(float(theirs[words].total), abs=1e-4)
        assert ours[words].features()["LM0"] == pytest.approx(theirs[words].features()["LM0"], abs=1e-4)


def test_the_output_is_identical_for_several_processes(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    outputs = []
    for threads in ("1", "2"):
        out = decoded(
            capfdbinary,
            "-i",
            text,
            "-th",
            threads,
            "-n-best-list",
            tmp_path / "list",
            "5",
            "-include-segmentation-in-n-best",
        )
        outputs.append((out, (tmp_path / "list").read_bytes()))
    assert outputs[0] == outputs[1]


def test_a_stopped_decoder_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)) * 50)
    switches = ["-f", INI, "-i", f"{tmp_path}/text", "-n-best-list", f"{tmp_path}/list", "50", "-th", "2"]
    pipe = subprocess.PIPE
    with ForkedPopen(["phrasescore-decoder", *switches], os.environ, stdout=pipe, stderr=pipe) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        while not any(tmp_path.glob(".list.tmp")):
            assert process.poll() is None
            time.sleep(0.01)
        time.sleep(1)
        process.send_signal(signal.SIGTERM)
        # Workers inherit both streams, so this waits for them too.
        process.stdout.read()
        assert process.stderr.read() == b""
        assert process.wait(60) == 143
    assert [path.name for path in tmp_path.iterdir()] == ["text"]


def test_errors_in_workers_are_reported(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    SmallSystem([Line((b"the",), (b"A",), (0.5, 0.5))], WEIGHTS).write(tmp_path)
    code, _, err = run(capfdbinary, "-f", tmp_path / "moses.ini", "-i", text, "-th", "2")
    assert code == 1
    assert err.startswith(f"phrasescore-decoder: {tmp_path}/table: line 1: has 2 scores")
    assert err.count("\n") == 1


def test_a_text_in_another_encoding_is_reported(tmp_path: Path, capfdbinary: Capture) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"\xef\xbb\xbfthe letter .\ncaf\xe9")
    code, out, err = run(capfdbinary, "-f", INI, "-i", text)
    assert (code, out) == (0, decoded(capfdbinary, "-i", text, "-v", "0"))
    assert b"\xef\xbb\xbf" not in out
    assert err.startswith(f"phrasescore-decoder: {text}: lines that are not UTF-8: 1, the first one 2; ")
    assert not [word for word in CRASH_WORDS if word in err.lower().encode()]
    text.write_text("the letter", "utf-16")
    require_one_sentence(capfdbinary, 1, "line 1: has a NUL", "-f", INI, "-i", text)


def test_the_start_of_relative_paths_is_reported(
    text: Path, tmp_path: Path, capfdbinary: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command reports the folder that relative paths start from.

    In the sample models of Moses' tutorial, paths refer to the parent folder, where `moses` runs.
    """
    ini = tmp_path / "models" / "moses.ini"
    ini.parent.mkdir()
    ini.write_text((MINI / "moses.ini").read_text().replace("path=", f"path={MINI.name}/"))
    monkeypatch.chdir(MINI.parent)
    code, out, err = run(capfdbinary, "-f", ini, "-i", text)
    assert (code, out) == (0, decoded(capfdbinary, "-i", text))
    assert err.startswith(f"phrasescore-decoder: {ini}: relative paths start at the working directory, ")
    assert err.count("\n") == 1
    assert run(capfdbinary, "-f", ini, "-i", text, "-v", "0") == (0, out, "")


def test_a_section_that_may_change_the_output_is_an_error(text: Path, tmp_path: Path, capfdbinary: Capture) -> None:
    ini = tmp_path / "moses.ini"
    content = (MINI / "moses.ini").read_text().replace("path=", f"path={MINI}/")
    ini.write_text(content + "[threads]\n2\n[mark-unknown]\nfalse\n[xml-input]\n")
    code, out, err = run(capfdbinary, "-f", ini, "-i", text)
    assert (code, out, err) == (0, decoded(capfdbinary, "-i", text), "")
    ini.write_text(content + "[xml-input]\nexclusive\n")
    message = "line 38: the embedded decoder does not support this [xml-input], which may change scores or output; "
    require_one_sentence(capfdbinary, 1, f"{ini}: {message}", "-f", ini, "-i", text, "-v", "0")


def test_as_a_program(text: Path) -> None:
    """The program reads standard input and writes nothing to standard error."""
    program = Path(sys.executable).with_name("phrasescore-decoder")
    done = subprocess.run([program, "-f", INI], input=text.read_bytes(), capture_output=True, check=True)
    assert done.stderr == b""
    assert done.stdout.splitlines() == [*(MINI / "decode/default.out").read_bytes().splitlines()[:8], b""]


def test_a_search_that_failed_gives_an_empty_line() -> None:
    assert translation_line(None) == b""
