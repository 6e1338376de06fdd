"""Build a system from parallel text, in a folder with `moses.ini` beside the tables and the language model it names.

    system/
      moses.ini  phrase-table.gz  reordering-table.wbe-msd-bidirectional-fe.gz  lm.fr.arpa  lex.e2f  lex.f2e
      preparation.json  (truecase.en truecase.fr)  build.json
      corpus/  train.en train.fr train.align    the prepared text
      (validation/  phrase-table.gz etc.: phrase pairs of held-out sentences, for `phrasescore train`)
      (.building/   the files of a build that is running, was killed, or failed with a message that names one of them;
                  the next build removes them)

All files are in Moses' formats, so either toolkit can tune and decode with a system.
"""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moses_integration.building.aligned_corpus import LONGEST_SENTENCE, Corpus, check_same_words, clean
from moses_integration.building.alignment import Method, align, align_together
from moses_integration.building.extraction import LONGEST_PHRASE
from moses_integration.building.language_model import ORDERS, build_language_model
from moses_integration.building.preparation import PREPARATION, SystemText, TextSettings
from moses_integration.building.translation_tables import PHRASE_TABLE, REORDERING_TABLE, REORDERING_TYPE
from moses_integration.building.translation_tables import build_tables as build_embedded_tables
from moses_integration.ini import MosesIni
from phrasescore.configuration import option
from phrasescore.errors import UserError, reported_as
from phrasescore.files import lock_file, make_folder, read_lines, real_path, require_folder, write_json, write_lines
from phrasescore.model_files import described, versions
from phrasescore.text import Log, ProgressCallback, no_log, no_progress

CORPUS = "corpus"
VALIDATION = "validation"
INI = "moses.ini"
REPORT = "build.json"
_BUILDING = ".building"
_LOCK = "lock"
_IN_SUBFOLDERS = re.compile(
    rf"{CORPUS}/(train|{VALIDATION})\.[^.]+|{VALIDATION}/(lex\.[^.]+|{re.escape(PHRASE_TABLE)}|{re.escape(REORDERING_TABLE)})"
)
"""The files of an earlier system that the next one may not replace. Text of a user, such as train.raw.en, is none."""

# Weights and layout are those of train-model.perl, step 9.
_INI = f"""\
# Written by phrasescore-smt build. These weights are a start only: tune them.

[input-factors]
0

[mapping]
0 T 0

[distortion-limit]
6

[feature]
UnknownWordPenalty
WordPenalty
PhrasePenalty
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={PHRASE_TABLE} input-factor=0 output-factor=0
LexicalReordering name=LexicalReordering0 num-features=6 type={REORDERING_TYPE}-allff \
input-factor=0 output-factor=0 path={REORDERING_TABLE}
Distortion
KENLM name=LM0 factor=0 order=5

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
"""

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
        5, f"order of the language model, from {ORDERS[0]} to {ORDERS[-1]}", minimum=ORDERS[0], maximum=ORDERS[-1]
    )
    longest_phrase: int = option(
        LONGEST_PHRASE, f"maximum words of a phrase, from 1 to {LONGEST_PHRASE}", minimum=1, maximum=LONGEST_PHRASE
    )


@dataclass(frozen=True)
class BuildInput:
    """Raw or prepared text, a sentence a line."""

    source: Path
    target: Path
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

    An earlier system in the folder stays intact until the new one is complete; other files are not touched. The log
    names an earlier system's tuned ini files, the report names the `toolkit`.
    """
    language_model = f"lm.{text.target_language}.arpa"
    inputs = {"source": given.source, "target": given.target, "alignment": given.alignment}
    inputs |= dict(zip(("validation_source", "validation_target"), given.validation or (), strict=False))
    with _new_system(folder, *inputs.values()) as new:
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
        _replace_system(folder, new)
    if tuned := sorted(path.name for path in folder.glob("*.ini") if path.name != INI):
        log(f"{folder}: {' '.join(tuned)}: from the earlier system; tune again before you translate")
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
        with self.step("alignment"), reported_as({corpus.source: given.source, corpus.target: given.target}):
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
            with reported_as(dict(zip(self.corpus, names, strict=True))):
                built = build_tables(self.corpus, self.folder, longest, self._show)
            self.report["tables"] = asdict(built) if built is not None else None  # type: ignore[call-overload]
            if given.validation is not None:
                folder = self.folder / VALIDATION
                folder.mkdir()
                names = (*given.validation, given.validation[0])
                with reported_as(dict(zip(self.validation, names, strict=True))):
                    of_others = build_embedded_tables(*self.validation, folder, longest, self.processes)
                self.report["validation"] = asdict(of_others)


def write_initial_ini(folder: Path, language_model: str, order: int) -> MosesIni:
    """Write the moses.ini of a system folder; `language_model` is a file of that folder, or an absolute path."""
    ini = MosesIni(_INI.splitlines(keepends=True), str(folder / INI), folder.resolve())
    ini.set_argument("LM0", "order", str(order))
    ini.set_argument("LM0", "path", language_model)
    ini.write(folder / INI)
    return MosesIni.read(folder / INI)


def has_start_weights(ini: MosesIni) -> bool:
    """Whether a moses.ini still has the weights of an untuned system."""
    return ini.weights() == MosesIni(_INI.splitlines(keepends=True)).weights()


@contextmanager
def _new_system(folder: Path, *inputs: Path | None) -> Iterator[Path]:
    """Yield a folder for a new system inside of a system folder, and remove it at the end.

    It is kept if the process is killed or the message of a failure names a file in it. The next build then recognises
    the system folder by it.
    """
    require_folder(folder)
    is_new, new = not folder.exists(), folder / _BUILDING
    is_system = new.is_dir() or all((folder / name).is_file() for name in (REPORT, PREPARATION))
    if not is_new and not is_system and any(folder.iterdir()):
        raise UserError(f"{folder}: has files but no system that `build` made; give a new or empty folder")
    # The folder is emptied below.
    if new.is_symlink():
        raise UserError(f"{new}: is a link; remove it")
    for path in inputs:
        if path is not None and real_path(path).is_relative_to(real_path(new)):
            raise UserError(f"{path}: is a file of an interrupted build, which a new build removes; move it elsewhere")
    with reported_as({new: folder}):
        make_folder(new)
    with lock_file(new / _LOCK, f"{folder}: another build is running in it; wait for it or give another folder"):
        for path in new.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != _LOCK:
                path.unlink()
        try:
            yield new
        except BaseException as error:
            if not any(path.is_file() and str(path) in str(error) for path in new.rglob("*")):
                shutil.rmtree(new, ignore_errors=True)
                if is_new:
                    with suppress(OSError):
                        folder.rmdir()
            raise
        shutil.rmtree(new)


def _replace_system(folder: Path, new: Path) -> None:
    """Replace the files of an earlier system by those of a new one; only a complete system has a moses.ini."""
    (folder / INI).unlink(missing_ok=True)
    for path in [*folder.glob("*/*")]:
        if _IN_SUBFOLDERS.fullmatch(path.relative_to(folder).as_posix()):
            path.unlink()
    with suppress(OSError):
        (folder / VALIDATION).rmdir()
    for path in [path for path in new.rglob("*") if path.is_file() and path != new / _LOCK]:
        final = folder / path.relative_to(new)
        final.parent.mkdir(exist_ok=True)
        path.replace(final)
