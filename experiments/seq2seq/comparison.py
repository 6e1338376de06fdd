"""Train and measure each system of a comparison. Completed steps are not repeated."""

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
from phrasescore.device import configure_memory

Material: TypeAlias = Sentences | Tables
"""Training data of the systems, and their measurements."""


def compare(config: Config, material: Material, folder: Path, log: Callable[[str], None]) -> Json:
    """Run the remaining steps and return the report, which is written after each system; see `write_report`.

    Args:
        config: configuration of the comparison.
        material: training and test data.
        folder: folder of all outputs.
        log: callback that logs each step.

    Raises:
        UserError: a command fails.
    """
    configure_memory()
    report: Json = {
        "config": asdict(config),
        "data": material.description,
        "sha256": material.sha256,
        "systems": {},
    }
    for system in config.systems:
        # One `Steps` per system collects the software versions of this system.
        steps = Steps(folder / "steps", log)
        model = folder / "systems" / system.name
        command = ["train", "--device", material.device, *material.options, *system.command]
        trained = train(steps, model, command, [material.learned_from, system.command])
        measured = material.measure(steps, system.name, model, trained)
        report["systems"][system.name] = {**trained, **measured, "version": steps.versions}
        write_report(report, folder)
    return report
