from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest

from phrasescore.configuration import Section, check_values, read_toml
from phrasescore.errors import UserError
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.sentences import SentenceConfig
from phrasescore.training.presets import PRESETS
from phrasescore.training.training_config import TrainingConfig

SECTIONS: dict[str, type[Section]] = {
    "model": ModelConfig,
    "data": DataConfig,
    "sentences": SentenceConfig,
    "training": TrainingConfig,
}


@pytest.mark.parametrize("preset", PRESETS)
def test_presets_are_valid(preset: str) -> None:
    for name, values in PRESETS[preset].items():
        assert check_values(SECTIONS[name], values, preset) == values


def test_the_paper_s_sizes() -> None:
    model = ModelConfig(**PRESETS["cho2014"]["model"])
    assert (model.hidden, model.embedding, model.maxout, model.output_rank) == (1000, 100, 500, 100)
    assert model.summary
    training = TrainingConfig(**PRESETS["cho2014"]["training"])
    assert (training.optimiser, training.batch_size, training.learning_rate) == ("adadelta", 64, 1.0)
    assert DataConfig().source_vocabulary == DataConfig().target_vocabulary == 15_000


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden": 3}, "here: unknown key `hiden`; did you mean `hidden`?"),
        ({"qqqq": 3}, "known are annotations"),
        ({"hidden": "many"}, "here: hidden is 'many'; give a whole number"),
        ({"hidden": True}, "give a whole number"),
        ({"summary": 1}, "give true or false"),
        ({"bridge": "never"}, "here: bridge is 'never'; choose one of context, last, both, both-tanh"),
        ({"hidden": 0}, "here: hidden is 0; give at least 1"),
        ({"hidden": 2**31}, "here: hidden is 2147483648; give at most 65536"),
        ({"dropout": 1.0}, "here: dropout is 1.0; give at most 0.9"),
    ],
)
def test_wrong_values_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        check_values(ModelConfig, values, "here")
    assert message in str(caught.value)


def test_values_are_converted() -> None:
    found = check_values(TrainingConfig, {"clip": 2, "max_minutes": 5, "max_updates": 7}, "here")
    assert found == {"clip": 2.0, "max_minutes": 5.0, "max_updates": 7}
    assert isinstance(found["clip"], float)
    assert check_values(DataConfig, {"source_corpus": "text"}, "here") == {"source_corpus": Path("text")}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[modle]\nhidden = 3\n", "unknown key `modle`; did you mean `model`?"),
        ("hidden = 3\n", "unknown key `hidden`"),
        ("model = 3\n", "must be a section"),
        ("[model\n", "is not TOML"),
    ],
)
def test_wrong_files_are_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_toml(tmp_path / "config.toml", SECTIONS)
    assert message in str(caught.value)


def test_every_option_has_a_help_text() -> None:
    for section in SECTIONS.values():
        for item in fields(section):
            assert item.metadata["help"]
