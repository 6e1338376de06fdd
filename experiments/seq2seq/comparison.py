"""A comparison in a folder: each system trained and measured; what is there already is not done again."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Protocol

from experiments.seq2seq.config import Config, System
from experiments.seq2seq.report import write_report
from experiments.steps import Steps
from experiments.training import Json, train
from phrasescore.device import settle_memory
from phrasescore.workers import available_cores, share_work


class Material(Protocol):
    """What systems learn from, and what is measured of them then."""

    @property
    def description(self) -> Json:
        """Where it is from, with digests."""

    @property
    def sha256(self) -> dict[str, str]:
        """The digests alone."""

    @property
    def options(self) -> list[str]:
        """Of `phrasescore train`."""

    def measure(self, steps: Steps, name: str, model: Path, trained: Json) -> Json:
        """Measure a system, by steps that have its name."""


def compare(
    config: Config,
    material: Material,
    folder: Path,
    device: str,
    say: Callable[[str], None],
    processes: int = 1,
) -> Json:
    """Do what is not done yet and return the report, which is written after each system, as `write_report` does it.

    Args:
        config: what to compare.
        material: to learn from and to measure with.
        folder: for everything that is made.
        device: auto, cpu or cuda[:N].
        say: told of each step.
        processes: systems that are trained and measured at once; they share the cores.

    Raises:
        UserError: a system fails, or its process is killed.
    """
    report: Json = {
        "config": asdict(config),
        "data": material.description,
        "sha256": material.sha256,
        "processes": processes,
        "systems": {},
    }
    # What several trainings show of their progress would run together.
    options = ["--device", device, *material.options, *(["--quiet"] if processes > 1 else [])]
    work = partial(_train_and_measure, material, options, folder, Steps(folder / "steps", say))
    for system, found in zip(config.systems, each(work, config.systems, processes), strict=True):
        report["systems"][system.name] = found
        write_report(report, folder)
    return report


def _train_and_measure(material: Material, options: Sequence[str], folder: Path, steps: Steps, system: System) -> Json:
    model = folder / "systems" / system.name
    depends_on = [material.description, system.command]
    trained = train(steps, model, ["train", *options, *system.command], depends_on)
    measured = material.measure(steps, system.name, model, trained)
    return {**trained, **measured, "version": steps.versions}


def each(work: Callable[[System], Json], systems: Sequence[System], processes: int) -> Iterator[Json]:
    """Yield what `work` gives for each system, in their order, several at once in processes of their own."""
    if processes == 1:
        settle_memory()
        yield from map(work, systems)
        return
    killed = "training: a process was killed, most likely for want of memory; use fewer --processes"
    threads = max(1, available_cores() // processes)
    with share_work(killed, processes, threads=threads, tries=1) as workers:
        yield from workers.in_order(partial(_in_process, work), systems)


def _in_process(work: Callable[[System], Json], system: System) -> Json:
    settle_memory()
    try:
        return work(system)
    except SystemExit as stopped:
        # A training that a signal stops says so once it has kept its state. The others would go on with another system.
        os._exit(stopped.code if isinstance(stopped.code, int) else 1)
