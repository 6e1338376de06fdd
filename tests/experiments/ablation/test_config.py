from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from experiments.ablation.config import read_config
from experiments.ablation.rows import BASELINE
from phrasescore.errors import UserError

CONFIGS = Path(__file__).parents[3] / "experiments" / "ablation" / "configs"


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*.toml")), ids=lambda path: path.stem)
def test_configurations_are_valid(path: Path) -> None:
    config = read_config(path)
    assert config.rows[0].name == BASELINE
    is_demo = path.stem == "demo"
    assert len(config.seeds) >= (2 if is_demo else 3)
    expected = {"+CTX"} if is_demo else {"+RNN", "+CSLM", "+RNN+CSLM", "+RNN+CSLM+WP"}
    if not is_demo and path.stem != "multi30k-en-fr-4000":
        expected |= {"+CTX", "+CSLM+CTX", "+S2S"}
    assert expected <= {row.name for row in config.rows}
    for option, words in ("network", _options("train")), ("language_model", _options("lm", "train")):
        assert {word for word in getattr(config, option) if word.startswith("--")} <= words


@cache
def _options(*command: str) -> set[str]:
    """Return the options in the complete help of a command."""
    done = subprocess.run(
        [sys.executable, "-m", "phrasescore", *command, "--help-all"], capture_output=True, check=True
    )
    return set(re.findall(r"--[a-z][a-z-]*", done.stdout.decode()))


def test_network_options_become_those_of_train(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n[network]\nmax_minutes = 2\npreset = 'small'\n")
    config = read_config(tmp_path / "a.toml")
    assert config.network == ("--max-minutes", "2", "--preset", "small")
    assert config.seeds == (7,)


def test_a_title_is_given_or_is_the_name_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n")
    assert read_config(tmp_path / "a.toml").title == "a"
    assert read_config(tmp_path / "a.toml", ["title = 'Captions'"]).title == "Captions"


def test_changes_come_after_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("seeds = [7]\n[build]\norder = 3\n")
    config = read_config(tmp_path / "a.toml", ["build.aligner = 'hmm'", "seeds = [8, 9]"])
    assert (config.build.order, config.build.aligner, config.seeds) == (3, "hmm", (8, 9))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sedes = [1]", "did you mean `seeds`"),
        ("[data]\nnaem = 'x'", "did you mean `name`"),
        ("rows = ['+XYZ']", "+XYZ is neither baseline nor made of +RNN"),
        ("rows = ['+WP']", "+WP has WP without RNN"),
        ("rows = ['RNN']", "RNN is neither"),
        ("rows = ['+RNN+CSLM+RNN']", "the row +RNN+CSLM+RNN has RNN twice; fix its name"),
        ("rows = ['+RNN+CSLM', '+CSLM+RNN']", "rows has a row twice"),
        ("rows = 'baseline'", "give different names"),
        ("toolkit = 'mosses'", "toolkit is 'mosses'; choose one of auto, moses, embedded"),
        ("title = 3", "title is 3; give a text"),
        ("seeds = '12'", "seeds is '12'; give different whole numbers"),
        ("seeds = []", "give different whole numbers"),
        ("seeds = [1, 1]", "give different whole numbers"),
        ("seeds = [true]", "give different whole numbers"),
        ("seeds = [-1]", "give different whole numbers"),
        ("trainings = 0", "trainings is 0; give at least 1"),
        ("timed = -1", "timed is -1; give at least 0"),
        ("rows = ['+CSLM+ENSEMBLE']", "+CSLM+ENSEMBLE has ENSEMBLE without RNN or CTX"),
        ("network = 3", "`network` must be a section"),
        ("[build]\naligner = 'giza'", "aligner is 'giza'; choose one of ibm1"),
        ("[build]\norder = 7", "order is 7; give at most 6"),
        ("[build]\nlongest_phrase = 8", "longest_phrase is 8; give at most 7"),
        ("[decoder]\nstack = '50'", "stack is '50'; give a whole number"),
        ("[decoder]\nfeature = 3", "leave out feature; the rows set it"),
        ("[scoring]\nrescored = 0", "rescored is 0; give at least 1"),
        ("[network]\ndropout = 7", "[network]: --dropout: is 7.0; give"),
        ("[network]\ndirection = 'source-given-target'", "leave out direction; +RNN and +REVERSE set it"),
        (
            "[network]\ndroput = 0.3",
            "[network]: --droput: is not an option; did you mean `--dropout`?",
        ),
        ("[sentence_network]\nhidden = 'x'", "[sentence_network]: --hidden: `x` is not a whole number; give one"),
        ("[language_model]\nfeed_word = 3", "--feed-word: is not an option; `phrasescore lm train --help` lists"),
        ("[expected_bleu]\nsentences = 0", "[expected_bleu]: --sentences"),
        ("[context_network]\nmeasured_loss = 'free-running'", "[context_network]: `measured_loss`: has no effect in"),
        ("rows = [", "is not TOML"),
    ],
)
def test_faulty_configurations(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UserError, match=re.escape(message)):
        read_config(tmp_path / "a.toml")
