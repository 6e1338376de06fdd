"""Build a system from parallel text: prepared text, word alignment, tables, language model, moses.ini."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.alignment import align, align_together
from moses_integration.building.build_config import BuildConfig
from moses_integration.building.initial_ini import write_initial_ini
from moses_integration.building.language_model import build_language_model
from moses_integration.building.parallel_text import CleaningRules
from moses_integration.building.system_folder import (
    CORPUS,
    REPORT,
    VALIDATION,
    new_system,
    replace_system,
)
from moses_integration.building.system_text import PREPARATION, SystemText, TextSettings
from moses_integration.building.training_text import prepare_corpus, prepare_validation
from moses_integration.building.translation_tables import build_tables as build_embedded_tables
from moses_integration.ini import MosesIni
from phrasescore.errors import naming
from phrasescore.files import read_lines, write_json, write_lines
from phrasescore.provenance import described
from phrasescore.text import Log, ProgressCallback, no_log, no_progress
from phrasescore.versions import versions


@dataclass(frozen=True)
class BuildSettings:
    """All options of a build."""

    text: TextSettings
    cleaning: CleaningRules = field(default_factory=CleaningRules)
    config: BuildConfig = field(default_factory=BuildConfig)
    processes: int | None = None
    """All cores if None. The system does not depend on it."""


TableBuilder = Callable[[Corpus, Path, int, ProgressCallback], object]
"""Writes the phrase table and the reordering table of a corpus to a folder, given the length of the longest phrase.

Returns its report or None."""

_STEPS = 4
"""Text, alignment, tables, language model."""


def build_system(
    source: Path,
    target: Path,
    folder: Path,
    settings: BuildSettings,
    build_tables: TableBuilder,
    alignment: Path | None = None,
    validation: tuple[Path, Path] | None = None,
    log: Log = no_log,
    toolkit: str | None = None,
    progress: ProgressCallback = no_progress,
) -> MosesIni:
    """Build a system from parallel text and return its moses.ini, which is written last.

    An earlier system in the folder stays intact until the new one is complete; other files are not touched.

    Args:
        source: raw or prepared text, a sentence a line.
        target: its translation, line by line.
        folder: the system folder: new, empty, or with an earlier system.
        settings: the options.
        build_tables: how the toolkit builds tables from aligned text.
        alignment: an existing word alignment of these texts, in Pharaoh format; then no line is dropped.
        validation: source and target of held-out sentences, whose phrase pairs become the validation pairs of training.
        log: receives a message for each step.
        toolkit: the name of the toolkit, for the report.
        progress: receives the progress.

    Raises:
        UserError: the text is unusable, a step fails, the folder has files that no build wrote, or another build is
            running in it.
    """
    with new_system(folder, source, target, alignment, *(validation or ())) as new:
        report = _provenance(source, target, settings, alignment, validation, toolkit)
        _build(source, target, new, settings, build_tables, alignment, validation, log, report, progress)
        replace_system(folder, new)
    return write_initial_ini(folder, _language_model_of(settings.text), settings.config.order)


def _build(
    source: Path,
    target: Path,
    new: Path,
    settings: BuildSettings,
    build_tables: TableBuilder,
    alignment: Path | None,
    validation: tuple[Path, Path] | None,
    log: Log,
    report: dict[str, Any],
    progress: ProgressCallback,
) -> None:
    """Write all of a system except its moses.ini into a new folder, and add to `report`."""
    (new / CORPUS).mkdir()
    report["seconds"] = {}
    text, rules, processes = settings.text, settings.cleaning, settings.processes

    def show_step(share: float | None, text: str) -> None:
        progress(share, f"step {len(report['seconds']) + 1} of {_STEPS}, {text}")

    @contextmanager
    def step(name: str) -> Iterator[None]:
        started = time.monotonic()
        show_step(None, name)
        yield
        report["seconds"][name] = round(time.monotonic() - started, 1)
        log(f"{name}: {report['seconds'][name]:.0f} s")

    languages = text.source_language, text.target_language
    corpus = Corpus.in_folder(new / CORPUS, "train", languages)
    others = None if validation is None else Corpus.in_folder(new / CORPUS, VALIDATION, languages)
    with step("text"):
        # An existing alignment fits all lines only.
        used = rules if alignment is None else None
        report["text"] = prepare_corpus(source, target, corpus, new, text, used, log, processes)
        if validation is not None and others is not None:
            report["validation_text"] = prepare_validation(
                validation, others, SystemText(new, text), rules, log, processes
            )
    with step("alignment"), naming({corpus.source: source, corpus.target: target}):
        method, seed = settings.config.aligner, settings.config.seed
        if others is not None:
            report["alignment"] = asdict(align_together(corpus, others, method, seed, processes))
        elif alignment is None:
            report["alignment"] = asdict(
                align(corpus.source, corpus.target, corpus.alignment, method, seed=seed, processes=processes)
            )
        if alignment is not None:
            write_lines(corpus.alignment, read_lines(alignment))
    with step("tables"):
        # The user does not know the file of a computed alignment.
        with naming({corpus.source: source, corpus.target: target, corpus.alignment: alignment or source}):
            built = build_tables(corpus, new, settings.config.longest_phrase, show_step)
        report["tables"] = asdict(built) if built is not None else None  # type: ignore[call-overload]
        if validation is not None and others is not None:
            (new / VALIDATION).mkdir(exist_ok=True)
            texts = others.source, others.target, others.alignment
            with naming(dict(zip(texts, (*validation, validation[0]), strict=True))):
                of_others = build_embedded_tables(*texts, new / VALIDATION, settings.config.longest_phrase, processes)
            report["validation"] = asdict(of_others)
    language_model = new / _language_model_of(text)
    with step("language model"):
        estimated = build_language_model(corpus.target, language_model, settings.config.order)
        report["language_model"] = asdict(estimated)
        log(f"language model: estimator {estimated.estimator}")
    write_json(new / PREPARATION, asdict(text))
    write_json(new / REPORT, report)


def _provenance(
    source: Path,
    target: Path,
    settings: BuildSettings,
    alignment: Path | None,
    validation: tuple[Path, Path] | None,
    toolkit: str | None,
) -> dict[str, Any]:
    """Return inputs with their hashes, settings that have an effect, and versions."""
    inputs = {"source": source, "target": target, "alignment": alignment}
    inputs |= dict(zip(("validation_source", "validation_target"), validation or (), strict=False))
    used = {"text": asdict(settings.text), **asdict(settings.cleaning), **asdict(settings.config)}
    if alignment is not None and validation is None:
        del used["aligner"], used["longest_sentence"], used["ratio"]
    if used.get("aligner") != "eflomal":
        del used["seed"]
    return {
        "versions": versions(),
        "toolkit": toolkit,
        "inputs": {name: described(path) for name, path in inputs.items() if path is not None},
        "settings": used,
    }


def _language_model_of(text: TextSettings) -> str:
    return f"lm.{text.target_language}.arpa"
