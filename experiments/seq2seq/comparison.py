"""A comparison in a folder: each system trained and measured; what is there already is not done again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

from experiments.seq2seq.config import Config
from experiments.seq2seq.phrase_scorers import Tables
from experiments.seq2seq.report import write_report
from experiments.seq2seq.translators import Sentences
from experiments.steps import Json, Steps
from experiments.training import train
from phrasescore.device import settle_memory

Material: TypeAlias = Sentences | Tables
"""What systems learn from, and what is measured of them then."""


def compare(config: Config, material: Material, folder: Path, say: Callable[[str], None]) -> Json:
    """Do what is not done yet and return the report, which is written after each system, as `write_report` does it.

    Args:
        config: what to compare.
        material: to learn from and to measure with.
        folder: for everything that is made.
        say: told of each step.

    Raises:
        UserError: a system fails.
    """
    settle_memory()
    report: Json = {
        "config": asdict(config),
        "data": material.description,
        "sha256": material.sha256,
        "systems": {},
    }
    for system in config.systems:
        # They know the versions of this system alone.
        steps = Steps(folder / "steps", say)
        model = folder / "systems" / system.name
        command = ["train", "--device", material.device, *material.options, *system.command]
        trained = train(steps, model, command, [material.description, system.command])
        measured = material.measure(steps, system.name, model, trained)
        report["systems"][system.name] = {**trained, **measured, "version": steps.versions}
        write_report(report, folder)
    return report
