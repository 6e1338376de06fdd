from __future__ import annotations

import copy
import json
import math
import re
import shutil
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from experiments.data import prepare, splits_of_tests
from experiments.pages.results import Results
from experiments.seq2seq.__main__ import run
from experiments.seq2seq.comparison import compare
from experiments.seq2seq.config import Config, read_config
from experiments.seq2seq.phrase_scorers import Tables
from experiments.seq2seq.report import markdown, summary
from experiments.seq2seq.translators import Sentences, perplexities
from experiments.toml import command_options
from phrasescore.cli import make_parser
from phrasescore.cli.train import settings_of
from phrasescore.device import choose_device
from phrasescore.errors import UsageError, UserError
from phrasescore.model_folder import TrainedModel
from phrasescore.nn.encoder_decoder import EncoderDecoder
from phrasescore.pairs import PhrasePairs
from phrasescore.text import no_log
from phrasescore.training.batches import SentenceLoss, sentence_loss
from phrasescore.training.settings import Settings
from phrasescore.vocabulary import Vocabulary
from tests.conftest import MINI, TINY

ROOT = Path(__file__).parents[2]
CONFIGS = ROOT / "experiments" / "seq2seq" / "configs"
MODELS = ROOT / "docs" / "models.md"
PATHS = pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)

SMALL = """
    title = "Two translators"
    test = ["2016", "2017"]
    [common]
    preset = "plain"
    hidden = 8
    embedding = 4
    max-updates = 4
    [gpu]
    hidden = 10
    [[systems]]
    name = "base"
    published = { perplexity = 10.6, BLEU = 11.3 }
    [[systems]]
    name = "more"
    extends = "base"
    options = { attention = "general", readout = "attentional" }
    published = { perplexity = 9.9, BLEU = 12.6 }
    [[searches]]
    beam = 1
    [[searches]]
    beam = 3
    length-penalty = 1
"""
SMALL_PHRASES = """
    title = "Two scorers"
    learns_from = "table"
    [common]
    preset = "small"
    hidden = 8
    embedding = 4
    output-rank = 2
    batch-size = 64
    max-updates = 4
    [[systems]]
    name = "Cho et al."
    [[systems]]
    name = "GRU"
    extends = "Cho et al."
    options = { encoder-unit = "gru", decoder-unit = "gru" }
"""


def settings(options: list[str], *, sentences: bool) -> Settings:
    """Return the settings of `train` with these options."""
    data = ["--source", "a", "--target", "b"] if sentences else ["table"]
    return settings_of(make_parser().parse_args(["train", *data, "-o", "c", *options]))


def parameters(found: Settings, source: int, target: int) -> int:
    with torch.device("meta"):
        network = EncoderDecoder(found.model, source, target)
    return sum(parameter.numel() for parameter in network.parameters())


@PATHS
@pytest.mark.parametrize("gpu", [False, True])
def test_systems_are_valid(path: Path, gpu: bool) -> None:
    """The network of each system can be built on any machine; only scorers of phrases have a budget in minutes."""
    config = read_config(path, gpu=gpu)
    of_sentences = config.task.learns_from == "sentences"
    found = [settings(list(system.command), sentences=of_sentences) for system in config.systems]
    for one in found:
        one.check()
        assert parameters(one, 90, 90) > 0
        assert one.training.max_minutes == (None if of_sentences else 15.0)


def test_the_tutorial_s_sizes() -> None:
    config = read_config(CONFIGS / "tutorial.toml")
    system = config.systems[0]
    found = settings(list(system.command), sentences=True)
    assert parameters(found, 7855, 5893) == system.published["parameters"] == 14_220_293
    training = found.training
    assert (training.optimiser, training.learning_rate, training.schedule) == ("adam", 1e-3, "constant")
    assert (found.model.dropout, training.teacher_forcing) == (0.5, 0.5)
    assert (training.batch_size, training.epochs, training.clip) == (128, 10, 1.0)


