"""What a program takes from `phrasescore` beside its classes: functions that do what the commands do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from phrasescore.configuration import Section, check_values, nearest
from phrasescore.device import Precision, choose_device, settle_memory
from phrasescore.documents import read_json, read_json_lines
from phrasescore.errors import UserError, naming_fields
from phrasescore.model_folder import CONFIG, METRICS
from phrasescore.nn.architecture import ModelConfig
from phrasescore.pairs import DataConfig
from phrasescore.scoring.engine import Scorer
from phrasescore.search.search_config import SearchConfig
from phrasescore.search.translator import Translation, Translator
from phrasescore.table.check import TableReport, check_table
from phrasescore.text import Say, silently
from phrasescore.training.layers import left_to_size, merge_layers
from phrasescore.training.loop import Evaluation, Watcher
from phrasescore.training.presets import DEFAULT_PRESET, PRESETS
from phrasescore.training.run import Settings, prepare
from phrasescore.training.training_config import TrainingConfig

_SECTIONS: dict[str, type[Section]] = {"model": ModelConfig, "data": DataConfig, "training": TrainingConfig}


@naming_fields()
def train(
    table: str | Path,
    folder: str | Path,
    *,
    validation: str | Path | None = None,
    preset: str = DEFAULT_PRESET,
    device: str = "auto",
    precision: Precision = "auto",
    restart: bool = False,
    on_evaluation: Callable[[Evaluation], None] = lambda evaluation: None,
    say: Say = silently,
    **options: Any,
) -> Scorer:
    """Learn a network from a phrase table, as `phrasescore train` does, and return it, ready to score.

    A run in the folder that was stopped goes on; one that is done is taken as it is.

    Args:
        table: the phrase table, plain or compressed.
        folder: the model folder; it is made if it does not exist.
        validation: a phrase table of other sentences, whose loss decides which weights are kept.
        preset: the settings to begin with, a name of `phrasescore train --preset`.
        device: `auto`, `cpu`, `cuda` or `cuda:N`.
        precision: of matrix products: `auto`, `fp32` or `bf16`.
        restart: start over even if the folder holds a run.
        on_evaluation: told of each evaluation.
        say: told what is odd about the input.
        options: settings other than the preset's, by the names of the command's options with underscores, such as
            `hidden=128`, `max_minutes=5`.

    Raises:
        TypeError: there is no such option.
        UserError: a value is wrong, the table is faulty, or the folder holds something else or another run.
    """
    if preset not in PRESETS:
        raise UserError(f"train(): preset is {preset!r}; give one of {', '.join(PRESETS)}")
    values = merge_layers(
        _SECTIONS, [("preset", _without_sentences(PRESETS[preset])), ("train()", _by_section(options))]
    )
    settings = Settings(
        ModelConfig(**values["model"]),
        DataConfig(**values["data"]),
        TrainingConfig(**values["training"]),
        by_size=left_to_size(preset, values),
    )
    settle_memory()
    trainer, _ = prepare(
        table,
        Path(folder),
        settings,
        choose_device(device, precision),
        None if validation is None else Path(validation),
        restart,
        say=say,
    )
    trainer.watcher = Watcher(on_evaluation=on_evaluation)
    trainer.train()
    return Scorer.load(folder, device=device, precision=precision)


@naming_fields()
def translate(sentences: Iterable[str | bytes], model: Scorer | str | Path, **options: Any) -> list[list[Translation]]:
    """Return the translations of each sentence, best first, as `phrasescore translate` finds them.

    Args:
        sentences: tokenised as what the network was trained on.
        model: a network, or a model folder.
        options: of the search, by the names of the command's options with underscores, such as `beam=5`, `n_best=3`.

    Raises:
        TypeError: a sentence is no text, or there is no such option.
        UserError: a value is wrong, options do not go together, or the network has not what they need.
    """
    _require_options("translate()", options, (SearchConfig,))
    if isinstance(sentences, str | bytes):
        raise TypeError("sentences: is one text; give a list of sentences")
    encoded = []
    for number, sentence in enumerate(sentences, 1):
        if not isinstance(sentence, str | bytes):
            raise TypeError(f"sentence {number}: is of type {type(sentence).__name__}; give str or bytes")
        encoded.append(sentence.encode() if isinstance(sentence, str) else sentence)
    config = SearchConfig(**check_values(SearchConfig, options, "translate()"))
    config.check_effect(options)
    return Translator(model if isinstance(model, Scorer) else Scorer.load(model), config).translate(encoded)


def check(table: str | Path, *, num_features: int | None = None, limit: int | None = None) -> TableReport:
    """Return what is in a phrase table and what Moses would refuse, as `phrasescore check` finds it.

    Args:
        table: its file.
        num_features: how many score columns `num-features` in moses.ini promises.
        limit: read only so many lines.

    Raises:
        UserError: the file cannot be read at all, or its compressed data is damaged.
    """
    # A number would be taken for an open file.
    return check_table(os.fspath(table), columns=num_features, limit=limit)


def read_report(path: str | Path) -> dict[str, Any]:
    """Return what a command has reported as JSON (`--report`), or of a model folder its description and evaluations.

    The latter are the contents of `config.json` and, as `evaluations`, the lines of `metrics.jsonl`.

    Raises:
        UserError: it cannot be read, or is no JSON.
    """
    path = Path(path)
    if not path.is_dir():
        return read_json(path, "give a report that a command wrote")
    advice, metrics = "give a folder that `train` wrote", path / METRICS
    evaluations = read_json_lines(metrics, advice) if metrics.exists() else []
    return {**read_json(path / CONFIG, advice), "evaluations": evaluations}


def _by_section(options: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return options by the section that they belong to.

    Raises:
        TypeError: there is no such option.
    """
    _require_options("train()", options, tuple(_SECTIONS.values()))
    return {
        name: {item.name: options[item.name] for item in fields(section) if item.name in options}
        for name, section in _SECTIONS.items()
    }


def _require_options(function: str, options: dict[str, Any], sections: tuple[type[Section], ...]) -> None:
    known = [item.name for section in sections for item in fields(section)]
    for name in options:
        if name not in known:
            near = nearest(name, known)
            raise TypeError(f"{function} has no option `{name}`" + (f"; did you mean `{near}`?" if near else ""))


def _without_sentences(preset: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return a preset without what is of parallel text alone."""
    return {name: values for name, values in preset.items() if name in _SECTIONS}
