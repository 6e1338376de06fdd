"""Prepare dev and test texts for a system as its training text was prepared; the folder of the intermediate files."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp

from moses_integration.building.preparation import SystemText
from moses_integration.building.text_form import warn_about_form
from moses_integration.ini import MosesIni
from moses_integration.per_text.indexed_tables import digest_of_text
from moses_integration.tuning.bleu import References, read_dev_set
from phrasescore.errors import UserError, arg_name, reported_as
from phrasescore.files import display_name, lock_file, make_folder, require_folder, sha256_of, write_lines
from phrasescore.text import Log, no_log, text_lines, warn_one_sided


@dataclass(frozen=True)
class DevSet:
    """A prepared dev set, in files and in memory."""

    source: Path
    references: list[Path]
    sentences: list[bytes]
    translations: References
    """One or more references of each sentence."""


def prepare_text(
    ini: MosesIni | None,
    side: str,
    raw: str | Path,
    prepared: Path,
    is_prepared: bool,
    log: Log = no_log,
    processes: int | None = None,
) -> Path:
    """Prepare the `source` or `target` side of a text for a system, write it to `prepared`, and return that path.

    A text with `is_prepared` is copied and needs no ini; `log` receives a warning if it does not look prepared.
    """
    if is_prepared:
        # Check only tokenisation: a prepared text may contain no escapes and no capitals.
        form = {"tokenised": True, "escaped": True, "capitalised": False}
        write_lines(prepared, warn_about_form(text_lines(raw, log), display_name(raw), log, **form))
        if ini is not None and side == "source":
            _require_own_text(ini, raw, prepared)
        return prepared
    assert ini is not None, "only prepared text needs no ini"
    if side == "source":
        _require_own_text(ini, raw, None)
    remedy = f"give text that is tokenised and escaped as in training, and {arg_name('prepared')}"
    text_of(ini, remedy).prepare(side, raw, prepared, log, processes)
    return prepared


def text_of(ini: MosesIni, remedy: str) -> SystemText:
    """Return the text of the system of a moses.ini; raise an error with this remedy if `build` did not build it."""
    text = SystemText.of(ini)
    if text is None:
        # Report missing files first: if the ini was moved, they are the cause.
        ini.require_files()
        raise UserError(
            f"{ini.name}: there is no preparation.json beside it or beside its files, so the preparation of its "
            f"text is unknown; {remedy}"
        )
    return text


def write_translations(ini: MosesIni, output: str | Path, lines: Iterable[bytes]) -> None:
    """Write the translations of a text that was prepared for a system as plain text."""
    text = SystemText.of(ini)
    assert text is not None, "the text was prepared"
    write_lines(output, text.settings.detokenise(lines))


def _require_own_text(ini: MosesIni, raw: str | Path, prepared: Path | None) -> None:
    """Raise an error if a system has per-text tables for another text, or for a text that is not prepared (None)."""
    digest = digest_of_text(ini)
    if digest is None:
        return
    if prepared is None:
        raise UserError(
            f"{ini.name}: has the tables of one text; give that, `text` beside it, and {arg_name('prepared')}"
        )
    if digest != sha256_of(prepared):
        raise UserError(
            f"{display_name(raw)}: is not the text that the tables of {ini.name} were made for; give the whole file "
            "`text` beside that ini, or the ini from which it was made, or run `text-table` again"
        )


def prepare_dev_set(
    ini: MosesIni | None,
    source: Path,
    references: Sequence[Path],
    folder: Path,
    is_prepared: bool,
    log: Log,
    processes: int | None = None,
) -> DevSet:
    """Prepare a dev set in a folder; see `prepare_text`."""
    prepared = prepare_text(ini, "source", source, folder / "dev.source", is_prepared, log, processes)
    notes: list[str] = []
    targets = [
        prepare_text(ini, "target", path, folder / f"dev.reference{number}", is_prepared, notes.append, processes)
        for number, path in enumerate(references)
    ]
    with reported_as({prepared: source, **dict(zip(targets, references, strict=True))}):
        sentences, translations = read_dev_set(prepared, targets)
    # Log notes only for references that pass the checks.
    for note in notes:
        log(note)
    for path, lines in zip(references, zip(*translations, strict=True), strict=True):
        warn_one_sided(zip(sentences, lines, strict=True), (source, path), log)
    return DevSet(prepared, targets, sentences, translations)


_WORK_MARK = ".phrasescore-work"
"""A file that marks a folder of --work, whose files a run may replace or remove."""


@contextmanager
def work_folder(given: Path | None) -> Iterator[Path]:
    """Yield the given folder, locked against other runs; without one, a temporary folder, removed afterwards.

    The temporary folder is kept if a step of Moses fails, because the message names a log in it. A new given folder is
    removed if the run fails before it writes anything.
    """
    if given is None:
        with _temporary_folder() as folder:
            yield folder
        return
    require_folder(given)
    mark, is_new = given / _WORK_MARK, not given.exists()
    if not is_new and any(given.iterdir()) and not mark.exists():
        raise UserError(f"{given}: has files that no earlier run left; give a new or empty folder")
    make_folder(given)
    with lock_file(mark, f"{given}: another run is at work in it; wait for it or give another folder"):
        try:
            yield given
        except BaseException:
            if is_new and [*given.iterdir()] == [mark]:
                shutil.rmtree(given)
            raise


@contextmanager
def _temporary_folder() -> Iterator[Path]:
    from moses_integration.toolkits.installation import StepFailure

    # No full stop: Moses' scripts reject a path with `.gz`, with which a random name could continue.
    folder, is_kept = Path(mkdtemp(prefix="phrasescore-")), False
    try:
        yield folder
    except StepFailure:
        is_kept = True
        raise
    finally:
        if not is_kept:
            shutil.rmtree(folder, ignore_errors=True)
