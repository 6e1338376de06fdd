"""The full-size experiment: selection, estimates, plan, and its steps on a stand-in."""

from __future__ import annotations

import dataclasses
import json
import random
import re
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

from experiments.wmt14.__main__ import main
from experiments.wmt14.archives import read_member
from experiments.wmt14.commands import run as run_module
from experiments.wmt14.commands.filter import likeliest
from experiments.wmt14.config import Config, read_config
from experiments.wmt14.corpora import CONFIGS, Text, read_corpora
from experiments.wmt14.estimates import Cost, Estimates
from experiments.wmt14.rates import read_rates
from experiments.wmt14.selection import Domain, choose, sample, threshold, write_scores
from experiments.wmt14.stand_in import make_archives
from experiments.wmt14.step_commands import main as own
from experiments.wmt14.steps import GROUPS, ROWS, Step, make_steps
from moses_integration.build.system import PHRASE_TABLE, REORDERING_TABLE
from moses_integration.evaluation import p_value_over_runs
from moses_integration.ini import MosesIni
from phrasescore.errors import UserError
from phrasescore.files import read_lines
from tests.conftest import MINI

README = Path(__file__).parents[2] / "experiments" / "wmt14" / "README.md"


@pytest.fixture(autouse=True)
def _no_moses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSES_HOME", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")


def write(path: Path, lines: list[str]) -> Path:
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


# Selection


def corpus(tmp_path: Path) -> dict[str, Path]:
    """News in 40 of 200 pairs of a corpus, and a small text of other news; everything else is about cooking."""
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
        f"{name}.{language}": write(tmp_path / f"{name}.{language}", [lines[side] for lines in pairs])
        for name, pairs in (("small", small), ("large", large))
        for side, language in enumerate(("en", "fr"))
    }


@pytest.mark.parametrize("sides", [("fr",), ("en", "fr")], ids=["Moore-Lewis", "Axelrod"])
def test_sentences_like_the_small_text_are_kept(
    tmp_path: Path, sides: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    files = corpus(tmp_path)
    outputs = [tmp_path / f"kept.{side}" for side in sides]
    news_words = sum(len(line.split()) for line in _read(files["large.fr"]) if set(line.split()) & {"ministre", "vote"})
    command = ["select", "--in-domain", *(str(files[f"small.{side}"]) for side in sides)]
    command += ["--corpus", *(str(files[f"large.{side}"]) for side in sides), "--order", "2"]
    command += ["--words", str(news_words), "-o", *map(str, outputs), "--report", str(tmp_path / "report.json")]
    assert main(command) == 0
    kept = _read(outputs[-1])
    assert sum(len(line.split()) for line in kept) <= news_words
    assert len(kept) >= 30
    assert not any({"sel", "beurre", "four", "soupe"} & set(line.split()) for line in kept)
    whole = _read(files["large.fr"])
    places = [whole.index(line) for line in kept]
    assert len(kept) == len(_read(outputs[0]))
    assert "of 200 sentences" in capsys.readouterr().out
    # In their order: each line is the next one of its text in the corpus.
    rest = iter(whole)
    assert all(line in rest for line in kept), places


def _read(path: Path) -> list[str]:
    return [line.decode() for line in read_lines(path)]


def test_a_difference_is_that_of_the_cross_entropies(tmp_path: Path) -> None:
    small, general = [b"a b", b"a b", b"b a"], [b"c d", b"a d", b"c a"]
    domain = Domain.learn(small, general, 2, tmp_path)
    # The same to both models: words that the small text does not have twice are one word.
    assert domain.difference(b"a q b") == domain.difference(b"a r b")
    assert domain.difference(b"a b") < 0 < domain.difference(b"c d")
    import kenlm

    models = [kenlm.Model(str(tmp_path / f"{name}.arpa")) for name in ("small", "general")]
    expected = (models[1].score("a <other>") - models[0].score("a <other>")) * np.log(10) / 3
    assert domain.difference(b"a q") == pytest.approx(expected)


def test_the_threshold_is_exact(tmp_path: Path) -> None:
    """Against sorting; scores of both signs, with ties at the edge."""
    generator = np.random.default_rng(5)
    differences = np.round(generator.normal(size=2000), 2).astype(np.float32)
    words = generator.integers(0, 40, 2000)
    records = np.zeros(2000, [("difference", "<f4"), ("words", "<u2")])
    records["difference"], records["words"] = differences, words
    path = tmp_path / "scores"
    path.write_bytes(records.tobytes())
    for budget in (0, 1, 500, 20_000, int(words.sum()) - 1, int(words.sum()), 10**9):
        highest = threshold(path, budget)
        kept = words[differences <= highest].sum()
        above = differences[differences > highest]
        assert kept <= budget
        if len(above):
            assert kept + words[differences == above.min()].sum() > budget


@pytest.mark.parametrize("scores", [[-1, 0, 0, 0], [-1, -0.0, 0, 0], [-1, 0, -0.0, 1]])
def test_scores_of_zero_are_kept_together_or_not_at_all(tmp_path: Path, scores: list[float]) -> None:
    """With either sign, for they are equal."""
    records = np.array([(score, 10) for score in scores], [("difference", "<f4"), ("words", "<u2")])
    path = tmp_path / "scores"
    path.write_bytes(records.tobytes())
    assert -1 < threshold(path, 15) < 0


def test_a_sample_is_of_its_size_and_of_all_parts(tmp_path: Path) -> None:
    parts = [(write(tmp_path / name, [f"{name}{i}" for i in range(50)]),) for name in "ab"]
    drawn = [line for (line,) in sample(parts, 40, 1)]
    assert len(set(drawn)) == 40
    assert {line[:1] for line in drawn} == {b"a", b"b"}
    assert drawn == [line for (line,) in sample(parts, 40, 1)]
    assert len(sample(parts, 1000, 1)) == 100


def test_scores_of_another_corpus_are_refused(tmp_path: Path) -> None:
    files = corpus(tmp_path)
    small = list(read_lines(files["small.fr"]))
    domain = Domain.learn(small, list(read_lines(files["large.fr"])), 2, tmp_path)
    write_scores([(files["small.fr"],)], [domain], tmp_path / "scores")
    with pytest.raises(UserError, match="fewer scores"):
        choose([(files["large.fr"],)], tmp_path / "scores", 0.0, [tmp_path / "out"])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["select --in-domain a --corpus b -o", "draw a -o"])
