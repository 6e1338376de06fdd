"""A system folder: `moses.ini` beside the tables and the language model that it names.

    system/
      moses.ini  phrase-table.gz  reordering-table.wbe-msd-bidirectional-fe.gz  lm.fr.arpa  lex.e2f  lex.f2e
      preparation.json  (truecase.en truecase.fr)  build.json
      corpus/  train.en train.fr train.align    the prepared text that all was made from
      (validation/  phrase-table.gz and what belongs to it: phrase pairs of other sentences, for `phrasescore train`)
      (.building/   what a build that goes on, was killed, or failed with a message that names a file of it has made so
                  far; the next one removes it)

Every file is in Moses' own format, so what one toolkit builds the other can tune and decode.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from moses_integration.building.aligned_corpus import refuse_misread
from moses_integration.building.alignment import align
from moses_integration.building.build_config import BuildConfig
from moses_integration.building.corpus import Corpus
from moses_integration.building.language_model import build_language_model, refuse_reserved
from moses_integration.building.parallel_text import CleaningRules, clean
from moses_integration.building.phrase_scores import PHRASE_TABLE as PHRASE_TABLE
from moses_integration.building.prepare import prepare_training_file
from moses_integration.building.reordering import REORDERING_TABLE as REORDERING_TABLE
from moses_integration.building.reordering import REORDERING_TYPE
from moses_integration.building.system_text import PREPARATION, SystemText, TextSettings
from moses_integration.building.text_form import FOR_TRAINING_TEXT
from moses_integration.building.translation_tables import build_tables as build_embedded_tables
from moses_integration.building.validation import align_together
from moses_integration.ini import MosesIni
from phrasescore.documents import read_json
from phrasescore.errors import UserError, naming
from phrasescore.files import lock_file, make_folder, read_lines, real_path, require_folder, write_json, write_lines
from phrasescore.provenance import described
from phrasescore.text import Say, Show, lines_abreast, silently, unseen
from phrasescore.versions import versions
from phrasescore.words import split_words

CORPUS = "corpus"
VALIDATION = "validation"
_BUILDING = ".building"
_LOCK = "lock"
INI = "moses.ini"
REPORT = "build.json"
_OF_SYSTEM = {CORPUS: ("train.*", f"{VALIDATION}.*"), VALIDATION: (PHRASE_TABLE, REORDERING_TABLE, "lex.*")}
"""What a system has in its folders, and the next one in its place need not have."""

# Weights and layout are those of train-model.perl, step 9.
_REORDERING = (
    "LexicalReordering name=LexicalReordering0 num-features=6 type={kind}-allff "
    "input-factor=0 output-factor=0 path={path}"
)
_INI = """\
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
PhraseDictionaryMemory name=TranslationModel0 num-features=4 path={table} input-factor=0 output-factor=0
{reordering}
Distortion
KENLM name=LM0 factor=0 order={order}

