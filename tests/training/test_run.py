"""From a phrase table to a trainer: settings, validation data and the content of the model folder."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from phrasescore.errors import UsageError, UserError
from phrasescore.pairs import DataConfig
from phrasescore.training.run import prepare
from phrasescore.training.settings import Settings
from tests.conftest import MINI
from tests.training.runs import CPU, metrics, run_until


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_feeding": True}, "input feeding needs the vector h~"),
        ({"attention": "dot", "directions": "both"}, "attention `dot` compares states"),
        ({"attention": "concat", "readout": "state"}, "set `readout` to attentional, or `attention"),
        ({"attention_order": "before"}, "without attention; set `attention`, or leave `attention_order` out"),
        ({"share_units": True}, "shared units must be the same"),
        ({"encoder_unit": "gruu"}, "there is no unit `gruu`; did you mean"),
    ],
)
def test_forms_that_do_not_go_together_are_reported_before_the_reading(
    tmp_path: Path, tiny_settings: Settings, changes: dict[str, Any], message: str
) -> None:
    settings = replace(tiny_settings, model=replace(tiny_settings.model, **changes))
    with pytest.raises(UserError, match=message):
        prepare(tmp_path / "nowhere.gz", tmp_path / "run", settings, CPU)
    assert not (tmp_path / "run").exists()


def test_validation_is_measured_on_other_pairs(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    trainer = prepare(small_table, tmp_path / "run", tiny_settings, CPU, validation=MINI / "phrase-table.gz")
    trainer.train()
    last = metrics(tmp_path / "run")[-1]
    assert last["held_out"] != last["validation"]
    assert trainer.task.validation is not None
    assert len(trainer.task.validation) == trainer.state.fingerprint["held_out_limit"] == 10_000


def test_a_validation_table_without_usable_pairs_is_rejected(tmp_path: Path, tiny_settings: Settings) -> None:
    """A validation table limited to no pairs is an error before any input is read."""
    settings = replace(tiny_settings, data=DataConfig(held_out_limit=0))
    with pytest.raises(UsageError, match="`held_out_limit` also limits the validation pairs"):
        prepare(tmp_path / "nowhere", tmp_path / "run", settings, CPU, validation=tmp_path / "nowhere")
    assert not (tmp_path / "run").exists()


def test_a_validation_table_needs_nothing_held_out(small_table: Path, tmp_path: Path, tiny_settings: Settings) -> None:
    settings = replace(tiny_settings, data=DataConfig(held_out=0))
    trainer = prepare(small_table, tmp_path / "run", settings, CPU, validation=small_table)
    trainer.train()
    assert {record["held_out"] for record in metrics(tmp_path / "run")} == {None}
    assert all(record["validation"] for record in metrics(tmp_path / "run"))


def test_the_folder_says_how_and_on_what_it_was_trained(
    small_table: Path, tmp_path: Path, tiny_settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def described(settings: Settings) -> dict[str, Any]:
        trainer = prepare(small_table.name, Path("run"), settings, CPU, Path(small_table.name))
        run_until(trainer, trainer.progress.update + 1)
        found: dict[str, Any] = json.loads(Path("run/config.json").read_bytes())
        return found

    found = described(tiny_settings)
    assert found["data"] == json.loads(json.dumps(asdict(tiny_settings.data)))
    assert found["training"]["table"] == found["training"]["validation"] == str(small_table)
    digests = found["training"]["digests"]
    assert digests["table"] == digests["validation"] is not None
    assert (found["training"]["epochs"], found["training"]["device"]) == (2, "cpu fp32")
    longer = replace(tiny_settings, training=replace(tiny_settings.training, epochs=3))
    assert described(longer)["training"]["epochs"] == 3


def test_a_sample_of_the_words_trains_almost_like_all_words(
    small_table: Path, tmp_path: Path, tiny_settings: Settings
) -> None:
    losses = []
    for sampled in (0, 40):
        training = replace(tiny_settings.training, epochs=3, evaluate_every=0, sampled_words=sampled)
        settings = replace(tiny_settings, training=training)
        trainer = prepare(small_table, tmp_path / f"run-{sampled}", settings, CPU)
        words = len(trainer.task.network.softmax.words.bias)
        trainer.train()
        losses.append([record["held_out"]["per_pair"] for record in metrics(tmp_path / f"run-{sampled}")])
    (first, *_, exact), (*_, sampled_loss) = losses
    assert words > 2 * 40
    assert exact < first
    assert 0 < abs(sampled_loss - exact) < 0.1 * exact
