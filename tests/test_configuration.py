from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from phrasescore.cli import make_parser
from phrasescore.configuration import (
    Values,
    check_options,
    check_values,
    flags_of,
    options_of,
    parse_change,
    read_toml,
)
from phrasescore.errors import UsageError, UserError, flag, options_spelled_as_flags
from phrasescore.lm.lm_settings import LM_PRESETS, LM_SECTIONS, LmSettings
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.training.settings import PRESETS, SECTIONS, Settings, merge, read_presets
from phrasescore.training.training_config import TrainingConfig


@pytest.mark.parametrize("preset", read_presets(PRESETS))
def test_presets_are_valid(preset: str) -> None:
    # The subwords of `transformer` are for whole sentences.
    settings = Settings.of("sentences" if preset == "transformer" else "aligned", preset, [])
    settings.check()
    assert not settings.given


@pytest.mark.parametrize("preset", read_presets(LM_PRESETS))
def test_presets_of_language_models_are_valid(preset: str) -> None:
    LmSettings.of(preset, [])


def test_the_paper_s_sizes() -> None:
    model = Settings.of("table", "cho2014", []).model
    assert (model.hidden, model.embedding, model.maxout, model.output_rank) == (1000, 100, 500, 100)
    assert model.summary
    training = Settings.of("table", "cho2014", []).training
    assert (training.optimiser, training.batch_size, training.learning_rate) == ("adadelta", 64, 1.0)
    assert DataConfig().vocabularies == (15_000, 15_000)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hiden": 3}, "here: unknown key `hiden`; did you mean `hidden`?"),
        ({"qqqq": 3}, "known are attention, attention_order"),
        ({"hidden": "many"}, "here: hidden is 'many'; give a whole number"),
        ({"hidden": True}, "give a whole number"),
        ({"summary": 1}, "give true or false"),
        ({"bridge": "never"}, "here: bridge is 'never'; choose one of context, last, both, first-backward"),
        ({"hidden": 0}, "here: hidden is 0; give at least 1"),
        ({"hidden": 2**31}, "here: hidden is 2147483648; give at most 65536"),
        ({"dropout": 1.0}, "here: dropout is 1.0; give at most 0.9"),
    ],
)
def test_wrong_values_are_rejected(values: dict[str, object], message: str) -> None:
    with pytest.raises(UserError) as caught:
        check_values(ModelConfig, values, "here")
    assert message in str(caught.value)


def test_values_are_converted() -> None:
    found = check_values(TrainingConfig, {"clip": 2, "max_minutes": 5, "max_updates": 7}, "here")
    assert found == {"clip": 2.0, "max_minutes": 5.0, "max_updates": 7}
    assert isinstance(found["clip"], float)
    found = check_values(TrainingConfig, {"clip": np.float32(2), "max_updates": np.int64(7)}, "here")
    assert (type(found["clip"]), type(found["max_updates"])) == (float, int)
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
def test_wrong_files_are_rejected(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(UserError) as caught:
        read_toml(tmp_path / "config.toml", SECTIONS)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ("model.attention=concat", ("model", "attention", "concat")),
        ("model.attention = 'concat'", ("model", "attention", "concat")),
        ("model.summary=false", ("model", "summary", False)),
        ("training.clip=2", ("training", "clip", 2.0)),
        ("training.max_updates=auto", ("training", "max_updates", "auto")),
        ("data.factor=0", ("data", "factor", "0")),
        ("data.source_corpus=a=b c.txt", ("data", "source_corpus", Path("a=b c.txt"))),
    ],
)
def test_a_change_is_a_section_a_key_and_a_value(change: str, found: tuple[str, str, object]) -> None:
    assert parse_change(change, SECTIONS) == found


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("modle.attention=dot", "--set modle.attention=dot: unknown key `modle`; did you mean `model`?"),
        ("model.atention=dot", "--set model.atention=dot: unknown key `atention`; did you mean `attention`?"),
        ("attention=dot", "--set attention=dot: names no section; did you mean `model.attention`?"),
        ("clip", "--set clip: names no section; did you mean `training.clip`?"),
        ("nothing=1", "names no section; give SECTION.KEY=VALUE, as in training.epochs=3"),
        ("training.clip", "has no value; give SECTION.KEY=VALUE"),
        ("training.clip=", "has no value"),
        ("training.clip=much", "clip is 'much'; give a number"),
        ("training.clip=auto", "clip is 'auto'; give a number"),
        ("training.clip=-1", "clip is -1.0; give at least 0"),
        ("training.clip=1\nseed=2", "give a number"),
        ("model.summary=0", "summary is 0; give true or false"),
        ("model.readout=stat", "readout is 'stat'; choose one of maxout, state"),
        ("model.in_context=true", "unknown key `in_context`"),
    ],
)
def test_wrong_changes_are_rejected(change: str, message: str) -> None:
    with options_spelled_as_flags(), pytest.raises(UsageError) as caught:
        parse_change(change, SECTIONS)
    assert message in str(caught.value)


def test_a_later_layer_wins_and_a_budget_replaces_the_whole_one_below() -> None:
    preset: Values = {"training": {"epochs": 3, "evaluate_every": "auto", "clip": 2.0}}
    file: Values = {"model": {"dropout": "auto"}, "training": {"clip": 3.0}}
    assert merge([preset, file])["training"] == {"epochs": 3, "evaluate_every": "auto", "clip": 3.0}
    merged = merge([preset, file, {"training": {"max_minutes": 5.0}}])
    assert merged == {"model": {"dropout": "auto"}, "training": {"clip": 3.0, "max_minutes": 5.0}}


def test_settings_of_the_data_cannot_be_set() -> None:
    with pytest.raises(UserError, match="file: unknown key `in_context`"):
        check_options(ModelConfig, {"in_context": True}, "file")


def test_names_of_settings_are_unique() -> None:
    """Names of settings are unique, because options in Python and on the command line name no section."""
    names = [name for section in SECTIONS.values() for name in options_of(section)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(("command", "most"), [("train", 31), ("lm train", 27)])
def test_the_command_line_stays_short(command: str, most: int) -> None:
    parser = make_parser()
    for name in command.split():
        actions = parser._subparsers._group_actions  # type: ignore[union-attr]
        parser = actions[0].choices[name]  # type: ignore[index]
    flags = {option for action in parser._actions for option in action.option_strings}
    assert len(parser._actions) - 1 <= most
    for section in SECTIONS.values() if command == "train" else LM_SECTIONS.values():
        assert {flag(name) for name in options_of(section)} & flags == {flag(name) for name in flags_of(section)}


def test_every_option_has_a_help_text() -> None:
    for section in SECTIONS.values():
        assert all(item.metadata["help"] for item in options_of(section).values())
