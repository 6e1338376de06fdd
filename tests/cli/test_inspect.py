"""End-to-end tests of `phrasescore inspect`."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from phrasescore.cli import main
from phrasescore.device import choose_device
from phrasescore.inspection import encoder_gates, look_up, nearest, phrase_vectors
from phrasescore.model_folder import load_model, save_description, save_weights
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.scoring.encoder_decoder import EncoderDecoderScorer
from phrasescore.table.reader import TableReader
from tests.cli.running import MODEL
from tests.conftest import MINI
from tests.pictures import labels

TABLE = str(MINI / "phrase-table.gz")
PHRASE = "the black house"


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run the command in the current process and return its output."""

    def run(*arguments: str | Path) -> str:
        assert main(["inspect", "-m", MODEL, "--precision", "fp32", *map(str, arguments)]) == 0
        return capsys.readouterr().out

    return run


def test_everything_about_a_phrase(inspect: Callable[..., str]) -> None:
    text = inspect(PHRASE, "--table", TABLE)
    for section in (
        "the black house  (target-given-source)",
        "Nearest of ",
        "Targets in the table",
        "noire -",
        "<eos> -",
        "Of 50 targets drawn",
    ):
        assert section in text
    assert "\x1b" not in text


def test_the_picture_of_the_gates(inspect: Callable[..., str], tmp_path: Path, figures: list[Any]) -> None:
    inspect(PHRASE, "-q", "--gates", tmp_path / "gates.svg")
    found = labels(tmp_path / "gates.svg")
    assert [label for label in found if " " not in label] == ["the", "black", "house", "<eos>"] * 2
    gates = encoder_gates(EncoderDecoderScorer(load_model(Path(MODEL)), choose_device("cpu", "fp32")), PHRASE.encode())
    assert gates is not None
    for axis, title, gate_Tn in zip(
        figures[0].axes[:2], ("update gate", "reset gate"), (gates.update_Tn, gates.reset_Tn), strict=True
    ):
        assert axis.images[0].get_array().mean(axis=1).tolist() == pytest.approx(
            gate_Tn.mean(axis=1).tolist(), abs=1e-6
        )
        assert axis.get_title().startswith(title)


def part(text: str, title: str) -> list[str]:
    """Return the lines below a heading."""
    return text.split(f"\n\n{title}")[1].split("\n\n")[0].splitlines()[1:]


def test_the_nearest_phrases_of_the_table(inspect: Callable[..., str]) -> None:
    scorer = EncoderDecoderScorer(load_model(Path(MODEL)), choose_device("cpu", "fp32"))
    _, others = look_up(TableReader(Path(TABLE)), "target-given-source", PHRASE.encode(), 30_000)
    query, *_ = phrase_vectors(scorer, [PHRASE.encode()])
    expected = nearest(query, phrase_vectors(scorer, others), 4)
    text = inspect(PHRASE, "--table", TABLE, "-q", "--top", "4")
    lines = [line.split(maxsplit=1) for line in part(text, f"Nearest of {len(others):,} phrases")]
    assert [phrase for _, phrase in lines] == [others[index].decode() for index, _ in expected]
    assert [float(cosine) for cosine, _ in lines] == pytest.approx([cosine for _, cosine in expected], abs=6e-4)
    assert len(lines) == 4


def test_as_many_targets_are_drawn_as_asked_for(inspect: Callable[..., str]) -> None:
    text = inspect(PHRASE, "--table", TABLE, "-q", "--top", "100")
    times = [int(line.split()[0]) for line in part(text, "Of 50 targets drawn")[1:]]
    assert sum(times) == 50
    assert times == sorted(times, reverse=True)
    text = inspect(PHRASE, "--table", TABLE, "-q", "--top", "1")
    assert len(part(text, "Of 50 targets drawn")[1:]) == 1