[weight]
UnknownWordPenalty0= 1
WordPenalty0= -1
PhrasePenalty0= 0.2
TranslationModel0= 0.2 0.2 0.2 0.2
LexicalReordering0= 0.3 0.3 0.3 0.3 0.3 0.3
Distortion0= 0.3
LM0= 0.5
"""


@dataclass(frozen=True)
class BuildSettings:
    """How a system is built."""

    text: TextSettings
    cleaning: CleaningRules = field(default_factory=CleaningRules)
    config: BuildConfig = field(default_factory=BuildConfig)
    processes: int | None = None
    """To share the work among, all cores if it is None. What is made does not depend on it."""


TableBuilder = Callable[[Corpus, Path, int, Show], object]
"""Makes phrase and reordering table of a corpus in a folder, with a longest phrase; returns its report or None."""

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
    say: Say = silently,
    toolkit: str | None = None,
    show: Show = unseen,
) -> MosesIni:
    """Build a system from parallel text and return its moses.ini, which is written last.

    An earlier system in the folder stays as it was until the new one is complete; nothing else there is touched.

    Args:
        source: raw or prepared text, a sentence a line.
        target: its translation, line by line.
        folder: the system folder, made if it is not there; else it is empty or has an earlier system.
        settings: how.
        build_tables: the toolkit's way from aligned text to tables.
        alignment: a ready word alignment, in Pharaoh format, of these very lines; then no line is dropped.
        validation: source and target of other sentences, whose phrase pairs a network is to be judged by.
        say: told of each step.
        toolkit: name of what builds the tables, for the report.
        show: shown which step runs, and how far it is, where that is known.

    Raises:
        UserError: the text cannot be used, a step fails, the folder has files that no build wrote, or another build
            is at work in it.
    """
    _require_own(folder)
    for path in (source, target, alignment, *(validation or ())):
        if path is not None and real_path(path).is_relative_to(real_path(folder / _BUILDING)):
            raise UserError(f"{path}: lies where an interrupted build left off, which is removed; move it elsewhere")
    with _building(folder) as new:
        report = _provenance(source, target, settings, alignment, validation, toolkit)
        _build(source, target, new, settings, build_tables, alignment, validation, say, report, show)
        _replace_system(folder, new)
    return write_initial_ini(folder, _language_model_of(settings.text), settings.config.order)


def _require_own(folder: Path) -> None:
    """Check that a folder is new, empty, or that of an earlier or interrupted build.

    Raises:
        UserError: it is not; its files may be the user's own.
    """
    require_folder(folder)
    if not folder.exists() or not any(folder.iterdir()) or (folder / _BUILDING).is_dir() or _has_report(folder):
        return
    raise UserError(f"{folder}: has files but no system that `build` made; give a new or empty folder")


def _has_report(folder: Path) -> bool:
    """Whether a folder has our build.json; other programs use this name, too."""
    try:
        report = read_json(folder / REPORT, "build again")
    except UserError:
        return False
    return {"versions", "settings", "text"} <= report.keys()


@contextmanager
def _building(folder: Path) -> Iterator[Path]:
    """Yield a folder for a new system inside of a system folder, and remove it in the end.

    It is kept if the message of a failure names a file in it, or if the process is killed. What it holds then and its
    existence tell the next build that the system folder is one.

    Raises:
        UserError: it cannot be made, another build is at work in it, or its hidden folder is not ours.
    """
    is_new, new = not folder.exists(), folder / _BUILDING
    if new.is_symlink() or (new.exists() and new.stat().st_uid != os.geteuid()):
        raise UserError(f"{new}: is a link, or another user's, and would be emptied; remove it")
    with naming({new: folder}):
        make_folder(new)
    with lock_file(new / _LOCK, f"{folder}: another build is at work in it; wait for it or give another folder"):
        for path in new.iterdir():
            if path.is_dir() and not path.is_symlink():
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


def _build(
    source: Path,
    target: Path,
    new: Path,
    settings: BuildSettings,
    build_tables: TableBuilder,
    alignment: Path | None,
    validation: tuple[Path, Path] | None,
    say: Say,
    report: dict[str, Any],
    show: Show,
) -> None:
    """Write all of a system but its moses.ini into a new folder; see `build_system`. `report` is how it begins."""
    (new / CORPUS).mkdir()
    report["seconds"] = {}
    text = settings.text

    def show_step(share: float | None, text: str) -> None:
        show(share, f"step {len(report['seconds']) + 1} of {_STEPS}, {text}")

    @contextmanager
    def step(name: str) -> Iterator[None]:
        started = time.monotonic()
        show_step(None, name)
        yield
        report["seconds"][name] = round(time.monotonic() - started, 1)
        say(f"{name}: {report['seconds'][name]:.0f} s")

    languages = text.source_language, text.target_language
    corpus = Corpus.in_folder(new / CORPUS, "train", languages)
    others = None if validation is None else Corpus.in_folder(new / CORPUS, VALIDATION, languages)
    with step("text"):
        report["text"] = _prepare_corpus(source, target, corpus, new, settings, alignment is not None, say)
        if validation is not None and others is not None:
            report["validation_text"] = _prepare_validation(validation, others, SystemText(new, text), settings, say)
    with step("alignment"), naming({corpus.source: source, corpus.target: target}):
        method, seed, processes = settings.config.aligner, settings.config.seed, settings.processes
        if others is not None:
            report["alignment"] = asdict(align_together(corpus, others, method, seed, processes))
        elif alignment is None:
            report["alignment"] = asdict(
                align(corpus.source, corpus.target, corpus.alignment, method, seed=seed, processes=processes)
            )
        if alignment is not None:
            write_lines(corpus.alignment, read_lines(alignment))
    with step("tables"):
        names = {corpus.source: source, corpus.target: target}
        with naming(names | {corpus.alignment: alignment} if alignment else names):
            built = build_tables(corpus, new, settings.config.longest_phrase, show_step)
        report["tables"] = asdict(built) if built is not None else None  # type: ignore[call-overload]
        if others is not None:
            (new / VALIDATION).mkdir(exist_ok=True)
            of_others = build_embedded_tables(
                others.source,
                others.target,
                others.alignment,
                new / VALIDATION,
                settings.config.longest_phrase,
                settings.processes,
            )
            report["validation"] = asdict(of_others)
    language_model = new / _language_model_of(text)
    with step("language model"):
        estimated = build_language_model(corpus.target, language_model, settings.config.order)
        report["language_model"] = asdict(estimated)
        say(f"language model: by {'our own estimator' if estimated.estimator == 'embedded' else estimated.estimator}")
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
    """Return what a system is made of and by: inputs with their hashes, settings that are used, versions."""
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
    """Return the name of the language model's file."""
    return f"lm.{text.target_language}.arpa"


def _replace_system(folder: Path, new: Path) -> None:
    """Let the files of a new system take the place of an earlier one's; only a complete system has a moses.ini."""
    (folder / INI).unlink(missing_ok=True)
    for name, patterns in _OF_SYSTEM.items():
        for path in [path for pattern in patterns for path in (folder / name).glob(pattern)]:
            path.unlink()
        with suppress(OSError):
            (folder / name).rmdir()
    # The report first: by it the next build knows the folder, if this one is killed now.
    (new / REPORT).replace(folder / REPORT)
    for path in [path for path in new.rglob("*") if path.is_file() and path != new / _LOCK]:
        place = folder / path.relative_to(new)
        place.parent.mkdir(exist_ok=True)
        path.replace(place)