def test_attentions_are_compared_at_equal_size() -> None:
    """Attention types are compared at equal size: they differ only in their own matrices."""
    counts = [
        parameters(settings(list(system.command), sentences=True), 5000, 5000)
        for system in read_config(CONFIGS / "attention.toml").systems[1:5]
    ]
    assert [count - counts[0] for count in counts] == [0, 256**2, 256**2, 2 * 256**2 + 256]


@PATHS
def test_searches_differ(path: Path) -> None:
    searches = [command_options(search) for search in read_config(path).searches]
    assert len(set(searches)) == len(searches)


def documented() -> dict[str, list[str]]:
    """Return the options of each translator in docs/models.md."""
    section = MODELS.read_text().split("\n## Translators\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")][1:]
    return {row[0]: re.findall(r"`(--[^`]*)`", row[2])[0].split() for row in rows}


@pytest.mark.parametrize("sentences", [False, True], ids=["table", "sentences"])
def test_systems_of_the_documentation_are_valid(sentences: bool) -> None:
    systems = documented()
    assert systems
    for options in systems.values():
        if "sentences.measured_loss=free-running" in options and not sentences:
            with pytest.raises(UserError, match="`measured_loss`: has no effect with a phrase table"):
                settings(options, sentences=False)
            continue
        one = settings(options, sentences=sentences)
        one.check()
        assert parameters(one, 90, 80) > 0


def test_a_system_has_what_it_extends(tmp_path: Path) -> None:
    base, more = small(tmp_path, ["common.hidden = 9"]).systems
    assert "plain" in base.command
    assert {**more.options, "attention": None, "readout": None} == {**base.options, "attention": None, "readout": None}
    assert (more.options["hidden"], more.base) == (9, "base")
    (tmp_path / "a.toml").write_text(SMALL)
    assert read_config(tmp_path / "a.toml", gpu=True).systems[1].options["hidden"] == 10


def small(folder: Path, changes: list[str] | None = None, text: str = SMALL) -> Config:
    (folder / "a.toml").write_text(text)
    return read_config(folder / "a.toml", changes or [])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("title = 'x'", r"has no \[\[systems\]\]"),
        ("[[system]]\nname = 'x'", "did you mean `systems`"),
        ("[[systems]]\nname = 'x'\nextends = 'y'", "system `x` has no unique name, or extends no earlier system"),
        ("[[systems]]\nname = 'x'\n[[systems]]\nname = 'x'", "system `x`"),
        ("[[searches]]\nbeem = 3\n[[systems]]\nname = 'x'", r"\[\[searches\]\]: --beem: .*did you mean `--beam`"),
        ("[[searches]]\nseed = 3\n[[systems]]\nname = 'x'", r"\[\[searches\]\]: seed: is for drawing translations"),
        ("systems = 3", "systems is no list of sections; begin each with"),
        ("systems = ['a']", r"\[\[systems\]\] 1 is 'a'; give a section"),
        ("[[systems]]\nname = 'x'\noptions = 3", "options of `x` is 3; give a section"),
        ("common = 3\n[[systems]]\nname = 'x'", r"\[common\] is 3; give a section"),
        ("searches = ['beam']\n[[systems]]\nname = 'x'", r"\[\[searches\]\] 1 is 'beam'"),
        ("[common]\nfeed_word = 3\n[[systems]]\nname = 'x'", "feed_word is 3; give true"),
        ("learns_from = 'tables'\n[[systems]]\nname = 'x'", "learns_from is 'tables'"),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        small(tmp_path, text=text)


def test_a_list_is_not_changed_like_a_section(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--set systems\.x = 1: systems is no section; give its whole value"):
        small(tmp_path, ["systems.x = 1"])


def compared(config: Config, folder: Path, origin: Path, said: list[str] | None = None) -> dict[str, Any]:
    tests = splits_of_tests("multi30k", config.task.test)
    data = prepare("multi30k", folder / "data", "en", "fr", origin=origin, tests=list(tests))
    log = no_log if said is None else said.append
    return compare(config, Sentences(data, tests, config.searches, "cpu"), folder, log)


Finished = tuple[Path, dict[str, Any]]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, multi30k_of_mini: Path) -> Finished:
    """The folder, which must not be changed, and the report of a comparison."""
    folder = tmp_path_factory.mktemp("finished")
    return folder / "out", compared(small(folder), folder / "out", multi30k_of_mini)


