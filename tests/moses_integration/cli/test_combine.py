"""`phrasescore-smt combine`: n-best lists of several systems become one translation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import moses_integration as smt
from moses_integration.cli import main
from moses_integration.nbest import NbestEntry, read_nbest, write_nbest
from moses_integration.per_text.position_tags import tag_word
from phrasescore.cli import main as phrasescore
from tests.cli.running import last_of_each
from tests.conftest import DATA, MINI
from tests.moses_integration.cli.running import sentence_of

SENTENCES = 20
NETWORK = DATA / "stored-model"

Combine = Callable[..., list[str]]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The first dev sentences, the n-best list of a decoder and that of a network, and faulty lists."""
    folder = tmp_path_factory.mktemp("combine")
    (folder / "dev.en").write_bytes(b"".join((MINI / "dev.en").read_bytes().splitlines(keepends=True)[:SENTENCES]))
    entries = [one for one in read_nbest(MINI / "decode/default.nbest.gz") if one.sentence < SENTENCES]
    write_nbest(folder / "moses.nbest", entries)
    write_nbest(folder / "short.nbest", [one for one in entries if one.sentence != 3])
    write_nbest(folder / "long.nbest", [*entries, replace(entries[-1], sentence=SENTENCES)])
    network = ("-m", NETWORK, "--beam", "6", "--n-best", "6", "-o", folder / "network.nbest", "--device", "cpu", "-q")
    assert phrasescore(["translate", str(folder / "dev.en"), *map(str, network)]) == 0
    return folder


@pytest.fixture
def combine(data: Path, tmp_path: Path) -> Combine:
    def run(*arguments: object) -> list[str]:
        output = tmp_path / "out"
        given = [str(one).replace("DATA", str(data)) for one in arguments]
        assert main(["combine", *given, "--source", str(data / "dev.en"), "--prepared", "-o", str(output), "-q"]) == 0
        return output.read_text().splitlines()

    return run


def first_of_each(path: Path) -> list[str]:
    first: dict[int, NbestEntry] = {}
    for entry in read_nbest(path):
        first.setdefault(entry.sentence, entry)
    return [first[number].words.decode() for number in range(SENTENCES)]


def test_two_systems(combine: Combine, data: Path) -> None:
    """Perplexity 1 and a weight of 0 give the 1-best of the other list; otherwise both lists have influence."""
    lists = ("DATA/moses.nbest", "DATA/network.nbest")
    bests = [first_of_each(data / name) for name in ("moses.nbest", "network.nbest")]
    assert bests[0] != bests[1]
    assert combine(*lists, "--weights", "1", "0", "--perplexity", "1") == bests[0]
    assert combine(*lists, "--weights", "0", "1") == combine(lists[1])
    assert combine(*lists, "--weights", "0", "1", "--perplexity", "1") == bests[1]
    both = combine(*lists)
    listed = [{entry.words.decode() for entry in read_nbest(data / name)} for name in ("moses.nbest", "network.nbest")]
    assert all(one in listed[0] | listed[1] for one in both)
    assert both not in bests
    assert both != combine(*lists, "--weights", "1", "3")
    assert both != combine(*lists, "--perplexity", "2")
    assert combine(*lists) == both


def test_one_list_and_a_report(data: Path, capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--source", data / "dev.en", "--prepared")
    assert main(["combine", str(data / "network.nbest"), *map(str, options)]) == 0
    output = capfd.readouterr()
    assert len(output.out.splitlines()) == SENTENCES
    entries = len(list(read_nbest(data / "network.nbest")))
    said = f"network.nbest: {entries} translations of {SENTENCES} sentences, "
    assert f"{said}which have equal probabilities, for the list is too short for perplexity 10" in output.err
    assert main(["combine", str(data / "network.nbest"), *map(str, options), "--perplexity", "2"]) == 0
    assert f"{said}scale " in capfd.readouterr().err
    assert main(["combine", str(data / "network.nbest"), *map(str, options), "-q"]) == 0
    assert capfd.readouterr() == (output.out, "")


def test_position_tags_are_removed(combine: Combine, data: Path, tmp_path: Path) -> None:
    """The decoder copies tagged unknown words; the other system has the words without tags."""
    entries = list(read_nbest(data / "moses.nbest"))
    tagged = [
        replace(one, words=b" ".join(tag_word(word, one.sentence, n) for n, word in enumerate(one.words.split())))
        for one in entries
    ]
    write_nbest(tmp_path / "tagged.nbest", tagged)
    assert combine(tmp_path / "tagged.nbest") == combine("DATA/moses.nbest")


def test_lines_without_words(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "nbest").write_text("")
    assert smt.combine(tmp_path / "nbest", source=tmp_path / "empty", prepared=True) == ["", ""]


def test_files_of_the_system_are_no_outputs(
    plain_texts: Path, plain_system: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for name in ("preparation.json", "truecase.en", "phrase-table.gz"):
        given = [plain_system / "moses.ini", "--source", plain_texts / "dev.en", "-o", plain_system / name]
        assert main(["prepare", *map(str, given)]) == 2
        assert f"{name}: is an input, which would be lost" in capfd.readouterr().err


def test_plain_text(plain_texts: Path, plain_system: Path, tmp_path: Path) -> None:
    ini, source, nbest = plain_system / "moses.ini", plain_texts / "dev.en", tmp_path / "nbest"
    best = smt.decode(ini, source, nbest=(nbest, 10), toolkit="embedded", processes=1)
    found = smt.combine(nbest, source=source, ini=ini, perplexity=1)
    assert found == best
    assert found[0][0].isupper()


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["DATA/short.nbest", "--prepared"], "short.nbest: has no translation of line 4 of the source", 1),
        (["DATA/long.nbest", "--prepared"], f"long.nbest: has a sentence {SENTENCES} (from 0) where the source has", 1),
        (["DATA/dev.en", "--prepared"], "dev.en: line 1: has fewer than three fields", 1),
        (
            ["DATA/moses.nbest"],
            "give either --ini, which determines how the text is prepared, or --prepared for prepared text",
            2,
        ),
        (["DATA/moses.nbest", "--prepared", "--ini", str(MINI / "moses.ini")], "give either --ini", 2),
        (["DATA/moses.nbest", "--ini", str(MINI / "moses.ini")], "there is no preparation.json", 1),
        (["-", "--prepared", "--source", "-"], "standard input can be one input only", 2),
        (["DATA/moses.nbest", "--prepared", "--weights", "1", "2"], "--weights: has 2 weights for 1 list; give", 2),
        (["DATA/moses.nbest", "--prepared", "--weights", "0"], "--weights: are all 0; give at least one list", 2),
        (["DATA/moses.nbest", "--prepared", "--weights", "-1"], "-1 is not a number of at least 0", 2),
        (["DATA/moses.nbest", "--prepared", "--perplexity", "0.5"], "0.5 is not a number of at least 1", 2),
        (
            ["DATA/moses.nbest", "--prepared", "-o", "DATA/moses.nbest"],
            "moses.nbest: is an input, which would be lost",
            2,
        ),
    ],
)
def test_errors_are_one_sentence(
    data: Path, arguments: list[str], message: str, code: int, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    before = sorted(data.iterdir())
    given = ["combine", "--source", "DATA/dev.en", "-o", "DATA/out", *arguments]
    found: object
    try:
        found = main(last_of_each(one.replace("DATA", str(data)) for one in given))
    except SystemExit as end:
        found = end.code
    assert found == code
    error = capfdbinary.readouterr().err
    assert message in (sentence_of(1, error) if code == 1 else error.decode())
    assert sorted(data.iterdir()) == before