def write_initial_ini(folder: Path, language_model: str, order: int) -> MosesIni:
    """Write the moses.ini of a system folder, with the weights that train-model.perl gives, and return it.

    Args:
        folder: has the tables, under their usual names.
        language_model: what the ini names: a file of that folder or an absolute path.
        order: of the language model.

    Raises:
        UserError: the folder cannot be written, or the path has a blank.
    """
    text = _INI.format(
        table=PHRASE_TABLE,
        reordering=_REORDERING.format(kind=REORDERING_TYPE, path=REORDERING_TABLE),
        order=order,
    )
    ini = MosesIni(text.splitlines(keepends=True), str(folder / INI), folder.resolve())
    ini.set_argument("LM0", "path", language_model)
    ini.write(folder / INI)
    return MosesIni.read(folder / INI)


def has_start_weights(ini: MosesIni) -> bool:
    """Whether the weights of a moses.ini are those that every system starts with: it was not tuned."""
    return ini.weights() == MosesIni(_INI.splitlines(keepends=True)).weights()


def _prepare_corpus(
    source: Path,
    target: Path,
    corpus: Corpus,
    folder: Path,
    settings: BuildSettings,
    keep_all: bool,
    say: Say,
) -> dict[str, Any]:
    """Prepare both sides, then drop the pairs that are unfit for training."""
    text = settings.text
    _require_same_length(source, target)
    whole = []
    for side, raw, prepared in (("source", source, corpus.source), ("target", target, corpus.target)):
        whole.append(prepared if keep_all else prepared.with_name(f"{prepared.name}.whole"))
        preparation = text.of(side)
        model = folder / f"truecase.{preparation.language}"
        prepare_training_file(raw, whole[-1], preparation, model, say, settings.processes)
    _refuse_odd_words(whole, (source, target), None if keep_all else settings.cleaning)
    if keep_all:
        _require_same_words(source, corpus.source)
        _require_same_words(target, corpus.target)
        return {"kept": "all, for the alignment is given"}
    return _clean(whole, (source, target), corpus, settings.cleaning)


def _require_same_length(source: Path, target: Path) -> None:
    """Check that raw texts have as many lines; later a message would name files that the user has never seen.

    Raises:
        UserError: they have not, cannot be read, or are none.
    """
    for _ in lines_abreast(source, target):
        pass


def _refuse_odd_words(whole: Sequence[Path], raw: tuple[Path, Path], rules: CleaningRules | None) -> None:
    """Refuse words that no table or language model can have, before the long steps; messages name the raw texts.

    Raises:
        UserError: a pair that the rules let pass has one.
    """
    for number, pair in enumerate(lines_abreast(*whole), 1):
        try:
            refuse_reserved(pair[1], raw[1], number)
            for line, path in zip(pair, raw, strict=True):
                refuse_misread(line, path, number, is_target=path == raw[1])
        except UserError:
            if rules is None or rules.broken_by(*pair) is None:
                raise


def _require_same_words(raw: Path, prepared: Path) -> None:
    """Check that preparation split no word: a ready alignment counts the words of the raw text.

    Raises:
        UserError: it did.
    """
    for number, lines in enumerate(lines_abreast(raw, prepared), 1):
        before, after = (len(split_words(line)) for line in lines)
        if before != after:
            raise UserError(
                f"{raw}: line {number}: has {before} words but {after} when prepared, so the alignment does not fit; "
                "give the tokenised text that was aligned, its words separated by blanks (that of Unicode that do not "
                "break count, too), and --tokenised"
            )


def _prepare_validation(
    raw: tuple[Path, Path], corpus: Corpus, system_text: SystemText, settings: BuildSettings, say: Say
) -> dict[str, Any]:
    """Prepare both sides as the training text was, then drop the pairs that would be unfit for training."""
    _require_same_length(*raw)
    whole = [path.with_name(f"{path.name}.whole") for path in (corpus.source, corpus.target)]
    for side, path, prepared in zip(("source", "target"), raw, whole, strict=True):
        system_text.prepare(side, path, prepared, say, FOR_TRAINING_TEXT, settings.processes)
    _refuse_odd_words(whole, raw, settings.cleaning)
    return _clean(whole, raw, corpus, settings.cleaning)


def _clean(whole: Sequence[Path], raw: tuple[Path, Path], corpus: Corpus, rules: CleaningRules) -> dict[str, Any]:
    """Write the pairs of prepared texts that are fit for training, and delete these; messages name the raw texts."""
    with naming(dict(zip(whole, raw, strict=True))):
        report = clean(whole[0], whole[1], corpus.source, corpus.target, rules)
    for path in whole:
        path.unlink()
    return asdict(report)