@pytest.fixture
def copied(finished: Finished, tmp_path: Path) -> Path:
    """A copy of the folder of the comparison."""
    return shutil.copytree(finished[0], tmp_path / "out")


def test_a_comparison_from_text_to_table(
    finished: Finished, copied: Path, tmp_path: Path, multi30k_of_mini: Path
) -> None:
    """A comparison runs from text to table on a few sentences; a second run repeats no step."""
    folder, report = finished
    assert list(report["systems"]) == ["base", "more"]
    base, more = report["systems"].values()
    assert min(base["perplexity"].values()) > 10
    assert abs(base["perplexity"]["tutorial"] / base["perplexity"]["free_running"] - 1) < 0.2
    assert more["parameters"] > base["parameters"]
    assert [list(search) for search in base["searches"]] == [["search", "dev", "2016", "2017"]] * 2
    assert all(search["2017"]["cpu_seconds"] > 0 for search in more["searches"])
    assert len(base["weights_sha256"]) == 64
    assert base["machine"]["versions"]["torch"]
    assert base["config"]["training"]["device"].startswith("cpu ")
    outputs = list((folder / "systems").glob("base.*.out"))
    assert sorted(len(output.read_bytes().splitlines()) for output in outputs) == [8, 8, 15, 15, 15, 15]
    assert json.loads((folder / "report.json").read_bytes())["systems"].keys() == report["systems"].keys()
    said: list[str] = []
    assert compared(small(tmp_path), copied, multi30k_of_mini, said)["systems"] == report["systems"]
    assert all(line.endswith("done before") for line in said)


def test_perplexities_are_what_their_names_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("experiments.seq2seq.translators._TUTORIAL_BATCH", 1)
    vocabulary, device = Vocabulary([b"a", b"b", b"c"]), choose_device("cpu", "fp32")
    torch.manual_seed(3)
    network = EncoderDecoder(TINY, len(vocabulary), len(vocabulary))
    model = TrainedModel(network, vocabulary, vocabulary, "target-given-source", folder=tmp_path)
    lines = ([b"a b", b"c", b"b a c c"], [b"b", b"a c c a b b", b""])
    for name, side in zip(("source", "target"), lines, strict=True):
        (tmp_path / name).write_bytes(b"".join(line + b"\n" for line in side))

    def loss(*pairs: tuple[bytes, bytes]) -> SentenceLoss:
        source, target = (vocabulary.encode(list(side)) for side in zip(*pairs, strict=True))
        return sentence_loss(network, PhrasePairs(source, target), device)

    pairs = list(zip(*lines, strict=True))
    found, whole = perplexities(model, tmp_path / "source", tmp_path / "target", device), loss(*pairs)
    assert found["teacher_forced"] == pytest.approx(whole.teacher_forced_perplexity)
    assert found["free_running"] == pytest.approx(whole.free_running_perplexity)
    assert found["tutorial"] == pytest.approx(math.exp(np.mean([loss(pair).free_running_per_word for pair in pairs])))
    assert len({round(value, 3) for value in found.values()}) == 3
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.mul_(1e5)
    found = perplexities(model, tmp_path / "source", tmp_path / "target", device)
    assert set(found.values()) == {math.inf}


def test_published_figures_stand_beside_the_measured_ones(finished: Finished) -> None:
    report = copy.deepcopy(finished[1])
    report["systems"]["more"]["searches"][-1]["2017"]["bleu"] = 19.0
    base, more = (dict(zip(summary(report)["columns"], row, strict=True)) for row in summary(report)["rows"])
    assert (base["extends"], base["perplexity, published"], base["BLEU, published"]) == (None, 10.6, 11.3)
    assert (more["extends"], more["BLEU of 2017, beam 3, length penalty 1"]) == ("base", 19.0)
    del report["systems"]["more"]
    assert "| more |" not in markdown(report)


