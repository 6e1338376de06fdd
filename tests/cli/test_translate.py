"""End-to-end tests of `phrasescore translate` and of `train` on sentences."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import phrasescore
from moses_integration.nbest import read_nbest
from phrasescore.cli import main
from phrasescore.errors import UserError
from phrasescore.model_folder import load_model, save_weights
from phrasescore.translator import Translation, as_nbest
from tests.cli import running
from tests.cli.running import ENVIRONMENT
from tests.conftest import DATA
from tests.copying import OPTIONS
from tests.forked import ForkedPopen
from tests.pictures import labels

PHRASES = DATA / "stored-model"
SENTENCES = ["a b c", "", "h g f e d", "a", "  b  b ", "c a Zoe b"]


class Run:
    """Runs commands in the current process."""

    def __init__(self, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capfd = folder, capfd

    def __call__(self, *arguments: str | Path, text: str = "\n".join([*SENTENCES, ""])) -> list[str]:
        """Translate a text; return the printed lines."""
        (self.folder / "text").write_text(text)
        output = self.folder / "out"
        extra = ["-o", output, "--device", "cpu", "--precision", "fp32"]
        assert main(list(map(str, ["translate", self.folder / "text", *extra, *arguments]))) == 0
        return output.read_text().splitlines()

    def error(self, *arguments: str | Path, code: int = 1) -> str:
        """Run a command that fails; return its one-sentence message, which may follow a usage line."""
        self._capfd.readouterr()
        found: int | str | None
        try:
            found = main(list(map(str, arguments)))
        except SystemExit as end:
            found = end.code
        assert found == code
        lines = self._capfd.readouterr().err.splitlines()
        if code == 2 and lines[0].startswith("usage: "):
            del lines[0]
        assert len(lines) == 1
        return lines[0]


@pytest.fixture
def translate(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(tmp_path, capfd)


def records(lines: list[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in lines]


def pair_scores(
    folder: Path, model: Path, pairs: list[tuple[str, str]], capfd: pytest.CaptureFixture[str]
) -> list[float]:
    (folder / "pairs").write_text("".join(f"{source}\t{target}\n" for source, target in pairs))
    capfd.readouterr()
    assert main(["score", str(folder / "pairs"), "-m", str(model), "--device", "cpu", "--precision", "fp32"]) == 0
    return [float(line) for line in capfd.readouterr().out.split()]


def test_a_network_trained_on_sentences_copies_them(translate: Run, copier: Path) -> None:
    last = json.loads((copier / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["validation"]["teacher_forced_perplexity"] < 1.2
    assert last["validation"]["free_running_perplexity"] < 1.3
    assert last["held_out"] is None
    copies = ["a b c", "", "h g f e d", "a", "b b", "c a <unk> b"]
    for beam in ("1", "4"):
        assert translate("-m", copier, "--beam", beam) == copies
        assert translate("-m", copier, "--beam", beam, "--batch-size", "1") == copies


def test_the_score_of_a_translation_is_that_of_the_pair(
    translate: Run, copier: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for model, text in ((copier, "a b c\nh g f e d\na a a a a a b\n"), (PHRASES, "the black house\nof the\nand\n")):
        pairs, scores = [], []
        for options in (["--n-best", "4"], ["--n-best", "3", "--sample"], ["--beam", "1"]):
            for record in records(translate("-m", model, "--json", *options, text=text)):
                # A token that spells a special symbol is an unknown word.
                pairs += [(record["source"], one["text"]) for one in record["translations"]]
                scores += [one["score"] for one in record["translations"]]
        assert len(pairs) >= 15
        assert pair_scores(translate.folder, model, pairs, capfd) == pytest.approx(scores, abs=1e-4)


def test_translations_compete_by_what_is_asked_for(translate: Run, copier: Path) -> None:
    for penalty in (0, 1, 1.5):
        for record in records(translate("-m", copier, "--json", "--length-penalty", str(penalty), "--n-best", "5")):
            values = [one["value"] for one in record["translations"]]
            assert values == sorted(values, reverse=True)
            for one in record["translations"]:
                symbols = len(one["text"].split()) + 1
                assert one["value"] == pytest.approx(one["score"] / symbols**penalty)
                assert len(one["attention"]) == symbols
                assert all(len(row) == len(record["source"].split()) + 1 for row in one["attention"])
                assert [sum(row) for row in one["attention"]] == pytest.approx([1.0] * symbols, abs=0.01)
    assert [len(record["translations"]) for record in records(translate("-m", copier, "--json"))] == [1, 0, 1, 1, 1, 1]


def test_n_best_lists_have_the_form_of_moses(translate: Run, copier: Path) -> None:
    described = 6 * records(translate("-m", copier, "--n-best", "3", "--json"))
    # More than one chunk of batches.
    repeated = [*SENTENCES * 6]
    lines = translate("-m", copier, "--n-best", "3", "--batch-size", "1", text="\n".join([*repeated, ""]))
    (translate.folder / "nbest").write_text("".join(f"{line}\n" for line in lines))
    entries = list(read_nbest(translate.folder / "nbest"))
    assert [entry.to_line().decode() for entry in entries] == [f"{line}\n" for line in lines]
    expected = [(number, one) for number, record in enumerate(described) for one in record["translations"]]
    assert [(entry.sentence, entry.words.decode()) for entry in entries] == [(n, one["text"]) for n, one in expected]
    for entry, (_, one) in zip(entries, expected, strict=True):
        assert entry.features() == {"LogProb0": [pytest.approx(one["score"], rel=1e-4)]}
        assert float(entry.total) == pytest.approx(one["value"], rel=1e-4)


def test_n_best_lists_cannot_contain_their_separator() -> None:
    translations = [Translation((b"a", b"|||"), -1.0, -0.5, 1, None)]
    with pytest.raises(UserError, match=r"line 3 has the word `\|\|\|`, which n-best lists cannot contain; give json"):
        as_nbest(2, translations)


def test_unknown_words_are_replaced_by_the_words_looked_at(translate: Run, copier: Path) -> None:
    for beam in ("1", "4"):
        found = translate("-m", copier, "--replace-unknown", "--beam", beam)
        assert found == ["a b c", "", "h g f e d", "a", "b b", "c a Zoe b"]


def test_samples(translate: Run, copier: Path) -> None:
    hot: list[str | Path] = ["--sample", "--temperature", "3", "--json", "--n-best", "20", "-m", copier]
    first = translate(*hot)
    assert translate(*hot) == first
    assert translate(*hot, "--seed", "2") != first
    alone = records(translate(*hot, "--batch-size", "1"))
    for record, other in zip(records(first), alone, strict=True):
        assert [(one["text"], one["times"]) for one in record["translations"]] == [
            (one["text"], one["times"]) for one in other["translations"]
        ]
    for record in records(first):
        if record["source"]:
            assert sum(one["times"] for one in record["translations"]) == 20
            assert len(record["translations"]) > 1
    assert translate("--sample", "--temperature", "0.01", "-m", copier) == translate("--beam", "1", "-m", copier)


def test_several_networks(translate: Run, copier: Path) -> None:
    assert translate("-m", copier, "-m", copier) == translate("-m", copier)
    other = translate.folder / "other"
    shutil.copytree(copier, other)
    network = load_model(copier).network
    with torch.no_grad():
        for weight in network.parameters():
            weight.add_(0.05 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    save_weights(other, network)
    scorers = [phrasescore.load_scorer(folder, device="cpu", precision="fp32") for folder in (copier, other)]
    for record in records(translate("--json", "-m", copier, "-m", other)):
        if record["source"]:
            [one] = record["translations"]
            pair = [(record["source"], one["text"])]
            each = [phrasescore.score(pair, scorer)[0] for scorer in scorers]
            assert one["score"] == pytest.approx(sum(each) / 2, rel=1e-3)
            assert each[0] != pytest.approx(each[1], rel=1e-2)
    assert "has another vocabulary" in translate.error("translate", "-m", copier, "-m", PHRASES)


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_picture(translate: Run, copier: Path, suffix: str) -> None:
    picture = translate.folder / f"alignment{suffix}"
    translate("-m", copier, "--attention", picture)
    assert picture.read_bytes().startswith(b"\x89PNG" if suffix == ".png" else b"<?xml")


def test_the_picture_shows_where_attention_looked(translate: Run, copier: Path, figures: list[Any]) -> None:
    """The picture shows the attention weights of the first four non-empty sentences."""
    picture = translate.folder / "alignment.svg"
    drawn = [one for one in records(translate("-m", copier, "--json", "--attention", picture)) if one["source"]][:4]
    assert [one["source"].split() for one in drawn] == [["a", "b", "c"], [*"hgfed"], ["a"], ["b", "b"]]
    texts = [text for one in drawn for text in (one["source"], one["translations"][0]["text"])]
    assert labels(picture)[:-2] == [label for text in texts for label in (*text.split(), "<eos>")]
    for axis, one in zip(figures[0].axes[:-1], drawn, strict=True):
        shown = axis.images[0].get_array()
        assert np.abs(shown - np.array(one["translations"][0]["attention"])).max() < 1e-4


@pytest.mark.parametrize(
    ("picture", "message"),
    [
        ("alignment.x", "is not an image format of Matplotlib"),
        ("nowhere/a.png", "nowhere is no folder; check the path"),
    ],
)
def test_an_impossible_picture_is_rejected_before_the_work(
    translate: Run, copier: Path, picture: str, message: str
) -> None:
    outputs = ("-o", translate.folder / "out", "--attention", translate.folder / picture)
    assert message in translate.error("translate", "text-that-is-not-there", "-m", copier, *outputs)
    assert not (translate.folder / "out").exists()


def test_text_in_another_encoding_is_reported(translate: Run, copier: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = translate.folder / "text"
    text.write_bytes(b"a\ta\n\xe9\ta\n")
    for command in ("translate", "score"):
        capfd.readouterr()
        assert main([command, str(text), "-m", str(copier), "--device", "cpu"]) == 0
        out, err = capfd.readouterr()
        assert len(out.splitlines()) == 2
        assert f"{text}: lines that are not UTF-8: 1, the first is line 2; " in err


def test_text_that_is_not_tokenised(translate: Run, copier: Path) -> None:
    assert translate("-m", copier, "--replace-unknown", "--tokenise", "en", text="a b.\n") == ["a b ."]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--replace-unknown"], "--replace-unknown: needs attention"),
        (["--attention", "x.png"], "--attention: this network has no attention to draw"),
        (["nowhere.txt"], "nowhere.txt: cannot be read"),
        (["--plugin", "nowhere.py"], "nowhere.py: cannot be read"),
    ],
)
def test_errors_are_one_sentence(translate: Run, options: list[str], message: str) -> None:
    assert message in translate.error("translate", "-m", PHRASES, *options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n-best", "3", "--sample"], "--n-best: needs --json with --sample; add it"),
        (["--n-best", "9", "--json"], "--n-best 9: is more than the beam holds; give --beam 9"),
        (["--beam", "0"], "--beam: is 0; give at least 1"),
        (["--batch-size", f"{2**31}"], "--batch-size: 2147483648 is not a number from 1 to 2147483647"),
        (["--max-extra", f"{2**31}"], "--max-extra: is 2147483648; give at most 2147483647"),
        (["--temperature", "0"], "--temperature: is 0.0; give at least 0.001"),
        (["--temperature", "inf", "--sample"], "--temperature: is inf; give at most"),
        (["--max-ratio", "-1"], "--max-ratio: is -1.0; give at least 0"),
        # Even the defaults are rejected.
        (["--seed", "1"], "--seed: is for drawing translations; give --sample too"),
        (["--temperature", "1"], "--temperature: is for drawing translations; give --sample too"),
        (["--sample", "--beam", "5"], "--beam: is for searching, but --sample draws"),
        (["-o", "x.png", "--attention", "x.png"], "x.png: is given for two outputs"),
    ],
)
def test_options_that_make_no_sense_are_wrong_usage(translate: Run, options: list[str], message: str) -> None:
    assert message in translate.error("translate", "-m", PHRASES, *options, code=2)


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        ([], "give either a phrase table or --source and --target", 2),
        (["TABLE", "--source", "A", "--target", "A"], "give either a phrase table or --source and --target", 2),
        (["--source", "A"], "belong together; give both or neither", 2),
        (["--source", "A", "--target", "B"], "/B has 2; give files of the same sentences", 1),
        (["--source", "A", "--target", "A", "--validation-source", "A"], "give both", 2),
        (["--source", "A", "--target", "A", "--validation", "T"], "is a phrase table; for text give", 2),
        (["--source", "A", "--target", "A", "--set", "data.held_out=1"], "nothing is left to train on", 1),
        (["--source", "A", "--target", "A", "--set", "sentences.max_words=1"], "contain no usable sentence pairs", 1),
        (
            ["--source", "A", "--target", "A", "--set", "model.decoder_unit=gruu"],
            "there is no unit `gruu`; did you mean",
            1,
        ),
        (
            ["--source", "A", "--target", "A", "--set", "training.optimiser=adamm"],
            "there is no optimiser `adamm`; did you mean",
            1,
        ),
        (["--source", "A", "--target", "A", "--set", "training.teacher_forcing=1.5"], "give at most 1", 2),
        (["TABLE", "--set", "training.final_rate=nan"], "final_rate is 'nan'; give a number", 2),
        (["TABLE", "--max-minutes", "inf"], "--max-minutes: is inf; give at most 10000000", 2),
        (["TABLE", "--set", "sentences.min_count=2"], "`min_count`: has no effect with a phrase table", 2),
        (["TABLE", "--config", "T"], "`min_count`: has no effect with a phrase table", 2),
    ],
)
def test_errors_of_training_on_sentences(translate: Run, options: list[str], message: str, code: int) -> None:
    (translate.folder / "A").write_text("a b\nc d\ne f\n")
    (translate.folder / "B").write_text("a b\nc d\n")
    (translate.folder / "T").write_text("[sentences]\nmin_count = 2\n")
    options = [str(translate.folder / option) if option in "ABT" else option for option in options]
    assert message in translate.error("train", *options, "-o", translate.folder / "model", *OPTIONS.split(), code=code)


def test_a_terminal_is_answered_line_by_line(copier: Path) -> None:
    ours, theirs = pty.openpty()
    command, pipe = ["phrasescore", "translate", "-m", str(copier), "--device", "cpu"], subprocess.PIPE
    process = ForkedPopen(command, ENVIRONMENT, stdin=theirs, stdout=pipe, stderr=pipe)
    os.close(theirs)
    assert process.stdout is not None
    # Send the second line only after the first one is answered.
    for line in ("a b", "c"):
        os.write(ours, f"{line}\n".encode())
        assert process.stdout.readline().decode() == f"{line}\n"
    os.write(ours, b"\x04")
    _, messages = process.communicate()
    os.close(ours)
    assert process.returncode == 0
    assert b"one sentence a line" in messages


def test_a_terminal_does_not_keep_the_output_from_its_file(copier: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = ["phrasescore", "translate", "-m", str(copier), "--device", "cpu", "-o", str(tmp_path / "out")]
    process = ForkedPopen(command, ENVIRONMENT, stdin=theirs, stdout=subprocess.PIPE)
    os.close(theirs)
    os.write(ours, b"a b\nc\n\x04")
    assert process.communicate()[0] == b""
    os.close(ours)
    assert process.returncode == 0
    assert (tmp_path / "out").read_text() == "a b\nc\n"


def test_progress_is_reported_unless_quiet(
    translate: Run, copier: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("phrasescore.cli.console._SECONDS_BETWEEN_LINES", 0.0)
    capfd.readouterr()
    translate("-m", copier)
    assert "translating: 6 sentences, " in capfd.readouterr().err
    translate("-m", copier, "-q")
    assert capfd.readouterr().err == ""


def test_standard_input(translate: Run, copier: Path) -> None:
    done = running.run("translate", "-m", copier, "--device", "cpu", stdin=b"a b\n\nc")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"a b\n\nc\n", b"")