def test_a_share_is_a_number(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    for share in ("half", "1.5", "nan"):
        with pytest.raises(SystemExit) as ended:
            main([*command.split(), str(tmp_path / "out"), "--share", share])
        assert ended.value.code == 2
        assert f"argument --share: {share} is not a number from 0 to 1" in capsys.readouterr().err


def test_texts_of_different_sides_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {name: str(path) for name, path in corpus(tmp_path).items()}
    command = ["select", "--in-domain", files["small.fr"], "--corpus", files["large.en"], files["large.fr"]]
    assert main([*command, "--words", "5", "-o", str(tmp_path / "out")]) == 1
    assert "number of sides" in capsys.readouterr().err


def test_a_text_without_words_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = corpus(tmp_path)
    files["small.fr"].write_bytes(b"\n \n")
    command = ["select", "--in-domain", files["small.fr"], "--corpus", files["large.fr"], "-o", tmp_path / "out"]
    assert main([*map(str, command), "--words", "5"]) == 1
    assert f"{files['small.fr']}: has no words; give text of the domain" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("unpack a.tgz --member x y -o z", "-o: give as many files as texts"),
        ("prepare x y -o z", "-o: give one text or two, and a file for each"),
        ("prepare x y z -o x y z", "-o: give one text or two, and a file for each"),
        ("bleu out --rows a --seeds 1 1 --reference r -o o", "argument --seeds: 1 is given twice"),
    ],
)
def test_a_file_for_each_text_and_a_seed_for_each_run(
    command: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: object = main(command.split())
    except SystemExit as ended:
        code = ended.code
    assert code == 2
    assert message in capsys.readouterr().err


# Archives


def test_archives_of_the_stand_in_hold_the_text(tmp_path: Path) -> None:
    texts = read_corpora()
    make_archives(MINI, texts, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {text.file for text in texts}
    targets = [line for text in texts if text.role == "parallel" for line in _member(tmp_path, text)]
    assert targets == list(read_lines(MINI / "train.fr"))
    news = [line for text in texts if text.role == "monolingual" for line in read_lines(tmp_path / text.file)]
    assert news == targets
    dev = [line for text in texts if text.role == "dev" for line in _member(tmp_path, text)]
    assert len(dev) > 20
    assert dev == list(read_lines(MINI / "dev.fr"))[: len(dev)]


def _member(folder: Path, text: Text) -> list[bytes]:
    assert text.target
    return list(read_member(folder / text.file, text.target))


def test_a_missing_member_and_a_broken_archive_are_named(tmp_path: Path) -> None:
    make_archives(MINI, read_corpora(), tmp_path)
    with pytest.raises(UserError, match=r"has no un/undoc\.de"):
        list(read_member(tmp_path / "training-parallel-un.tgz", "un/undoc.de"))
    broken = tmp_path / "broken.tgz"
    broken.write_bytes((tmp_path / "training-parallel-un.tgz").read_bytes()[:300])
    with pytest.raises(UserError, match="download it again"):
        list(read_member(broken, "un/undoc.2000.fr-en.en"))


def test_an_archive_of_another_digest_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = write(tmp_path / "a.tgz", ["x"])
    assert main(["unpack", str(archive), "--member", "a", "-o", str(tmp_path / "a"), "--md5", "0" * 32]) == 1
    assert "download it again" in capsys.readouterr().err


# Plan


@pytest.fixture
def full() -> Config:
    return read_config(CONFIGS / "full.toml")


def steps_of(config: Config, has_moses: bool = True) -> list[Step]:
    texts = read_corpora()
    estimates = Estimates(texts, config, read_rates())
    return make_steps(config, texts, Path("work"), estimates, None, has_moses)


def test_the_sizes_are_the_paper_s(full: Config) -> None:
    estimates = Estimates(read_corpora(), full, read_rates())
    assert estimates.train_words == pytest.approx(348, abs=0.5)
    assert 2000 < estimates.target_words < 2100
    assert {"cho2014"} == {options[options.index("--preset") + 1] for options in (full.network, full.cslm)}


def test_every_step_has_inputs_that_exist_by_then(full: Config) -> None:
    steps = steps_of(full)
    assert list(dict.fromkeys(step.group for step in steps)) == list(GROUPS)
    assert len({step.name for step in steps}) == len(steps)
    made: set[str] = set()
    for step in steps:
        written = {word for output in step.outputs for word in (str(output), str(output.parent))}
        reports = {f"{stem}.json" for word in written for stem in (word, Path(word).with_suffix(""))}
        made |= written | reports
        for command in step.commands:
            unknown = [word for word in command if word.startswith("work/") and word not in made]
            assert not unknown, step.name


@pytest.mark.parametrize("factor", [1.5, 10.0])
def test_costs_grow_with_the_text(full: Config, factor: float) -> None:
    texts = read_corpora()
    larger = [
        dataclasses.replace(text, lines=text.lines * factor, words=text.words * factor, keep=text.keep * factor)
        for text in texts
    ]
    more = dataclasses.replace(
        full, selection=dataclasses.replace(full.selection, lm_words=full.selection.lm_words * factor)
    )
    before = make_steps(full, texts, Path("work"), Estimates(texts, full, read_rates()), None, True)
    after = make_steps(more, larger, Path("work"), Estimates(larger, more, read_rates()), None, True)
    for first, second in zip(before, after, strict=True):
        for item in dataclasses.fields(Cost):
            if item.name != "cores":
                assert getattr(second.cost, item.name) >= 0.999999 * getattr(first.cost, item.name), first.name
    assert sum(step.cost.core_hours for step in after) > sum(step.cost.core_hours for step in before)


def test_the_first_decoding_with_the_network_is_the_slow_one(full: Config) -> None:
    costs = {step.name: step.cost for step in steps_of(full)}
    seconds = {name: costs[f"tune.{name}"].core_hours for name in ("+RNN.1", "+CSLM.1", "+CSLM.2", "+RNN+CSLM+WP.1")}
    assert seconds["+RNN.1"] < seconds["+CSLM.2"] == seconds["+RNN+CSLM+WP.1"] < seconds["+CSLM.1"]
    exact = dataclasses.replace(full, unnormalised=False)
    assert {step.name: step.cost for step in steps_of(exact)}["tune.+CSLM.1"].core_hours > 2 * seconds["+CSLM.1"]
    assert "--unnormalised" in _commands(full, "ini.+CSLM")
    assert "--unnormalised" not in _commands(exact, "ini.+CSLM")


def test_the_cache_has_room_for_what_all_runs_ask(full: Config) -> None:
    estimates = Estimates(read_corpora(), full, read_rates())
    runs = sum("CSLM" in row for row in ROWS) * len(full.seeds)
    first = estimates.queries(0)
    assert estimates.queries(runs) == pytest.approx(first + runs * (estimates.queries(1) - first))
    # A set of eight entries seldom overflows while half of the cache is empty.
    assert estimates.queries(runs) * 1e6 < 0.5 * full.tuning.cache * 131_000


def test_lmplz_takes_the_memory_that_it_is_given(full: Config) -> None:
    assert {step.name: step.cost.memory for step in steps_of(full)}["language-model"] == 40
    section = dataclasses.replace(full.language_model, memory="50%")
    unknown = {step.name: step.cost.memory for step in steps_of(dataclasses.replace(full, language_model=section))}
    assert unknown["language-model"] < 40


def test_decodings_are_of_source_words(full: Config) -> None:
    texts, rates = read_corpora(), read_rates()
    estimates = Estimates(texts, full, rates)
    dev = sum(text.words for text in texts if text.role == "dev")
    assert estimates.dev_source_words == pytest.approx(dev * rates.source_words)
    french = estimates.perplexity().core_hours * 3600 * rates.query / 1e6
    assert french == pytest.approx(dev)


def _commands(config: Config, name: str) -> list[str]:
    return [word for step in steps_of(config) if step.name == name for command in step.commands for word in command]


def test_links_of_another_aligner_can_be_given(full: Config) -> None:
    config = dataclasses.replace(full, alignment=dataclasses.replace(full.alignment, given="giza/links"))
    [step] = [step for step in steps_of(config) if step.name == "align"]
    assert step.commands[0][1:3] == ("join", "giza/links")


def test_more_cores_take_no_longer() -> None:
    assert Cost(8.0, cores=None).hours(16) == 0.5
    assert Cost(8.0, cores=2).hours(16) == 4
    assert Cost(8.0).hours(16) == 8


def test_the_page_has_the_plan(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan"]) == 0
    plan = capsys.readouterr().out
    assert plan in README.read_text()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[selektion]\norder = 3", "did you mean `selection`"),
        ("[tables]\nlimt = 3", "did you mean `limit`"),
        ("[", "TOML"),
        ("selection = 3", r"`selection` must be a section, written \[selection\]"),
        ("[tuning]\nseeds = []", r"\[tuning\]: seeds is \[\]; give different whole numbers"),
        ("[tuning]\nseeds = 1", r"\[tuning\]: seeds is 1; give different whole numbers"),
        ("[alignment]\nmethod = 'giza'", r"\[alignment\]: method is 'giza'; choose one of"),
        ("[network]\nepochs = 3", r"\[network\]: has no max_updates"),
        ("[network]\nmax_updates = 3\ndropout = 7", r"\[network\]: --dropout: is 7.0; give"),
        (
            "[network]\nmax_updates = 3\n[cslm]\nhiden = 3",
            r"\[cslm\]: --hiden: is no option; did you mean `--first-hidden`\?",
        ),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        read_config(write(tmp_path / "a.toml", [text]))


def test_what_the_options_of_the_networks_come_to(tmp_path: Path) -> None:
    text = "[network]\nmax_updates = 30\nbatch_size = 8\n[cslm]\nself_normalise = {}\nheld_out = 0.2"
    config = read_config(write(tmp_path / "a.toml", [text.format(0.1)]))
    assert config.network_pairs == 240
    assert config.unnormalised
    assert not read_config(write(tmp_path / "a.toml", [text.format(0.0)])).unnormalised


def test_a_missing_moses_is_told_before_the_first_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("MOSES_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["run", str(tmp_path / "work")]) == 1
    assert "Moses was not found" in capsys.readouterr().err
    assert not (tmp_path / "work").exists()


# Steps


def test_the_likeliest_translations_are_kept_in_order() -> None:
    lines = [
        b"a ||| x ||| 1 1 0.1 1\n",
        b"a ||| y ||| 1 1 0.5 1\n",
        b"a ||| z ||| 1 1 0.3 1\n",
        b"b ||| x ||| 1 1 1 1\n",
    ]
    assert list(likeliest(iter(lines), frozenset([b"a"]), 2, Path("table"))) == [lines[1], lines[2]]
    assert list(likeliest(iter(lines), frozenset([b"a", b"b"]), 9, Path("table"))) == lines
    with pytest.raises(UserError, match=r"^table: `a \|\|\| x \|\|\| 1` has no third score"):
        list(likeliest([b"a ||| x ||| 1\n"] * 2, frozenset([b"a"]), 1, Path("table")))


def pairs_of(table: Path) -> list[list[str]]:
    return [line.split(" ||| ")[:2] for line in _read(table)]


def test_the_steps_to_the_filtered_tables_run_and_are_done_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data, folder = tmp_path / "data", tmp_path / "work"
    data.mkdir()
    for part, size in (("train", 1000), ("dev", 40), ("test", 20)):
        for language in ("en", "fr"):
            lines = _read(MINI / f"{part}.{language}")[:size]
            write(data / f"{part}.{language}", lines)
    command = ["run", str(folder), "--stand-in", str(data), "--until", "filter"]
    assert main(command) == 0
    for language in ("en", "fr"):
        # Only escaped, for the mini corpus is tokenised.
        dev = [line.replace("'", "&apos;") for line in _read(data / f"dev.{language}")]
        assert [line.replace(" ", "") for line in _read(folder / "corpus" / f"dev.{language}")] == [
            line.replace(" ", "") for line in dev
        ]
    pairs = len(_read(folder / "corpus" / "train.en"))
    assert pairs == len(_read(folder / "corpus" / "train.fr")) == len(_read(folder / "corpus" / "train.align"))
    assert 200 < pairs < 400
    parts = json.loads((folder / "corpus" / "lm.fr.json").read_bytes())["parts"]
    # The parallel texts, and the monolingual ones, which are the same here; cleaning drops nothing.
    assert sum(part["sentences"] for part in parts) == 2000
    words = sum(part["words"] for part in parts)
    assert 0.98 < sum(part["kept_words"] for part in parts) / (words * 418 / 2069.5) <= 1.001
    kept = pairs_of(folder / "filtered" / PHRASE_TABLE)
    assert 0 < len(kept) < len(pairs_of(folder / "system" / PHRASE_TABLE))
    assert pairs_of(folder / "filtered" / REORDERING_TABLE) == kept
    capsys.readouterr()
    # What was done holds where the folder is moved to, too.
    moved = folder.rename(tmp_path / "moved")
    assert main(["run", str(moved), *command[2:]]) == 0
    said = capsys.readouterr().err.splitlines()
    assert all(line.endswith("done before") for line in said if not line.startswith("no Moses"))


def test_parts_of_an_alignment_are_kept_for_the_same_texts_and_method(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that was stopped in its second part."""
    calls: list[str] = []

    def align(source: Path, target: Path, links: Path, method: str) -> None:
        calls.append(method)
        if len(calls) == 2:
            raise KeyboardInterrupt
        write(links, [f"{method} {line}" for line in _read(source)])

    monkeypatch.setattr("experiments.wmt14.commands.align.align", align)
    texts = [str(write(tmp_path / side, ["a", "b", "c"])) for side in ("source", "target")]
    command = ["align", *texts, "-o", str(tmp_path / "links"), "--part", "1"]
    assert own([*command, "--method", "hmm"]) == 130
    assert own([*command, "--method", "hmm"]) == 0
    assert (calls, _read(tmp_path / "links")) == (["hmm"] * 4, ["hmm a", "hmm b", "hmm c"])
    calls.clear()
    assert own([*command, "--method", "hmm"]) == 130
    assert own([*command, "--method", "ibm4"]) == 0
    assert _read(tmp_path / "links") == ["ibm4 a", "ibm4 b", "ibm4 c"]
    calls.clear()
    assert own([*command, "--method", "hmm"]) == 130
    write(tmp_path / "source", ["d", "b", "c"])
    assert own([*command, "--method", "hmm"]) == 0
    assert _read(tmp_path / "links") == ["hmm d", "hmm b", "hmm c"]


def test_a_training_that_has_changed_starts_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same one goes on in its folder."""
    weights, found = tmp_path / "rnn" / "weights", []

    def train(arguments: Sequence[str]) -> int:
        found.append(weights.exists())
        weights.touch()
        return 1 if len(found) == 1 else 0

    monkeypatch.setitem(run_module._PROGRAMS, "phrasescore", train)
    for updates, code in (("8", 1), ("8", 0), ("9", 0)):
        step = Step("network", (("phrasescore", "train", updates),), (weights,), Cost(), weights.parent)
        with pytest.raises(UserError) if code else nullcontext():
            run_module._Runner(tmp_path).do(step)
    assert found == [False, True, False]


def test_what_rests_on_other_content_is_done_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights of the same network have the same size, however it was trained."""
    weights, table = tmp_path / "weights", tmp_path / "table"

    def phrasescore(arguments: Sequence[str]) -> int:
        if arguments[0] == "train":
            weights.write_text(arguments[1])
        else:
            table.write_text(f"scored by {weights.read_text()}")
        return 0

    monkeypatch.setitem(run_module._PROGRAMS, "phrasescore", phrasescore)
    for seed in "12":
        runner = run_module._Runner(tmp_path)
        runner.do(Step("network", (("phrasescore", "train", seed),), (weights,), Cost()))
        runner.do(Step("annotate", (("phrasescore", "annotate"),), (table,), Cost()))
        assert table.read_text() == f"scored by {seed}"


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_whole_stand_in(tmp_path: Path) -> None:
    """Every step but the download, with one seed and as little tuning as there can be."""
    settings = (CONFIGS / "stand-in.toml").read_text()
    for before, after in (
        ("seeds = [1, 2]", "seeds = [1]\nprocesses = 1"),
        ("iterations = 2", "iterations = 1"),
        ("max_updates = 100", "max_updates = 10"),
        ("evaluate_every = 50", "evaluate_every = 10"),
    ):
        assert before in settings
        settings = settings.replace(before, after)
    (tmp_path / "config.toml").write_text(settings)
    folder = tmp_path / "work"
    command = ["run", str(folder), "--stand-in", str(MINI), "--config", str(tmp_path / "config.toml")]
    assert main(command) == 0
    report = json.loads((folder / "bleu.json").read_bytes())
    assert list(report["rows"]) == list(ROWS)
    for row in ROWS:
        assert len(_read(folder / "out" / f"{row}.1")) == 40
    perplexity = json.loads((folder / "perplexity.json").read_bytes())["perplexity"]
    assert perplexity["interpolation"] < max(perplexity["network"], perplexity["backoff"])
    ini = MosesIni.read(folder / "tuned" / "+RNN+CSLM+WP.1.ini")
    assert ini.phrase_table().width == 6
    [cslm] = [feature for feature in ini.features() if feature.kind == "CSLM"]
    assert cslm.arguments["unnormalised"] == "true"
    assert ini.path_of(cslm, "cache").stat().st_size == 1 << 20
    assert any((folder / "cslm-scores").read_bytes())


def test_a_step_that_fails_names_its_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", str(tmp_path / "work"), "--stand-in", str(tmp_path / "nowhere")]) == 1
    assert "stand-in" in capsys.readouterr().err


def test_bleu_of_rows_and_seeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reference = write(
        tmp_path / "reference", ["the cat sat on the mat", "a dog ran in the park", "we saw it all again"]
    )
    for row, lines in zip(ROWS[:2], (["the cat", "a dog ran", "we"], _read(reference)), strict=True):
        for seed in (1, 2):
            write(tmp_path / f"{row}.{seed}", lines)
    command = ["bleu", str(tmp_path), "--rows", *ROWS[:2], "--seeds", "1", "2", "--reference", str(reference)]
    assert main([*command, "-o", str(tmp_path / "bleu.json")]) == 0
    found = json.loads((tmp_path / "bleu.json").read_bytes())["rows"]["+RNN"]
    runs, others = ([tmp_path / f"{row}.{seed}" for seed in (1, 2)] for row in reversed(ROWS[:2]))
    assert found["p_value"] == p_value_over_runs(runs, others, [reference])
    assert re.search(r"\| \+RNN \| 100\.00 ± 0\.00 \| \+\d+\.\d\d \| ", capsys.readouterr().out)