def test_a_summary_is_a_file_of_results(finished: Finished, multi30k_of_mini: Path) -> None:
    folder, report = finished
    kept = Results(folder).table("summary")
    assert list(kept.rows) == ["base", "more"]
    measured = report["systems"]["base"]["searches"][0]["2016"]
    assert kept.text("base", "BLEU of 2016, beam 1") == f"{measured['bleu']:.2f}"
    assert kept.text("base", "CPU seconds a sentence, beam 1") == f"{measured['cpu_seconds']:.3f}"
    provenance = json.loads((folder / "summary.json").read_bytes())["provenance"]
    assert set(map(len, provenance["sha256"].values())) == {64}
    assert not any(str(place) in json.dumps(provenance) for place in (folder.parent, multi30k_of_mini))
    assert provenance["networks"]["more"]["weights_sha256"] == report["systems"]["more"]["weights_sha256"]


def test_the_report_grows_with_each_system(
    copied: Path, tmp_path: Path, multi30k_of_mini: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is updated after each system, so that an interrupted comparison keeps its results."""
    (copied / "report.md").unlink()
    (copied / "steps" / "train.more.json").unlink()
    monkeypatch.setattr("experiments.steps.phrasescore", lambda arguments: 143)
    with pytest.raises(SystemExit) as stopped:
        compared(small(tmp_path), copied, multi30k_of_mini)
    assert stopped.value.code == 143
    assert list(json.loads((copied / "report.json").read_bytes())["systems"]) == ["base"]
    assert "| base |" in (copied / "report.md").read_text()


def test_other_settings_start_over_in_the_same_folder(copied: Path, tmp_path: Path, multi30k_of_mini: Path) -> None:
    report = compared(small(tmp_path, ["common.hidden = 6"]), copied, multi30k_of_mini)
    assert report["systems"]["base"]["config"]["model"]["hidden"] == 6


def test_scorers_of_phrases_from_tables_to_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A comparison of phrase scorers runs from tables to a report; a second run repeats no step."""
    (tmp_path / "a.toml").write_text(SMALL_PHRASES)
    args = Namespace(configs=[str(tmp_path / "a.toml")], output=tmp_path / "out", set=[], gpu=False, tables=None)
    args = Namespace(**vars(args), device="cpu", origin=None)
    with pytest.raises(UsageError, match="--tables: is needed for scorers of phrases"):
        run(args)
    assert not args.output.exists()
    args.tables = [MINI / "phrase-table.gz", MINI / "phrase-table.5.gz"]
    assert run(args) == 0
    printed = capsys.readouterr().out
    assert re.search(r"\| GRU \| Cho et al\. \| [\d,]+ \| 0\.\d \| 4 \| 0\.\d\d \| ", printed)
    assert (args.output / "a" / "report.md").read_text() == printed.removesuffix("\n")
    report = json.loads((args.output / "a" / "report.json").read_bytes())
    assert len(report["data"]["validation"]["sha256"]) == 64
    for system in report["systems"].values():
        assert system["best"]["validation"]["per_pair"] > system["best"]["validation"]["per_word"] > 0
        assert system["scoring"]["pairs"] > 4096
    said: list[str] = []
    tables = Tables(args.tables[0], args.tables[1], "cpu")
    again = compare(small(tmp_path, text=SMALL_PHRASES), tables, args.output / "a", said.append)
    assert again["systems"] == report["systems"]
    assert all(line.endswith("done before") for line in said)


def test_all_comparisons_are_checked_before_the_first(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="nowhere"):
        run(Namespace(configs=["tutorial", str(tmp_path / "nowhere.toml")], output=tmp_path / "out", set=[], gpu=False))
    assert not (tmp_path / "out").exists()
