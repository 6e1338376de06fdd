"""The full-size experiment: data selection, the other steps, and the workflow as a dry run and on small data."""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
import tarfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

from experiments.pages.commands import PROGRAMS
from experiments.significance import p_value_over_runs
from experiments.wmt14.selection import Domain, best, sample, select
from experiments.wmt14.steps import (
    build_language_model,
    build_tables,
    compare_rows,
    filter_system,
    prepare_pairs,
    split,
)
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from phrasescore.files import read_lines, write_lines
from tests.conftest import MINI

WORKFLOW = Path(__file__).parents[2] / "experiments" / "wmt14"
STAND_IN = ["--configfile", str(WORKFLOW / "stand-in.yaml"), "--config", f"stand_in={MINI}"]
SYSTEMS = ["baseline", "rnn", "baseline+cslm", "rnn+cslm", "rnn-wp+cslm"]


@pytest.fixture(autouse=True)
def _no_moses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide Moses and KenLM; the programs of the environment stay available."""
    monkeypatch.delenv("MOSES_HOME", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")


def write(path: Path, lines: list[str]) -> Path:
    write_lines(path, (line.encode() for line in lines))
    return path


def read(path: Path) -> list[str]:
    return [line.decode() for line in read_lines(path)]


def snakemake(folder: Path, *arguments: str) -> str:
    """Run the workflow; return its output. Skips the test if Snakemake is not installed."""
    if find_spec("snakemake") is None:
        pytest.skip("needs Snakemake, which the extra `wmt14` installs")
    workflow = ["--snakefile", str(WORKFLOW / "Snakefile"), "--directory", str(folder)]
    command = [sys.executable, "-m", "snakemake", *workflow, "--cores", "2", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


# Selection


def corpus(tmp_path: Path) -> dict[str, str]:
    """A corpus of 200 pairs, 40 of which are news and the rest about cooking, and a small text of other news."""
    draw = random.Random(3)
    news = (["minister", "vote", "treaty", "budget"], ["ministre", "vote", "traite", "budget"])
    food = (["salt", "butter", "oven", "soup"], ["sel", "beurre", "four", "soupe"])

    def pair(words: tuple[list[str], list[str]]) -> tuple[str, str]:
        chosen = [draw.randrange(4) for _ in range(draw.randint(3, 7))]
        return " ".join(["the", *(words[0][i] for i in chosen)]), " ".join(["le", *(words[1][i] for i in chosen)])

    small = [pair(news) for _ in range(50)]
    large = [pair(food) for _ in range(160)] + [pair(news) for _ in range(40)]
    draw.shuffle(large)
    return {
        f"{name}.{language}": str(write(tmp_path / f"{name}.{language}", [lines[side] for lines in pairs]))
        for name, pairs in (("small", small), ("large", large))
        for side, language in enumerate(("en", "fr"))
    }


@pytest.mark.parametrize("sides", [("fr",), ("en", "fr")], ids=["Moore-Lewis", "Axelrod"])
def test_sentences_like_the_small_text_are_kept(
    tmp_path: Path, sides: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    files = corpus(tmp_path)
    small, large = ([files[f"{name}.{side}"] for side in sides] for name in ("small", "large"))
    outputs = [str(tmp_path / f"kept.{side}") for side in sides]
    select(small, [large], 0.2, 2, outputs)
    kept, whole = read(Path(outputs[-1])), read(Path(large[-1]))
    words, all_words = (sum(len(line.split()) for line in text) for text in (kept, whole))
    assert words <= 0.2 * all_words
    said = f"large.fr: {len(kept)} of 200 sentences, {words} of {all_words:,} words"
    assert said in capsys.readouterr().out
    assert len(kept) == len(read(Path(outputs[0]))) >= 30
    assert not any({"sel", "beurre", "four", "soupe"} & set(line.split()) for line in kept)
    # Selected lines keep the order of the corpus.
    rest = iter(whole)
    assert all(line in rest for line in kept)


def test_a_corpus_of_several_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = corpus(tmp_path)
    parts = [[files["small.fr"]], [files["large.fr"]]]
    select([files["small.fr"]], parts, 0.4, 2, [str(tmp_path / "kept")])
    told = re.findall(r"(\d+) of (\d+) sentences", capsys.readouterr().out)
    first, second = (int(kept) for kept, _ in told)
    assert [int(sentences) for _, sentences in told] == [50, 200]
    assert read(tmp_path / "kept")[:first] == read(Path(files["small.fr"]))[:first]
    assert len(read(tmp_path / "kept")) == first + second


def test_a_difference_is_that_of_the_cross_entropies(tmp_path: Path) -> None:
    small, general = [b"a b", b"a b", b"b a"], [b"c d", b"a d", b"c a"]
    domain = Domain.learn(small, general, 2, tmp_path)
    # Both models share a vocabulary: words that the small text does not have twice are one unknown word.
    assert domain.difference(b"a q b") == domain.difference(b"a r b")
    assert domain.difference(b"a b") < 0 < domain.difference(b"c d")
    import kenlm

    models = [kenlm.Model(str(tmp_path / f"{name}.arpa")) for name in ("small", "general")]
    expected = (models[1].score("a <other>") - models[0].score("a <other>")) * np.log(10) / 3
    assert domain.difference(b"a q") == pytest.approx(expected)


def test_the_best_fit_into_the_share() -> None:
    difference, words = np.array([3, -1, 2, -1, -9], np.float32), np.array([10, 20, 30, 40, 0], np.int32)
    for share, kept in ((0, []), (0.19, []), (0.2, [1]), (0.6, [1, 3]), (0.9, [1, 2, 3]), (1, [0, 1, 2, 3])):
        assert np.flatnonzero(best(difference, words, share)).tolist() == kept


def test_a_sample_is_of_its_size_and_of_all_the_text() -> None:
    text = [(b"%d" % i,) for i in range(100)]
    drawn = sample(text, 40, 1)
    assert len(set(drawn)) == 40
    assert {one in text[:50] for one in drawn} == {True, False}
    assert drawn == sample(text, 40, 1)
    assert sample(text, 1000, 1) == text


def test_nothing_to_choose_by_and_nothing_chosen(tmp_path: Path) -> None:
    files = corpus(tmp_path)
    with pytest.raises(UserError, match=r"large\.fr: not one sentence fits into a share of 0\.001"):
        select([files["small.fr"]], [[files["large.fr"]]], 0.001, 2, [str(tmp_path / "out")])
    write(Path(files["small.fr"]), ["", " "])
    with pytest.raises(UserError, match=r"small\.fr: has no words; give text of the domain"):
        select([files["small.fr"]], [[files["large.fr"]]], 0.5, 2, [str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


# Other steps


def test_texts_are_cut_into_parts(tmp_path: Path) -> None:
    text = str(write(tmp_path / "text", list("abcdefg")))
    parts = [str(tmp_path / f"part{i}") for i in range(3)]
    split(text, parts)
    assert ["".join(read(Path(part))) for part in parts] == ["abc", "def", "g"]


def test_pairs_are_prepared_and_cleaned(tmp_path: Path) -> None:
    raw = [write(tmp_path / "en", ["It's new.", "x " * 81]), write(tmp_path / "fr", ["C'est nouveau.", "y " * 81])]
    prepared = [tmp_path / f"text.{language}.gz" for language in ("en", "fr")]
    prepare_pairs([str(path) for path in raw], [str(path) for path in prepared])
    assert [read(path) for path in prepared] == [["It &apos;s new ."], ["C&apos; est nouveau ."]]
    assert len(list(tmp_path.iterdir())) == 4


def test_a_system_and_what_the_test_text_needs_of_it(tmp_path: Path) -> None:
    system, filtered, lm = tmp_path / "system", tmp_path / "filtered", tmp_path / "lm.fr"
    system.mkdir()
    filtered.mkdir()
    build_language_model(str(MINI / "train.fr"), str(lm), 3, "1G")
    build_tables([str(MINI / f"train.{end}") for end in ("en", "fr", "align")], str(system), str(lm), 3, "embedded")
    filter_system(str(system), [str(MINI / "test.en")], 5, str(filtered / "baseline.ini"))
    kept, reordering = (
        [line.split(" ||| ")[:2] for line in read(filtered / table)] for table in (PHRASE_TABLE, REORDERING_TABLE)
    )
    assert reordering == kept
    assert 0 < len(kept) < len(read(system / PHRASE_TABLE))
    ini = MosesIni.read(filtered / "baseline.ini")
    assert ini.path_of(ini.phrase_table()) == filtered / PHRASE_TABLE
    assert ini.language_model() == lm


def test_bleu_of_rows_and_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["the cat sat on the mat", "a dog ran in the park", "we saw it all again"]
    reference = write(tmp_path / "reference", lines)
    rows = {"baseline": ["the cat", "a dog ran", "we"], "rnn": lines}
    outputs = {row: [write(tmp_path / f"{row}.{seed}", texts) for seed in (1, 2)] for row, texts in rows.items()}
    compare_rows(outputs, reference, tmp_path / "bleu.json")
    found = json.loads((tmp_path / "bleu.json").read_bytes())["rows"]
    assert found["rnn"]["p_value"] == p_value_over_runs(outputs["rnn"], outputs["baseline"], [reference])
    assert re.search(r"\| rnn \| 100\.00 ± 0\.00 \| \+\d+\.\d\d \| ", capsys.readouterr().out)


# The workflow


def test_commands_of_the_workflow_are_valid() -> None:
    workflow = re.sub(r'"\n\s+"', "", (WORKFLOW / "Snakefile").read_text())
    commands = re.findall(r'[" ](phrasescore[a-z-]* [^"&]*)', re.sub(r"\{params\.options\}", "", workflow))
    assert len(commands) > 8
    for command in commands:
        program, *arguments = re.sub(r"\{.*?\}", "1", command).split()
        PROGRAMS[program]().parse_args(arguments)


def test_the_shares_are_the_paper_s() -> None:
    """The shares of the data match the paper: 348 of 418 million French words are parallel text."""
    words = {"europarl": 61, "news-commentary": 5.5, "commoncrawl": 90, "un": 421, "giga": 780}
    config = yaml.safe_load((WORKFLOW / "config.yaml").read_bytes())
    assert list(config["parallel"]) == list(words)
    kept = sum(words[name] * text.get("share", 1) for name, text in config["parallel"].items())
    assert kept == pytest.approx(348, abs=0.5)
    assert config["monolingual"]["share"] * (sum(words.values()) + 712) == pytest.approx(418, abs=0.5)


def test_the_steps_from_the_downloads_to_bleu(tmp_path: Path) -> None:
    said = snakemake(tmp_path, "--dry-run")
    counts = {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", said, re.MULTILINE)}
    assert {name: counts[name] for name in ("download", "download_news", "test_set", "select", "align", "tune")} == {
        "download": 5, "download_news": 7, "test_set": 6, "select": 3, "align": 11, "tune": 15
    }  # fmt: skip
    assert "stand_in" not in counts
    stand_in = snakemake(tmp_path, "--dry-run", *STAND_IN)
    assert "stand_in" in stand_in
    assert "curl" not in stand_in + snakemake(tmp_path, "--dry-run", "-p", *STAND_IN)


def test_a_text_out_of_its_archive(tmp_path: Path) -> None:
    (tmp_path / "downloads").mkdir()
    for language in ("en", "fr"):
        write(tmp_path / f"un.{language}", [f"in {language}"])
    with tarfile.open(tmp_path / "downloads" / "un.tar", "w:gz") as archive:
        for language in ("en", "fr"):
            archive.add(tmp_path / f"un.{language}", f"un/undoc.2000.fr-en.{language}")
    snakemake(tmp_path, "--notemp", "raw/un.en.gz", "raw/un.fr.gz")
    assert [read(tmp_path / "raw" / f"un.{language}.gz") for language in ("en", "fr")] == [["in en"], ["in fr"]]


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_stand_in(tmp_path: Path) -> None:
    """The workflow runs every step except the download on small data, with one seed and minimal tuning."""
    options = ["seeds=[1]", "processes=1", "tune=--nbest 20 --iterations 2 --restarts 2"]
    options.append(
        "network=--hidden 16 --set model.embedding=8 --set model.output_rank=8 --max-updates 10 --evaluate-every 10"
    )
    snakemake(tmp_path, *STAND_IN, *options)
    assert list(json.loads((tmp_path / "bleu.json").read_bytes())["rows"]) == SYSTEMS
    for system in SYSTEMS:
        assert len(read(tmp_path / "out" / f"{system}.1")) == 40
    pairs = len(read(tmp_path / "corpus" / "train.en"))
    assert 200 < pairs == len(read(tmp_path / "corpus" / "train.fr")) == len(read(tmp_path / "corpus" / "train.align"))
    perplexity = json.loads((tmp_path / "perplexity.json").read_bytes())["perplexity"]
    assert perplexity["interpolation"] < max(perplexity["network"], perplexity["backoff"])
    ini = MosesIni.read(tmp_path / "tuned" / "rnn-wp+cslm.1.ini")
    assert ini.phrase_table().width == 6
    assert [feature.label for feature in ini.features() if feature.kind == "CSLM"] == ["CSLM0"]
    assert "Nothing to be done" in snakemake(tmp_path, *STAND_IN, *options)