def test_scores_of_targets(inspect: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    title, _, *lines = inspect(PHRASE, "--table", TABLE, "-q").split("Targets in the table")[1].splitlines()
    assert title.endswith("by table (ln of score 3, p(target | source))")
    table, network, *words = lines[0].split()
    assert float(table) <= 0
    assert words[-2] == "<eos>"
    assert sum(map(float, words[1::2])) == pytest.approx(float(network), abs=0.03)
    (tmp_path / "pairs").write_text(f"{PHRASE}\t{' '.join(words[:-2:2])}\n")
    assert main(["score", str(tmp_path / "pairs"), "-m", MODEL, "--precision", "fp32"]) == 0
    assert float(network) == pytest.approx(float(capsys.readouterr().out), abs=6e-3)


def test_a_phrase_that_neither_knows(inspect: Callable[..., str]) -> None:
    text = inspect("zebra zebra", "--table", TABLE, "-q")
    assert "unknown to the network: zebra, zebra" in text
    assert "The table has no line with this phrase; the best 5 targets by beam search" in text


def test_targets_by_beam_search_have_their_scores(
    inspect: Callable[..., str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["inspect", "-m", MODEL, PHRASE, "--precision", "fp32", "--top", "3"]) == 0
    printed = capsys.readouterr()
    assert printed.err == (f"{MODEL}: give --table to see the nearest phrases and the table's targets\n")
    lines = printed.out.split("targets by beam search")[1].splitlines()[2:5]
    scores = [float(line.split()[0]) for line in lines]
    assert scores == sorted(scores, reverse=True)
    (tmp_path / "pairs").write_text("".join(f"{PHRASE}\t{' '.join(line.split()[1:-2:2])}\n" for line in lines))
    assert main(["score", str(tmp_path / "pairs"), "-m", MODEL, "--precision", "fp32"]) == 0
    assert scores == pytest.approx(list(map(float, capsys.readouterr().out.split())), abs=6e-3)


def test_missing_gates_are_an_error_before_the_table_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    model, folder = load_model(Path(MODEL)), tmp_path / "model"
    folder.mkdir()
    vocabularies = model.source_vocabulary, model.target_vocabulary
    network = EncoderDecoder(replace(model.network.config, encoder_unit="rnn"), *map(len, vocabularies))
    save_description(folder, network.config, model.direction, *vocabularies, {})
    save_weights(folder, network)
    arguments = ["inspect", "-m", str(folder), "--table", str(tmp_path / "nowhere.gz"), PHRASE]
    assert main([*arguments, "--gates", str(tmp_path / "gates.png")]) == 1
    assert "--gates: the units of this network have no reset and update gates" in capsys.readouterr().err


def test_a_terminal_without_unicode_gets_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    printed = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(printed, encoding="ascii"))
    assert main(["inspect", "-m", MODEL, f"{PHRASE} é", "-q"]) == 0
    assert "unknown to the network: \\xe9" in printed.getvalue().decode("ascii")


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        (["-m", MODEL, " "], "the phrase is empty", 2),
        (["-m", "nowhere", "a"], "nowhere: is not a model folder", 1),
        (["-m", MODEL, "a", "--table", "nowhere.gz"], "nowhere.gz: cannot be read", 1),
        (["-m", MODEL, "a", "--gates", "FOLDER/gates.txt"], "ends in .png", 1),
        (["-m", MODEL, "a", "--table", "FOLDER/table", "--gates", "FOLDER/table"], "is an input", 2),
        (["-m", MODEL, "a", "--gates", "/proc/nowhere/gates.png"], "cannot be written", 1),
    ],
)
def test_errors_are_one_sentence(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, arguments: list[str], message: str, code: int
) -> None:
    assert main(["inspect", "-q", *[argument.replace("FOLDER", str(tmp_path)) for argument in arguments]]) == code
    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1
    assert printed.out == ""


def test_matplotlib_is_needed_for_a_file_only(
    inspect: Callable[..., str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "targets drawn" in inspect(PHRASE, "-q")
    assert main(["inspect", "-m", MODEL, PHRASE, "--gates", str(tmp_path / "gates.png")]) == 1
    assert "needs Matplotlib" in capsys.readouterr().err
