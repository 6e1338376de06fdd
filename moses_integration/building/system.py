"""Build a system from parallel text: prepared text, word alignment, tables, language model, moses.ini."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moses_integration.building.aligned_corpus import Corpus
from moses_integration.building.alignment import Method, align, align_together
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.language_model import ORDERS, build_language_model
from moses_integration.building.preparation import PREPARATION, SystemText, TextSettings
from moses_integration.building.system_folder import (
    CORPUS,
    REPORT,
    VALIDATION,
    new_system,
    replace_system,
    write_initial_ini,
)
from moses_integration.building.training_text import LONGEST_SENTENCE, check_same_words, clean
from moses_integration.building.translation_tables import build_tables as build_embedded_tables
from moses_integration.ini import MosesIni
from phrasescore.configuration import option
from phrasescore.errors import naming
from phrasescore.files import read_lines, write_json, write_lines
from phrasescore.model_files import described, versions
from phrasescore.text import Log, ProgressCallback, no_log, no_progress

TableBuilder = Callable[[Corpus, Path, int, ProgressCallback], object]
"""`BuildingToolkit.build_tables` of a toolkit."""


@dataclass(frozen=True)
class BuildConfig:
    """Options of the training text, the word alignment and the models."""

    longest_sentence: int = option(
        LONGEST_SENTENCE, "drop sentence pairs with more words on a side from the training text", minimum=1
    )
    aligner: Method = option("eflomal", "how to align words")
    order: int = option(
        5, f"of the language model, from {ORDERS[0]} to {ORDERS[-1]}", minimum=ORDERS[0], maximum=ORDERS[-1]
    )
    longest_phrase: int = option(
        LONGEST_PHRASE, f"words of a phrase, from 1 to {LONGEST_PHRASE}", minimum=1, maximum=LONGEST_PHRASE
    )


@dataclass(frozen=True)
class BuildInput:
    """Raw or prepared text, a sentence a line."""

    source: Path
    target: Path
    """The translation, line by line."""
    alignment: Path | None = None
    """An existing word alignment of these texts, in Pharaoh format; then no line is dropped."""
    validation: tuple[Path, Path] | None = None
    """Held-out sentences and their translation, whose phrase pairs become the validation pairs of training."""


def build_system(
    given: BuildInput,
    folder: Path,
    text: TextSettings,
    config: BuildConfig,
    build_tables: TableBuilder,
    *,
    processes: int | None = None,
    toolkit: str | None = None,
    log: Log = no_log,
    progress: ProgressCallback = no_progress,
) -> MosesIni:
    """Build a system from parallel text and return its moses.ini, which is written last.

    An earlier system in the folder stays intact until the new one is complete; other files are not touched.

    `processes` does not change the system; None takes all cores. The report names the `toolkit`.
    """
    language_model = f"lm.{text.target_language}.arpa"
    inputs = {"source": given.source, "target": given.target, "alignment": given.alignment}
    inputs |= dict(zip(("validation_source", "validation_target"), given.validation or (), strict=False))
    with new_system(folder, *inputs.values()) as new:
        build = _Build(given, new, text, config, processes, log, progress)
        build.report.update(
            versions=versions(),
            toolkit=toolkit,
            inputs={name: described(path) for name, path in inputs.items() if path is not None},
            settings={"text": asdict(text), **asdict(config)},
        )
        build.prepare_text()
        build.align()
        build.build_tables(build_tables)
        with build.step("language model"):
            build.report["estimator"] = build_language_model(build.corpus.target, new / language_model, config.order)
            log(f"language model: estimator {build.report['estimator']}")
        write_json(new / PREPARATION, asdict(text))
        write_json(new / REPORT, build.report)
        replace_system(folder, new)
    return write_initial_ini(folder, language_model, config.order)


@dataclass(frozen=True)
class _Build:
    """The steps of a build, which write to a new folder and add to the report."""

    given: BuildInput
    folder: Path
    text: TextSettings
    config: BuildConfig
    processes: int | None
    log: Log
    progress: ProgressCallback
    report: dict[str, Any] = field(default_factory=lambda: {"seconds": {}})

    @property
    def corpus(self) -> Corpus:
        return Corpus.in_folder(self.folder / CORPUS, "train", self.text.languages)

    @property
    def validation(self) -> Corpus:
        return Corpus.in_folder(self.folder / CORPUS, VALIDATION, self.text.languages)

    def _show(self, share: float | None, text: str) -> None:
        self.progress(share, f"step {len(self.report['seconds']) + 1} of 4, {text}")

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started = time.monotonic()
        self._show(None, name)
        yield
        self.report["seconds"][name] = round(time.monotonic() - started, 1)
        self.log(f"{name}: {self.report['seconds'][name]:.0f} s")

    def prepare_text(self) -> None:
        given = self.given
        (self.folder / CORPUS).mkdir()
        with self.step("text"):
            raw = given.source, given.target
            if given.alignment is None:
                self.report["text"] = self._prepare_and_clean(raw, self.corpus, learns_case=True)
            else:
                self._prepare(raw, self.corpus[:2], learns_case=True)
                check_same_words(raw, self.corpus[:2], self.log)
            if given.validation is not None:
                self.report["validation_text"] = self._prepare_and_clean(given.validation, self.validation)

    def _prepare(self, raw: tuple[Path, Path], prepared: tuple[Path, Path], *, learns_case: bool) -> None:
        text = SystemText(self.folder, self.text)
        for side, path, output in zip(("source", "target"), raw, prepared, strict=True):
            text.prepare(side, path, output, self.log, self.processes, learns_case=learns_case)

    def _prepare_and_clean(
        self, raw: tuple[Path, Path], corpus: Corpus, *, learns_case: bool = False
    ) -> dict[str, Any]:
        source, target = (path.with_name(f"{path.name}.whole") for path in corpus[:2])
        self._prepare(raw, (source, target), learns_case=learns_case)
        report = clean(source, target, *corpus[:2], self.config.longest_sentence, raw, self.log)
        if report.dropped:
            self.log(f"{raw[0]} and {raw[1]}: {report}")
        source.unlink()
        target.unlink()
        return asdict(report)

    def align(self) -> None:
        given, corpus, method = self.given, self.corpus, self.config.aligner
        with self.step("alignment"), naming({corpus.source: given.source, corpus.target: given.target}):
            if given.validation is not None:
                self.report["alignment"] = asdict(align_together(corpus, self.validation, method, self.processes))
            elif given.alignment is None:
                self.report["alignment"] = asdict(align(*corpus, method, processes=self.processes))
            if given.alignment is not None:
                write_lines(corpus.alignment, read_lines(given.alignment))

    def build_tables(self, build_tables: TableBuilder) -> None:
        given, longest = self.given, self.config.longest_phrase
        with self.step("tables"):
            # The user does not know the file of a computed alignment.
            names = given.source, given.target, given.alignment or given.source
            with naming(dict(zip(self.corpus, names, strict=True))):
                built = build_tables(self.corpus, self.folder, longest, self._show)
            self.report["tables"] = asdict(built) if built is not None else None  # type: ignore[call-overload]
            if given.validation is not None:
                folder = self.folder / VALIDATION
                folder.mkdir()
                names = (*given.validation, given.validation[0])
                with naming(dict(zip(self.validation, names, strict=True))):
                    of_others = build_embedded_tables(*self.validation, folder, longest, self.processes)
                self.report["validation"] = asdict(of_others)
